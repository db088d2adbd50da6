//! Warnings about plans that can run but look like a mistake.
//!
//! A warning never prevents a run; it names the place in the plan and the fix. Linting takes time
//! O(n log n) in the size of the plan, plus O(n) for each failure rule. `validate` finds errors.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::lint_data::VariableLint;
use super::lint_shell::hidden_status;
use crate::plan::model::budget::Cost;
use crate::plan::model::criterion::Criterion;
use crate::plan::model::graph::edges::{Item, owners, shown};
use crate::plan::model::plan::Plan;
use crate::plan::model::policy::{Decider, FailureAction, FailureMatch, FailureRule};
use crate::plan::model::problem::Problem;
use crate::plan::model::step::{Gate, Idempotence, OnFalse, RetryPolicy, Step};

/// How many steps may be planned at once without a warning.
const AT_ONCE_MAX: usize = 20;

/// Returns all warnings about a plan, in plan order.
#[must_use]
pub fn lint(plan: &Plan) -> Vec<Problem> {
    let tags = plan.steps.iter().flat_map(|step| &step.tags).map(String::as_str).collect();
    let variables = VariableLint::new(plan);
    let mut linter = Linter { plan, variables, tags, warnings: Vec::new() };
    for (index, step) in plan.steps.iter().enumerate() {
        linter.step(Item { list: "steps", index, id: &step.id }, step);
    }
    linter.caps();
    linter.header();
    linter.estimates();
    linter.rules();
    linter.retry(&"defaults", plan.defaults.retry.as_ref());
    linter.warnings
}

struct Linter<'a> {
    plan: &'a Plan,
    variables: VariableLint<'a>,
    /// Tags that a step has.
    tags: BTreeSet<&'a str>,
    warnings: Vec<Problem>,
}

