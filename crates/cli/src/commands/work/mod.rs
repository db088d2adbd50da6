//! `ledger work -- CMD`: claim, do, report, again, until there is no more work.
//!
//! Invariants:
//! - A step costs one commit: its receipt and the next claim are one.
//! - While the command runs, its lease is renewed when half of it is over. Whose attempt turns out to
//!   be over is ended: somebody else may be doing the step.
//! - Whatever ends this, an attempt that had begun is reported as lost, never as not begun.
//! - What a worker left behind is thrown away when the ledger has it, and not before.
//! - Criteria that are commands are run here, as `ledger run` runs them: never by the worker, and
//!   by one process at a time. What a crash left unchecked is checked by the next worker of the same
//!   name.

mod checks;
mod insist;
mod lease;
mod report;

use std::path::PathBuf;
use std::thread::scope;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::runner::{End, Order, OutsideWork, StartFailure, StopRequest};
use crate::server::{Act, Answer, Client, NextStep, Work};
use plan_ledger::error::Error;
use plan_ledger::plan::{Outcome, Receipt};

use super::acting::Where;
use super::answer::quoted;
use super::exit::{Code, Failure, code_of};
use super::inspect::counted;
use super::patience::{Patience, Waiting, patience};
use super::signals::Signals;
use super::worker::Who;

use lease::{Beats, Lease};
use report::{Attempt, is_taken};

const EXAMPLES: &str = "\
Examples:
  ledger work -- python3 agent.py                  until there is no more work
  ledger work my-plan --worker w1 --wait -- ./agent.sh
  for n in 1 2 3; do ledger work --worker w$n --wait -- ./agent.sh & done; wait

The command gets its task as `ledger run` gives it (format/hand-off.md): JSON on standard input,
LEDGER_* in its environment; what it prints is its output. Steps with a command of their own are
done by that. Criteria that are commands are checked after each step, and those of the plan behind
the last one; texts wait for `ledger accept`. The first Ctrl-C claims no more and waits for the
command, the second ends it. A command whose attempt is over (its lease ran out, or the step was taken
away) is ended at its next sign of life, and so is whatever a command leaves behind. While nobody can
take what it did (the ledger is held, the disk is full), that is said again, until its lease is over;
and a step is asked for as long as --wait lasts. Exit code 0: the run is done, or --max steps were
tried; 1: it failed; 3: nothing is ready any more but the run goes on, or Ctrl-C stopped this with
work left.";

/// Between two looks at whether the plan is to be judged: each folds the newest records.
const LOOK_AT_PLAN: Duration = Duration::from_secs(1);

/// `ledger work`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WorkArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name; may be left out where only one goes on
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Do so many steps at most; one that fails counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Wait until there is something to do, at most so many seconds each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = patience)]
    wait: Option<Patience>,
    /// The command that does the steps, and its words
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<String>,
}

/// `ledger work`.
pub(super) fn work(args: &WorkArgs) -> Result<Code, Failure> {
    let signals = Signals::heeded(&args.place.ledger)?;
    let find = |error| Error::io("find the ledger's folder", &args.place.ledger, error);
    // Whether there is a ledger is for the first claim to find out.
    let ledger = std::path::absolute(&args.place.ledger).map_err(find)?;
    let files = tempfile::tempdir().map_err(|error| {
        Error::io("make a folder for the worker's files", &std::env::temp_dir(), error)
    })?;
    let worker = Worker {
        args,
        signals,
        ledger,
        files,
        client: args.place.client(),
        // Its own connection: a sign of life waits for nothing.
        beats: args.place.client(),
        tally: Tally::default(),
    };
    worker.go()
}

struct Worker<'a> {
    args: &'a WorkArgs,
    signals: Signals,
    ledger: PathBuf,
    files: TempDir,
    client: Client,
    beats: Client,
    tally: Tally,
}

/// What a worker does next.
enum Next {
    Claim,
    /// What was answered has a task in it, or says that there is none.
    Take(Answer),
    /// Nothing: this is the last answer.
    End(Answer),
    /// Nothing: an attempt came to no receipt, and that is what it ends with.
    GiveUp(Answer, Code),
}

