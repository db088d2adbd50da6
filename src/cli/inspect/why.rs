//! Why a step stands as it does: what it waits for, and what would move it.

use std::path::Path;

use crate::cli::text::asked;
use crate::plan::{
    Dependency, Micros, Ruling, Run, RunStatus, State, Step, StepNumber, StepState, StepStatus,
};
use crate::runner::{Pending, StepName};

use super::actions::{Action, answer, dealt, judge, refusal};
use super::control_phrase::cause_text;
use super::reference::{dependency_text, step_name};
use super::text::{moment, plain};

/// Why a step stands as it does: what it waits for, and what would move it.
pub(super) fn why(
    state: &State,
    run: &Run,
    number: StepNumber,
    dir: &Path,
    now: Micros,
) -> Vec<String> {
    let Some(step) = run.step(number) else { return Vec::new() };
    match step.status {
        StepStatus::Waiting => waiting(run, number, step),
        StepStatus::Gated => gated(run, number, step, dir),
        StepStatus::Delayed => {
            let until = step.hold.delay.iter();
            let until = until.map(|until| format!("it is tried again at {}", moment(*until, now)));
            let failure = step.last_failure.iter();
            until.chain(failure.map(|(_, message)| format!("after: {}", plain(message)))).collect()
        }
        StepStatus::Cancelled => vec!["the run ended before it was done".to_owned()],
        StepStatus::Ready => vec![ready(state, run, number, now)],
        StepStatus::Dispatched => step
            .attempt
            .iter()
            .map(|attempt| {
                let until = moment(attempt.lease_until, now);
                format!("{} has it, the lease ends {until}", plain(&attempt.worker))
            })
            .collect(),
        StepStatus::InDoubt => typed(&answer(run, number, dir)),
        StepStatus::Reported => typed(&judge(run, number, dir)),
        StepStatus::Failed => step.last_failure.iter().map(|(_, message)| plain(message)).collect(),
        StepStatus::Removed => vec!["the active version of the plan has no such step".to_owned()],
        StepStatus::Accepted | StepStatus::Skipped => Vec::new(),
    }
}

/// Why a step is not ready although nobody has to answer: what it depends on, and what holds it.
fn waiting(run: &Run, number: StepNumber, step: &StepState) -> Vec<String> {
    let hold = &step.hold;
    if hold.is_on_call {
        return vec!["it only stands in for others, and none of them has failed".to_owned()];
    }
    if let Some(other) = hold.stand_in {
        return vec![format!("{} stands in for it", step_name(run, other))];
    }
    let waits = |on: &Dependency| format!("waits for {}", dependency_text(run, on));
    let mut reasons: Vec<String> = run.waiting_for(number).iter().map(waits).collect();
    let plan = run.plan_step(number);
    reasons.extend(plan.into_iter().flat_map(|plan| false_preconditions(plan, step)));
    if let Some(request) = run.request.as_ref().filter(|request| request.from == Some(number)) {
        let reason = plain(&request.reason);
        reasons.push(format!("another plan was asked for by record {}: {reason}", request.seq));
    }
    reasons
}

/// The preconditions of a step that were judged and do not hold.
fn false_preconditions<'a>(
    plan: &'a Step,
    step: &'a StepState,
) -> impl Iterator<Item = String> + 'a {
    let judged = &step.hold.preconditions;
    let bodies = (0..).zip(&plan.preconditions);
    let failed = bodies.filter(|(place, _)| judged.get(place) == Some(&Ruling::Fail));
    failed.map(|(place, body)| {
        let number = u64::from(place) + 1;
        format!("precondition {number} does not hold: {}", plain(body))
    })
}

/// Who was asked what, until when, and what to type.
fn gated(run: &Run, number: StepNumber, step: &StepState, dir: &Path) -> Vec<String> {
    let question = step.hold.question.and_then(|id| Some((id, run.questions.get(&id)?)));
    let Some((id, question)) = question else {
        return vec!["somebody must answer first".to_owned()];
    };
    let step = Some(StepName::of(run, number));
    let item = Pending::Question { id, step, asked: question.asked.clone() };
    let (text, commands) = asked(&item, &run.name, dir);
    let commands = commands.iter().map(|command| format!("type: {}", plain(command)));
    std::iter::once(plain(&text)).chain(commands).collect()
}

fn typed(action: &Action) -> Vec<String> {
    let command = action.command.as_ref().map(|command| format!("type: {command}"));
    [action.text.clone()].into_iter().chain(command).collect()
}

fn ready(state: &State, run: &Run, number: StepNumber, now: Micros) -> String {
    let place = run.ready.iter().position(|(_, each)| *each == number).map_or(0, |place| place + 1);
    let queue = format!("place {place} of {} in the queue", run.ready.len());
    if let RunStatus::Ended(_) = run.status {
        return "the run is over".to_owned();
    }
    if let Some(cause) = &run.pause {
        return format!("{queue}, but the run pauses, {}", cause_text(cause));
    }
    if let Some(reason) = run.why_stopping() {
        return format!("{queue}, but nothing more is dealt: {}", plain(&reason));
    }
    match dealt(state, run, Some(number), now) {
        Ok(_) => format!("it may be dealt: {queue}"),
        Err(rejection) => format!("{queue}, but {}", refusal(&rejection)),
    }
}
