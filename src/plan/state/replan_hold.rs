//! What an open replan request holds from dispatch: work that the next version may change.
//!
//! A request that names a step holds this step and all that depends on it. A request that names none
//! holds each step that is not idempotent, since what such a step does cannot be done again.
//!
//! Invariant: a request for more steps holds nothing; it does not say that the plan is wrong.

use std::collections::BTreeSet;

use super::run::{ReplanRequest, Run};
use crate::plan::event::run_event::ReplanTrigger;
use crate::plan::model::step::Idempotence;
use crate::plan::value::ids::StepNumber;

/// The steps that an open replan request holds from dispatch.
#[derive(Debug)]
pub struct ReplanHold<'a> {
    run: &'a Run,
    request: &'a ReplanRequest,
    /// The step that the request names, and its dependents.
    named: Option<BTreeSet<StepNumber>>,
}

impl Run {
    /// The open request for a new plan version. A request for more steps is none.
    pub(crate) fn open_replan(&self) -> Option<&ReplanRequest> {
        self.request.as_ref().filter(|request| request.trigger != ReplanTrigger::Extension)
    }

    /// Whether a step is ready that no replan request holds.
    #[doc(hidden)]
    #[must_use]
    pub fn has_dispatchable(&self) -> bool {
        let hold = self.replan_hold();
        let is_free = |number| hold.as_ref().is_none_or(|hold| !hold.holds(number));
        self.ready().any(|(_, number)| is_free(number))
    }

    /// What the open request for a new plan version holds from dispatch.
    #[doc(hidden)]
    #[must_use]
    pub fn replan_hold(&self) -> Option<ReplanHold<'_>> {
        let request = self.open_replan()?;
        mutant!(RequestedReplanHoldsNothing => return None);
        let named = request.from.map(|from| self.step_and_dependents(from));
        Some(ReplanHold { run: self, request, named })
    }
}

impl<'a> ReplanHold<'a> {
    /// The request.
    #[must_use]
    pub fn request(&self) -> &'a ReplanRequest {
        self.request
    }

    /// Whether the request holds a step.
    #[must_use]
    pub fn holds(&self, number: StepNumber) -> bool {
        match &self.named {
            Some(named) => named.contains(&number),
            None => {
                let planned = self.run.plan().zip(self.run.plan_step(number));
                planned.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No)
            }
        }
    }
}