impl Worker<'_> {
    fn go(mut self) -> Result<Code, Failure> {
        self.check_what_was_left()?;
        let mut next = Next::Claim;
        loop {
            let answer = match next {
                Next::Claim => self.claim()?,
                Next::Take(answer) => answer,
                Next::End(answer) => return self.end(&answer),
                Next::GiveUp(answer, why) => {
                    return self
                        .end(&answer)
                        .map(|code| if code == Code::Fine { why } else { code });
                }
            };
            next = match task_of(&answer) {
                Some(task) => {
                    if let Err(unsaid) = self.args.place.print(&answer) {
                        let (attempt, why) = (Attempt::of(&task), unsaid.to_string());
                        self.give_back(attempt, Work::NotBegun, why)?;
                        return Err(unsaid);
                    }
                    self.go_about(&task)?
                }
                None if self.check_plan(&answer)? => Next::Claim,
                None => Next::End(answer),
            };
        }
    }

    /// Let the command do a task, and say what came of it.
    fn go_about(&mut self, task: &Value) -> Result<Next, Failure> {
        let mut attempt = Attempt::of(task);
        match self.attempt(task, &mut attempt) {
            Done::Reported(receipt) => self.go_on_after(task, attempt, &receipt),
            Done::Over => {
                self.forget(attempt);
                let is_to_stop = self.is_to_stop();
                Ok(if is_to_stop { Next::End(Answer::default()) } else { Next::Claim })
            }
            Done::Lost(work, reason, why) => {
                Ok(Next::GiveUp(self.give_back(attempt, work, reason)?, why))
            }
        }
    }

    /// Report what the command returned.
    fn go_on_after(
        &mut self,
        task: &Value,
        attempt: Attempt,
        receipt: &Receipt,
    ) -> Result<Next, Failure> {
        let is_max = self.args.max.is_some_and(|max| self.tally.reported + 1 >= max);
        let is_last = is_max || self.is_to_stop();
        let is_alone = is_last || has_commands(task);
        let worker = Some(self.args.who.worker.clone());
        let next = (!is_alone).then_some(NextStep { worker });
        let reported = self.report(attempt, receipt, next)?;
        if !is_taken(&reported) {
            return Ok(Next::End(reported));
        }
        let is_counted = is_recorded(&reported);
        let reported = if is_alone { self.checked(reported)? } else { reported };
        if is_counted {
            self.tally.count(receipt, &reported);
        }
        let said = match Code::of(reported.code) {
            _ if is_alone && ((is_last && is_counted) || self.is_to_stop()) => {
                return Ok(Next::End(reported));
            }
            _ if is_alone => reported,
            Code::Waiting if self.args.wait.is_some() => without_nothing(reported),
            // The receipt came too late: the work was lost, and there may be more.
            Code::Refused => reported,
            _ => return Ok(Next::Take(reported)),
        };
        self.args.place.print(&said)?;
        Ok(Next::Claim)
    }

    fn is_to_stop(&self) -> bool {
        self.signals.request() != StopRequest::None
    }

    /// Claim a step. While one is waited for, the plan may come to be judged: its last step was accepted
    /// by somebody, or whoever judged it is gone.
    fn claim(&mut self) -> Result<Answer, Failure> {
        let (run, worker) = (self.args.run.clone(), self.args.who.worker.clone());
        let act = Act::Claim { run, step: None, worker, lease_seconds: None };
        let mut waiting = Waiting::begin(self.args.wait);
        let mut looked: Option<Instant> = None;
        loop {
            let answer = self.ask_for_step(&act, &waiting)?;
            let is_nothing = answer.code == Code::Waiting.number();
            if !is_nothing || waiting.is_over() || self.is_to_stop() {
                return Ok(answer);
            }
            let is_time = looked.is_none_or(|looked| looked.elapsed() >= LOOK_AT_PLAN);
            if is_time && is_idle(&answer) {
                looked = Some(Instant::now());
                if self.check_plan(&answer)? {
                    continue;
                }
            }
            waiting.pause();
        }
    }

    /// The last lines: what is left to say, and how the run stands.
    fn end(&self, answer: &Answer) -> Result<Code, Failure> {
        let code = self.args.place.print(answer)?;
        let status = answer.lines.iter().rev().find_map(|line| {
            let word = line.get("run_status").or_else(|| {
                line.get("status").filter(|_| line.get("type").is_some_and(|it| it == "nothing"))
            })?;
            word.as_str().map(str::to_owned)
        });
        let Tally { reported, failed } = self.tally;
        let line =
            json!({ "type": "worked", "steps": reported, "failed": failed, "status": status });
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        let now = status.as_ref().map_or_else(String::new, |now| format!("; the run is {now}"));
        let text = format!("{} done{failed}{now}", counted(self.tally.succeeded(), "step"));
        super::outcome(self.args.place.json, &line, &text)?;
        Ok(match (code, status.as_deref()) {
            (Code::Fine | Code::Failed, Some("done")) => Code::Fine,
            (Code::Fine, Some("failed" | "cancelled" | "aborted")) => Code::Failed,
            (Code::Fine, _) if self.is_to_stop() => Code::Waiting,
            (code, _) => code,
        })
    }

    /// Let the command do a task; what there is to say of it.
    fn attempt(&mut self, task: &Value, attempt: &mut Attempt) -> Done {
        let own = task.pointer("/step/command").and_then(Value::as_str);
        let words: Vec<String> = self.args.command.iter().map(|word| quoted(word)).collect();
        let command = own.map_or_else(|| format!("exec {}", words.join(" ")), str::to_owned);
        let work = OutsideWork {
            ledger: &self.ledger,
            folder: self.files.path().to_owned(),
            task,
            command: &command,
        };
        let mut lease = Lease::of(task);
        let (signals, client) = (&self.signals, &mut self.beats);
        let ended = scope(|scope| {
            let unwatched = |error| Error::io("keep a step's lease", &self.ledger, error);
            let beats = Beats::start(scope, attempt.token, client)
                .map_err(|error| StartFailure::NotBegun(unwatched(error)))?;
            let ended = work.run(|| {
                lease.keep(&beats);
                match signals.request() {
                    StopRequest::None | StopRequest::Drain if !lease.is_over() => Order::GoOn,
                    _ => Order::Stop,
                }
            });
            lease.hear_out(&beats);
            ended
        });
        attempt.until = lease.until();
        match ended {
            Ok(End::Stopped) if lease.is_over() => Done::Over,
            Ok(End::Returned(receipt)) => Done::Reported(receipt),
            Ok(End::Stopped) => {
                let reason = "it was ended before it reported".to_owned();
                Done::Lost(Work::Begun, reason, Code::Waiting)
            }
            Err(StartFailure::NotBegun(error)) => {
                Done::Lost(Work::NotBegun, error.to_string(), code_of(&error))
            }
            Err(StartFailure::Begun(error)) => {
                Done::Lost(Work::Begun, error.to_string(), code_of(&error))
            }
        }
    }
}

