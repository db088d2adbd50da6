//! The default backoff: how long a step waits after a transient failure, if neither the worker nor the
//! plan says so.
//!
//! The first delay is short, each further one twice as long, up to a few minutes. A seed, the token of
//! the attempt, shortens it, so that workers that failed together do not return together.

use plan_ledger::plan::{BACKOFF, RETRY_AFTER};
use plan_ledger::{AttemptToken, FailureClass, Json, Outcome};
use serde_json::{Value, json};

/// The delay after the first attempt in seconds.
const FIRST: u64 = 2;

/// The longest delay in seconds.
const MAX: u64 = 300;

/// By how much the seed shortens a delay at most, in percent.
const JITTER_PERCENT: u64 = 20;

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
            members.insert(BACKOFF.to_owned(), delay_seconds(self.attempt, self.seed).into());
            *payload = Json::from(value);
        }
    }
}

/// The delay after an attempt, from 1, in seconds.
fn delay_seconds(attempt: u32, seed: u64) -> u64 {
    let doubled = attempt.saturating_sub(1).min(MAX.ilog2());
    let delay = (FIRST << doubled).min(MAX);
    // Consecutive tokens must not give consecutive delays.
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    delay - mixed % (delay * JITTER_PERCENT / 100 + 1)
}

#[cfg(test)]
mod tests {
    //! Goal: delays grow from seconds to minutes, differ between attempts, and never replace what a
    //! worker or the plan says.

    use super::*;

    fn failed(class: FailureClass, payload: Value) -> Outcome {
        Outcome::Failed { class, message: String::new(), payload: payload.into() }
    }

    #[test]
    fn delays_double_up_to_minutes() {
        for (attempt, most) in
            [(1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (u32::MAX, 300)]
        {
            let delays: Vec<u64> = (0..100).map(|seed| delay_seconds(attempt, seed)).collect();
            assert_eq!(delays.iter().max(), Some(&most), "{attempt}");
            assert!(*delays.iter().min().unwrap() >= most * 8 / 10, "{attempt}");
        }
        assert_ne!(delay_seconds(9, 412), delay_seconds(9, 413));
        assert_eq!(delay_seconds(9, 412), delay_seconds(9, 412));
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