impl Linter<'_> {
    fn warn(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Problem { place: place.into(), message: message.into() });
    }

    fn step(&mut self, item: Item<'_>, step: &Step) {
        let mut warn = |field: &str, text: &str| self.warnings.push(item.problem(field, text));
        if step.acceptance.is_empty() {
            warn(".acceptance", "no criteria: the receipt alone accepts the step; add one");
        }
        let stated = step.idempotent.or(self.plan.defaults.idempotent);
        if !step.side_effects.is_empty() && stated.is_none() {
            let text = "the step has side effects and no idempotent setting, so a lost attempt is \
            repeated; set yes, no or with_key";
            warn(".idempotent", text);
        }
        match (self.plan.idempotence_of(step), &step.probe) {
            (Idempotence::No, None) => {
                let text = "no probe: after a lost attempt a person must find out what happened; \
                add a command that can";
                warn(".probe", text);
            }
            (Idempotence::Yes | Idempotence::WithKey, Some(_)) => {
                let text =
                    "the probe is never run, since the step may be repeated; set idempotent: no";
                warn(".probe", text);
            }
            (Idempotence::No, Some(_)) | (Idempotence::Yes | Idempotence::WithKey, None) => {}
        }
        if step.preconditions.is_empty() && step.on_false != OnFalse::default() {
            warn(".on_false", "no effect without preconditions");
        }
        let found = self.variables.step(self.plan, item, step);
        self.warnings.extend(found);
        self.commands(item, step);
        self.costs(item, step);
        self.retry(&item, step.retry.as_deref());
        if let Some(gate) = &step.gate {
            self.gate(&format_args!("{item}.gate"), gate);
        }
    }

    fn commands(&mut self, item: Item<'_>, step: &Step) {
        let checks = step.acceptance.iter().enumerate().filter_map(|(index, each)| match each {
            Criterion::Command(command) => Some((format!(".acceptance[{index}]"), command)),
            Criterion::Text(_) | Criterion::Cel(_) => None,
        });
        let own = step.command.iter().map(|command| (".command".to_owned(), command));
        let probe = step.probe.iter().map(|command| (".probe".to_owned(), command));
        for (field, command) in own.chain(probe).chain(checks) {
            if let Some(text) = hidden_status(command) {
                self.warnings.push(item.problem(field, text));
            }
        }
    }

    /// The estimates of all steps together.
    fn estimates(&mut self) {
        let estimates = self.plan.steps.iter().filter_map(|step| step.cost_estimate);
        let sum = estimates.fold(Cost::default(), |sum, each| Cost {
            money_micros: sum.money_micros.saturating_add(each.money_micros),
            tokens: sum.tokens.saturating_add(each.tokens),
        });
        let budget = self.plan.budget;
        if let Some(most) = budget.money_micros.filter(|most| sum.money_micros > *most) {
            let (sum, most) = (dollars(sum.money_micros), dollars(most));
            let text = format!("the estimates of the steps add up to {sum}, more than {most}");
            self.warn("budget.money_micros", text);
        }
        if let Some(most) = budget.tokens.filter(|most| sum.tokens > *most) {
            let sum = sum.tokens;
            let text =
                format!("the estimates of the steps add up to {sum} tokens, more than {most}");
            self.warn("budget.tokens", text);
        }
        let count = self.plan.steps.len();
        if count > AT_ONCE_MAX && !self.plan.continues {
            let text = format!(
                "{count} steps at once: a long plan seldom stays right to its end; plan the first \
                 {AT_ONCE_MAX} and set continues: true, so that the planner is asked for more"
            );
            self.warn("steps", text);
        }
    }

    fn costs(&mut self, item: Item<'_>, step: &Step) {
        let Some(estimate) = step.cost_estimate else { return };
        let is_over = |money: Option<u64>, tokens: Option<u64>| {
            money.is_some_and(|most| estimate.money_micros > most)
                || tokens.is_some_and(|most| estimate.tokens > most)
        };
        if let Some(Cost { money_micros, tokens }) = step.cost_limit
            && is_over(Some(money_micros).filter(|it| *it > 0), Some(tokens).filter(|it| *it > 0))
        {
            let text = "more than cost_limit: the run pauses after every attempt";
            self.warnings.push(item.problem(".cost_estimate", text));
        }
        if is_over(self.plan.budget.money_micros, self.plan.budget.tokens) {
            let text = "more than the plan's whole budget: the step is never dispatched";
            self.warnings.push(item.problem(".cost_estimate", text));
        }
    }

    fn retry(&mut self, place: &dyn Display, retry: Option<&RetryPolicy>) {
        let Some(retry) = retry.filter(|retry| retry.backoff_seconds == 0) else { return };
        for (field, is_given) in [
            ("backoff_percent", retry.backoff_percent.is_some()),
            ("backoff_max_seconds", retry.backoff_max_seconds.is_some()),
            ("jitter_percent", retry.jitter_percent.is_some()),
        ] {
            if is_given {
                let text = "no effect without a delay; add backoff_seconds";
                self.warn(format!("{place}.retry.{field}"), text);
            }
        }
    }

    fn gate(&mut self, place: &dyn Display, gate: &Gate) {
        if gate.deadline_seconds.is_some() && gate.on_timeout.is_none() {
            let text = "without on_timeout the deadline has no effect; set on_timeout";
            self.warn(format!("{place}.deadline_seconds"), text);
        }
    }

    fn caps(&mut self) {
        let plan = self.plan;
        let owners = owners(plan);
        for owner in plan.caps.owners.keys().filter(|owner| !owners.contains(owner.as_str())) {
            let text = "no step has this owner, so the cap has no effect";
            self.warn(format!("caps.owners.{}", shown(owner)), text);
        }
        for tag in plan.caps.tags.keys() {
            if !self.tags.contains(tag.as_str()) {
                let text = "no step has this tag, so the cap has no effect";
                self.warn(format!("caps.tags.{}", shown(tag)), text);
            }
        }
    }

    fn header(&mut self) {
        if self.plan.extend_at.is_some() && !self.plan.continues {
            let text = "no effect, since the plan does not set continues: true";
            self.warn("extend_at", text);
        }
        if let Some(gate) = &self.plan.gate {
            self.gate(&"gate", gate);
        }
    }

    fn rules(&mut self) {
        let policy = &self.plan.failure;
        if policy.decider == Decider::External && !policy.rules.is_empty() {
            let text = "the decider is external, so the rules have no effect; set decider: rules, or \
            remove them";
            self.warn("failure.rules", text);
            return;
        }
        let mut last: Option<&FailureRule> = None;
        for (index, rule) in policy.rules.iter().enumerate() {
            let item = Item { list: "failure.rules", index, id: &rule.id };
            if let Some(last) = last {
                let text = format!(
                    "never reached: the earlier rule `{}` decides every failure",
                    shown(&last.id)
                );
                self.warnings.push(item.problem("", text));
            } else {
                self.rule(item, rule);
            }
            if last.is_none() && decides_all(rule) {
                last = Some(rule);
            }
        }
    }

    fn rule(&mut self, item: Item<'_>, rule: &FailureRule) {
        if let Some(tag) = &rule.when.tag
            && !self.tags.contains(tag.as_str())
        {
            let text = "no step has this tag, so the rule has no effect";
            self.warnings.push(item.problem(".when.tag", text));
        }
        let may_match = |step: &&Step| rule.when.step.as_ref().is_none_or(|id| *id == step.id);
        let mut steps = self.plan.steps.iter().filter(may_match);
        if rule.then == FailureAction::Fallback && steps.all(|step| step.fallback.is_none()) {
            let text = "no matching step has a fallback, so the rule has no effect";
            self.warnings.push(item.problem(".then", text));
        }
    }
}

