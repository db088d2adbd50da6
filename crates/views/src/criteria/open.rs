//! Queries over a run: which of its steps and criteria are open.

use plan_ledger::plan::{Attempt, CompactPlan, CompactStep, Criterion};
use plan_ledger::{Outcome, Ruling, Run, StepNumber, StepStatus};

/// Steps of the active version that are neither settled nor permanently failed.
#[must_use]
pub fn open_steps(run: &Run) -> u32 {
    let closed = [StepStatus::Accepted, StepStatus::Skipped, StepStatus::Failed];
    let closed: u32 = closed.iter().map(|status| run.count(*status)).sum();
    run.active_version().map_or(0, |version| version.step_count.saturating_sub(closed))
}

/// The plan's own criteria that have no verdict yet: texts and commands.
#[must_use]
pub fn open_plan_criteria(run: &Run) -> (Vec<String>, Vec<String>) {
    let open = plan_criteria(run).filter(|(index, _)| run.plan_verdict(*index).is_none());
    texts_and_commands(open.map(|(_, criterion)| criterion.clone()))
}

/// The texts of criteria that a person judges, and the commands of the others.
#[must_use]
pub fn texts_and_commands(criteria: impl Iterator<Item = Criterion>) -> (Vec<String>, Vec<String>) {
    let (texts, commands): (Vec<_>, Vec<_>) =
        criteria.partition(|criterion| matches!(criterion, Criterion::Text(_)));
    let bodies = |criteria: Vec<Criterion>| {
        criteria.iter().map(|criterion| criterion.body().to_owned()).collect()
    };
    (bodies(texts), bodies(commands))
}

/// The plan's own criteria that failed, each with its evidence.
#[must_use]
pub fn failed_criteria(run: &Run) -> Vec<(String, String)> {
    plan_criteria(run)
        .filter_map(|(index, criterion)| {
            let verdict = run.plan_verdict(index)?;
            (verdict.ruling == Ruling::Fail)
                .then(|| (criterion.body().to_owned(), verdict.evidence.to_string()))
        })
        .collect()
}

fn plan_criteria(run: &Run) -> impl Iterator<Item = (u32, &Criterion)> {
    let plan = run.plan().map(CompactPlan::header);
    (0..).zip(plan.into_iter().flat_map(|plan| &plan.test_criteria))
}

/// Whether the step may still be accepted: its worker succeeded and no criterion has failed. A
/// failed step waits for a decision, not for verdicts.
#[must_use]
pub fn may_hold(attempt: &Attempt) -> bool {
    let receipt = attempt.receipt.as_ref();
    receipt.is_some_and(|receipt| receipt.outcome == Outcome::Succeeded)
        && attempt.verdicts.values().all(|verdict| verdict.ruling == Ruling::Pass)
}

/// The criteria of a reported step that have no verdict yet: texts, and those that a runner checks.
#[must_use]
pub fn open_criteria(run: &Run, number: StepNumber) -> (Vec<String>, Vec<String>) {
    let verdicts = run.step(number).and_then(|step| step.attempt()).map(|a| &a.verdicts);
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let open = (0..)
        .zip(criteria)
        .filter(|(index, _)| verdicts.is_none_or(|verdicts| !verdicts.contains_key(index)))
        .map(|(_, criterion)| criterion);
    texts_and_commands(open)
}
