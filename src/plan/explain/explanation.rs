//! `Explanation`: the reasons of a step and of all its dependencies, as data.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::reason::BlockReason;
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::run::ReplanRequest;
use crate::plan::value::ids::{RunId, StepNumber, Timestamp};

/// Why a step cannot be dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The run.
    pub run: RunId,
    /// The step to explain.
    pub step: StepNumber,
    /// The time of the explanation.
    pub now: Timestamp,
    /// Reasons that apply to the whole run.
    pub run_reasons: Vec<BlockReason>,
    /// The step and all its direct and indirect dependencies.
    pub steps: BTreeMap<StepNumber, StepReasons>,
    /// The open replan request.
    pub request: Option<ReplanRequest>,
}

/// A step of the chain, and the reasons that block it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepReasons {
    /// Its id in the plan.
    pub id: String,
    /// Its status.
    pub status: StepStatus,
    /// The reasons that block this step.
    pub reasons: Vec<BlockReason>,
}

impl Explanation {
    /// The entry of the step to explain.
    fn explained_step(&self) -> Option<&StepReasons> {
        self.steps.get(&self.step)
    }

    /// Whether the step can be dispatched now.
    #[must_use]
    pub fn may_be_dispatched(&self) -> bool {
        self.explained_step()
            .is_some_and(|own| own.status == StepStatus::Ready && own.reasons.is_empty())
            && self.run_reasons.is_empty()
    }

    /// The root causes: the steps of the chain that wait for no other step.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<StepNumber> {
        let is_root =
            |entry: &&StepReasons| entry.reasons.iter().all(|reason| reason.leads_to().is_empty());
        let roots = self.steps.iter().filter(|(_, entry)| is_root(entry));
        roots.map(|(number, _)| *number).collect()
    }
}
