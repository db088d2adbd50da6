//! What is said of an attempt when it is over: its receipt, or that there is none.
//!
//! Invariant: the files of a worker whose receipt nobody took are kept, and the person is told where.

use serde_json::Value;

use crate::plan::{Micros, Receipt};
use crate::runner::{forget_outside, receipt_json};
use crate::serve::{Act, Answer, NextStep, Work};

use super::super::exit::{Code, Failure};
use super::super::say;
use super::Worker;
use super::insist::is_trouble;

/// An attempt that was dealt to this worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) token: u64,
    /// When its lease ends.
    pub(super) until: Micros,
}

impl Attempt {
    /// Of the step that was dealt in that line.
    pub(super) fn of(task: &Value) -> Self {
        let number = |member: &str| task.get(member).and_then(Value::as_u64);
        let until = number("lease_until_micros").unwrap_or(Micros::MAX);
        Self { token: number("token").unwrap_or_default(), until }
    }
}

impl Worker<'_> {
    /// Say what the worker returned, and ask for the next step if one is wanted.
    pub(super) fn report(
        &mut self,
        attempt: Attempt,
        receipt: &Receipt,
        next: Option<NextStep>,
    ) -> Result<Answer, Failure> {
        let outcome = self.say_receipt(attempt, receipt, next);
        let is_taken = |answer: &Answer| !is_trouble(Code::of(answer.code));
        if outcome.as_ref().is_ok_and(is_taken) {
            self.forget(attempt);
        } else {
            self.files.disable_cleanup(true);
            let (token, folder) = (attempt.token, self.files.path().display());
            say(&format!(
                "the receipt of attempt {token} is not recorded: its files are in {folder}"
            ));
        }
        outcome
    }

    fn say_receipt(
        &mut self,
        attempt: Attempt,
        receipt: &Receipt,
        next: Option<NextStep>,
    ) -> Result<Answer, Failure> {
        let (token, duration_micros) = (attempt.token, receipt.duration);
        let (log_tail, receipt) = (receipt.log_tail.clone(), receipt_json(receipt));
        let act = Act::Receipt { token, receipt, duration_micros, log_tail, next };
        let what = format!("the receipt of attempt {token} is not recorded yet");
        self.say_until(attempt.until, &act, &what)
    }

    /// Say that there is no receipt.
    pub(super) fn give_back(
        &mut self,
        attempt: Attempt,
        work: Work,
        reason: String,
    ) -> Result<Answer, Failure> {
        let token = attempt.token;
        let act = Act::Release { token, work, reason };
        let what = format!("attempt {token} is not given back yet");
        let outcome = self.say_until(attempt.until, &act, &what);
        self.forget(attempt);
        outcome
    }

    /// Throw the files of its worker away.
    pub(super) fn forget(&self, attempt: Attempt) {
        forget_outside(self.files.path(), attempt.token);
    }
}
