//! The items that a run waits for, derived from the state.
//!
//! Invariant: if an unfinished run has no work to dispatch, at least one item explains why, and the
//! item names everything needed to resolve it.

use std::collections::BTreeSet;

use plan_ledger::plan::{Attempt, BudgetPart, PauseCause, QuestionSubject, Route, is_person};
use plan_ledger::{
    AttemptToken, Outcome, Question, QuestionId, ReplanTrigger, Ruling, Run, StepNumber, StepState,
    StepStatus, Timestamp,
};

use super::item::WaitingItem;
use crate::approval::{commands_of_active, is_unapproved};
use crate::criteria::{may_hold, open_criteria, open_plan_criteria, open_steps};
use crate::words::StepName;

/// Every item that a run waits for at a time, including work to dispatch. The route is that of the available
/// workers.
#[must_use]
pub fn waiting_items(run: &Run, route: &Route, now: Timestamp) -> Vec<WaitingItem> {
    let mut items: Vec<WaitingItem> = questions(run).chain(reviews(run)).collect();
    // The question about an exhausted budget names the ways out of the pause that it caused.
    let is_asked = items.iter().any(WaitingItem::is_about_budget);
    let pause = run.pause.clone().filter(|cause| !(is_asked && is_of_budget(cause)));
    items.extend(pause.map(|cause| {
        let used_up = if is_of_budget(&cause) { None } else { used_up(run, now) };
        WaitingItem::Paused { cause, used_up }
    }));
    // The version that waits for approval answers it.
    let request = run.plan_request().filter(|_| run.newest_proposal().is_none());
    items.extend(request.map(|request| {
        WaitingItem::Replan {
            trigger: request.trigger.clone(),
            from: request.from.map(|from| StepName::of(run, from)),
            is_failed: is_of_failure(&request.trigger)
                && request
                    .from
                    .and_then(|from| run.step(from))
                    .is_some_and(|step| step.status == StepStatus::Failed),
            limit: run.used_up_replans(),
            reason: reason_of_request(run, &request.reason.to_string()),
            file: plan_file(run),
            unset: unset(run, &request.trigger),
        }
    }));
    items.extend(run.waiting_requests().map(|(number, from)| waiting_request(run, number, from)));
    let others = run.reported_steps().filter(|number| !run.waits_to_request(*number));
    items.extend(others.flat_map(|number| reported(run, number)));
    if items.iter().any(|item| matches!(item, WaitingItem::Checks { .. })) {
        items.extend(unapproved(run));
    }
    let unknown = run.steps_of_unknown_outcome();
    items.extend(
        unknown.map(|number| WaitingItem::OutcomeUnknown { step: StepName::of(run, number) }),
    );
    items.extend(held(run));
    if run.pause.is_none() && run.why_stopping().is_none() {
        items.extend(elsewhere(run, route));
    }
    if !items.is_empty() {
        return items;
    }
    let open = open_steps(run);
    if open == 0 {
        return plan_criteria(run);
    }
    match u32::try_from(run.ready_count()).unwrap_or(u32::MAX) {
        0 => vec![WaitingItem::Blocked { steps: open }],
        ready => vec![WaitingItem::Caps { ready }],
    }
}

/// The ready steps that a runner with this route does not dispatch: those of people, and the number of
/// those of other workers.
fn elsewhere(run: &Run, route: &Route) -> Vec<WaitingItem> {
    let (mut items, mut owners, mut ready) = (Vec::new(), BTreeSet::new(), 0);
    let hold = run.replan_hold();
    let is_held = |number: StepNumber| hold.as_ref().is_some_and(|hold| hold.holds(number));
    for (owner, number) in run.ready_by_owner().filter(|(_, number)| !is_held(*number)) {
        let is_admitted = route.admits_owner(owner);
        if let Some(owner) = owner.filter(|owner| is_person(owner) && !is_admitted) {
            let step = StepName::of(run, number);
            items.push(WaitingItem::Person { step, owner: owner.to_owned() });
        } else if !is_admitted
            || run.step(number).is_some_and(|step| !route.admits_tags(step.tags()))
        {
            ready += 1;
            owners.extend(owner.map(str::to_owned));
        }
    }
    if ready > 0 {
        items.push(WaitingItem::Routed { ready, owners: owners.into_iter().collect() });
    }
    items
}