/// Money with two decimals or more.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let cents = text.len().saturating_sub(4);
    let (start, end) = text.split_at(cents);
    format!("${start}{}", end.trim_end_matches('0'))
}

/// Whether no failure reaches the rules after this one.
fn decides_all(rule: &FailureRule) -> bool {
    let is_always_possible = match rule.then {
        FailureAction::Retry | FailureAction::Fallback => false,
        FailureAction::Replan { .. }
        | FailureAction::Escalate { .. }
        | FailureAction::Fail
        | FailureAction::Abort => true,
    };
    is_always_possible && rule.when == FailureMatch::default()
}

#[cfg(test)]
mod tests {
    //! Each warning is raised at its place, and a good plan has none.

    use super::*;
    use crate::plan::{Budget, Criterion, Fallback, OnTimeout};

    fn good(id: &str) -> Step {
        Step { id: id.into(), acceptance: vec![Criterion::Cel("true".into())], ..Step::default() }
    }

    fn places(plan: &Plan) -> Vec<String> {
        lint(plan).into_iter().map(|warning| warning.place).collect()
    }

    #[test]
    fn good_plan_has_no_warnings() {
        let writer = Step { outputs: vec!["rows".into()], ..good("a") };
        let reader = Step {
            inputs: vec!["rows".into()],
            after: vec!["a".into()],
            side_effects: vec!["mail".into()].into(),
            idempotent: Some(Idempotence::No),
            probe: Some("true".into()),
            owner: Some("ops".into()),
            gate: Some(Box::new(Gate {
                question: "Go?".into(),
                deadline_seconds: Some(5),
                on_timeout: Some(OnTimeout::Abort),
                ..Gate::default()
            })),
            ..good("b")
        };
        let mut plan = Plan { steps: vec![writer, reader], ..Plan::default() };
        plan.caps.owners.insert("ops".into(), 1);
        assert_eq!(lint(&plan), Vec::new());
    }

    #[test]
    fn step_warnings_name_their_places() {
        let ineffective = RetryPolicy {
            backoff_percent: Some(200),
            jitter_percent: Some(10),
            ..RetryPolicy::default()
        };
        let first = Step {
            acceptance: Vec::new(),
            side_effects: vec!["mail".into()].into(),
            inputs: vec!["nowhere".into()],
            on_false: OnFalse::Skip,
            probe: Some("true".into()),
            cost_estimate: Some(Cost { money_micros: 7, tokens: 0 }),
            cost_limit: Some(Cost { money_micros: 5, tokens: 0 }),
            retry: Some(Box::new(ineffective)),
            gate: Some(Box::new(Gate { deadline_seconds: Some(1), ..Gate::default() })),
            ..good("a")
        };
        let second = Step { idempotent: Some(Idempotence::No), ..good("b") };
        let plan = Plan {
            steps: vec![first, second],
            budget: Budget { money_micros: Some(6), ..Budget::default() },
            ..Plan::default()
        };
        assert_eq!(
            places(&plan),
            [
                "steps[0] (a).acceptance",
                "steps[0] (a).idempotent",
                "steps[0] (a).probe",
                "steps[0] (a).on_false",
                "steps[0] (a).inputs[0]",
                "steps[0] (a).cost_estimate",
                "steps[0] (a).cost_estimate",
                "steps[0] (a).retry.backoff_percent",
                "steps[0] (a).retry.jitter_percent",
                "steps[0] (a).gate.deadline_seconds",
                "steps[1] (b).probe",
                "budget.money_micros",
            ]
        );
    }

