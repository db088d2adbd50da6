//! Answers to questions about failed attempts, and questions that must be asked again.

use super::disposition::disposition_of;
use super::failure::FailedAttempt;
use super::outcome::{decision_events, failure_question};
use crate::plan::event::Event;
use crate::plan::event::question::{ABORT, REPLAN, RETRY, SKIP};
use crate::plan::event::step_event::{AfterFailure, Decision, FailureDecided, Skipped};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::state::run::Run;
use crate::plan::value::evaluator::{Evaluator, Exhausted};
use crate::plan::value::ids::{StepNumber, Timestamp};

/// Whether the question about a failure has an answer that is not applied yet.
pub(super) fn is_answered(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| {
        step.status == StepStatus::Gated && step.attempt().is_some() && step.hold().answer.is_some()
    })
}

/// Whether the question about a failure must be asked again: the end of the run closed it, and the
/// run was reopened.
pub(super) fn must_ask_again(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| {
        step.status == StepStatus::Gated
            && step.attempt().is_some()
            && step.hold().question.is_none()
            && step.hold().answer.is_none()
    })
}

/// Asks the question about a failure again, with its full deadline.
pub(super) fn ask_again(
    run: &Run,
    number: StepNumber,
    time: Timestamp,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    let step = run.step(number);
    let Some((step, attempt)) = step.and_then(|step| Some((step, step.attempt()?))) else {
        return Ok(Vec::new());
    };
    let (class, message) = step.last_failure().cloned().unwrap_or_default();
    let mut events = vec![failure_question(run, number, attempt.token, message.clone())];
    let failure = FailedAttempt::of(run, number, attempt, class, message);
    if let Some(escalation) = failure.escalation(time, evaluator)? {
        escalation.fill_question(&mut events, time);
    }
    Ok(events)
}

/// The consequence of the answer to a question about a failure.
pub(super) fn answer_events(run: &Run, number: StepNumber, time: Timestamp) -> Vec<Event> {
    let Some(step) = run.step(number).filter(|_| is_answered(run, number)) else {
        return Vec::new();
    };
    let (Some(attempt), Some((answer, by))) = (step.attempt(), &step.hold().answer) else {
        return Vec::new();
    };
    if answer == SKIP {
        let reason = "the answer to its failure".into();
        let skipped = Skipped { by: by.clone(), reason };
        return vec![Event::step(run.id, number, StepEvent::Skipped(skipped))];
    }
    let decision = match answer.as_str() {
        RETRY => Decision::Retry,
        REPLAN => Decision::Replan,
        ABORT => Decision::Abort,
        _ => Decision::Fail,
    };
    let (class, message) = step.last_failure().cloned().unwrap_or_default();
    let decided = FailureDecided {
        token: attempt.token,
        class,
        decision,
        rule: format!("answer:{by}"),
        reason: message,
        disposition: disposition_of(run, number, attempt),
        then: AfterFailure::Over,
        by: by.clone(),
    };
    decision_events(run, number, decided, None, time)
}