/// Whether an exhausted budget is the cause of a pause.
fn is_of_budget(cause: &PauseCause) -> bool {
    matches!(cause, PauseCause::RunBudget { .. } | PauseCause::LedgerBudget { .. })
}

/// The part of the budget of a run that is used up: while one is, the run cannot be unpaused.
fn used_up(run: &Run, now: Timestamp) -> Option<BudgetPart> {
    let left = run.remaining(now);
    let parts = [
        (left.wall_seconds, BudgetPart::Wall),
        (left.money_micros, BudgetPart::Money),
        (left.tokens, BudgetPart::Tokens),
        (left.attempts, BudgetPart::Attempts),
    ];
    parts.into_iter().find_map(|(left, part)| (left == Some(0)).then_some(part))
}

/// The item of an open question.
fn question_item(run: &Run, id: QuestionId, question: &Question) -> WaitingItem {
    let asked = question.asked.clone();
    let short = match &run.pause {
        Some(PauseCause::RunBudget { part } | PauseCause::LedgerBudget { part })
            if asked.subject == QuestionSubject::Budget =>
        {
            Some(*part)
        }
        _ => None,
    };
    WaitingItem::Question {
        id,
        step: question.step.map(|step| StepName::of(run, step)),
        asked,
        short,
    }
}

fn questions(run: &Run) -> impl Iterator<Item = WaitingItem> {
    run.asked_questions().map(|(id, question)| question_item(run, id, question))
}

/// The proposed version that may still become active, if no open question covers it. Earlier ones are superseded.
fn reviews(run: &Run) -> Option<WaitingItem> {
    let (version, proposed) = run.newest_proposal()?;
    let subject = QuestionSubject::Plan { version };
    let is_asked = run.asked_questions().any(|(_, question)| question.asked.subject == subject);
    (!is_asked).then_some(WaitingItem::Review { version, hash: proposed.hash })
}

/// The pending items of the plan's own criteria, once its steps are settled.
fn plan_criteria(run: &Run) -> Vec<WaitingItem> {
    let (texts, checks) = open_plan_criteria(run);
    let is_checked = !checks.is_empty();
    let commands = if is_checked { unapproved(run) } else { None };
    let texts = (!texts.is_empty() || !is_checked).then_some(texts);
    let verdicts = texts.map(|criteria| WaitingItem::PlanVerdicts { criteria });
    let checks = is_checked.then_some(WaitingItem::PlanChecks { criteria: checks });
    commands.into_iter().chain(verdicts).chain(checks).collect()
}

/// The pending items of a reported step: a person judges its text criteria, and a judge the others.
fn reported(run: &Run, number: StepNumber) -> Vec<WaitingItem> {
    let step = StepName::of(run, number);
    let attempt = run.step(number).and_then(|step| step.attempt());
    // Outputs may be missing although the worker succeeded.
    let missing = run.failure_of(number).map(|(_, message)| message.to_string());
    match attempt.filter(|attempt| !may_hold(attempt) || missing.is_some()) {
        None => {
            let (texts, checks) = open_criteria(run, number);
            let is_checked = !checks.is_empty();
            let texts = (!texts.is_empty() || !is_checked).then_some(texts);
            let verdicts =
                texts.map(|criteria| WaitingItem::Verdicts { step: step.clone(), criteria });
            let checks = is_checked.then_some(WaitingItem::Checks { step, criteria: checks });
            verdicts.into_iter().chain(checks).collect()
        }
        Some(attempt) => {
            let decisions = run.possible_decisions(number, attempt.dispatched);
            let message = match failure(attempt) {
                message if message.is_empty() => missing.unwrap_or_default(),
                message => message,
            };
            vec![WaitingItem::Decision { step, message, decisions }]
        }
    }
}

