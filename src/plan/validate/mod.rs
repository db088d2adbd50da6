//! What is wrong with a plan: everything, in plan order, each with its place.
//!
//! Invariants: a plan without problems has unique ids, no name that leads nowhere and no cycle,
//! and its canonical form is exact. Nothing here recurses over the plan, and nothing is more
//! than linear in it (times a logarithm), so a plan of a million steps can be judged.
//!
//! Left out on purpose: advice. What may be run, but hardly was meant, is not a problem, but a
//! warning of [`super::lint`].

mod cycles;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde_json::{Number, Value};

use super::cycle::{self, Cycle};
use super::graph::{self, Item, edges, ids, shown};
use super::nearest::nearest;
use super::{Barrier, BarrierNeeds, Extra, Plan, Problem, RetryPolicy, Step};

/// How many steps a plan may have.
pub const STEPS_MAX: usize = 1_000_000;

/// For how many unknown names the closest known one is looked for: each costs a scan of all.
const SUGGESTIONS_MAX: u32 = 32;

/// The largest whole number up to which the canonical form holds all exactly.
const EXACT_MAX: u64 = 1 << 53;

/// How many levels of lists and fields a value may have. Readers of JSON stop at 128, and a plan, a
/// task and a line of `--json` have some levels around it.
pub const VALUE_DEPTH_MAX: usize = 120;

const FAILURE_CLASSES: [&str; 5] =
    ["transient", "deterministic", "assumption_broken", "budget_exhausted", "unknown"];

/// All problems of a plan, in plan order. A plan without any can be run.
#[must_use]
pub fn validate(plan: &Plan) -> Vec<Problem> {
    let mut judge = Judge::new(plan);
    judge.header();
    for (index, step) in plan.steps.iter().enumerate() {
        judge.step(Item { list: "steps", index, id: &step.id }, index, step);
    }
    for (index, barrier) in plan.barriers.iter().enumerate() {
        let node = plan.steps.len().saturating_add(index);
        judge.barrier(Item { list: "barriers", index, id: &barrier.id }, node, barrier);
    }
    judge.footer();
    judge.problems
}

/// The plan under judgement. Steps and barriers are nodes: the steps first, then the barriers.
struct Judge<'a> {
    plan: &'a Plan,
    /// The node of each id; of an id that is there twice, the first.
    nodes: BTreeMap<&'a str, usize>,
    phases: BTreeSet<&'a str>,
    /// Cycles by the node that they are reported at.
    cycles: BTreeMap<usize, Vec<Cycle>>,
    /// Cycles that close only when fallbacks stand in, by the node that they are reported at.
    stand_in_cycles: BTreeMap<usize, Vec<Cycle>>,
    /// Everybody who does a step, or stands in for who does.
    owners: BTreeSet<&'a str>,
    suggestions_left: u32,
    problems: Vec<Problem>,
}

