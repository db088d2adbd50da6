//! `Validator`: one pass over a plan, which collects its problems. The graph of steps and barriers
//! is built once; `rules` and `cycles` check the fields and the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde_json::{Number, Value};

use super::cycles::{by_node, with_fallbacks};
use crate::plan::model::fields::Extra;
use crate::plan::model::graph::cycle::{Cycle, find_cycles};
use crate::plan::model::graph::edges::{Item, edges, ids, node_item, owners, shown};
use crate::plan::model::graph::name_index::NameIndex;
use crate::plan::model::plan::Plan;
use crate::plan::model::problem::Problem;
use crate::plan::model::step::RetryPolicy;
use crate::plan::value::nearest::closest_name;

/// The number of unknown names for which a similar name is suggested. Each suggestion scans all
/// names.
pub(super) const SUGGESTIONS_MAX: u32 = 32;

/// The largest integer below which all integers are exact in the canonical form.
pub(super) const EXACT_MAX: u64 = 1 << 53;

/// The largest nesting depth of a value in a plan. JSON parsers reject more than [`JSON_DEPTH_MAX`]
/// levels, and a plan, a task or a line of `--json` adds some levels around the value.
///
/// [`JSON_DEPTH_MAX`]: crate::plan::JSON_DEPTH_MAX
pub const VALUE_DEPTH_MAX: usize = 120;

pub(super) const FAILURE_CLASSES: [&str; 6] = [
    "transient",
    "deterministic",
    "assumption_broken",
    "budget_exhausted",
    "criterion_failed",
    "unknown",
];

/// The validator of one plan. Steps and barriers are nodes of one graph: first the steps, then the
/// barriers.
pub(crate) struct Validator<'a> {
    pub(super) plan: &'a Plan,
    /// The node of each id; the first one of a duplicate id.
    pub(super) nodes: NameIndex<'a>,
    /// The last list that named each node, and the position of the name.
    named: Vec<(u32, usize)>,
    /// The number of lists that were checked.
    lists: u32,
    pub(super) phases: BTreeSet<&'a str>,
    /// Cycles by the node at which they are reported.
    pub(super) cycles: BTreeMap<usize, Vec<Cycle>>,
    /// Cycles that close only through fallbacks, by the node at which they are reported.
    pub(super) fallback_cycles: BTreeMap<usize, Vec<Cycle>>,
    /// All owners of steps and fallback owners.
    pub(super) owners: BTreeSet<&'a str>,
    pub(super) suggestions_left: u32,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Validator<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let nodes = NameIndex::new(ids(plan));
        let edges = edges(plan, &nodes);
        let cycles = by_node(find_cycles(&edges));
        // Cycles through fallbacks can only be found in a graph without other cycles.
        let fallback_cycles = if cycles.is_empty() {
            by_node(with_fallbacks(plan, &nodes, edges))
        } else {
            BTreeMap::new()
        };
        Self {
            plan,
            nodes,
            named: vec![(0, 0); plan.steps.len().saturating_add(plan.barriers.len())],
            lists: 0,
            phases: plan.phases.iter().map(|phase| phase.id.as_str()).collect(),
            cycles,
            fallback_cycles,
            owners: owners(plan),
            suggestions_left: SUGGESTIONS_MAX,
            problems: Vec::new(),
        }
    }

    pub(super) fn report(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { place: place.into(), message: message.into() });
    }
}

impl<'a> Validator<'a> {
    /// An id must be one printable line without surrounding white space.
    pub(super) fn id(&mut self, item: Item<'_>) {
        let text = if item.id.is_empty() {
            "the id is empty; give it a name"
        } else if item.id.chars().any(char::is_control) {
            "the id has a control character; use one printable line"
        } else if item.id.trim() != item.id {
            "the id begins or ends with white space; remove it"
        } else {
            return;
        };
        self.problems.push(item.problem(".id", text));
    }

    pub(super) fn unique(&mut self, item: Item<'_>, node: usize) {
        let Some(first) = self.nodes.find(item.id).filter(|first| *first != node) else { return };
        if let Some(first) = node_item(self.plan, first)
            && !item.id.is_empty()
        {
            let text =
                format!("the id is taken by {first}; steps and barriers share one namespace");
            self.problems.push(item.problem(".id", text));
        }
    }