/// The approval of the commands of the active version, if no person gave it.
fn unapproved(run: &Run) -> Option<WaitingItem> {
    let commands = if is_unapproved(run) { commands_of_active(run) } else { Vec::new() };
    let hash = run.active_version()?.hash;
    (!commands.is_empty()).then_some(WaitingItem::Commands { version: run.active, hash, commands })
}

/// Why a new version is needed, and why a person rejected the last one.
fn reason_of_request(run: &Run, reason: &str) -> String {
    rejected_text(run).map_or_else(|| reason.to_owned(), |rejected| format!("{reason}; {rejected}"))
}

/// The newest version that a person rejected, with the reason, if no later one is active.
#[must_use]
pub fn rejected_text(run: &Run) -> Option<String> {
    let (version, note) = run.rejections().pop().filter(|(version, _)| *version > run.active)?;
    let note = if note.is_empty() { " without a reason".to_owned() } else { format!(": {note}") };
    Some(format!("version {version} of the plan was rejected{note}"))
}

/// Whether a request is withdrawn when its failed step is retried or skipped.
fn is_of_failure(trigger: &ReplanTrigger) -> bool {
    matches!(
        trigger,
        ReplanTrigger::AssumptionBroken { .. }
            | ReplanTrigger::RetriesExhausted { .. }
            | ReplanTrigger::Failure { .. }
    )
}

/// The variables that a request is about, if values for them would do.
fn unset(run: &Run, trigger: &ReplanTrigger) -> Vec<String> {
    match trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            run.unset_by_steps(*step, *precondition)
        }
        _ => Vec::new(),
    }
}

/// The request of a worker that is recorded once the open one is resolved.
fn waiting_request(run: &Run, number: StepNumber, from: Option<StepNumber>) -> WaitingItem {
    let attempt = run.step(number).and_then(|step| step.attempt());
    WaitingItem::Replan {
        trigger: ReplanTrigger::ExecutorRequest {
            token: attempt.map_or(AttemptToken(0), |attempt| attempt.token),
        },
        from: Some(StepName::of(run, from.unwrap_or(number))),
        is_failed: false,
        limit: run.used_up_replans(),
        reason: attempt.map(failure).unwrap_or_default(),
        file: plan_file(run),
        unset: Vec::new(),
    }
}

/// The file of the newest version that came from a file, for command lines.
#[must_use]
pub fn plan_file(run: &Run) -> String {
    let mut files = run.numbered_versions().rev().filter_map(|(_, version)| {
        version.provenance.as_ref()?.file.as_ref().filter(|file| !file.is_empty())
    });
    files.next().map_or_else(|| "PLAN".to_owned(), Clone::clone)
}

/// The reason why an attempt failed.
fn failure(attempt: &Attempt) -> String {
    match attempt.receipt.as_ref().map(|receipt| &receipt.outcome) {
        Some(Outcome::Failed { message, .. }) => message.clone(),
        Some(Outcome::ReplanRequested { reason, .. }) => reason.clone(),
        Some(Outcome::Succeeded) | None => {
            let failed = attempt.verdicts.values().find(|each| each.ruling == Ruling::Fail);
            failed.map_or_else(String::new, |verdict| {
                format!("criterion {}: {}", u64::from(verdict.criterion) + 1, verdict.evidence)
            })
        }
    }
}

/// Attempts of workers outside the loop.
fn held(run: &Run) -> Vec<WaitingItem> {
    let held = |(number, step): (StepNumber, &StepState)| {
        let attempt = step.attempt()?;
        (step.status == StepStatus::Dispatched).then(|| WaitingItem::Held {
            step: StepName { number, id: step.id().to_owned() },
            worker: attempt.worker.clone(),
            lease_until: attempt.lease_until,
        })
    };
    if run.count(StepStatus::Dispatched) == 0 {
        return Vec::new();
    }
    run.numbered_steps().filter_map(held).collect()
}