impl<'a> Judge<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut nodes = BTreeMap::new();
        for (node, id) in ids(plan).enumerate() {
            nodes.entry(id).or_insert(node);
        }
        let edges = edges(plan, &nodes);
        let cycles = cycles::by_node(cycle::cycles(&edges));
        // As long as the steps themselves wait for each other, no more is known.
        let stand_in_cycles = if cycles.is_empty() {
            cycles::by_node(cycles::with_fallbacks(plan, &nodes, edges))
        } else {
            BTreeMap::new()
        };
        Self {
            plan,
            nodes,
            phases: plan.phases.iter().map(|phase| phase.id.as_str()).collect(),
            cycles,
            stand_in_cycles,
            owners: super::graph::owners(plan),
            suggestions_left: SUGGESTIONS_MAX,
            problems: Vec::new(),
        }
    }

    fn report(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { place: place.into(), message: message.into() });
    }

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
        if plan.steps.is_empty() {
            self.report("steps", "the plan has no steps; add at least one");
        }
        if plan.steps.len() > STEPS_MAX {
            let found = plan.steps.len();
            self.report("steps", format!("{found} steps, at most {STEPS_MAX}; split the plan"));
        }
    }

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
        self.criteria(&format_args!("{item}.acceptance"), &step.acceptance);
        self.hints(item, step);
        self.limits(&item, step.retry.as_deref(), step.timeout_seconds, step.lease_seconds);
        if let Some(fallback) = &step.fallback {
            self.fallback(item, fallback);
        }
        self.stand_in_cycle(item, node);
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
        self.extra(&"plan", &plan.extra);
    }

    /// An id must be something that can be written on one line and found again.
    fn id(&mut self, item: Item<'_>) {
        let text = if item.id.is_empty() {
            "the id is empty; give it a name"
        } else if item.id.chars().any(char::is_control) {
            "the id has a control character; use what can be printed on one line"
        } else if item.id.trim() != item.id {
            "the id begins or ends with white space; remove it"
        } else {
            return;
        };
        self.problems.push(item.problem(".id", text));
    }

    fn unique(&mut self, item: Item<'_>, node: usize) {
        let Some(first) = self.nodes.get(item.id).filter(|first| **first != node) else { return };
        if let Some(first) = graph::item(self.plan, *first)
            && !item.id.is_empty()
        {
            let text = format!("the id is taken by {first}; steps and barriers share one space");
            self.problems.push(item.problem(".id", text));
        }
    }

    /// A list of names: none twice, each of something that is there.
    fn named(
        &mut self,
        item: Item<'_>,
        field: &str,
        names: &'a [String],
        judge: fn(&mut Self, &'a str) -> Option<String>,
    ) {
        let mut seen = BTreeMap::new();
        for (position, name) in names.iter().enumerate() {
            let text = match seen.insert(name.as_str(), position) {
                Some(first) => Some(format!(
                    "`{}` is listed already, at {field}[{first}]; remove one",
                    shown(name)
                )),
                None => judge(self, name),
            };
            if let Some(text) = text {
                self.problems.push(item.problem(format_args!(".{field}[{position}]"), text));
            }
        }
    }

    fn after(&mut self, name: &'a str) -> Option<String> {
        if self.nodes.contains_key(name) {
            return None;
        }
        if self.phases.contains(name) {
            return Some(format!(
                "`{}` is a phase, and phases order nothing; name its steps, or a barrier over them",
                shown(name)
            ));
        }
        let hint = self.suggestion(name, ids(self.plan));
        Some(format!("there is no step or barrier `{}`{hint}", shown(name)))
    }

    fn member(&mut self, name: &'a str) -> Option<String> {
        let steps = self.plan.steps.len();
        match self.nodes.get(name) {
            Some(node) if *node < steps => None,
            Some(_) => {
                let name = shown(name);
                Some(format!("`{name}` is a barrier; members are steps, name its members"))
            }
            None => {
                let hint = self.suggestion(name, ids(self.plan).take(steps));
                Some(format!("there is no step `{}`{hint}", shown(name)))
            }
        }
    }

    fn suggestion(&mut self, name: &str, names: impl Iterator<Item = &'a str>) -> String {
        let near = self.suggestions_left.checked_sub(1).and_then(|left| {
            self.suggestions_left = left;
            nearest(name, names)
        });
        match near {
            Some(near) => format!("; did you mean `{}`?", shown(near)),
            None => "; correct the name, or remove it".to_owned(),
        }
    }

    fn limits(
        &mut self,
        place: &dyn Display,
        retry: Option<&RetryPolicy>,
        timeout: Option<u32>,
        lease: Option<u32>,
    ) {
        if let Some(retry) = retry {
            if retry.max_attempts == 0 {
                let text = "max_attempts is 0, expected 1 or more; the first attempt counts";
                self.report(format!("{place}.retry.max_attempts"), text);
            }
            for (class, attempts) in &retry.per_class {
                let text = if !FAILURE_CLASSES.contains(&class.as_str()) {
                    format!("no such failure class, expected one of {}", FAILURE_CLASSES.join(", "))
                } else if *attempts == 0 {
                    "0 attempts, expected 1 or more; the first attempt counts".to_owned()
                } else {
                    continue;
                };
                self.report(format!("{place}.retry.per_class.{}", shown(class)), text);
            }
            if let Some(percent) = retry.jitter_percent.filter(|percent| *percent > 100) {
                let text = format!(
                    "{percent} percent, expected at most 100: a wait is never less than none"
                );
                self.report(format!("{place}.retry.jitter_percent"), text);
            }
        }
        for (field, seconds) in [("timeout_seconds", timeout), ("lease_seconds", lease)] {
            if seconds == Some(0) {
                self.report(format!("{place}.{field}"), ZERO_SECONDS);
            }
        }
    }

    fn exact(&mut self, item: Item<'_>, field: &str, amounts: &[u64]) {
        if amounts.iter().any(|amount| *amount > EXACT_MAX) {
            self.problems.push(item.problem(field, TOO_LARGE));
        }
    }

    fn extra(&mut self, place: &dyn Display, extra: &Extra) {
        for (name, value) in extra {
            if let Some(fault) = fault_of(value) {
                self.report(format!("{place}.extra.{}", shown(name)), fault);
            }
        }
    }
}

const ZERO_CAP: &str = "a cap of 0 would stop everything; expected 1 or more, or leave it out";
const ZERO_BUDGET: &str =
    "a budget of 0 would stop everything; expected 1 or more, or leave it out";
const ZERO_SECONDS: &str = "0 seconds, expected 1 or more, or leave it out";
const TOO_LARGE: &str =
    "a number over 2^53 is not held exactly; write it as text, or use a smaller one";

/// Whether a number is within the exact range. A fraction beyond it is refused too: whether it
/// was written as a whole number with more digits can no longer be told.
fn is_small(number: &Number) -> bool {
    match number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)) {
        Some(whole) => whole <= EXACT_MAX,
        None => number.as_f64().is_some_and(|number| number.abs() <= 2_f64.powi(53)),
    }
}

/// Why a value cannot be kept as it is: the canonical form does not hold its numbers, or readers of
/// JSON stop before its innermost one.
fn fault_of(value: &Value) -> Option<String> {
    let mut rest = vec![(value, 0)];
    while let Some((value, depth)) = rest.pop() {
        if depth > VALUE_DEPTH_MAX {
            return Some(format!(
                "lists and fields within each other over more than {VALUE_DEPTH_MAX} levels, which \
                 readers of JSON may refuse; make it flatter, or write it as text"
            ));
        }
        match value {
            Value::Number(number) if !is_small(number) => return Some(TOO_LARGE.to_owned()),
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => rest.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
