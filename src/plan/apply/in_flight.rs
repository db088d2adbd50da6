//! Indexes of the attempts in flight, of each run and of the ledger.
//!
//! Invariant: both indexes match the attempts of the steps. Code that changes a step compares its attempt
//! before and after, and updates the indexes.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::{count_down, count_up};
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::State;
use crate::plan::state::run::{Run, Timer};
use crate::plan::value::ids::{AttemptToken, Micros, RunId, StepNumber};

/// An attempt in flight.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flight {
    run: RunId,
    step: StepNumber,
    token: AttemptToken,
    owner: Option<String>,
    tags: BTreeSet<String>,
    lease_until: Micros,
}

/// Number of attempts in flight by owner or tag.
type Counts = BTreeMap<String, u32>;

impl Flight {
    fn enter(&self, owners: &mut Counts, tags: &mut Counts) {
        self.owner.iter().for_each(|owner| count_up(owners, owner));
        self.tags.iter().for_each(|tag| count_up(tags, tag));
    }

    fn leave(&self, owners: &mut Counts, tags: &mut Counts) {
        self.owner.iter().for_each(|owner| count_down(owners, owner));
        self.tags.iter().for_each(|tag| count_down(tags, tag));
    }
}

impl State {
    /// Replaces attempts in the indexes of the ledger.
    pub(super) fn replace_flights<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a Flight>,
        after: impl IntoIterator<Item = &'a Flight>,
    ) {
        for flight in before {
            self.in_flight.remove(&flight.token);
            flight.leave(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
        for flight in after {
            self.in_flight.insert(flight.token, (flight.run, flight.step));
            self.dispatched.insert(flight.token, (flight.run, flight.step));
            flight.enter(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
    }
}

impl Run {
    /// Replaces attempts in the indexes of the run.
    pub(super) fn replace_flights<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a Flight>,
        after: impl IntoIterator<Item = &'a Flight>,
    ) {
        for flight in before {
            self.timers.remove(&(flight.lease_until, Timer::Lease(flight.token)));
            self.in_flight = self.in_flight.saturating_sub(1);
            flight.leave(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
        for flight in after {
            self.timers.insert((flight.lease_until, Timer::Lease(flight.token)));
            self.dispatched.insert(flight.token);
            self.in_flight = self.in_flight.saturating_add(1);
            flight.enter(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
    }

    /// The attempt of a step, if it is in flight.
    pub(super) fn flight(&self, number: StepNumber) -> Option<Flight> {
        let step = self.step(number).filter(|step| step.status == StepStatus::Dispatched)?;
        let attempt = step.attempt()?;
        Some(Flight {
            run: self.id,
            step: number,
            token: attempt.token,
            owner: step.owner().map(str::to_owned),
            tags: step.tags().clone(),
            lease_until: attempt.lease_until,
        })
    }

    pub(super) fn flights(&self) -> Vec<Flight> {
        self.step_numbers().filter_map(|number| self.flight(number)).collect()
    }
}
