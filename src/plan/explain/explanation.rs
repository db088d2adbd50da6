//! TODO

use std::collections::{BTreeMap, BTreeSet};

use super::reason::Reason;
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::run::ReplanRequest;
use crate::plan::value::ids::{Micros, RunId, StepNumber};

/// Why a step is not dealt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The run.
    pub run: RunId,
    /// The step that was asked about.
    pub step: StepNumber,
    /// When it was asked.
    pub now: Micros,
    /// What holds for the run as a whole.
    pub run_reasons: Vec<Reason>,
    /// The step and every other one that it waits for, directly or not, each once.
    pub steps: BTreeMap<StepNumber, StepReasons>,
    /// The request for another plan that is open, if one is.
    pub request: Option<ReplanRequest>,
}

/// Why one step of a chain is not dealt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReasons {
    /// Its author's name for it.
    pub id: String,
    /// How it stands.
    pub status: StepStatus,
    /// What it waits for. None: nothing about itself keeps it.
    pub reasons: Vec<Reason>,
}

impl Explanation {
    /// The entry of the step that was asked about.
    fn own(&self) -> Option<&StepReasons> {
        self.steps.get(&self.step)
    }

    /// Whether it may be dealt now.
    #[must_use]
    pub fn may_be_dealt(&self) -> bool {
        self.own().is_some_and(|own| own.status == StepStatus::Ready && own.reasons.is_empty())
            && self.run_reasons.is_empty()
    }

    /// The steps at the ends of the chain: those that wait for no other step.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<StepNumber> {
        let is_root =
            |entry: &&StepReasons| entry.reasons.iter().all(|reason| reason.leads_to().is_empty());
        let roots = self.steps.iter().filter(|(_, entry)| is_root(entry));
        roots.map(|(number, _)| *number).collect()
    }
}