/// What came of the attempts so far.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Whose receipts were recorded.
    reported: u64,
    /// Those among them that failed, by their own word or by a criterion.
    failed: u64,
}

impl Tally {
    /// Count what was reported, and what was answered last about it.
    fn count(&mut self, receipt: &Receipt, answer: &Answer) {
        let has_failed = matches!(receipt.outcome, Outcome::Failed { .. });
        let is_rejected = text_in(answer, "ruling").is_some_and(|ruling| ruling == "fail");
        self.reported += 1;
        self.failed += u64::from(has_failed || is_rejected);
    }

    fn succeeded(self) -> u64 {
        self.reported.saturating_sub(self.failed)
    }
}

/// What became of an attempt.
enum Done {
    Reported(Box<Receipt>),
    /// It was over before its worker was: there is nothing to say any more.
    Over,
    /// The worker did not report: how far it was, why, and what this ends with.
    Lost(Work, String, Code),
}

/// Whether a receipt counts: one that came too late is kept, and does not.
fn is_recorded(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| line.get("type").is_some_and(|it| it == "receipt"))
}

/// Whether a step has criteria that are commands.
fn has_commands(task: &Value) -> bool {
    let criteria = task.pointer("/step/acceptance").and_then(Value::as_array);
    criteria.into_iter().flatten().any(|criterion| criterion.get("command").is_some())
}

/// Whether there is nothing to deal, and nobody is at anything either.
fn is_idle(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| line.get("in_flight").is_some_and(|count| count == 0))
}

/// An answer without what it says of there being nothing to deal.
fn without_nothing(mut answer: Answer) -> Answer {
    answer.lines.retain(|line| line.get("type").is_none_or(|it| it != "nothing"));
    answer.said.clear();
    answer
}

/// A text in the first line of an answer.
fn text_in(answer: &Answer, member: &str) -> Option<String> {
    answer.lines.first()?.get(member)?.as_str().map(str::to_owned)
}

/// The task among the lines of an answer, if there is one.
fn task_of(answer: &Answer) -> Option<Value> {
    answer.lines.iter().find(|line| line.get("type").is_some_and(|it| it == "task")).cloned()
}
