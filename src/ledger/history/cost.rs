//! The cost of each step, and the charge for one attempt, from the records of a run.
//!
//! Invariant: the costs of all steps and helpers add up to the spending of the run over those
//! records.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Result;
use crate::log::LogReader;
use crate::plan::{AttemptToken, Cost, Event, Run, StepEvent, StepNumber};

use super::step_events::step_events;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StepCost {
    /// Dispatched attempts.
    pub attempts: u64,
    pub spent: Cost,
    /// The estimated part of it, which no receipt or correction confirms.
    pub estimated: Cost,
}

/// The cost of each step of a run, summed over its records.
#[derive(Debug, Clone, Default)]
pub(crate) struct CostReport {
    pub(crate) steps: BTreeMap<StepNumber, StepCost>,
    /// The cost of planners, judges and deciders.
    pub(crate) helpers: Cost,
    /// The sum over all steps and helpers.
    pub(crate) total: StepCost,
    reserved: BTreeMap<AttemptToken, Cost>,
    estimates: BTreeMap<AttemptToken, Cost>,
}

impl CostReport {
    /// A report on the records after the current state of a run. It knows the reservations of
    /// attempts in flight and the charges for lost attempts, but does not include earlier spending.
    pub(crate) fn starting_from(run: Option<&Run>) -> Self {
        let Some(run) = run else { return Self::default() };
        let attempts = run.steps.iter().filter_map(|step| step.attempt());
        let in_flight = attempts.filter(|attempt| attempt.receipt.is_none());
        let mut reserved: BTreeMap<_, _> =
            in_flight.map(|attempt| (attempt.token, attempt.reserved)).collect();
        // Include attempts that were lost between the first record and this state.
        reserved.extend(run.estimates.iter().map(|(token, cost)| (*token, *cost)));
        Self { reserved, estimates: run.estimates.clone(), ..Self::default() }
    }

    pub(crate) fn add(&mut self, seq: u64, event: &Event) {
        if let Event::HelperEnded(ended) = event {
            self.helpers = self.helpers.plus(ended.cost);
            self.total.spent = self.total.spent.plus(ended.cost);
        }
        let Event::Step(record) = event else { return };
        let step = self.steps.entry(record.step).or_default();
        self.total = self.total.minus(step);
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
        self.total = self.total.plus(step);
    }
}

impl StepCost {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            attempts: self.attempts.saturating_add(other.attempts),
            spent: self.spent.plus(other.spent),
            estimated: self.estimated.plus(other.estimated),
        }
    }

    fn minus(self, other: &Self) -> Self {
        Self {
            attempts: self.attempts.saturating_sub(other.attempts),
            spent: self.spent.minus(other.spent),
            estimated: self.estimated.minus(other.estimated),
        }
    }
}

/// The charge for an attempt that has ended.
#[derive(Debug, Clone, Copy)]
enum Charge {
    /// A receipt or a correction reported the cost.
    Reported(Cost),
    /// The amount that was reserved for it, since its cost is unknown.
    Estimate(Cost),
}

impl Charge {
    /// The charge after an event of the step; `None` while the attempt is in flight.
    fn after(
        before: Option<Self>,
        event: &StepEvent,
        of: AttemptToken,
        reserved: Cost,
    ) -> Option<Self> {
        match event {
            StepEvent::ReceiptRecorded(event) if event.token == of => {
                Some(Self::Reported(event.receipt.cost))
            }
            StepEvent::AttemptLost(event) if event.token == of => Some(Self::Estimate(reserved)),
            StepEvent::ReceiptRefused(event) if event.token == of => match before {
                Some(Self::Estimate(_)) => Some(Self::Reported(event.receipt.cost)),
                charge => charge,
            },
            StepEvent::CostCorrected(event) if event.token == of => {
                Some(Self::Reported(event.cost))
            }
            _ => before,
        }
    }
}

/// The charge for an attempt after record `last` of its step; `None` while it is in flight, or if its
/// records were pruned.
pub(crate) fn charged(log: &LogReader, last: u64, of: AttemptToken) -> Result<Option<Cost>> {
    let mut later = Vec::new();
    for read in step_events(log, last) {
        match read? {
            (record, StepEvent::Dispatched(dispatched)) if record.seq == of.0 => {
                let after = |before, event| Charge::after(before, &event, of, dispatched.reserved);
                let charge = later.into_iter().rev().fold(None, after);
                return Ok(charge.map(|(Charge::Reported(cost) | Charge::Estimate(cost))| cost));
            }
            (_, event) => later.push(event),
        }
    }
    Ok(None)
}
