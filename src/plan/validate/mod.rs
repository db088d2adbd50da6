//! Validation of plans: finds all problems, in plan order, each with its place.
//!
//! Invariants: a plan without problems has unique ids, no unknown name and no cycle, and its
//! canonical form is exact. Validation does not recurse over the plan and takes time O(n log n), so
//! it handles a million steps. `lint` warns about plans that can run but look like a mistake.

mod cycles;
pub(crate) mod lint;
mod lint_data;
mod lint_shell;
mod rules;
#[cfg(test)]
mod tests;
pub(crate) mod validator;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::plan::model::graph::edges::{Item, shown};
use crate::plan::model::plan::{Barrier, BarrierNeeds, Plan};
use crate::plan::model::problem::Problem;
use crate::plan::model::step::Step;
use crate::plan::value::names::NameKind;
use validator::{EXACT_MAX, TOO_LARGE, Validator, ZERO_BUDGET, ZERO_CAP, ZERO_SECONDS, fault_of};

/// The largest number of steps in a plan.
pub const STEPS_MAX: usize = 1_000_000;

/// Returns all problems of a plan, in plan order. A plan without problems can be run.
#[must_use]
pub fn validate(plan: &Plan) -> Vec<Problem> {
    let mut validator = Validator::new(plan);
    validator.header();
    for (index, step) in plan.steps.iter().enumerate() {
        validator.step(Item { list: "steps", index, id: &step.id }, index, step);
    }
    for (index, barrier) in plan.barriers.iter().enumerate() {
        let node = plan.steps.len().saturating_add(index);
        validator.barrier(Item { list: "barriers", index, id: &barrier.id }, node, barrier);
    }
    validator.footer();
    validator.problems
}

impl Validator<'_> {
    fn header(&mut self) {
        let plan = self.plan;
        let mut seen = BTreeMap::new();
        for (index, phase) in plan.phases.iter().enumerate() {
            let item = Item { list: "phases", index, id: &phase.id };
            self.id(item);
            if let Some(first) =
                seen.insert(phase.id.as_str(), index).filter(|_| !item.id.is_empty())
            {
                let text = format!("the id is taken by phases[{first}]; every phase needs its own");
                self.problems.push(item.problem(".id", text));
            }
        }
        for (name, input) in &plan.inputs {
            let place = format!("inputs.{}", shown(name));
            if let Some(fault) = NameKind::Variable.fault_in(name) {
                self.report(&*place, fault);
            }
            let Some(default) = &input.default else { continue };
            if !input.kind.admits(default) {
                let text = format!("the default is not of type {}", input.kind);
                self.report(format!("{place}.default"), text);
            } else if let Some(fault) = fault_of(default) {
                self.report(format!("{place}.default"), fault);
            }
        }
        if plan.steps.is_empty() {
            self.report("steps", "the plan has no steps; add at least one");
        }
        if plan.steps.len() > STEPS_MAX {
            let found = plan.steps.len();
            self.report("steps", format!("{found} steps, at most {STEPS_MAX}; split the plan"));
        }
    }
}

impl<'a> Validator<'a> {
    fn step(&mut self, item: Item<'a>, node: usize, step: &'a Step) {
        self.id(item);
        self.unique(item, node);
        if let Some(phase) = &step.phase
            && !self.phases.contains(phase.as_str())
        {
            let names = self.plan.phases.iter().map(|phase| phase.id.as_str());
            let hint = self.suggestion(phase, names);
            let text = format!("there is no phase `{}`{hint}", shown(phase));
            self.problems.push(item.problem(".phase", text));
        }
        self.named(item, "after", &step.after, Self::after);
        self.cycle(item, "after", node);
        self.command(&item, "command", step.command.as_ref());
        self.command(&item, "probe", step.probe.as_ref());
        self.expressions(item, step);
        self.optional_outputs(item, step);
        self.criteria(&format_args!("{item}.acceptance"), &step.acceptance);
        self.hints(item, step);
        self.limits(&item, step.retry.as_deref(), step.timeout_seconds, step.lease_seconds);
        if step.estimate_seconds == Some(0) {
            self.problems.push(item.problem(".estimate_seconds", ZERO_SECONDS));
        }
        self.repeat_limit(&item, step.repeat_limit);
        if let Some(fallback) = &step.fallback {
            self.fallback(item, fallback);
        }
        self.fallback_cycle(item, node);
        if let Some(gate) = &step.gate {
            self.gate(&format_args!("{item}.gate"), gate, rules::STEP_GATE_ANSWERS);
        }
        if let Some(cost) = step.cost_estimate {
            self.exact(item, ".cost_estimate", &[cost.money_micros, cost.tokens]);
        }
        if let Some(cost) = step.cost_limit {
            self.exact(item, ".cost_limit", &[cost.money_micros, cost.tokens]);
        }
        self.extra(&item, &step.extra);
    }

    fn barrier(&mut self, item: Item<'a>, node: usize, barrier: &'a Barrier) {
        self.id(item);
        self.unique(item, node);
        if barrier.members.is_empty() {
            let text = "the barrier has no members; name the steps that it waits for";
            self.problems.push(item.problem(".members", text));
        }
        self.named(item, "members", &barrier.members, Self::member);
        self.cycle(item, "members", node);
        let members = barrier.members.iter().collect::<BTreeSet<_>>().len();
        match barrier.needs {
            BarrierNeeds::AtLeast(0) => {
                let text = "at_least is 0, expected 1 or more";
                self.problems.push(item.problem(".needs", text));
            }
            BarrierNeeds::AtLeast(count)
                if usize::try_from(count).is_ok_and(|count| count > members) && members > 0 =>
            {
                let text = format!("at_least is {count}, but the barrier has {members} members");
                self.problems.push(item.problem(".needs", text));
            }
            BarrierNeeds::AtLeast(_) | BarrierNeeds::All | BarrierNeeds::Any => {}
        }
        if barrier.deadline_seconds == Some(0) {
            self.problems.push(item.problem(".deadline_seconds", ZERO_SECONDS));
        }
    }

    fn footer(&mut self) {
        let plan = self.plan;
        if plan.caps.run == Some(0) {
            self.report("caps.run", ZERO_CAP);
        }
        for (list, caps) in [("owners", &plan.caps.owners), ("tags", &plan.caps.tags)] {
            for name in caps.iter().filter(|(_, cap)| **cap == 0).map(|(name, _)| name) {
                self.report(format!("caps.{list}.{}", shown(name)), ZERO_CAP);
            }
        }
        self.owners_of_plan();
        let budget = plan.budget;
        let amounts = [budget.money_micros, budget.tokens, budget.attempts, budget.wall_seconds];
        if amounts.into_iter().flatten().any(|amount| amount > EXACT_MAX) {
            self.report("budget", TOO_LARGE);
        }
        for (part, amount) in [("attempts", budget.attempts), ("wall_seconds", budget.wall_seconds)]
        {
            if amount == Some(0) {
                self.report(format!("budget.{part}"), ZERO_BUDGET);
            }
        }
        self.criteria(&"test_criteria", &plan.test_criteria);
        if let Some(gate) = &plan.gate {
            self.gate(&"gate", gate, rules::PLAN_GATE_ANSWERS);
        }
        self.failure_rules();
        let defaults = &plan.defaults;
        self.command(&"defaults", "command", defaults.command.as_ref());
        self.limits(
            &"defaults",
            defaults.retry.as_ref(),
            defaults.timeout_seconds,
            defaults.lease_seconds,
        );
        self.repeat_limit(&"defaults", defaults.repeat_limit);
        self.extra(&"plan", &plan.extra);
    }
}
