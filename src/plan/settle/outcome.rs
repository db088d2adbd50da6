//! Events of a decision about a failed attempt: the decision, and the events that apply it.
//!
//! Invariant: a decision is one event, and its consequences are in the same batch.

use super::disposition::may_have_landed;
use super::fallback::fallback_value_events;
use crate::plan::event::Event;
use crate::plan::event::question::{
    ABORT, FAIL, QuestionBody, QuestionSubject, REPLAN, RETRY, SKIP,
};
use crate::plan::event::receipt::ReplanKind;
use crate::plan::event::run_event::{ReplanRequested, ReplanTrigger};
use crate::plan::event::step_event::{AfterFailure, Decision, FailureDecided};
use crate::plan::event::table::StepEvent;
use crate::plan::model::step::FailureClass;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{AttemptToken, StepNumber, Timestamp};
use crate::plan::value::text::Text;

/// The built-in rule that requests another plan after the last attempt.
const REPLAN_AT_THE_LIMIT: &str = "replan.attempts_exhausted";

/// The events of a decision about a failed attempt.
pub(crate) fn decision_events(
    run: &Run,
    number: StepNumber,
    mut decided: FailureDecided,
    from: Option<StepNumber>,
    time: Timestamp,
) -> Vec<Event> {
    let token = decided.token;
    let (class, reason) = (decided.class, decided.reason.clone());
    let decision = decided.decision;
    let is_exhausted = decided.rule == REPLAN_AT_THE_LIMIT;
    let is_final = matches!(decision, Decision::Fail | Decision::Replan | Decision::Abort);
    if is_final && may_have_landed(run, number) {
        decided.then = AfterFailure::Held;
    }
    let mut events = vec![Event::step(run.id, number, StepEvent::FailureDecided(decided))];
    let own = run.request_of_worker(number);
    // A lost outcome is resolved first; the request of the worker stays.
    let requests =
        decision == Decision::Replan || decision == Decision::OutcomeUnknown && own.is_some();
    match decision {
        _ if requests && run.may_request_replan() => {
            // A rule that names a step takes precedence.
            let from = from.or_else(|| own.as_ref()?.0);
            let trigger = match class {
                _ if own.is_some() => match own {
                    Some((_, ReplanKind::NewEvidence, by)) => ReplanTrigger::NewEvidence { by },
                    Some((_, ReplanKind::ScopeChange, by)) => ReplanTrigger::ScopeChange { by },
                    _ => ReplanTrigger::ExecutorRequest { token },
                },
                FailureClass::AssumptionBroken => ReplanTrigger::AssumptionBroken { token },
                FailureClass::Transient | FailureClass::Unknown | FailureClass::CriterionFailed
                    if is_exhausted =>
                {
                    ReplanTrigger::RetriesExhausted { token }
                }
                // A rule or the decider chose the replan although attempts are left, or the step
                // reached its own limit; the budget of the run may still cover more.
                _ => ReplanTrigger::Failure { token },
            };
            let from = from.or(Some(number));
            events.push(Event::ReplanRequested(ReplanRequested {
                run: run.id,
                trigger,
                from,
                reason,
            }));
        }
        Decision::Escalate => events.push(failure_question(run, number, token, reason)),
        Decision::Fallback => events.extend(fallback_value_events(run, number, time)),
        _ => {}
    }
    events
}

impl Run {
    /// Whether a new plan may be requested. Any request replaces an open request for an extension,
    /// which is made again afterwards.
    pub(crate) fn may_request_replan(&self) -> bool {
        let open = self.request.as_ref();
        open.is_none_or(|request| request.trigger == ReplanTrigger::Extension)
    }
}

pub(crate) fn failure_question(
    run: &Run,
    number: StepNumber,
    token: AttemptToken,
    text: Text,
) -> Event {
    let asked = QuestionBody {
        subject: QuestionSubject::Failure { token },
        text,
        shown: run.step_hash(number).unwrap_or_default(),
        options: [RETRY, SKIP, FAIL, REPLAN, ABORT].map(str::to_owned).to_vec(),
        to: None,
        deadline: None,
        on_timeout: None,
    };
    Event::step(run.id, number, StepEvent::StepAsked(asked))
}
