//! `ledger work -- CMD`: claims a step, runs the command on it, reports, and repeats until there is
//! no more work.
//!
//! - A step costs one commit: its receipt and the next claim are one transaction.
//! - While the command runs, its lease is renewed when half of it is over. If the attempt is over,
//!   the command is stopped, because the step may be dispatched to another worker.
//! - An attempt that has begun is never reported as not begun.
//! - The worker's files are removed once the ledger has the receipt, not before.
//! - The guards of a runner apply here, too (`guard`).
//! - Criteria that are commands are run here, as `ledger run` runs them: never by the worker's
//!   command, and by one process at a time. The next worker of the same name runs the checks that a
//!   crash prevented.

mod answers;
mod args;
mod attempt;
mod checks;
mod guard;
mod judge_only;
mod judge_process;
mod lease;
mod report;
mod retry;
mod watch;
mod worker;

pub(crate) use args::WorkArgs;
pub(crate) use judge_process::{JudgeProcess, expect_judge};

use std::time::{Duration, Instant};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use plan_ledger::Receipt;
use plan_ledger_views::recorded_text;

use crate::options::{WaitLoop, WaitNotice, environment, release_dead_claims};
use crate::output::{Code, Failure, print_message, print_result};
use crate::protocol::{Answer, counted};
use crate::requests::{BoundTo, ClaimRequest, NextStep, Work, run_or_only};
use crate::runner::KeptClaim;

use super::inspect::read_state;
use crate::options::worker_program;

use answers::{
    has_command_criteria, is_final, is_idle, is_recorded, run_status, task_of, without_nothing,
    without_reason,
};
use attempt::AttemptEnd;
use report::ClaimedAttempt;
use worker::{WorkTally, Worker};

/// The pause between two checks of the plan while waiting; each one replays the newest records.
const PLAN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn work(args: &WorkArgs) -> Result<Code, Failure> {
    if let Some(program) = args.command.first() {
        worker_program::check_program(program)?;
    }
    args.route.expect_permitted(args.ledger.dir())?;
    if args.judge_only {
        if args.ledger.is_remote() {
            let message = "--judge-only: a judge works where the ledger is; leave out --server";
            return Err(Failure::Usage(message.to_owned()));
        }
        expect_judge(args.ledger.dir())?;
        let mut worker = Worker::new(args)?;
        if args.until_eof {
            worker.signals.stop_when_input_ends(&worker.ledger)?;
        }
        let code = worker.judge()?;
        let WorkTally { reported: steps, failed } = worker.tally;
        let rejected = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        let text = format!("{} checked{rejected}", counted(steps, "step"));
        print_result(args.ledger.is_json(), &WorkedLine { failed, status: None, steps }, &text)?;
        return Ok(code);
    }
    Worker::new(args)?.run()
}

/// The next action of a worker.
enum NextAction {
    Claim,
    /// Handle a response with a task, or without one.
    Handle(Answer),
    /// End with this response.
    End(Answer),
    /// End with this response and this exit code: an attempt has no receipt.
    GiveUp(Answer, Code),
}

