//! One barrier, as the state holds it.
//!
//! The invariants are those of [`crate::plan::State`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::BarrierChange;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::OnBreak;
use crate::plan::value::ids::{Micros, StepNumber};

impl BarrierState {
    /// Enters a member of that status where it belongs.
    pub(crate) fn place(&mut self, member: StepNumber, status: StepStatus) {
        self.arrived.remove(&member);
        self.failed.remove(&member);
        if status.is_closed() {
            self.arrived.insert(member);
        } else if status == StepStatus::Failed {
            self.failed.insert(member);
        }
    }

    /// Whether somebody let go what waits for it, and its need is still not met.
    pub(crate) fn is_overruled(&self) -> bool {
        self.status == BarrierStatus::Released && !self.has_enough()
    }

    /// Whether as many as are needed have arrived.
    pub(crate) fn has_enough(&self) -> bool {
        let needed = self.needed.saturating_sub(u32::from(mutant!(BarrierReleasedEarly)));
        u32::try_from(self.arrived.len()).map_or(true, |arrived| arrived >= needed)
    }

    /// Whether as many as are needed can no longer arrive.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        if self.is_late {
            return true;
        }
        let possible = self.members.len().saturating_sub(self.failed.len());
        u32::try_from(possible).is_ok_and(|possible| possible < self.needed)
    }

    /// Whether somebody must be asked what is done about it.
    pub(crate) fn asks(&self) -> bool {
        self.status == BarrierStatus::Broken
            && self.on_break == OnBreak::Ask
            && self.question.is_none()
    }

    /// The open question about it, if it is no longer broken.
    pub(crate) fn asked_in_vain(&self) -> Option<QuestionId> {
        self.question.filter(|_| self.status != BarrierStatus::Broken)
    }

    /// What follows from how the members stand.
    pub(crate) fn due(&self) -> Option<BarrierChange> {
        if self.status != BarrierStatus::Closed {
            None
        } else if self.has_enough() {
            Some(BarrierChange::Released)
        } else if self.is_out_of_reach() {
            Some(BarrierChange::Broken)
        } else {
            None
        }
    }
}

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
    pub(crate) fn how_broken(&self) -> &'static str {
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
