//! Reports the end of an attempt: a receipt, or a release.
//!
//! If a receipt is not recorded, the worker's files are kept, and a message names their folder. A
//! receipt that can never be recorded is replaced by a failure, as in `ledger run`.

use std::time::Instant;

use serde_json::Value;

use plan_ledger::plan::{Secret, Token};
use plan_ledger::{AttemptToken, ErrorKind, Receipt, Rejection};

use crate::output::{Code, Failure, print_message};
use crate::protocol::{Answer, ReceiptFile};
use crate::requests::{NextStep, ReceiptRequest, ReleaseRequest, Work};
use crate::runner::{forget_external, unusable};

use super::answers::{error_of, is_final};
use super::lease::LedgerTime;
use super::worker::Worker;

/// An attempt that this worker has claimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimedAttempt {
    pub(super) token: Token,
    /// When its lease ends.
    pub(super) until: Instant,
}

impl ClaimedAttempt {
    /// The attempt in a `task` line.
    pub(super) fn of(task: &Value, time: &LedgerTime) -> Self {
        // A line without a token is not a task, and the ledger rejects it.
        let none = Token { seq: AttemptToken(0), secret: Secret([0; 16]) };
        let token = task.get("token").and_then(Value::as_str);
        let token = token.and_then(|token| token.parse().ok()).unwrap_or(none);
        Self { token, until: Instant::now() + time.left(task) }
    }
}

impl Worker<'_> {
    /// Reports a receipt, and claims the next step if `next` is given.
    pub(super) fn report(
        &mut self,
        attempt: ClaimedAttempt,
        receipt: &Receipt,
        next: Option<NextStep>,
    ) -> Result<Answer, Failure> {
        let mut outcome = self.send_receipt(attempt, receipt, next.clone());
        if let Some(reason) = permanent_rejection(&outcome) {
            let message = format!("its receipt cannot be recorded: {reason}");
            outcome = self.send_receipt(attempt, &unusable(message, receipt), next);
        }
        // A rejection is a response, both from a server and from this process.
        let outcome = match outcome {
            Err(rejection) if rejection.code() == Code::Rejected => Ok(Answer::from(rejection)),
            outcome => outcome,
        };
        if outcome.as_ref().is_ok_and(is_final) {
            self.remove_files(attempt);
        } else {
            self.keep_files();
            let (token, folder) = (attempt.token.seq, self.files().display());
            let then = if self.is_remote() {
                "`ledger receipt` can record it until its lease expires"
            } else {
                "the next worker records it"
            };
            print_message(&format!(
                "the receipt of attempt {token} is not recorded: its files are in {folder}, and {then}"
            ));
        }
        outcome
    }

    fn send_receipt(
        &mut self,
        attempt: ClaimedAttempt,
        receipt: &Receipt,
        next: Option<NextStep>,
    ) -> Result<Answer, Failure> {
        let (token, duration_micros) = (attempt.token, receipt.duration);
        let (log_tail, receipt) = (receipt.log_tail.to_string(), ReceiptFile::of(receipt));
        let request = ReceiptRequest { token, receipt, duration_micros, log_tail, next }.into();
        let notice = format!("the receipt of attempt {} is not recorded yet", token.seq);
        self.request_until(attempt.until, &request, &notice)
    }

    /// Releases an attempt that has no receipt.
    pub(super) fn release(
        &mut self,
        attempt: ClaimedAttempt,
        work: Work,
        reason: String,
    ) -> Result<Answer, Failure> {
        let token = attempt.token;
        let request = ReleaseRequest { token, work, reason }.into();
        let notice = format!("attempt {} is not released yet", token.seq);
        let outcome = self.request_until(attempt.until, &request, &notice);
        self.remove_files(attempt);
        outcome
    }

    /// Removes the files of an attempt.
    pub(super) fn remove_files(&mut self, attempt: ClaimedAttempt) {
        forget_external(self.files(), attempt.token.seq);
        if let Some(kept) = self.kept.take() {
            kept.remove();
        }
    }
}

/// The reason why the ledger can never record a receipt, if any.
fn permanent_rejection(outcome: &Result<Answer, Failure>) -> Option<String> {
    let (_, line) = error_of(outcome)?;
    let is = |member: &str, text: &str| line.get(member).is_some_and(|it| it == text);
    let stale = Rejection::StaleToken(AttemptToken(0)).name();
    let is_rejected = is("kind", ErrorKind::Rejected.name()) && !is("rejection", stale);
    let is_invalid = is("kind", ErrorKind::TooLarge.name()) || is("kind", "usage");
    let message = line.get("message").and_then(Value::as_str)?;
    (is_rejected || is_invalid).then(|| message.to_owned())
}
