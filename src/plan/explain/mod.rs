//! Why a step is not dealt: the whole chain of what it waits for, down to the roots.
//!
//! Invariants:
//! - A step has no reason exactly if it may be dealt now, or its work is over.
//! - Every step that is reached stands in the answer once, with all of its own reasons; a reason
//!   that names steps or a barrier leads to their entries. Cycles end the walk, not the program.
//! - The answer is a function of the state and of the time that the caller gives.
//!
//! Left out on purpose: what to type to get on, which is the caller's language.

mod find;
mod limits;
mod reason;
#[cfg(test)]
pub(super) mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};

pub use reason::*;
pub use text::Line;

use super::{Micros, Rejection, RunId, State, StepNumber, StepStatus};

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
    pub request: Option<super::ReplanRequest>,
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

/// Why a step is not dealt at that time.
///
/// # Errors
/// [`Rejection::NoSuchRun`] and [`Rejection::NoSuchStep`].
pub fn explain(
    state: &State,
    run: RunId,
    step: StepNumber,
    now: Micros,
) -> Result<Explanation, Rejection> {
    let run = state.runs.get(&run).ok_or(Rejection::NoSuchRun)?;
    run.step(step).ok_or(Rejection::NoSuchStep(step))?;
    let now = now.max(state.time);
    let asked = find::Asked { state, run, now };
    let mut steps = BTreeMap::new();
    let mut open = vec![step];
    while let Some(number) = open.pop() {
        let Some(found) = run.step(number).filter(|_| !steps.contains_key(&number)) else {
            continue;
        };
        let reasons = asked.step(number, found);
        open.extend(reasons.iter().flat_map(Reason::leads_to));
        let (id, status) = (found.id().to_owned(), found.status);
        steps.insert(number, StepReasons { id, status, reasons });
    }
    let request = run.request.clone();
    Ok(Explanation { run: run.id, step, now, run_reasons: asked.whole(step), steps, request })
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
