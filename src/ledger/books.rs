//! What each step of a run cost, and what an attempt is charged with, read off the run's records.
//!
//! Invariant: the costs of all steps add up to what the run spent over those records.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::log::LogReader;
use crate::plan::{
    AttemptToken, Command, Cost, Event, Rejection, Run, State, StepEvent, StepNumber,
};

use super::chronicle::step_events;
use super::wish::{Make, Wish};
use super::{Commit, Ledger, held};

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
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) steps: BTreeMap<StepNumber, StepCost>,
    /// Of all steps together.
    pub(super) total: StepCost,
    reserved: BTreeMap<AttemptToken, Cost>,
    estimates: BTreeMap<AttemptToken, Cost>,
}

impl Books {
    /// Books that begin behind what had happened to a run before: what is set aside for its attempts in
    /// flight, and what lost ones are charged with. What it had spent is not in them.
    pub(super) fn after(run: Option<&Run>) -> Self {
        let Some(run) = run else { return Self::default() };
        let attempts = run.steps.iter().filter_map(|step| step.attempt());
        let in_flight = attempts.filter(|attempt| attempt.receipt.is_none());
        let mut reserved: BTreeMap<_, _> =
            in_flight.map(|attempt| (attempt.token, attempt.reserved)).collect();
        // Of those that were lost between the first record and the state of that run, too.
        reserved.extend(run.estimates.iter().map(|(token, cost)| (*token, *cost)));
        Self { reserved, estimates: run.estimates.clone(), ..Self::default() }
    }

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

/// What an attempt that is over is charged with.
#[derive(Debug, Clone, Copy)]
enum Charge {
    /// What somebody said that it cost.
    Said(Cost),
    /// What was set aside for it: nobody said what it cost.
    Estimate(Cost),
}

impl Charge {
    /// What it is behind an event of the step; `None` while the attempt is in flight.
    fn behind(
        before: Option<Self>,
        event: &StepEvent,
        of: AttemptToken,
        reserved: Cost,
    ) -> Option<Self> {
        match event {
            StepEvent::ReceiptRecorded(event) if event.token == of => {
                Some(Self::Said(event.receipt.cost))
            }
            StepEvent::AttemptLost(event) if event.token == of => Some(Self::Estimate(reserved)),
            StepEvent::ReceiptRefused(event) if event.token == of => match before {
                Some(Self::Estimate(_)) => Some(Self::Said(event.receipt.cost)),
                said => said,
            },
            StepEvent::CostCorrected(event) if event.token == of => Some(Self::Said(event.cost)),
            _ => before,
        }
    }
}

/// What an attempt is charged with behind the record `last` of its step; `None` while it is in flight,
/// and where its records were pruned.
fn charged(log: &LogReader, last: u64, of: AttemptToken) -> Result<Option<Cost>> {
    let mut later = Vec::new();
    for read in step_events(log, last) {
        match read? {
            (record, StepEvent::Dispatched(dealt)) if record.seq == of.0 => {
                let behind = |before, event| Charge::behind(before, &event, of, dealt.reserved);
                let charge = later.into_iter().rev().fold(None, behind);
                return Ok(charge.map(|(Charge::Said(cost) | Charge::Estimate(cost))| cost));
            }
            (_, event) => later.push(event),
        }
    }
    Ok(None)
}

impl Ledger {
    /// Say what an attempt that is over really cost. What it is charged with so far (`charged`) is needed
    /// unless it never reported: what its receipt said, or the last correction. It is held against the
    /// attempt's records, unless they were pruned.
    ///
    /// # Errors
    /// `Rejected`: with `ChargedDiffers`, saying what it is charged with; `NotEstimated` where that is
    /// not said and has to be; `StaleToken`. `Corrupt` if a record of the step cannot be read. And what
    /// [`Ledger::execute`] says of the disk.
    pub fn correct_cost(
        &self,
        token: AttemptToken,
        cost: Cost,
        charged: Option<Cost>,
        by: &str,
    ) -> Result<Commit> {
        let last_of = |state: &State| held(state, token).map_or(0, |step| step.last_seq);
        loop {
            let last = last_of(&*self.state()?);
            let found = self::charged(&self.reader()?, last, token)?;
            let make = |state: &State| match (charged, found) {
                _ if last_of(state) != last => {
                    Err(Error::new(ErrorKind::Conflict, "the step went on meanwhile"))
                }
                (Some(expected), Some(found)) if expected != found => {
                    Err(Rejection::ChargedDiffers { expected, found }.into())
                }
                _ => Ok(Command::CorrectCost { token, cost, charged, by: by.to_owned() }),
            };
            let wish = Wish { key: None, command: Make::Of(&make), then: None };
            match self.fulfil(&wish, |_, _| ()) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                corrected => return corrected.map(|(commit, ())| commit),
            }
        }
    }
}