    #[test]
    fn variables_that_are_read_too_early_or_never_set_are_reported() {
        let writer = Step { outputs: vec!["rows".into()], ..good("w") };
        let reads = |id: &str| Step { inputs: vec!["rows".into()], ..good(id) };
        let early = Step { condition: Some("rows > 0".into()), ..reads("early") };
        let late = Step { after: vec!["between".into()], ..reads("late") };
        let between = Step { after: vec!["w".into()], ..good("between") };
        let unset = Step {
            condition: Some("typo > 0".into()),
            preconditions: vec!["[1].all(x, x > other)".to_owned()].into(),
            ..good("unset")
        };
        let plan = Plan { steps: vec![writer, early, late, between, unset], ..Plan::default() };
        assert_eq!(
            places(&plan),
            [
                "steps[1] (early).inputs[0]",
                "steps[1] (early).condition",
                "steps[4] (unset).condition",
                "steps[4] (unset).preconditions[0]",
            ]
        );
    }

    #[test]
    fn sums_and_sizes_of_plans_are_reported() {
        let costly = |id: &str| Step {
            cost_estimate: Some(Cost { money_micros: 175_000, tokens: 60 }),
            ..good(id)
        };
        let budget = Budget { money_micros: Some(250_000), tokens: Some(100), ..Budget::default() };
        let steps = vec![costly("a"), costly("b")];
        let warnings = lint(&Plan { steps, budget, ..Plan::default() });
        assert!(warnings[0].message.contains("$0.35, more than $0.25"), "{warnings:?}");
        assert!(warnings[1].message.contains("120 tokens, more than 100"), "{warnings:?}");
        let steps = (0..21).map(|n| good(&format!("s{n}"))).collect();
        let mut plan = Plan { steps, ..Plan::default() };
        assert_eq!(places(&plan), ["steps"]);
        plan.continues = true;
        assert_eq!(places(&plan), Vec::<String>::new());
    }

    #[test]
    fn plan_warnings_name_their_places() {
        let owned = Step { fallback: Some(Box::new(Fallback::Owner("ops".into()))), ..good("a") };
        let mut plan =
            Plan { steps: vec![owned, good("b")], extend_at: Some(1), ..Plan::default() };
        plan.caps.owners = [("ops".to_owned(), 1), ("unused".to_owned(), 1)].into();
        plan.caps.tags = [("gpu".to_owned(), 1)].into();
        let rule = |id: &str, when, then| FailureRule { id: id.into(), when, then };
        let of_b = FailureMatch { step: Some("b".into()), ..FailureMatch::default() };
        let tagged = FailureMatch { tag: Some("gpu".into()), ..FailureMatch::default() };
        plan.failure.rules = vec![
            rule("one", of_b, FailureAction::Fallback),
            rule("two", tagged, FailureAction::Fail),
            rule("three", FailureMatch::default(), FailureAction::Fallback),
            rule("four", FailureMatch::default(), FailureAction::Abort),
            rule("five", FailureMatch::default(), FailureAction::Retry),
        ];
        assert_eq!(
            places(&plan),
            [
                "caps.owners.unused",
                "caps.tags.gpu",
                "extend_at",
                "failure.rules[0] (one).then",
                "failure.rules[1] (two).when.tag",
                "failure.rules[4] (five)",
            ]
        );
        plan.failure.decider = Decider::External;
        assert!(places(&plan).contains(&"failure.rules".to_owned()));
    }
}
