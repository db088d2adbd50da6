//! The default delay after a failure that its worker reports as transient, if neither the worker nor the plan names a
//! delay. If the ledger classifies a failure as transient, the ledger adds the delay.

use plan_ledger::plan::{BACKOFF, RETRY_AFTER, RetryPolicy};
use plan_ledger::{AttemptToken, FailureClass, Json, Outcome};
use serde_json::{Value, json};

/// The delay after an attempt that fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    attempt: u32,
    seed: u64,
    /// Whether the plan says how to retry the step.
    is_planned: bool,
}

impl Backoff {
    pub(crate) fn new(attempt: u32, token: AttemptToken, is_planned: bool) -> Self {
        Self { attempt, seed: token.0, is_planned }
    }

    /// Add the delay to a transient failure.
    pub(crate) fn add_to(self, outcome: &mut Outcome) {
        let Outcome::Failed { class: FailureClass::Transient, payload, .. } = outcome else {
            return;
        };
        let mut value = payload.value();
        if value.is_null() {
            value = json!({});
        }
        if let Value::Object(members) = &mut value
            && !self.is_planned
            && !members.contains_key(RETRY_AFTER)
        {
            members.insert(
                BACKOFF.to_owned(),
                RetryPolicy::default_delay_seconds(self.attempt, self.seed).into(),
            );
            *payload = Json::from(value);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the default never replaces a value of a worker or the plan.

    use super::*;

    fn failed(class: FailureClass, payload: Value) -> Outcome {
        Outcome::Failed { class, message: String::new(), payload: payload.into() }
    }

    #[test]
    fn only_transient_failures_without_a_time_get_the_default() {
        let transient = FailureClass::Transient;
        let after = |mut outcome: Outcome, is_planned| {
            Backoff::new(1, AttemptToken(7), is_planned).add_to(&mut outcome);
            outcome.delay()
        };
        assert_eq!(after(failed(transient, Value::Null), false), Some(2_000_000));
        assert_eq!(after(failed(transient, json!({"status": 529})), false), Some(2_000_000));
        assert_eq!(
            after(failed(transient, json!({RETRY_AFTER: 3600})), false),
            Some(3_600_000_000)
        );
        assert_eq!(after(failed(transient, json!("text")), false), None);
        assert_eq!(after(failed(transient, Value::Null), true), None);
        assert_eq!(after(failed(FailureClass::Unknown, Value::Null), false), None);
        assert_eq!(after(Outcome::Succeeded, false), None);
    }
}
