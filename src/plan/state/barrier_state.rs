//! The state of one barrier: which members arrived or failed, and whether it is released or broken.
//!
//! A barrier is released when enough members are accepted or skipped. It breaks when too few
//! members can still arrive, or when its deadline passes. The status of a broken barrier returns to
//! `Closed`, which is the initial status, if its failed members are reopened or skipped.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::BarrierChange;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::OnBreak;
use crate::plan::value::ids::{StepNumber, Timestamp};

impl BarrierState {
    /// Records the new status of a member.
    pub(crate) fn set_member_status(&mut self, member: StepNumber, status: StepStatus) {
        self.arrived.remove(&member);
        self.failed.remove(&member);
        if status.is_closed() {
            self.arrived.insert(member);
        } else if status == StepStatus::Failed {
            self.failed.insert(member);
        }
    }

    /// Whether a decision released the barrier before enough members arrived.
    pub(crate) fn is_force_released(&self) -> bool {
        self.status == BarrierStatus::Released && !self.has_enough()
    }

    /// Whether enough members arrived.
    pub(crate) fn has_enough(&self) -> bool {
        let needed = self.needed.saturating_sub(u32::from(mutant!(BarrierReleasedEarly)));
        u32::try_from(self.arrived.len()).map_or(true, |arrived| arrived >= needed)
    }

    /// Whether the barrier cannot be released in time by its members: too few of them can still
    /// arrive, or its deadline has passed.
    pub(crate) fn is_unreachable(&self) -> bool {
        if self.is_late {
            return true;
        }
        let possible = self.members.len().saturating_sub(self.failed.len());
        u32::try_from(possible).is_ok_and(|possible| possible < self.needed)
    }

    /// Whether a question about the broken barrier must be asked.
    pub(crate) fn must_ask(&self) -> bool {
        self.status == BarrierStatus::Broken
            && self.on_break == OnBreak::Ask
            && self.question.is_none()
    }

    /// The open question, if it became obsolete because the barrier is no longer broken.
    pub(crate) fn obsolete_question(&self) -> Option<QuestionId> {
        self.question.filter(|_| self.status != BarrierStatus::Broken)
    }

    /// The change that follows from the members, if any.
    pub(crate) fn pending_change(&self) -> Option<BarrierChange> {
        if self.status != BarrierStatus::Closed {
            None
        } else if self.has_enough() {
            Some(BarrierChange::Released)
        } else if self.is_unreachable() {
            Some(BarrierChange::Broken)
        } else {
            None
        }
    }
}

/// A barrier of the active plan version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierState {
    /// The member steps.
    pub members: BTreeSet<StepNumber>,
    /// Members that are accepted or skipped.
    pub arrived: BTreeSet<StepNumber>,
    /// Members that failed.
    pub failed: BTreeSet<StepNumber>,
    /// How many members must arrive.
    pub needed: u32,
    /// The action when the barrier breaks.
    pub on_break: OnBreak,
    /// When the barrier breaks unless it was released.
    pub deadline: Option<Timestamp>,
    /// Whether the deadline passed before the release.
    pub is_late: bool,
    /// The open question about it, if any.
    pub question: Option<QuestionId>,
    /// Closed, released or broken.
    pub status: BarrierStatus,
}

impl BarrierState {
    /// Why a barrier is broken, as a predicate that follows its name.
    pub(crate) fn broken_phrase(&self) -> &'static str {
        if self.is_late { "was not released in time" } else { "is broken" }
    }
}

/// The status of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BarrierStatus {
    /// The initial status: not enough members have arrived yet.
    Closed,
    /// Enough members arrived.
    Released,
    /// Too few members can still arrive, or its deadline passed.
    Broken,
}
