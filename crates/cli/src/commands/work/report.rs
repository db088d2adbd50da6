//! What is said of an attempt when it is over: its receipt, or that there is none.
//!
//! Invariants:
//! - The files of a worker whose receipt nobody took are kept, and the person is told where.
//! - A receipt that never can be taken is a failure, as it is in a run: the attempt ends with it.

use serde_json::Value;

use crate::runner::{forget_outside, receipt_json, unusable};
use crate::server::{Act, Answer, NextStep, Work};
use plan_ledger::error::ErrorKind;
use plan_ledger::plan::{AttemptToken, Micros, Receipt, Rejection};

use super::super::exit::{Code, Failure};
use super::super::say;
use super::Worker;
use super::insist::error_of;

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
        let mut outcome = self.say_receipt(attempt, receipt, next.clone());
        if let Some(why) = unkept(&outcome) {
            let message = format!("its receipt cannot be kept: {why}");
            outcome = self.say_receipt(attempt, &unusable(message, receipt), next);
        }
        // The ledger's rules say the same, whoever holds it.
        let outcome = match outcome {
            Err(refusal) if refusal.code() == Code::Refused => Ok(Answer::from(refusal)),
            outcome => outcome,
        };
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

/// Whether the ledger has what was said, or does not want it.
pub(super) fn is_taken(answer: &Answer) -> bool {
    let is_error =
        answer.lines.first().and_then(|line| line.get("type")).is_some_and(|it| it == "error");
    !is_error || Code::of(answer.code) == Code::Refused
}

/// Why a receipt is not kept, and never will be, whoever has the attempt.
fn unkept(outcome: &Result<Answer, Failure>) -> Option<String> {
    let (_, line) = error_of(outcome)?;
    let is = |member: &str, text: &str| line.get(member).is_some_and(|it| it == text);
    let stale = Rejection::StaleToken(AttemptToken(0)).name();
    let is_refused = is("kind", ErrorKind::Rejected.name()) && !is("rejection", stale);
    let is_unfit = is("kind", ErrorKind::TooLarge.name()) || is("kind", "usage");
    let message = line.get("message").and_then(Value::as_str)?;
    (is_refused || is_unfit).then(|| message.to_owned())
}
