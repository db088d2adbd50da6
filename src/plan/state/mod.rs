//! The state of a ledger: the fold of its events.
//!
//! The state holds what is needed to decide the next command. Outputs of accepted steps and the
//! history of attempts are in the log only.
//!
//! Invariants:
//! - The state is a pure function of the events: no clock, no randomness, no hash map order.
//! - `apply` updates all derived data (ready queues, counts, timers, pending steps). It is part of
//!   the state hash, so that an error in it is detected.
//! - An ended run stays complete until [`ENDED_KEPT`] other runs have ended after it. A summary
//!   then replaces it.

pub(crate) mod account;
pub(crate) mod barrier_state;
pub(crate) mod compact;
pub(crate) mod fault;
pub(crate) mod kept_hash;
pub(crate) mod links;
pub(crate) mod overview;
pub(crate) mod packed;
pub(crate) mod queue;
pub(crate) mod replan_hold;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod step_state;
pub(crate) mod steps;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::CapScope;
use crate::plan::value::ids::{AttemptToken, RunId, StepNumber, Timestamp};
use crate::plan::value::names::parse_number;
use crate::plan::value::token::{Proof, SecretHash};
use account::Account;
use overview::RunSummary;
use run::Run;
use runs::Runs;

/// Number of ended runs that stay complete in the state.
pub const ENDED_KEPT: usize = 64;

/// The fold of all events up to one sequence number.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Sequence number of the last folded record; 0 before the first.
    pub seq: u64,
    /// Time of that record.
    pub time: Timestamp,
    /// All complete runs, by number.
    #[doc(hidden)]
    pub runs: Runs,
    /// Run numbers by name.
    pub names: BTreeMap<String, RunId>,
    /// Ended runs that are complete, in the order of their end: the sequence number of the
    /// `RunEnded` record, and the run.
    #[doc(hidden)]
    pub ended: BTreeSet<(u64, RunId)>,
    /// Summaries of the runs that ended earlier and are no longer complete.
    #[doc(hidden)]
    pub summaries: BTreeMap<RunId, RunSummary>,
    /// Caps that were set by a command.
    pub caps: BTreeMap<CapScope, u32>,
    /// Spending of all runs together.
    #[doc(hidden)]
    pub account: Account,
    /// The step of every attempt in flight.
    #[doc(hidden)]
    pub in_flight: BTreeMap<AttemptToken, (RunId, StepNumber)>,
    /// Attempts in flight by owner, across all runs.
    #[doc(hidden)]
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// Attempts in flight by tag, across all runs.
    #[doc(hidden)]
    pub in_flight_by_tag: BTreeMap<String, u32>,
    /// The first timer of each run that has one, soonest first.
    #[doc(hidden)]
    pub due: BTreeSet<(Timestamp, RunId)>,
    /// The run of every open question.
    #[doc(hidden)]
    pub questions: BTreeMap<QuestionId, RunId>,
    /// The step of every attempt ever dispatched in a complete run, to attribute late receipts, and
    /// the hash of the secret of its token.
    #[doc(hidden)]
    pub dispatched: BTreeMap<AttemptToken, (RunId, StepNumber, SecretHash)>,
    /// The ranges of records that were lost before the ledger was salvaged, by their first record.
    #[doc(hidden)]
    pub lost: BTreeMap<u64, u64>,
}

impl State {
    /// Whether the sender of a command about an attempt knows its secret, or needs none. A wrong
    /// secret is rejected like a stale token, so that a token of another history of the ledger is
    /// simply stale.
    #[doc(hidden)]
    #[must_use]
    pub fn is_proven(&self, token: AttemptToken, proof: Proof) -> bool {
        let hash = match proof {
            Proof::Secret(hash) if !mutant!(TokenSecretIgnored) => hash,
            Proof::Secret(_) | Proof::LockHolder => return true,
        };
        self.dispatched.get(&token).is_some_and(|(.., expected)| *expected == hash)
    }

    /// When the next timer is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The run with this number, if it is complete.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// The run with this name, if it is complete.
    #[must_use]
    pub fn run_named(&self, name: &str) -> Option<&Run> {
        self.runs.get(self.names.get(name)?)
    }

    /// Finds a run by its name or by its number, written as `#3`. It also finds runs that are only
    /// kept as a summary.
    #[must_use]
    pub fn find_run(&self, word: &str) -> Option<RunId> {
        let is_known = |id: &RunId| self.runs.contains_key(id) || self.summaries.contains_key(id);
        let numbered = || parse_number(word).map(RunId).filter(is_known);
        self.names.get(word).copied().or_else(numbered)
    }
}