    /// A list of names: no duplicates, and each must exist.
    pub(super) fn named(
        &mut self,
        item: Item<'_>,
        field: &str,
        names: &'a [String],
        validator: fn(&mut Self, &'a str) -> Option<String>,
    ) {
        self.lists = self.lists.saturating_add(1);
        let mut unknown = BTreeMap::new();
        for (position, name) in names.iter().enumerate() {
            let known = self.nodes.find(name).and_then(|node| self.named.get_mut(node));
            let first = match known {
                Some(named) => Some(std::mem::replace(named, (self.lists, position)))
                    .filter(|(list, _)| *list == self.lists)
                    .map(|(_, first)| first),
                None => unknown.insert(name.as_str(), position),
            };
            let text = match first {
                Some(first) => Some(format!(
                    "`{}` is listed already, at {field}[{first}]; remove one",
                    shown(name)
                )),
                None => validator(self, name),
            };
            if let Some(text) = text {
                self.problems.push(item.problem(format_args!(".{field}[{position}]"), text));
            }
        }
    }

    pub(super) fn after(&mut self, name: &'a str) -> Option<String> {
        if self.nodes.find(name).is_some() {
            return None;
        }
        if self.phases.contains(name) {
            return Some(format!(
                "`{}` is a phase, which implies no order; name its steps, or a barrier over them",
                shown(name)
            ));
        }
        let hint = self.suggestion(name, ids(self.plan));
        Some(format!("there is no step or barrier `{}`{hint}", shown(name)))
    }

    pub(super) fn member(&mut self, name: &'a str) -> Option<String> {
        let steps = self.plan.steps.len();
        match self.nodes.find(name) {
            Some(node) if node < steps => None,
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

    pub(super) fn suggestion(
        &mut self,
        name: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> String {
        let near = self.suggestions_left.checked_sub(1).and_then(|left| {
            self.suggestions_left = left;
            closest_name(name, names)
        });
        match near {
            Some(near) => format!("; did you mean `{}`?", shown(near)),
            None => "; correct the name, or remove it".to_owned(),
        }
    }

    /// Lines that are printed once are not repetition.
    pub(super) fn repeat_limit(&mut self, place: &dyn Display, limit: Option<u32>) {
        if let Some(limit) = limit.filter(|limit| *limit < REPEATS_MIN) {
            let text = format!("{limit}, expected {REPEATS_MIN} or more; the first time counts");
            self.report(format!("{place}.repeat_limit"), text);
        }
    }

    pub(super) fn limits(
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
                let text = format!("{percent} percent, expected at most 100");
                self.report(format!("{place}.retry.jitter_percent"), text);
            }
        }
        for (field, seconds) in [("timeout_seconds", timeout), ("lease_seconds", lease)] {
            if seconds == Some(0) {
                self.report(format!("{place}.{field}"), ZERO_SECONDS);
            }
        }
    }

    pub(super) fn exact(&mut self, item: Item<'_>, field: &str, amounts: &[u64]) {
        if amounts.iter().any(|amount| *amount > EXACT_MAX) {
            self.problems.push(item.problem(field, TOO_LARGE));
        }
    }

    pub(super) fn extra(&mut self, place: &dyn Display, extra: &Extra) {
        for (name, value) in extra {
            if let Some(fault) = fault_of(value) {
                self.report(format!("{place}.extra.{}", shown(name)), fault);
            }
        }
    }
}

pub(super) const ZERO_CAP: &str =
    "a cap of 0 would stop everything; expected 1 or more, or leave it out";

pub(super) const ZERO_BUDGET: &str =
    "a budget of 0 would stop everything; expected 1 or more, or leave it out";

/// The fewest times that lines are printed over and over.
pub(crate) const REPEATS_MIN: u32 = 2;

pub(crate) const ZERO_SECONDS: &str = "0 seconds, expected 1 or more, or leave it out";

pub(super) const TOO_LARGE: &str =
    "a number over 2^53 is not exact in JSON; write it as text, or use a smaller one";

/// Whether a number is within the exact range. A fraction beyond it is rejected too, because it may
/// have been written as a whole number with more digits.
pub(super) fn is_small(number: &Number) -> bool {
    match number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)) {
        Some(whole) => whole <= EXACT_MAX,
        None => number.as_f64().is_some_and(|number| number.abs() <= 2_f64.powi(53)),
    }
}

/// Why a value cannot be stored unchanged: one of its numbers is not exact in the canonical form,
/// or it is nested too deeply for JSON parsers.
pub(crate) fn fault_of(value: &Value) -> Option<String> {
    let mut rest = vec![(value, 0)];
    while let Some((value, depth)) = rest.pop() {
        if depth > VALUE_DEPTH_MAX {
            return Some(format!(
                "more than {VALUE_DEPTH_MAX} levels of nested lists and fields; make it flatter, or \
                write it as text"
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
