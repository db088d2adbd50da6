//! `ledger work -- CMD`: claim, do, report, again, until there is no more work.
//!
//! Invariants:
//! - A step costs one commit: its receipt and the next claim are one.
//! - While the command runs, its lease is renewed when half of it is over. Whose attempt turns out to
//!   be over is ended: somebody else may be doing the step.
//! - Whatever ends this, an attempt that had begun is reported as lost, never as not begun.
//! - Criteria that are commands are run here, as `ledger run` runs them: never by the worker, and
//!   by one process at a time. What a crash left unchecked is checked by the next worker of the same
//!   name.

mod checks;
mod lease;

use std::path::PathBuf;
use std::thread::scope;

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::runner::{End, Order, OutsideWork, StartFailure, StopRequest, receipt_json};
use crate::serve::{Act, Answer, Client, NextStep, Work};

use super::acting::Where;
use super::answer::quoted;
use super::exit::{Code, Failure, code_of};
use super::inspect::counted;
use super::patience::{Patience, claimed, patience};
use super::signals::Signals;
use super::worker::Who;

use lease::{Beats, Lease};

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
away) is ended at its next sign of life, and so is whatever a command leaves behind. Exit code 0: the
run is done, or --max steps were; 1: it failed; 3: nothing is ready any more but the run goes on, or
Ctrl-C stopped this with work left.";

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
    /// Do so many steps at most
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
        files: files.path().to_owned(),
        client: args.place.client(),
        // Its own connection: a sign of life waits for nothing.
        beats: args.place.client(),
    };
    worker.go()
}

struct Worker<'a> {
    args: &'a WorkArgs,
    signals: Signals,
    ledger: PathBuf,
    files: PathBuf,
    client: Client,
    beats: Client,
}

