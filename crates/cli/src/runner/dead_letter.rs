//! Dead letters: a step whose attempts are lost repeatedly fails, and a person sees it.
//!
//! A lost attempt does not count as a failure, since its runner may have been killed for any
//! reason. Without dead letters, a step that crashes its runner each time would be dispatched
//! forever, and block the run.

use plan_ledger::internals::ledger::EarlierAttemptEnd;
use plan_ledger::{Disposition, FailureClass, Json, LostCause, Outcome, Receipt, Task};
use serde_json::Value;

/// How many attempts in a row may be lost.
const LOST_MAX: usize = 10;

/// The receipt of an attempt that is not started because too many before it were lost.
pub(crate) fn dead_letter(lost: usize) -> Option<Receipt> {
    if lost < LOST_MAX || plan_ledger::mutant!(LostAttemptsUnlimited) {
        return None;
    }
    let message = format!(
        "its last {lost} attempts were lost: each time the runner or the worker ended before it \
         reported"
    );
    let outcome =
        Outcome::Failed { class: FailureClass::Deterministic, message, payload: Json::default() };
    let disposition = Some(Disposition::DidNotHappen);
    Some(Receipt { outcome, disposition, ..Receipt::default() })
}

/// How many of the last attempts before this one were lost, one after the other.
pub(crate) fn lost_before(task: &Task) -> usize {
    let is_lost = |end| {
        matches!(end, EarlierAttemptEnd::Lost(LostCause::LeaseExpired | LostCause::RunnerDied))
    };
    task.earlier.iter().rev().take_while(|earlier| is_lost(earlier.end)).count()
}

/// The same for a task as JSON.
pub(crate) fn lost_before_task(task: &Value) -> usize {
    let earlier = task.get("previous_attempts").and_then(Value::as_array);
    let is_lost = |earlier: &&Value| {
        earlier.get("outcome").is_some_and(|word| word == "lost")
            && ["lease_expired", "runner_died"]
                .iter()
                .any(|cause| earlier.get("class").is_some_and(|class| class == cause))
    };
    earlier.map_or(0, |earlier| earlier.iter().rev().take_while(is_lost).count())
}
