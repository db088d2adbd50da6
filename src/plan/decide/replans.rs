//! Replan requests, and the decisions of an external decider about failed attempts.

use super::lookup::{open_run, run_of, running_run, step_of};
use crate::plan::event::Event;
use crate::plan::event::run_event::{
    Ending, FailureSettingsChanged, ReplanRequested, ReplanTrigger, ReplanWithdrawn, RunEnded,
};
use crate::plan::event::step_event::{AfterFailure, Decision, FailureDecided, Ruling, StepFailed};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::policy::{Decider, FailureSettings};
use crate::plan::model::step::{FailureClass, Fallback};
use crate::plan::rejection::Rejection;
use crate::plan::settle::ending::BY_CRITERIA;
use crate::plan::settle::failure::FailedAttempt;
use crate::plan::settle::fallback::may_fall_back;
use crate::plan::settle::outcome::decision_events;
use crate::plan::state::State;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{RunId, StepNumber, Timestamp};
use crate::plan::value::text::Text;

pub(super) fn request(
    state: &State,
    run: RunId,
    trigger: &ReplanTrigger,
    from: Option<StepNumber>,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    if let Some(from) = from {
        step_of(run, from)?;
    }
    let mut events = Vec::new();
    let mut requested =
        ReplanRequested { run: run.id, trigger: trigger.clone(), from, reason: reason.into() };
    if let Some(open) = &run.request {
        let ReplanTrigger::ScopeChange { by } = trigger else {
            return Err(Rejection::ReplanIsOpen(open.seq));
        };
        if run.used_up_replans().is_none() {
            return Err(Rejection::ReplanIsOpen(open.seq));
        }
        // No other version may answer the open request: the change of scope takes it over.
        let reason = "it is requested as a change of scope".to_owned();
        let withdrawn = ReplanWithdrawn { run: run.id, by: by.clone(), reason };
        events.push(Event::ReplanWithdrawn(withdrawn));
        requested.from = from.or(open.from);
    }
    events.push(Event::ReplanRequested(requested));
    Ok(events)
}

/// Changes how a run handles failures that its plan does not cover, unless the settings are the
/// same already.
pub(super) fn set_failure_settings(
    state: &State,
    run: RunId,
    settings: FailureSettings,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let by = by.to_owned();
    let changed = FailureSettingsChanged { run: run.id, settings, by };
    let is_changed = run.failure_settings != settings;
    Ok(is_changed.then_some(Event::FailureSettingsChanged(changed)).into_iter().collect())
}

pub(super) fn withdraw(
    state: &State,
    run: RunId,
    by: &str,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = open_run(state, run)?;
    let request = run.request.as_ref().ok_or(Rejection::NoReplanRequested)?;
    let end = fail_without_replan(run, &request.trigger, by);
    let (by, reason) = (by.to_owned(), reason.to_owned());
    let withdrawn = Event::ReplanWithdrawn(ReplanWithdrawn { run: run.id, by, reason });
    Ok(std::iter::once(withdrawn).chain(end).collect())
}

/// Whether a request was made because a criterion of the plan does not hold.
pub(super) fn is_for_criteria(trigger: &ReplanTrigger) -> bool {
    matches!(trigger, ReplanTrigger::NewEvidence { by } if by == BY_CRITERIA)
}

/// Fails the step or the run for which the withdrawn request was made. Otherwise `settle` would
/// make the same request again.
fn fail_without_replan(run: &Run, trigger: &ReplanTrigger, by: &str) -> Option<Event> {
    if let ReplanTrigger::PreconditionFalse { step: number, precondition } = trigger {
        let step = run.step(*number).filter(|step| step.status == StepStatus::Waiting)?;
        let ruling = step.hold().preconditions.get(precondition)?;
        let failed = StepFailed {
            class: FailureClass::AssumptionBroken,
            rule: "precondition.withdrawn".to_owned(),
            reason: format!("{by} withdrew the replan request for a false precondition").into(),
        };
        let event = Event::step(run.id, *number, StepEvent::StepFailed(failed));
        return (*ruling == Ruling::Fail).then_some(event);
    }
    let has_failed = run.plan_verdicts.values().any(|each| each.ruling == Ruling::Fail);
    let ending = Ending::Failed;
    let reason = format!("{by} withdrew the replan request, and a plan criterion does not hold");
    (run.all_closed() && has_failed && *trigger != ReplanTrigger::Extension)
        .then_some(Event::RunEnded(RunEnded { run: run.id, ending, reason: reason.into() }))
}

