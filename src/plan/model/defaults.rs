//! What a step says once the plan's defaults, and then the crate's, are filled in.

use super::plan::{Defaults, Plan};
use super::step::{Idempotence, RetryPolicy, Step};
use crate::plan::value::ids::Micros;

/// How long an attempt is held without a sign of life, where the plan does not say.
const LEASE_SECONDS: u32 = 900;

impl Plan {
    /// The role or capability that may do a step.
    #[must_use]
    pub fn owner_of<'a>(&'a self, step: &'a Step) -> Option<&'a str> {
        step.owner.as_deref().or(self.defaults.owner.as_deref())
    }

    /// Whether doing a step twice is as good as doing it once. A step that says nothing may be
    /// done again.
    #[must_use]
    pub fn idempotence_of(&self, step: &Step) -> Idempotence {
        self.defaults.idempotence_or(step.idempotent)
    }

    /// A step as a worker is shown it: with the plan's defaults where it does not say.
    #[must_use]
    pub fn with_defaults(&self, step: &Step) -> Step {
        step.with_defaults(&self.defaults)
    }
}

impl Defaults {
    /// What a step says of trying again, or else this.
    pub(crate) fn retry_or(&self, own: Option<RetryPolicy>) -> RetryPolicy {
        own.or_else(|| self.retry.clone()).unwrap_or_default()
    }

    /// What a step says of doing it twice, or else this.
    pub(crate) fn idempotence_or(&self, own: Option<Idempotence>) -> Idempotence {
        own.or(self.idempotent).unwrap_or(Idempotence::Yes)
    }

    /// The seconds that a step says of its lease, or else these.
    pub(crate) fn lease_or(&self, own: Option<u32>) -> Micros {
        let seconds = own.or(self.lease_seconds).unwrap_or(LEASE_SECONDS);
        Micros::from(seconds).saturating_mul(1_000_000)
    }
}
