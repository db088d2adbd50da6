//! Guards of `ledger work`, as in `ledger run`: workers that fail quickly in a row pause the run;
//! if a worker gives a time for the next try, the owner of its step is held until then; and while
//! the disk is nearly full, the worker claims no step.

use serde_json::Value;

use plan_ledger::{Receipt, StepNumber, Timestamp};

use crate::options::WaitLoop;
use crate::output::{Code, Failure, held_text, local_moment, print_message};
use crate::protocol::Answer;
use crate::requests::{PauseRequest, RunStep};
use crate::runner::{
    Consequence, EndedAttempt, HeldOwner, closed_until, disk_problem, nearest_second,
};

use super::worker::Worker;

/// The name of the author of a pause, for rejections.
const RUNNER: &str = "runner";

impl Worker<'_> {
    /// Notes a receipt before it is reported. Returns the reason to pause the run, if any.
    pub(super) fn note_receipt(
        &mut self,
        task: &Value,
        begun: Timestamp,
        receipt: &mut Receipt,
    ) -> Option<String> {
        let text = |member: &str| task.get(member).map(Value::to_string).unwrap_or_default();
        // Steps of several runs have the same numbers. `step_of_run` reads it.
        let step = format!("{} {}", text("run"), text("number"));
        let guards = self.args.guards.guards();
        let owner = task.pointer("/step/owner").and_then(Value::as_str).map(str::to_owned);
        let is_shared = !task.pointer("/step/command").is_some_and(Value::is_string);
        let attempt = EndedAttempt { step, owner, is_shared, begun };
        match self.guard.take(guards, attempt, receipt, &*self.clock)? {
            Consequence::Pause(reason) => Some(reason),
            // This worker does not wait, and the next one would not know why it should.
            Consequence::Hold(held) if held.is_unexplained && self.args.wait.is_none() => {
                Some(held.reason)
            }
            Consequence::Hold(HeldOwner { owner, until, reason, .. }) => {
                let until = until.or_else(|| {
                    let ends = self.is_remote();
                    ends.then(|| {
                        self.guard.end_without_answer(owner.as_deref(), guards, &*self.clock)
                    })
                });
                let whose = (owner.as_deref(), None);
                print_message(&held_text(whose, until, &reason));
                None
            }
        }
    }

    /// Whether the command met a limit, or it is outside the hours of work.
    pub(super) fn is_held(&self) -> bool {
        self.closed_until().is_some() || self.guard.has_hold(&*self.clock)
    }

    /// Until when the hours keep the worker from a claim, and why.
    fn closed_until(&self) -> Option<(Timestamp, String)> {
        closed_until(self.args.guards.guards(), &*self.clock)
    }

    /// Report until when the steps of an owner are not claimed, if no other step can be claimed.
    /// Returns whether it was reported.
    pub(super) fn tell_hold(&self) -> bool {
        let asked = self.guard.asked(&*self.clock);
        if let Some((until, reason)) = self.guard.next_end(&*self.clock) {
            print_not_before(until, &reason);
        } else if let Some(reason) = asked {
            let text = format!("nothing is claimed until there is an answer: {reason}");
            print_message(&text);
        } else {
            return false;
        }
        true
    }

    /// Ends the holds of an owner after a person ended the delay of one of its steps (`ledger retry
    /// STEP`), or answered the question about a step that met a limit. Returns whether any hold
    /// ended. The state of a ledger on another machine is not read.
    pub(super) fn end_retried_holds(&mut self) -> Result<bool, Failure> {
        if self.is_remote() {
            return Ok(false);
        }
        let (state, _) = self.read()?;
        let status = |step: &str| {
            let RunStep { run, step } = step_of_run(step)?;
            Some(state.run_named(&run)?.step(step)?.status)
        };
        Ok(self.guard.end_retried(status, &*self.clock))
    }

    /// The steps that met the limit of an owner before it is probed: another step of this owner is
    /// tried first.
    pub(super) fn steps_at_limits(&self) -> Vec<RunStep> {
        self.guard.steps_at_limits(&*self.clock).filter_map(step_of_run).collect()
    }

    /// Pauses a run as its runner would. Returns whether it was paused now: it may be paused already, or have ended, or
    /// the token of this worker may not allow it.
    pub(super) fn pause(&mut self, run: &str, reason: &str) -> Result<bool, Failure> {
        let message = format!("run {run} is paused: {reason}");
        let (run, by) = (run.to_owned().into(), RUNNER.to_owned().into());
        let reason = reason.to_owned();
        let request = PauseRequest { run, by, reason, by_runner: true }.into();
        let answer = self.client.call(&request)?;
        let is_paused = Code::of(answer.code) == Code::Success;
        if is_paused {
            print_message(&message);
        }
        Ok(is_paused)
    }

    /// Waits while nothing may be claimed. Returns the answer that ends the wait for a claim, if the
    /// wait is over first.
    pub(super) fn wait_for_guards(
        &mut self,
        wait: &mut WaitLoop,
    ) -> Result<Option<Answer>, Failure> {
        let mut is_told = false;
        loop {
            let held = self.closed_until();
            let disk = disk_problem(self.args.guards.guards(), &self.ledger);
            if held.is_none() && disk.is_none() {
                return Ok(None);
            }
            if let Some((until, reason)) = held.filter(|_| !is_told) {
                print_not_before(until, &reason);
            }
            if let Some(reason) = disk.filter(|_| !is_told) {
                print_message(&format!("nothing is claimed: {reason}"));
            }
            is_told = true;
            if wait.is_over() || self.is_stopping() {
                return Ok(Some(Answer { code: Code::Waiting.number(), ..Answer::default() }));
            }
            wait.pause();
        }
    }
}

/// The step of such a name in the guards.
fn step_of_run(name: &str) -> Option<RunStep> {
    let (run, number) = name.rsplit_once(' ')?;
    let (run, step) = (serde_json::from_str(run).ok()?, StepNumber(number.parse().ok()?));
    Some(RunStep { run, step })
}

fn print_not_before(until: Timestamp, reason: &str) {
    let until = local_moment(nearest_second(until));
    let text = format!("nothing is claimed before {until}: {reason}");
    print_message(&text);
}