impl Worker<'_> {
    fn run(mut self) -> Result<Code, Failure> {
        self.check_leftovers()?;
        let mut next = NextAction::Claim;
        loop {
            let answer = match next {
                NextAction::Claim => self.claim()?,
                NextAction::Handle(answer) => answer,
                NextAction::End(answer) => return self.end(&answer),
                NextAction::GiveUp(answer, why) => {
                    return self
                        .end(&answer)
                        .map(|code| if code == Code::Success { why } else { code });
                }
            };
            next = match task_of(&answer) {
                Some(task) => {
                    if let Err(failure) = self.args.ledger.print(&answer) {
                        let (attempt, reason) =
                            (ClaimedAttempt::of(&task, &self.time()), failure.to_string());
                        self.release(attempt, Work::NotBegun, reason)?;
                        return Err(failure);
                    }
                    match self.complete(task) {
                        Ok(task) => self.work_on(&task)?,
                        Err((attempt, reason)) => {
                            let answer = self.release(attempt, Work::NotBegun, reason)?;
                            NextAction::GiveUp(answer, Code::Rejected)
                        }
                    }
                }
                None if self.check_plan(&answer)? => NextAction::Claim,
                // Another run may have a step.
                None if self.serves_every_run() && is_recorded(&answer) => {
                    self.args.ledger.print(&without_nothing(answer))?;
                    NextAction::Claim
                }
                None => NextAction::End(answer),
            };
        }
    }

    /// The task with the inputs that its answer had no room for.
    fn complete(&self, mut task: Value) -> Result<Value, (ClaimedAttempt, String)> {
        let Some(omitted) = task.get("omitted").cloned() else { return Ok(task) };
        let attempt = ClaimedAttempt::of(&task, &self.time());
        if omitted != json!(["inputs"]) || self.is_remote() {
            return Err((attempt, "its task exceeds the limit of a message".to_owned()));
        }
        let names: Vec<String> = task
            .pointer("/step/inputs")
            .and_then(|names| serde_json::from_value(names.clone()).ok())
            .unwrap_or_default();
        let run = task.get("run").and_then(Value::as_str).map(str::to_owned);
        let read = read_state(&self.ledger, |state| {
            let variables = &run_or_only(state, run.as_deref())?.variables;
            let value = |name: &String| variables.get(name).map(|it| it.value.value());
            let inputs = names.iter().map(|name| (name.clone(), value(name).unwrap_or_default()));
            Ok(inputs.collect::<serde_json::Map<_, _>>())
        });
        let inputs = read.map_err(|failure| (attempt, failure.to_string()))?;
        if let Value::Object(members) = &mut task {
            members.insert("inputs".to_owned(), Value::Object(inputs));
            members.remove("omitted");
        }
        Ok(task)
    }

    /// Runs the command on a task and reports the result.
    fn work_on(&mut self, task: &Value) -> Result<NextAction, Failure> {
        let mut attempt = ClaimedAttempt::of(task, &self.time());
        // Without the record, the claim of a worker that is killed holds until its lease expires.
        self.kept = KeptClaim::keep(&self.ledger, task, self.files()).ok();
        let begun = self.clock.now();
        match self.run_attempt(task, &mut attempt) {
            AttemptEnd::Reported(mut receipt, note) => {
                if let Some(note) = note {
                    let step = task.pointer("/step/id").and_then(Value::as_str).unwrap_or_default();
                    print_message(&format!("step {step}: {note}"));
                }
                let problem = self.note_receipt(task, begun, &mut receipt);
                self.report_and_continue(task, attempt, &receipt, problem)
            }
            AttemptEnd::Over => {
                self.remove_files(attempt);
                let is_stopping = self.is_stopping();
                Ok(if is_stopping { NextAction::End(Answer::default()) } else { NextAction::Claim })
            }
            AttemptEnd::Lost(work, reason, why) => {
                Ok(NextAction::GiveUp(self.release(attempt, work, reason)?, why))
            }
        }
    }

    /// Reports a receipt, claims the next step with it where possible, and checks the criteria.
    fn report_and_continue(
        &mut self,
        task: &Value,
        attempt: ClaimedAttempt,
        receipt: &Receipt,
        problem: Option<String>,
    ) -> Result<NextAction, Failure> {
        let is_max = self.args.max.is_some_and(|max| self.tally.reported + 1 >= max);
        let is_last = is_max || self.is_stopping();
        let is_alone = is_last || self.is_held() || problem.is_some() || has_command_criteria(task);
        let worker = Some(self.args.worker.worker.clone());
        let (owners, tags) = self.args.route.lists();
        let secret = environment().new_secret();
        let next = (!is_alone).then_some(NextStep {
            worker,
            secret,
            owners,
            tags,
            bound_to: BoundTo::Peer,
        });
        let check_lock = if is_alone { self.lock_before_report(task) } else { None };
        let reported = self.report(attempt, receipt, next)?;
        if !is_final(&reported) {
            return Ok(NextAction::End(reported));
        }
        let is_counted = is_recorded(&reported);
        let reported = if is_alone { self.check_step(reported, check_lock)? } else { reported };
        if is_counted {
            self.tally.count(receipt, &reported);
        }
        if let Some(reason) = problem {
            let run = task.get("run").and_then(Value::as_str).unwrap_or_default();
            if !self.pause(run, &reason)? && self.is_remote() {
                print_message(&format!("this worker ends, and run {run} is not paused: {reason}"));
                return Ok(NextAction::GiveUp(reported, Code::Failed));
            }
        }
        let answer = match Code::of(reported.code) {
            _ if is_alone && ((is_last && is_counted) || self.is_stopping()) => {
                return Ok(NextAction::End(reported));
            }
            _ if is_alone => reported,
            Code::Waiting if self.args.wait.is_some() => without_nothing(reported),
            // The receipt came too late and was rejected. Continue with the next step.
            Code::Rejected => reported,
            _ => return Ok(NextAction::Handle(reported)),
        };
        self.args.ledger.print(&answer)?;
        Ok(NextAction::Claim)
    }

    /// Claims a step. While it waits for one, the plan may become ready to be checked: a person
    /// accepted its last step, or the worker that checked it died.
    fn claim(&mut self) -> Result<Answer, Failure> {
        let (run, worker) = (self.args.run.clone(), self.args.worker.worker.clone());
        let (owners, tags) = self.args.route.lists();
        let every_run = self.serves_every_run();
        let new = ClaimRequest::new(environment().new_secret());
        let request = ClaimRequest { run, worker, owners, tags, every_run, ..new };
        let mut wait = WaitLoop::start(self.args.wait);
        let mut notice = WaitNotice::default();
        let mut is_hold_told = false;
        let mut checked: Option<Instant> = None;
        let mut seen: Option<Instant> = None;
        loop {
            if let Some(answer) = self.wait_for_guards(&mut wait)? {
                return Ok(answer);
            }
            let held = self.guard.held(&*self.clock).into_iter().collect();
            let last = self.steps_at_limits();
            let request = ClaimRequest { held, last, ..request.clone() }.into();
            let answer = match self.send_claim(&request, &wait) {
                // A signal ended the wait for a server or the lock, and this worker has no step.
                Err(failure) if self.is_stopping() && failure.code() == Code::Locked => {
                    print_message(&failure.to_string());
                    return Ok(Answer { code: Code::Waiting.number(), ..Answer::default() });
                }
                claimed => claimed?,
            };
            let is_nothing = answer.code == Code::Waiting.number();
            let is_due = checked.is_none_or(|checked| checked.elapsed() >= PLAN_CHECK_INTERVAL);
            // The claims of other machines are released there.
            if is_nothing
                && is_due
                && !self.is_remote()
                && release_dead_claims(&self.ledger, &mut self.client)
            {
                continue;
            }
            let is_seen = seen.is_some_and(|seen| seen.elapsed() < PLAN_CHECK_INTERVAL);
            if is_nothing && !is_seen && self.guard.has_hold(&*self.clock) {
                seen = Some(Instant::now());
                if self.end_retried_holds()? {
                    continue;
                }
            }
            if is_nothing && !is_hold_told {
                is_hold_told = self.tell_hold();
            }
            // The hold is the reason, not the route of this worker.
            let answer = if is_nothing && is_hold_told { without_reason(answer) } else { answer };
            if !is_nothing || wait.is_over() || self.is_stopping() {
                return Ok(answer);
            }
            notice.report(&answer);
            if is_due && is_idle(&answer) {
                checked = Some(Instant::now());
                if self.check_plan(&answer)? {
                    continue;
                }
            }
            wait.pause();
        }
    }

    /// Prints the last answer and the summary.
    fn end(&self, answer: &Answer) -> Result<Code, Failure> {
        let status = run_status(answer);
        let code = if status.as_deref() == Some("done") {
            // The summary says it.
            let code = Code::of(answer.code);
            self.args.ledger.print(&without_nothing(answer.clone()))?;
            code
        } else {
            self.args.ledger.print(answer)?
        };
        let WorkTally { reported, failed } = self.tally;
        let line = WorkedLine { failed, status: status.as_deref(), steps: reported };
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {} failed", counted(failed, "attempt")),
        };
        let run = status
            .as_deref()
            .map_or_else(String::new, |status| format!("; the run is {}", recorded_text(status)));
        let text = format!("{} done{failed}{run}", counted(self.tally.succeeded(), "step"));
        print_result(self.args.ledger.is_json(), &line, &text)?;
        Ok(match (code, status.as_deref()) {
            (Code::Success | Code::Failed, Some("done")) => Code::Success,
            (Code::Success, Some("failed" | "cancelled" | "aborted")) => Code::Failed,
            (Code::Success, _) if self.is_stopping() => Code::Waiting,
            (code, _) => code,
        })
    }
}

/// A worker that stopped, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WorkedLine<'a> {
    /// The number of failed attempts.
    failed: u64,
    /// The status of the run, if known.
    status: Option<&'a str>,
    /// The number of reported attempts.
    steps: u64,
}
