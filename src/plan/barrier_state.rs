//! One barrier, as the state holds it.
//!
//! The invariants are those of [`super::State`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Micros, OnBreak, QuestionId, StepNumber};

/// A barrier of the active version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierState {
    /// Its members.
    pub members: BTreeSet<StepNumber>,
    /// Members that arrived: accepted or skipped.
    pub arrived: BTreeSet<StepNumber>,
    /// Members that have failed for good.
    pub failed: BTreeSet<StepNumber>,
    /// How many are needed.
    pub needed: u32,
    /// What happens when it can no longer be met.
    pub on_break: OnBreak,
    /// Until when it should be released.
    pub deadline: Option<Micros>,
    /// Whether that time has passed.
    pub is_late: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
    /// How it stands.
    pub status: BarrierStatus,
}

impl BarrierState {
    /// What is wrong with a broken barrier, behind its name.
    pub(super) fn how_broken(&self) -> &'static str {
        if self.is_late { "was not released in time" } else { "is broken" }
    }
}

/// How a barrier stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierStatus {
    /// Members are missing.
    Closed,
    /// Enough arrived.
    Released,
    /// Enough can no longer arrive.
    Broken,
}
