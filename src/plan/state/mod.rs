//! Everything that a ledger knows now: the fold of its events.
//!
//! Invariants:
//! - The state is a pure function of the events: no clock, no randomness, no iteration order of
//!   a hash map.
//! - What can be derived cheaply from the rest (the ready queue, the counts, what is due) is kept
//!   up to date by `apply`, and is part of the state hash, so that a mistake in it shows.
//! - A run that has ended stays whole until [`ENDED_KEPT`] others have ended after it; then a
//!   summary is left.
//!
//! Left out on purpose: outputs of accepted steps and the history of attempts, which the log
//! holds and a step's chain of events finds.

pub(crate) mod account;
pub(crate) mod barrier_state;
pub(crate) mod compact;
pub(crate) mod links;
pub(crate) mod overview;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod step_state;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::CapScope;
use crate::plan::value::ids::{AttemptToken, Micros, RunId, StepNumber};
use crate::plan::value::names::number_meant;
use account::Account;
use overview::RunSummary;
use run::Run;
use runs::Runs;

/// How many runs that have ended stay whole in the state.
pub const ENDED_KEPT: usize = 64;

/// The fold of all events up to one sequence number.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Sequence number of the last record that was folded in; 0 before the first.
    pub seq: u64,
    /// Time of that record.
    pub time: Micros,
    /// All runs that are whole, by number.
    pub runs: Runs,
    /// The number of every run, by name.
    pub names: BTreeMap<String, RunId>,
    /// Runs that have ended and are whole, the one that ended first in front: the record that
    /// ended it, and its number.
    pub ended: BTreeSet<(u64, RunId)>,
    /// What is left of runs that ended before.
    pub summaries: BTreeMap<RunId, RunSummary>,
    /// Caps that were set by a record.
    pub caps: BTreeMap<CapScope, u32>,
    /// The books of all runs together.
    pub account: Account,
    /// The step of every attempt in flight.
    pub in_flight: BTreeMap<AttemptToken, (RunId, StepNumber)>,
    /// Attempts in flight by owner, over all runs.
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// Attempts in flight by tag, over all runs.
    pub in_flight_by_tag: BTreeMap<String, u32>,
    /// The first timer of each run that has one, soonest first.
    pub due: BTreeSet<(Micros, RunId)>,
    /// The run of every question that is open.
    pub questions: BTreeMap<QuestionId, RunId>,
    /// The step of every attempt that was ever dealt in a whole run, to tell whose a late receipt
    /// is.
    pub dealt: BTreeMap<AttemptToken, (RunId, StepNumber)>,
}

impl State {
    /// When the next timer is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Micros> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The run of that name, if it is whole.
    #[must_use]
    pub fn run_named(&self, name: &str) -> Option<&Run> {
        self.runs.get(self.names.get(name)?)
    }

    /// The run that somebody means: of that name, or of that number, as `#3`. Of a run that ended
    /// long ago only a summary is left.
    #[must_use]
    pub fn run_meant(&self, word: &str) -> Option<RunId> {
        let is_known = |id: &RunId| self.runs.contains_key(id) || self.summaries.contains_key(id);
        let numbered = || number_meant(word).map(RunId).filter(is_known);
        self.names.get(word).copied().or_else(numbered)
    }
}
