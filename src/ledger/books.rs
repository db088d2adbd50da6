//! What each step of a run cost, read off the run's records.
//!
//! Invariant: the costs of all steps add up to what the run spent over those records.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::{AttemptToken, Cost, Event, StepEvent, StepNumber};

/// What a step cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StepCost {
    /// Attempts that were dealt.
    pub attempts: u64,
    /// What they cost.
    pub spent: Cost,
    /// The part of it that nobody vouched for.
    pub estimated: Cost,
}

/// What each step is charged with.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) steps: BTreeMap<StepNumber, StepCost>,
    /// Of all steps together.
    pub(super) total: StepCost,
    reserved: BTreeMap<AttemptToken, Cost>,
    estimates: BTreeMap<AttemptToken, Cost>,
}

impl Books {
    pub(super) fn note(&mut self, seq: u64, event: &Event) {
        let Event::Step(record) = event else { return };
        let step = self.steps.entry(record.step).or_default();
        self.total = self.total.without(step);
        match &record.event {
            StepEvent::Dispatched(dispatched) => {
                step.attempts = step.attempts.saturating_add(1);
                self.reserved.insert(AttemptToken(seq), dispatched.reserved);
            }
            StepEvent::ReceiptRecorded(recorded) => {
                step.spent = step.spent.plus(recorded.receipt.cost);
            }
            StepEvent::AttemptLost(lost) => {
                let reserved = self.reserved.get(&lost.token).copied().unwrap_or_default();
                step.spent = step.spent.plus(reserved);
                step.estimated = step.estimated.plus(reserved);
                self.estimates.insert(lost.token, reserved);
            }
            StepEvent::ReceiptRefused(refused) => {
                if let Some(estimate) = self.estimates.remove(&refused.token) {
                    step.spent = step.spent.minus(estimate).plus(refused.receipt.cost);
                    step.estimated = step.estimated.minus(estimate);
                }
            }
            StepEvent::CostCorrected(corrected) => {
                let estimate = self.estimates.remove(&corrected.token).unwrap_or_default();
                step.spent = step.spent.minus(corrected.charged).plus(corrected.cost);
                step.estimated = step.estimated.minus(estimate);
            }
            _ => {}
        }
        self.total = self.total.with(step);
    }
}

impl StepCost {
    /// The sum of both.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            attempts: self.attempts.saturating_add(other.attempts),
            spent: self.spent.plus(other.spent),
            estimated: self.estimated.plus(other.estimated),
        }
    }

    fn without(self, other: &Self) -> Self {
        Self {
            attempts: self.attempts.saturating_sub(other.attempts),
            spent: self.spent.minus(other.spent),
            estimated: self.estimated.minus(other.estimated),
        }
    }
}