impl Worker<'_> {
    fn go(mut self) -> Result<Code, Failure> {
        let mut done = 0;
        self.check_what_was_left()?;
        let mut answer = self.claim()?;
        loop {
            let Some(task) = task_of(&answer) else {
                if self.check_plan(&answer)? {
                    answer = self.claim()?;
                    continue;
                }
                return self.end(&answer, done);
            };
            self.args.place.print(&answer)?;
            let is_last = self.args.max.is_some_and(|max| done + 1 >= max);
            let is_checked = has_commands(&task);
            answer = match self.attempt(&task) {
                Done::Reported(act) if is_last || is_checked || self.is_to_stop() => {
                    let reported = self.client.ask(&without_next(act))?;
                    let is_counted = is_recorded(&reported);
                    done += u64::from(is_counted);
                    let last = self.checked(reported)?;
                    if (is_last && is_counted) || self.is_to_stop() {
                        return self.end(&last, done);
                    }
                    self.args.place.print(&last)?;
                    answer = self.claim()?;
                    continue;
                }
                Done::Reported(act) => self.client.ask(&act)?,
                Done::Over if self.is_to_stop() => return self.end(&Answer::default(), done),
                Done::Over => {
                    answer = self.claim()?;
                    continue;
                }
                Done::Lost(act, why) => {
                    let answer = self.client.ask(&act)?;
                    return Ok(match self.end(&answer, done)? {
                        Code::Fine => why,
                        code => code,
                    });
                }
            };
            done += u64::from(is_recorded(&answer));
            if answer.code == Code::Waiting.number() && self.args.wait.is_some() {
                self.args.place.print(&without_nothing(answer))?;
                answer = self.claim()?;
            } else if answer.code == Code::Refused.number() {
                // The receipt came too late: the work was lost, and there may be more.
                self.args.place.print(&answer)?;
                answer = self.claim()?;
            }
        }
    }

    fn is_to_stop(&self) -> bool {
        self.signals.request() != StopRequest::None
    }

    /// Claim a step. Whether a plan is to be judged is looked at before anything is waited for.
    fn claim(&mut self) -> Result<Answer, Failure> {
        let (run, worker) = (self.args.run.clone(), self.args.who.worker.clone());
        let act = Act::Claim { run, step: None, worker, lease_seconds: None };
        let answer = self.client.ask(&act)?;
        if answer.code != Code::Waiting.number() || self.args.wait.is_none() {
            return Ok(answer);
        }
        self.check_plan(&answer)?;
        let signals = &self.signals;
        claimed(&mut self.client, &act, self.args.wait, || signals.request() == StopRequest::None)
    }

    /// The last lines: what is left to say, and how the run stands.
    fn end(&self, answer: &Answer, done: u64) -> Result<Code, Failure> {
        let code = self.args.place.print(answer)?;
        let status = answer.lines.iter().rev().find_map(|line| {
            let word = line.get("run_status").or_else(|| {
                line.get("status").filter(|_| line.get("type").is_some_and(|it| it == "nothing"))
            })?;
            word.as_str().map(str::to_owned)
        });
        let line = json!({ "type": "worked", "steps": done, "status": status });
        let text = format!(
            "{} done{}",
            counted(done, "step"),
            match &status {
                Some(status) => format!("; the run is {status}"),
                None => String::new(),
            }
        );
        super::outcome(self.args.place.json, &line, &text)?;
        Ok(match (code, status.as_deref()) {
            (Code::Fine | Code::Failed, Some("done")) => Code::Fine,
            (Code::Fine, Some("failed" | "cancelled" | "aborted")) => Code::Failed,
            (Code::Fine, _) if self.is_to_stop() => Code::Waiting,
            (code, _) => code,
        })
    }

    /// Let the command do a task, and say what there is to say of it.
    fn attempt(&mut self, task: &Value) -> Done {
        let token = task.get("token").and_then(Value::as_u64).unwrap_or_default();
        let own = task.pointer("/step/command").and_then(Value::as_str);
        let words: Vec<String> = self.args.command.iter().map(|word| quoted(word)).collect();
        let command = own.map_or_else(|| format!("exec {}", words.join(" ")), str::to_owned);
        let work = OutsideWork {
            ledger: &self.ledger,
            folder: self.files.clone(),
            task,
            command: &command,
        };
        let mut lease = Lease::of(task);
        let (signals, client) = (&self.signals, &mut self.beats);
        let ended = scope(|scope| {
            let unwatched = |error| Error::io("keep a step's lease", &self.ledger, error);
            let beats = Beats::start(scope, token, client)
                .map_err(|error| StartFailure::NotBegun(unwatched(error)))?;
            work.run(|| {
                lease.keep(&beats);
                match (&lease, signals.request()) {
                    (Lease::Over, _) | (_, StopRequest::Kill) => Order::Stop,
                    (_, StopRequest::None | StopRequest::Drain) => Order::GoOn,
                }
            })
        });
        let (work, reason, code) = match ended {
            Ok(End::Stopped) if matches!(lease, Lease::Over) => return Done::Over,
            Ok(End::Returned(receipt)) => {
                let next = Some(NextStep { worker: Some(self.args.who.worker.clone()) });
                let (duration_micros, log_tail) = (receipt.duration, receipt.log_tail.clone());
                let receipt = receipt_json(&receipt);
                let act = Act::Receipt { token, receipt, duration_micros, log_tail, next };
                return Done::Reported(act);
            }
            Ok(End::Stopped) => {
                (Work::Begun, "it was ended before it reported".to_owned(), Code::Waiting)
            }
            Err(StartFailure::NotBegun(error)) => {
                (Work::NotBegun, error.to_string(), code_of(&error))
            }
            Err(StartFailure::Begun(error)) => (Work::Begun, error.to_string(), code_of(&error)),
        };
        Done::Lost(Act::Release { token, work, reason }, code)
    }
}

/// What became of an attempt, as what is to be said about it.
enum Done {
    Reported(Act),
    /// It was over before its worker was: there is nothing to say any more.
    Over,
    /// The worker did not report; what this ends with.
    Lost(Act, Code),
}

/// Whether a receipt counts: one that came too late is kept, and does not.
fn is_recorded(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| line.get("type").is_some_and(|it| it == "receipt"))
}

fn without_next(act: Act) -> Act {
    match act {
        Act::Receipt { token, receipt, duration_micros, log_tail, .. } => {
            Act::Receipt { token, receipt, duration_micros, log_tail, next: None }
        }
        other => other,
    }
}

/// Whether a step has criteria that are commands.
fn has_commands(task: &Value) -> bool {
    let criteria = task.pointer("/step/acceptance").and_then(Value::as_array);
    criteria.into_iter().flatten().any(|criterion| criterion.get("command").is_some())
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
