//! Finds everything that moves a run forward, the most urgent first.
//!
//! Invariant: the ledger's own rules ([`decide`]) choose the step to dispatch; they are not repeated here.

use std::collections::BTreeSet;

use plan_ledger::plan::{Route, SecretHash, decide};
use plan_ledger::{
    Command, Ending, Event, FailureClass, Rejection, Ruling, Run, RunStatus, State, StepNumber,
    StepStatus, Timestamp,
};

use super::item::{NextGroup, NextItem};
use crate::runner::{KnownRunner, RunnerPresence, gone_steps, hosted_steps};
use crate::waiting::{WaitingItem, common_answers, plan_file, rejected_text};
use crate::words::StepName;

/// Everything that moves a run forward, the most urgent first; at least one item. `waiting`: all that the run waits for;
/// `None` if not all of its records can be read, because nothing is concluded from records that are missing.
#[must_use]
pub fn next_items(
    (state, run): (&State, &Run),
    runner: &KnownRunner<'_>,
    waiting: Option<Vec<WaitingItem>>,
    now: Timestamp,
) -> Vec<NextItem> {
    let Some(waiting) = waiting else { return vec![NextItem::Damaged] };
    let items = match run.status {
        RunStatus::Proposed => proposed(run, waiting),
        RunStatus::Ended(Ending::Failed) => vec![failed_run(run)],
        RunStatus::Ended(_) => vec![NextItem::Over],
        RunStatus::Running => running((state, run), runner, waiting, now),
    };
    with_answer_to_all(by_urgency(items))
}

/// The same items, those of persons with failures before what is no problem. Other items keep their places.
fn by_urgency(mut items: Vec<NextItem>) -> Vec<NextItem> {
    let is_of_person = |item: &NextItem| item.group() == NextGroup::Person;
    let mut of_person: Vec<NextItem> =
        items.iter().filter(|it| is_of_person(it)).cloned().collect();
    of_person.sort_by_key(NextItem::urgency);
    let mut sorted = of_person.into_iter();
    for item in items.iter_mut().filter(|it| is_of_person(it)) {
        if let Some(next) = sorted.next() {
            *item = next;
        }
    }
    items
}

/// The same items, with one answer to all questions about failures before them, if there are several.
pub(super) fn with_answer_to_all(mut items: Vec<NextItem>) -> Vec<NextItem> {
    let is_of_failure = |item: &NextItem| item.waiting().is_some_and(WaitingItem::is_of_failure);
    let first = items.iter().position(is_of_failure);
    let (questions, answers) = common_answers(items.iter().filter_map(NextItem::waiting));
    if let Some(first) = first.filter(|_| !answers.is_empty()) {
        items.insert(first, NextItem::AnswerAll { questions, answers });
    }
    items
}

fn proposed(run: &Run, waiting: Vec<WaitingItem>) -> Vec<NextItem> {
    let items = told(waiting);
    if items.is_empty() {
        let rejected = rejected_text(run);
        let reason = rejected.unwrap_or_else(|| "no version of the plan was approved".to_owned());
        return vec![NextItem::Proposal { reason, file: plan_file(run), is_failed: false }];
    }
    items
}

/// The items that no other one says: those of persons come first.
fn told(waiting: Vec<WaitingItem>) -> Vec<NextItem> {
    let is_told = |item: &WaitingItem| match item {
        WaitingItem::PlanVerdicts { .. } => item.needs_person(),
        WaitingItem::Held { .. }
        | WaitingItem::Routed { .. }
        | WaitingItem::Caps { .. }
        | WaitingItem::Blocked { .. } => false,
        _ => true,
    };
    let told = waiting.into_iter().filter(is_told).map(NextItem::Waiting);
    let (mut told, others): (Vec<_>, Vec<_>) = told.partition(NextItem::is_item_of_person);
    told.extend(others);
    told
}

fn running(
    (state, run): (&State, &Run),
    runner: &KnownRunner<'_>,
    waiting: Vec<WaitingItem>,
    now: Timestamp,
) -> Vec<NextItem> {
    let absence = runner.absence();
    let hosted = || number(hosted_steps(state, run).count());
    let abandoned = if absence.is_some() { hosted() } else { 0 };
    let mut items = Vec::new();
    match &absence {
        Some(_) if abandoned > 0 => {
            let unseen = match runner.presence {
                RunnerPresence::Unseen(process) => Some(process),
                _ => None,
            };
            items.push(NextItem::Abandoned { steps: abandoned, unseen });
        }
        Some(absence) if runner.had_planner => {
            items.push(NextItem::Planner { absence: absence.clone() });
        }
        _ => {}
    }
    let gone = gone_steps(state, run, runner.gone);
    items.extend(gone.iter().filter_map(|(step, claim)| take_over(run, *step, claim.process)));
    let over = abandoned.saturating_add(number(gone.len()));
    // The request for a new plan version names the ways out of the failure.
    let of_request = waiting.iter().find_map(|item| match item {
        WaitingItem::Replan { from: Some(step), is_failed: true, .. } => Some(step.number),
        _ => None,
    });
    items.extend(told(waiting));
    items.extend(dispatch(state, run, runner, now));
    items.extend(runner.waits_of(run).filter_map(|wait| {
        let ready = number(wait.ready_count(run));
        (ready > 0).then(|| NextItem::Limit { wait: wait.clone(), ready })
    }));
    items.extend(delayed(run, absence.clone()));
    let in_flight = run.count(StepStatus::Dispatched).saturating_sub(over);
    if in_flight > 0 {
        items.push(NextItem::InFlight { attempts: in_flight });
    }
    let failed = failed_steps(run).filter(|step| Some(step.number) != of_request);
    items.extend(failed_item(failed.collect()));
    let is_missing = runner.resume.is_some() && run.count(StepStatus::Dispatched) == 0;
    let is_started = items.iter().any(|item| item.starts_runner(run, runner));
    if let Some(absence) = absence.filter(|_| is_missing && !is_started) {
        items.push(NextItem::Runner { absence });
    }
    if items.is_empty() {
        items.push(NextItem::Stuck { step: first_open_step(run) });
    }
    items
}

