//! The work that an open replan request holds back, because the next version may change it.
//!
//! A request that names a step holds this step and all its dependents. A request without a step
//! holds each step that is not idempotent, since the work of such a step cannot be repeated.
//!
//! One request is open at a time. If another worker requests a plan meanwhile, its step stays
//! reported, and the step that it names is held, too. Its request is recorded after the open one is
//! resolved, unless a new version redoes the step.
//!
//! Invariant: a request for more steps holds nothing; it does not say that the plan is wrong.

use std::collections::BTreeSet;

use super::run::{ReplanRequest, Run};
use crate::plan::event::receipt::{Outcome, ReplanKind};
use crate::plan::event::run_event::ReplanTrigger;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::step::Idempotence;
use crate::plan::value::ids::StepNumber;

/// The steps that an open replan request holds from dispatch.
#[derive(Debug)]
pub struct ReplanHold<'a> {
    run: &'a Run,
    request: &'a ReplanRequest,
    /// The steps that the request and the waiting ones name, and their dependents.
    named: BTreeSet<StepNumber>,
}

impl Run {
    /// The open request for a new plan version, but not a request for more steps.
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

    /// The steps that the open request for a new plan version holds back.
    #[doc(hidden)]
    #[must_use]
    pub fn replan_hold(&self) -> Option<ReplanHold<'_>> {
        let request = self.open_replan()?;
        mutant!(RequestedReplanHoldsNothing => return None);
        let waiting = self.waiting_requests().map(|(number, from)| from.unwrap_or(number));
        let from: BTreeSet<StepNumber> = request.from.into_iter().chain(waiting).collect();
        let named = from.into_iter().flat_map(|from| self.step_and_dependents(from)).collect();
        Some(ReplanHold { run: self, request, named })
    }

    /// The request for another plan by the worker of the attempt: the step from which work is
    /// redone, the kind, and the worker. A name that is not in the plan means the step itself.
    pub(crate) fn request_of_worker(
        &self,
        number: StepNumber,
    ) -> Option<(Option<StepNumber>, ReplanKind, String)> {
        let attempt = self.step(number)?.attempt()?;
        match &attempt.receipt.as_ref()?.outcome {
            Outcome::ReplanRequested { from, kind, .. } => {
                let from = from.as_ref().and_then(|id| self.step_named(id));
                Some((from, *kind, attempt.worker.clone()))
            }
            Outcome::Succeeded | Outcome::Failed { .. } => None,
        }
    }

    /// Whether the worker of a reported step requested another plan while a request is open.
    #[doc(hidden)]
    #[must_use]
    pub fn waits_to_request(&self, number: StepNumber) -> bool {
        self.open_replan().is_some()
            && self.step(number).is_some_and(|step| step.status == StepStatus::Reported)
            && self.request_of_worker(number).is_some()
    }

    /// The steps with a worker that requested another plan while a request is open, each with the
    /// step that the worker names.
    #[doc(hidden)]
    pub fn waiting_requests(&self) -> impl Iterator<Item = (StepNumber, Option<StepNumber>)> {
        let waiting = self.reported.iter().filter(|number| self.waits_to_request(**number));
        waiting.filter_map(|number| Some((*number, self.request_of_worker(*number)?.0)))
    }

    /// The limit of replans, if it is used up and the open request counts as a replan.
    #[doc(hidden)]
    #[must_use]
    pub fn used_up_replans(&self) -> Option<u32> {
        self.open_replan().filter(|open| !open.trigger.is_change_of_scope())?;
        self.max_replans().filter(|max| self.replans >= *max)
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
        if self.named.contains(&number) {
            return true;
        }
        let planned = self.run.plan().zip(self.run.plan_step(number));
        self.request.from.is_none()
            && planned.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No)
    }
}
