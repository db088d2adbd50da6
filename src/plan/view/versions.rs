//! The versions of a run's plan: where each comes from, and its review.

use serde::Serialize;

use crate::plan::event::plan_event::{Provenance, Review};
use crate::plan::state::run::{PlanVersion, Run};
use crate::plan::value::ids::ContentHash;

/// One version of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionSummary {
    /// Its number.
    pub version: u32,
    /// Its hash.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// The review.
    pub review: Option<Review>,
    /// The note of its reviewer; empty without one.
    pub note: String,
    /// The source of the version: its author, the file with its hash, and the author's confidence
    /// in percent.
    pub provenance: Option<Provenance>,
    /// Its number of steps.
    pub steps: u32,
}

impl VersionSummary {
    /// Every version of a run's plan.
    #[must_use]
    pub fn of_run(run: &Run) -> Vec<Self> {
        let row = |(each, version): (&PlanVersion, u32)| Self {
            version,
            hash: each.hash,
            reason: each.reason.clone(),
            review: each.review,
            note: each.note.clone(),
            provenance: each.provenance.clone(),
            steps: each.step_count,
        };
        run.versions.iter().zip(1..).map(row).collect()
    }
}
