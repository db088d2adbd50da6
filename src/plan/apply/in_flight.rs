//! Indexes of the attempts in flight, of each run and of the ledger.
//!
//! Invariant: both indexes match the attempts of the steps. Code that changes a step compares its
//! attempt before and after the change, and updates the indexes if they differ.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::{count_down, count_up};
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::State;
use crate::plan::state::run::{Run, Timer};
use crate::plan::value::ids::{AttemptToken, RunId, StepNumber, Timestamp};
use crate::plan::value::token::SecretHash;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct InFlightAttempt {
    run: RunId,
    step: StepNumber,
    token: AttemptToken,
    owner: Option<String>,
    tags: BTreeSet<String>,
    lease_until: Timestamp,
    secret_hash: SecretHash,
}

/// Number of attempts in flight by owner or tag.
type Counts = BTreeMap<String, u32>;

impl InFlightAttempt {
    fn add_to(&self, owners: &mut Counts, tags: &mut Counts) {
        self.owner.iter().for_each(|owner| count_up(owners, owner));
        self.tags.iter().for_each(|tag| count_up(tags, tag));
    }

    fn remove_from(&self, owners: &mut Counts, tags: &mut Counts) {
        self.owner.iter().for_each(|owner| count_down(owners, owner));
        self.tags.iter().for_each(|tag| count_down(tags, tag));
    }
}

impl State {
    /// Replaces attempts in the indexes of the ledger.
    pub(super) fn replace_in_flight<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a InFlightAttempt>,
        after: impl IntoIterator<Item = &'a InFlightAttempt>,
    ) {
        for attempt in before {
            self.in_flight.remove(&attempt.token);
            attempt.remove_from(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
        for attempt in after {
            self.in_flight.insert(attempt.token, (attempt.run, attempt.step));
            let place = (attempt.run, attempt.step, attempt.secret_hash);
            self.dispatched.insert(attempt.token, place);
            attempt.add_to(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
    }
}

impl Run {
    /// Replaces attempts in the indexes of the run.
    pub(super) fn replace_in_flight<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a InFlightAttempt>,
        after: impl IntoIterator<Item = &'a InFlightAttempt>,
    ) {
        for attempt in before {
            self.timers.remove(&(attempt.lease_until, Timer::Lease(attempt.token)));
            self.in_flight = self.in_flight.saturating_sub(1);
            attempt.remove_from(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
        for attempt in after {
            self.timers.insert((attempt.lease_until, Timer::Lease(attempt.token)));
            self.dispatched.insert(attempt.token);
            self.in_flight = self.in_flight.saturating_add(1);
            attempt.add_to(&mut self.in_flight_by_owner, &mut self.in_flight_by_tag);
        }
    }

    /// The attempt of a step, if it is in flight.
    pub(super) fn in_flight_attempt(&self, number: StepNumber) -> Option<InFlightAttempt> {
        let step = self.step(number).filter(|step| step.status == StepStatus::Dispatched)?;
        let attempt = step.attempt()?;
        Some(InFlightAttempt {
            run: self.id,
            step: number,
            token: attempt.token,
            owner: step.owner_at_work().map(str::to_owned),
            tags: step.tags().clone(),
            lease_until: attempt.lease_until,
            secret_hash: attempt.secret_hash,
        })
    }

    pub(super) fn in_flight_attempts(&self) -> Vec<InFlightAttempt> {
        self.step_numbers().filter_map(|number| self.in_flight_attempt(number)).collect()
    }
}
