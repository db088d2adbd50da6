//! What a list shows of a run.
//!
//! Invariant: a pure function of the run.

use serde::{Deserialize, Serialize};

use super::run::{Run, RunStatus};
use crate::plan::event::run_event::{Ending, PauseCause};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::value::ids::{ContentHash, Micros};

/// How a run stands, in the few values that are kept beside it: enough for a list of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: RunStatus,
    /// Why nothing is dealt for now.
    pub pause: Option<PauseCause>,
    /// When it started.
    pub started: Micros,
    /// The record that ended it, and when that was.
    pub ended: Option<(u64, Micros)>,
    /// The active version's title, number and hash.
    pub version: Option<(String, u32, ContentHash)>,
    /// How many steps that version has.
    pub steps: u32,
    /// How many of them were accepted.
    pub accepted: u32,
    /// How many of them were skipped.
    pub skipped: u32,
    /// How many attempts it took.
    pub attempts: u64,
    /// What they cost.
    pub spent: Cost,
    /// Attempts in flight.
    pub in_flight: u32,
}

impl Glance {
    /// What a list shows of that run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let version = run.active_version();
        Self {
            name: run.name.clone(),
            status: run.status,
            pause: run.pause.clone(),
            started: run.started,
            ended: run.ended,
            version: version
                .map(|version| (version.plan.header().title.clone(), run.active, version.hash)),
            steps: version.map_or(0, |version| version.step_count),
            accepted: run.count(StepStatus::Accepted),
            skipped: run.count(StepStatus::Skipped),
            attempts: run.account.attempts,
            spent: run.spent(),
            in_flight: run.in_flight,
        }
    }

    /// What is left of a run that has ended, when it is not kept any more.
    #[must_use]
    pub fn summary(&self) -> Option<RunSummary> {
        let (RunStatus::Ended(ending), Some((seq, ended))) = (self.status, self.ended) else {
            return None;
        };
        let version = self.version.as_ref();
        Some(RunSummary {
            name: self.name.clone(),
            ending,
            started: self.started,
            ended,
            seq,
            version: version
                .map_or((0, ContentHash::default()), |(_, number, hash)| (*number, *hash)),
            steps: self.steps,
            accepted: self.accepted,
            skipped: self.skipped,
            attempts: self.attempts,
            spent: self.spent,
        })
    }

    /// Whether work may still go on in it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.status, RunStatus::Ended(_))
    }
}

/// What is left of a run that ended long ago. Its records are in the log, and the state at the
/// record that ended it shows it whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub ending: Ending,
    /// When it started.
    pub started: Micros,
    /// When it ended.
    pub ended: Micros,
    /// The record that ended it.
    pub seq: u64,
    /// The version of its plan that was active last, and that plan's hash.
    pub version: (u32, ContentHash),
    /// How many steps that version had.
    pub steps: u32,
    /// How many of them were accepted.
    pub accepted: u32,
    /// How many of them were skipped.
    pub skipped: u32,
    /// How many attempts it took.
    pub attempts: u64,
    /// What they cost.
    pub spent: Cost,
}