/// The claim of a process that is gone. Every worker and runner takes it over before it waits, so a person needs a
/// command only where none is at work.
fn take_over(run: &Run, step: StepNumber, process: u32) -> Option<NextItem> {
    let attempt = run.step(step)?.attempt()?;
    let (worker, since) = (attempt.worker.clone(), attempt.dispatched);
    Some(NextItem::TakeOver { step: StepName::of(run, step), worker, since, process })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn first_open_step(run: &Run) -> Option<StepName> {
    let (number, _) = run.numbered_steps().find(|(_, step)| step.status.is_open())?;
    Some(StepName::of(run, number))
}

fn failed_steps(run: &Run) -> impl Iterator<Item = StepName> {
    run.steps_in(StepStatus::Failed).map(|number| StepName::of(run, number))
}

/// Maximum number of failed steps that are named.
const NAMED_MAX: usize = 5;

/// The item of failed steps of an open run: one retry is enough for all of them.
fn failed_item(mut steps: Vec<StepName>) -> Option<NextItem> {
    if steps.len() < 2 {
        return steps.pop().map(|step| NextItem::Failed { step, is_over: false });
    }
    let more = number(steps.len().saturating_sub(NAMED_MAX));
    steps.truncate(NAMED_MAX);
    Some(NextItem::FailedSteps { steps, more })
}

/// A failed run: retry its failed steps or continue without them, if that can help.
fn failed_run(run: &Run) -> NextItem {
    let mut steps: Vec<StepName> = failed_steps(run).collect();
    let is_refused = run.verdicts_on_plan().any(|verdict| verdict.ruling == Ruling::Fail);
    if run.late_barrier().is_some() || (steps.is_empty() && !is_refused) {
        let reason = run.why_stopping().unwrap_or_else(|| "no step can continue".into());
        let file = plan_file(run);
        return NextItem::Proposal { reason: reason.to_string(), file, is_failed: true };
    }
    let is_broken = |step: &StepName| {
        let failure = run.step(step.number).and_then(|step| step.last_failure());
        failure.is_some_and(|(class, _)| *class == FailureClass::AssumptionBroken)
    };
    let lacks_replans = run.max_replans().is_none() && steps.iter().any(is_broken);
    let more = number(steps.len().saturating_sub(NAMED_MAX));
    steps.truncate(NAMED_MAX);
    NextItem::RunFailed { steps, more, lacks_replans }
}

/// The first delayed step. A delay passes by itself, but only a runner tries the step again.
fn delayed(run: &Run, absence: Option<String>) -> Option<NextItem> {
    let count = run.count(StepStatus::Delayed);
    let (until, step) = run.first_delay().filter(|_| count > 0)?;
    let absence = absence.filter(|_| run.count(StepStatus::Dispatched) == 0);
    Some(NextItem::Delayed { step: StepName::of(run, step), until, more: count - 1, absence })
}

/// The step that would be dispatched now, or why no ready step can be.
fn dispatch(
    state: &State,
    run: &Run,
    runner: &KnownRunner<'_>,
    now: Timestamp,
) -> Option<NextItem> {
    if run.ready_count() == 0 {
        return None;
    }
    let waits = runner.waits_of(run);
    if let Some(reason) = run.why_stopping() {
        return Some(NextItem::Stopping { reason: reason.to_string() });
    }
    if waits.clone().any(|wait| wait.is_whole_run) {
        return None;
    }
    let held = waits.clone().map(|wait| wait.owner.clone()).collect();
    match next_dispatch(state, run, None, now, held) {
        Ok(step) => {
            let step = StepName::of(run, step?);
            let held: usize = waits.map(|wait| wait.ready_count(run)).sum();
            let more = number(run.ready_count().saturating_sub(held + 1));
            Some(NextItem::Dispatch { step, more })
        }
        // Steps of people have their own items.
        Err(Rejection::NoneForWorker { .. }) => None,
        Err(rejection) => {
            let ready = number(run.ready_count());
            Some(NextItem::Capped { ready, reason: rejection.to_string() })
        }
    }
}

/// The step that the ledger would dispatch to a worker now.
///
/// # Errors
/// The rejection of the dispatch.
pub fn next_dispatch(
    state: &State,
    run: &Run,
    step: Option<StepNumber>,
    now: Timestamp,
    held: BTreeSet<Option<String>>,
) -> Result<Option<StepNumber>, Rejection> {
    let command = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: run.id,
        step,
        worker: "worker".to_owned(),
        route: Route { held, ..Route::default() },
        lease: None,
    };
    let events = decide(state, now, &command)?;
    Ok(events.iter().find_map(|event| match event {
        Event::Step(record) => Some(record.step),
        _ => None,
    }))
}
