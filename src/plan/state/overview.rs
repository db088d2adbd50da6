//! The overview of a run for lists, and the summary that replaces a run some time after its end.
//!
//! Both are pure functions of the run. An overview is stored beside a packed run, so that lists do
//! not unpack it.

use serde::{Deserialize, Serialize};

use super::run::{Run, RunStatus};
use crate::plan::event::run_event::{Ending, PauseCause};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::value::ids::{ContentHash, Timestamp};

/// The values of a run that a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOverview {
    /// Name of the run.
    pub name: String,
    /// Status of the run.
    pub status: RunStatus,
    /// Why it is paused, if it is.
    pub pause: Option<PauseCause>,
    /// When it started.
    pub started: Timestamp,
    /// Sequence number and time of the record that ended it.
    pub ended: Option<(u64, Timestamp)>,
    /// Title, number and hash of the active version.
    pub version: Option<(String, u32, ContentHash)>,
    /// Number of steps of that version.
    pub steps: u32,
    /// Number of accepted steps.
    pub accepted: u32,
    /// Number of skipped steps.
    pub skipped: u32,
    /// Number of attempts.
    pub attempts: u64,
    /// Amount spent.
    pub spent: Cost,
    /// Number of attempts in flight.
    pub in_flight: u32,
}

impl RunOverview {
    /// The overview of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let version = run.active_version();
        Self {
            name: run.name.clone(),
            status: run.status,
            pause: run.pause.clone(),
            started: run.started,
            ended: run.end_record,
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

    /// The summary of an ended run, kept when the run itself is dropped.
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

    /// Whether the run has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.status, RunStatus::Ended(_))
    }
}

/// The summary that replaces an ended run. Its records remain in the log, and the state at the
/// sequence number `seq` contains the complete run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Name of the run.
    pub name: String,
    /// How it ended.
    pub ending: Ending,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Sequence number of the record that ended it.
    pub seq: u64,
    /// Number and hash of the last active version.
    pub version: (u32, ContentHash),
    /// Number of steps of that version.
    pub steps: u32,
    /// Number of accepted steps.
    pub accepted: u32,
    /// Number of skipped steps.
    pub skipped: u32,
    /// Number of attempts.
    pub attempts: u64,
    /// Amount spent.
    pub spent: Cost,
}
