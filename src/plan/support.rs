//! What a plan may say, and this version does not act on yet.
//!
//! Every field of a plan is recorded. Those that could be ignored only at somebody's cost (a
//! person who must be asked, a budget) refuse the plan; the others are noted, and ignored.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::graph::Item;
use super::{Barrier, Budget, Criterion, OnBreak, Plan, Problem, RetryPolicy, Step};

/// Fields that are not acted on yet and are not safe to ignore, in plan order. A plan that has
/// any must not be run.
#[must_use]
pub fn unsupported(plan: &Plan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (item, step) in steps(plan) {
        unsupported_in_step(item, step, &mut problems);
    }
    for (index, barrier) in plan.barriers.iter().enumerate() {
        let item = Item { list: "barriers", index, id: &barrier.id };
        unsupported_in_barrier(item, barrier, &mut problems);
    }
    let mut refuse = |place: &str, what: &str| problems.push(refused(place, what));
    if !plan.caps.tags.is_empty() {
        refuse("caps.tags", "caps on tags are not kept yet");
    }
    if plan.budget != Budget::default() {
        refuse("budget", "budgets are not kept yet");
    }
    for (index, criterion) in plan.test_criteria.iter().enumerate() {
        if matches!(criterion, Criterion::Cel(_)) {
            refuse(&format!("test_criteria[{index}]"), CEL);
        }
    }
    if plan.continues {
        refuse("continues", "a plan that is extended as it goes is not known yet");
    }
    problems
}

/// Fields that are not acted on yet and do no harm, in plan order: for a note to the user.
#[must_use]
pub fn inert(plan: &Plan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (item, step) in steps(plan) {
        inert_retry(&item, step.retry.as_ref(), &mut problems);
        let fields = [
            (".fallback", step.fallback.is_some(), "a step that fails for good stays failed"),
            (".cost_estimate", step.cost_estimate.is_some(), "nothing is reserved"),
            (".failure_hints", !step.failure_hints.is_empty(), "failures are not classified by it"),
        ];
        for (field, _, effect) in fields.into_iter().filter(|(_, present, _)| *present) {
            problems.push(item.problem(field, noted(effect)));
        }
    }
    let owners = owners(plan);
    for owner in plan.caps.owners.keys().filter(|owner| !owners.contains(owner.as_str())) {
        let place = format!("caps.owners.{}", owner.escape_debug());
        let message = "no step has this owner, so the cap does nothing".to_owned();
        problems.push(Problem { place, message });
    }
    if plan.extend_at.is_some() {
        let message = noted("nobody is asked for more steps");
        problems.push(Problem { place: "extend_at".to_owned(), message });
    }
    inert_retry(&"defaults", plan.defaults.retry.as_ref(), &mut problems);
    problems
}

const CEL: &str = "CEL expressions are not evaluated yet";

fn steps(plan: &Plan) -> impl Iterator<Item = (Item<'_>, &Step)> {
    let items = plan.steps.iter().enumerate();
    items.map(|(index, step)| (Item { list: "steps", index, id: &step.id }, step))
}

fn unsupported_in_step(item: Item<'_>, step: &Step, problems: &mut Vec<Problem>) {
    let mut refuse = |field: &str, what: &str| {
        problems.push(refused(&format!("{item}{field}"), what));
    };
    if !step.preconditions.is_empty() {
        refuse(".preconditions", CEL);
    }
    if step.condition.is_some() {
        refuse(".condition", CEL);
    }
    for (index, criterion) in step.acceptance.iter().enumerate() {
        if matches!(criterion, Criterion::Cel(_)) {
            refuse(&format!(".acceptance[{index}]"), CEL);
        }
    }
    if step.cost_limit.is_some() {
        refuse(".cost_limit", "limits on cost are not kept yet");
    }
    if step.gate.is_some() {
        refuse(".gate", "nobody is asked yet, the step would go ahead without a yes");
    }
}

fn unsupported_in_barrier(item: Item<'_>, barrier: &Barrier, problems: &mut Vec<Problem>) {
    if barrier.deadline_seconds.is_some() {
        let place = format!("{item}.deadline_seconds");
        problems.push(refused(&place, "deadlines of barriers are not kept yet"));
    }
    if barrier.on_break == OnBreak::Ask {
        let place = format!("{item}.on_break");
        problems.push(refused(&place, "nobody is asked yet when a barrier breaks"));
    }
}