/// A decision of the external decider about a failure.
pub(super) fn decide_failure(
    state: &State,
    now: Timestamp,
    run: RunId,
    number: StepNumber,
    (decision, class, from): (&Decision, Option<FailureClass>, Option<StepNumber>),
    (rule, reason, by): (&str, &str, &str),
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    let decided = decidable(run, now, number, (*decision, class))?;
    if let Some(from) = from {
        step_of(run, from)?;
    }
    let decided = FailureDecided {
        rule: rule.to_owned(),
        reason: reason.into(),
        by: by.to_owned(),
        ..decided
    };
    Ok(decision_events(run, number, decided, from, now))
}

/// A decision that the external decider may make, without its author and its reason.
fn decidable(
    run: &Run,
    now: Timestamp,
    number: StepNumber,
    (decision, class): (Decision, Option<FailureClass>),
) -> Result<FailureDecided, Rejection> {
    let step = step_of(run, number)?;
    let is_external =
        run.plan().is_some_and(|plan| plan.header().failure.decider == Decider::External);
    if !is_external {
        return Err(Rejection::DecidedByRules);
    }
    let failure = run.failure_of(number).filter(|_| step.status == StepStatus::Reported);
    let (Some((reported, message)), Some(attempt)) = (failure, step.attempt()) else {
        return Err(Rejection::NothingFailed);
    };
    if let Some(open) = run.open_replan().filter(|_| run.waits_to_request(number)) {
        return Err(Rejection::ReplanIsOpen(open.seq));
    }
    let class = class.unwrap_or(reported);
    if decision == Decision::Fallback && !may_fall_back(run, number, now) {
        return Err(Rejection::NoFallback(number));
    }
    let failure = FailedAttempt::of(run, number, attempt, class, message);
    if repeats_work(run, number, decision) && !failure.may_be_repeated() {
        return Err(Rejection::MustNotBeRepeated(number, failure.disposition()));
    }
    Ok(FailureDecided {
        token: attempt.token,
        class,
        decision,
        rule: String::new(),
        reason: Text::default(),
        disposition: failure.disposition(),
        then: AfterFailure::Over,
        by: String::new(),
    })
}

impl Run {
    /// The decisions that the external decider may make now about the failure of a step.
    #[doc(hidden)]
    #[must_use]
    pub fn possible_decisions(&self, number: StepNumber, now: Timestamp) -> Vec<Decision> {
        let all = [
            Decision::Retry,
            Decision::Fail,
            Decision::Fallback,
            Decision::Replan,
            Decision::Escalate,
            Decision::Abort,
        ];
        let is_possible =
            |decision: &Decision| decidable(self, now, number, (*decision, None)).is_ok();
        all.into_iter().filter(is_possible).collect()
    }
}

/// Whether a decision repeats the work of a failed attempt, by the same or another owner or step.
fn repeats_work(run: &Run, number: StepNumber, decision: Decision) -> bool {
    match decision {
        Decision::Retry | Decision::RetryAt { .. } => true,
        Decision::Fallback => matches!(
            run.plan_step(number).and_then(CompactStep::fallback),
            Some(Fallback::Step(_) | Fallback::Owner(_))
        ),
        Decision::Fail
        | Decision::Replan
        | Decision::Escalate
        | Decision::Abort
        | Decision::OutcomeUnknown => false,
    }
}
