//! Effective values of a step: its own, else the plan's defaults, else the built-in ones.

use super::plan::{Defaults, Plan};
use super::step::{Idempotence, RetryPolicy, Step};
use crate::plan::value::ids::Micros;

/// Lease of an attempt if the plan does not set one.
const LEASE_SECONDS: u32 = 900;

impl Plan {
    /// The role or capability that may do a step.
    #[must_use]
    pub fn owner_of<'a>(&'a self, step: &'a Step) -> Option<&'a str> {
        step.owner.as_deref().or(self.defaults.owner.as_deref())
    }

    /// Whether a step may be repeated; `Yes` if neither the step nor the plan sets it.
    #[must_use]
    pub fn idempotence_of(&self, step: &Step) -> Idempotence {
        self.defaults.idempotence_or(step.idempotent)
    }

    /// The step as workers see it, with the plan's defaults filled in.
    #[must_use]
    pub fn with_defaults(&self, step: &Step) -> Step {
        step.with_defaults(&self.defaults)
    }
}

impl Defaults {
    /// The step's own retry policy, else the default one.
    pub(crate) fn retry_or(&self, own: Option<RetryPolicy>) -> RetryPolicy {
        own.or_else(|| self.retry.clone()).unwrap_or_default()
    }

    /// The step's own idempotence, else the default one.
    pub(crate) fn idempotence_or(&self, own: Option<Idempotence>) -> Idempotence {
        own.or(self.idempotent).unwrap_or(Idempotence::Yes)
    }

    /// The step's own lease, else the default one.
    pub(crate) fn lease_or(&self, own: Option<u32>) -> Micros {
        let seconds = own.or(self.lease_seconds).unwrap_or(LEASE_SECONDS);
        Micros::from(seconds).saturating_mul(1_000_000)
    }
}