fn inert_retry(place: &dyn Display, retry: Option<&RetryPolicy>, problems: &mut Vec<Problem>) {
    let Some(retry) = retry else { return };
    let fields = [
        ("backoff_seconds", retry.backoff_seconds != 0, "it is tried again at once"),
        ("backoff_percent", retry.backoff_percent.is_some(), "it is tried again at once"),
    ];
    for (field, _, effect) in fields.into_iter().filter(|(_, present, _)| *present) {
        problems.push(Problem { place: format!("{place}.retry.{field}"), message: noted(effect) });
    }
}

fn owners(plan: &Plan) -> BTreeSet<&str> {
    let default = plan.defaults.owner.as_deref();
    plan.steps.iter().filter_map(|step| step.owner.as_deref().or(default)).collect()
}

fn refused(place: &str, what: &str) -> Problem {
    let message = format!("{what}; remove the field to run the plan");
    Problem { place: place.to_owned(), message }
}

fn noted(effect: &str) -> String {
    format!("recorded, but not acted on yet: {effect}")
}

#[cfg(test)]
mod tests {
    use super::super::{Cost, FailureClass, Fallback, Gate};
    use super::*;

    fn places(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.place.as_str()).collect()
    }

    #[test]
    fn refuses_what_is_unsafe_to_ignore() {
        let step = Step {
            id: "a".into(),
            preconditions: vec!["x".into()],
            condition: Some("x".into()),
            acceptance: vec![Criterion::Text("t".into()), Criterion::Cel("x".into())],
            cost_limit: Some(Cost::default()),
            gate: Some(Gate::default()),
            ..Step::default()
        };
        let barrier = Barrier {
            id: "g".into(),
            deadline_seconds: Some(1),
            on_break: OnBreak::Ask,
            ..Barrier::default()
        };
        let mut plan = Plan {
            steps: vec![Step::default(), step],
            barriers: vec![barrier],
            budget: Budget { tokens: Some(1), ..Budget::default() },
            test_criteria: vec![Criterion::Cel("x".into())],
            continues: true,
            ..Plan::default()
        };
        plan.caps.tags.insert("gpu".into(), 1);
        let problems = unsupported(&plan);
        assert_eq!(
            places(&problems),
            [
                "steps[1] (a).preconditions",
                "steps[1] (a).condition",
                "steps[1] (a).acceptance[1]",
                "steps[1] (a).cost_limit",
                "steps[1] (a).gate",
                "barriers[0] (g).deadline_seconds",
                "barriers[0] (g).on_break",
                "caps.tags",
                "budget",
                "test_criteria[0]",
                "continues",
            ]
        );
        assert!(problems.iter().all(|problem| problem.message.contains("remove the field")));
        assert_eq!(inert(&plan), Vec::new());
    }

    #[test]
    fn notes_what_does_no_harm() {
        let retry = RetryPolicy {
            backoff_seconds: 1,
            backoff_percent: Some(200),
            per_class: [("transient".to_owned(), 5)].into(),
            ..RetryPolicy::default()
        };
        let step = Step {
            id: "a".into(),
            owner: Some("dba".into()),
            retry: Some(retry),
            fallback: Some(Fallback::Owner("x".into())),
            cost_estimate: Some(Cost::default()),
            failure_hints: [("timeout".to_owned(), FailureClass::Transient)].into(),
            ..Step::default()
        };
        let mut plan = Plan { steps: vec![step], extend_at: Some(1), ..Plan::default() };
        plan.caps.owners = [("dba".to_owned(), 1), ("dbb".to_owned(), 1)].into();
        let problems = inert(&plan);
        assert_eq!(
            places(&problems),
            [
                "steps[0] (a).retry.backoff_seconds",
                "steps[0] (a).retry.backoff_percent",
                "steps[0] (a).fallback",
                "steps[0] (a).cost_estimate",
                "steps[0] (a).failure_hints",
                "caps.owners.dbb",
                "extend_at",
            ]
        );
        assert_eq!(unsupported(&plan), Vec::new());
    }
}
