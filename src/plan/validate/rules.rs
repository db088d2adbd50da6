//! Checks of commands, criteria, expressions, gates and failure rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::cycles::FALLBACK;
use super::validator::{Validator, ZERO_SECONDS, fault_of};
use crate::plan::event::question::{ABORT, FAIL, NO, REPLAN, RETRY, SKIP, YES};
use crate::plan::model::criterion::Criterion;
use crate::plan::model::graph::cycle::Cycle;
use crate::plan::model::graph::edges::{Item, node_item, shown};
use crate::plan::model::policy::{FailureAction, FailureMatch};
use crate::plan::model::route::is_person;
use crate::plan::model::step::{Fallback, Gate, OnTimeout, Step};
use crate::plan::value::expression;

impl<'a> Validator<'a> {
    /// A cycle as a path of ids.
    fn path(&self, cycle: &Cycle) -> String {
        let name = |node: usize| match node_item(self.plan, node) {
            Some(item) => shown(item.id),
            None => String::new(),
        };
        let mut path: Vec<String> = cycle.shown.iter().map(|node| name(*node)).collect();
        if let Some(hidden) = cycle.length.checked_sub(path.len()).filter(|count| *count > 0) {
            path.push(format!("({hidden} more)"));
        }
        path.push(name(cycle.first));
        path.join(" -> ")
    }

    pub(super) fn cycle(&mut self, item: Item<'_>, field: &str, node: usize) {
        for cycle in self.cycles.remove(&node).unwrap_or_default() {
            let path = self.path(&cycle);
            let text = format!(
                "a cycle, each waits for the next: {path}; remove one of these dependencies"
            );
            self.problems.push(item.problem(format_args!(".{field}[{}]", cycle.position), text));
        }
    }

    pub(super) fn fallback(&mut self, item: Item<'_>, fallback: &'a Fallback) {
        let text = match fallback {
            Fallback::Step(name) if name == item.id => {
                Some("a step cannot be its own fallback; name another step".to_owned())
            }
            Fallback::Step(name) => self.member(name),
            Fallback::Value { value, .. } => fault_of(value),
            Fallback::Owner(name) | Fallback::Variable { name, .. } if name.trim().is_empty() => {
                Some("the name is empty; write it, or leave the fallback out".to_owned())
            }
            Fallback::Owner(_) | Fallback::Variable { .. } => None,
        };
        self.problems.extend(text.map(|text| item.problem(".fallback", text)));
    }

    pub(super) fn fallback_cycle(&mut self, item: Item<'_>, node: usize) {
        for cycle in self.fallback_cycles.remove(&node).unwrap_or_default() {
            let path = self.path(&cycle);
            let text = format!(
                "a cycle through a fallback, each waits for the next or falls back to it: \
                 {path}; name a fallback for `{}` that does not wait for it",
                shown(item.id)
            );
            let field = match cycle.position {
                FALLBACK => ".fallback".to_owned(),
                position => format!(".after[{position}]"),
            };
            self.problems.push(item.problem(field, text));
        }
    }
}

/// The cycle of second owners that leads back to this owner, if it is the first of its names: each cycle is
/// reported once.
fn cycle_of_seconds<'a>(
    name: &'a str,
    then: impl Fn(&str) -> Option<&'a str>,
) -> Option<Vec<&'a str>> {
    let mut path = vec![name];
    let mut at = then(name)?;
    while at != name {
        if path.contains(&at) {
            return None;
        }
        path.push(at);
        at = then(at)?;
    }
    let is_first = path.iter().all(|other| name <= *other);
    path.push(name);
    is_first.then_some(path)
}

/// The answers to the gate of a step.
pub(super) const STEP_GATE_ANSWERS: &[&str] = &[YES, NO, SKIP];

/// The answers to the gate of a plan.
pub(super) const PLAN_GATE_ANSWERS: &[&str] = &[YES, NO, ABORT];

const FAILURE_ANSWERS: &[&str] = &[RETRY, SKIP, FAIL, REPLAN, ABORT];

impl<'a> Validator<'a> {
    pub(super) fn command(&mut self, place: &dyn Display, field: &str, command: Option<&String>) {
        if command.is_some_and(|command| command.trim().is_empty()) {
            let text = "the command is empty and would always succeed; leave it out or write one";
            self.report(format!("{place}.{field}"), text);
        }
    }

    pub(super) fn criteria(&mut self, place: &dyn Display, criteria: &[Criterion]) {
        for (index, criterion) in criteria.iter().enumerate() {
            if criterion.body().trim().is_empty() {
                let text = "the criterion is empty and would always hold; write it or remove it";
                self.report(format!("{place}[{index}]"), text);
            } else if let Criterion::Cel(body) = criterion {
                self.expression(&format_args!("{place}[{index}]"), body);
            }
        }
    }

    /// Only declared outputs can be optional.
    pub(super) fn optional_outputs(&mut self, item: Item<'_>, step: &Step) {
        for (index, name) in step.optional_outputs.iter().enumerate() {
            if !step.outputs.contains(name) {
                let text =
                    format!("`{}` is not one of the outputs; add it to outputs", shown(name));
                self.problems.push(item.problem(format_args!(".optional_outputs[{index}]"), text));
            }
        }
    }

    pub(super) fn expressions(&mut self, item: Item<'_>, step: &Step) {
        for (index, body) in step.preconditions.iter().enumerate() {
            self.expression(&format_args!("{item}.preconditions[{index}]"), body);
        }
        if let Some(body) = &step.condition {
            self.expression(&format_args!("{item}.condition"), body);
        }
    }

    pub(super) fn expression(&mut self, place: &dyn Display, body: &str) {
        let problem = if body.trim().is_empty() {
            Some("it is empty".to_owned())
        } else {
            expression::problem(body)
        };
        if let Some(problem) = problem {
            let text = format!("not a CEL expression: {problem}; write one such as `rows > 0`");
            self.report(place.to_string(), text);
        }
    }

    pub(super) fn hints(&mut self, item: Item<'_>, step: &Step) {
        if step.failure_class.as_ref().is_some_and(|name| name.trim().is_empty()) {
            let text = "the name is empty; write one, or leave it out";
            self.problems.push(item.problem(".failure_class", text));
        }
        if step.failure_hints.keys().any(|word| word.trim().is_empty()) {
            let text = "an empty word matches every message; write one that distinguishes failures";
            self.problems.push(item.problem(".failure_hints", text));
        }
    }

    pub(super) fn gate(&mut self, place: &dyn Display, gate: &Gate, answers: &[&str]) {
        if gate.question.trim().is_empty() {
            let text = "the question is empty; write what needs a decision";
            self.report(format!("{place}.question"), text);
        }
        let mut answers = answers.to_vec();
        if !gate.options.is_empty() {
            answers = gate.options.iter().map(String::as_str).collect();
            if let Some(word) = answers.iter().find(|word| [YES, NO, SKIP, ""].contains(word)) {
                let text = format!(
                    "`{word}` is not allowed as an option; name the results of the decision, or leave options out"
                );
                self.report(format!("{place}.options"), text);
            }
            answers.push(SKIP);
        }
        self.deadline(place, gate.deadline_seconds, gate.on_timeout.as_ref(), &answers);
    }

    fn deadline(
        &mut self,
        place: &dyn Display,
        seconds: Option<u64>,
        on_timeout: Option<&OnTimeout>,
        answers: &[&str],
    ) {
        if seconds == Some(0) {
            self.report(format!("{place}.deadline_seconds"), ZERO_SECONDS);
        }
        let text = match on_timeout {
            Some(_) if seconds.is_none() => {
                "no effect without a deadline; add deadline_seconds".to_owned()
            }
            Some(OnTimeout::Answer(answer)) if !answers.contains(&answer.as_str()) => {
                let (found, expected) = (shown(answer), answers.join(", "));
                format!("`{found}` is not an answer, expected one of {expected}")
            }
            Some(OnTimeout::EscalateTo(who)) if who.trim().is_empty() => {
                "the name is empty; name the person to ask".to_owned()
            }
            Some(OnTimeout::Answer(_) | OnTimeout::EscalateTo(_) | OnTimeout::Abort) | None => {
                return;
            }
        };
        self.report(format!("{place}.on_timeout"), text);
    }

    pub(super) fn failure_rules(&mut self) {
        let mut seen = BTreeMap::new();
        for (index, rule) in self.plan.failure.rules.iter().enumerate() {
            let item = Item { list: "failure.rules", index, id: &rule.id };
            self.id(item);
            if let Some(first) =
                seen.insert(rule.id.as_str(), index).filter(|_| !rule.id.is_empty())
            {
                let text =
                    format!("the id is taken by failure.rules[{first}]; every rule needs its own");
                self.problems.push(item.problem(".id", text));
            }
            self.failure_match(item, &rule.when);
            match &rule.then {
                FailureAction::Replan { from: Some(from) } => {
                    let text = self.member(from);
                    self.problems.extend(text.map(|text| item.problem(".then.replan.from", text)));
                }
                FailureAction::Escalate { deadline_seconds, on_timeout, .. } => {
                    let place = format!("{item}.then.escalate");
                    let on_timeout = on_timeout.as_ref();
                    self.deadline(&place, *deadline_seconds, on_timeout, FAILURE_ANSWERS);
                }
                FailureAction::Retry
                | FailureAction::Fallback
                | FailureAction::Replan { from: None }
                | FailureAction::Fail
                | FailureAction::Abort => {}
            }
        }
    }

    /// A second owner must be known, and chains of second owners must end.
    pub(super) fn owners_of_plan(&mut self) {
        let plan = self.plan;
        let then = |name: &str| plan.owners.get(name)?.limit.then.as_deref();
        let known: BTreeSet<&str> =
            self.owners.iter().copied().chain(plan.owners.keys().map(String::as_str)).collect();
        let seconds: BTreeSet<&str> = plan.owners.keys().filter_map(|name| then(name)).collect();
        // A planner may add its steps later, and a wrong second owner leaves the right one unused.
        let must_be_used = !plan.continues && seconds.is_subset(&known);
        for name in plan.owners.keys() {
            let place = format!("owners.{}", shown(name));
            let is_used = self.owners.contains(name.as_str()) || seconds.contains(name.as_str());
            if must_be_used && !is_used {
                let hint = self.suggestion(name, self.owners.clone().into_iter());
                self.report(&place, format!("no step has the owner `{}`{hint}", shown(name)));
            }
            let Some(second) = then(name) else { continue };
            let place = format!("{place}.limit.then");
            let shown_second = shown(second);
            if is_person(second) || is_person(name) {
                let text =
                    "a person has no usage limit, and cannot be a second owner; name an agent";
                self.report(place, text);
            } else if !known.contains(second) {
                let hint = self.suggestion(second, known.iter().copied());
                let hint = if hint.contains('?') {
                    hint
                } else {
                    format!("; add `{shown_second}: {{}}` to `owners`, or correct the name")
                };
                self.report(place, format!("there is no owner `{shown_second}`{hint}"));
            } else if let Some(cycle) = cycle_of_seconds(name, then) {
                let path: Vec<String> = cycle.into_iter().map(shown).collect();
                let path = path.join(" -> ");
                let text = format!("the second owners lead back: {path}; remove one of them");
                self.report(place, text);
            }
        }
    }

    fn failure_match(&mut self, item: Item<'_>, when: &'a FailureMatch) {
        if let Some(name) = &when.step {
            let text = self.member(name);
            self.problems.extend(text.map(|text| item.problem(".when.step", text)));
        }
        if let Some(owner) = when.owner.as_deref().filter(|owner| !self.owners.contains(owner)) {
            let names: Vec<&str> = self.owners.iter().copied().collect();
            let hint = self.suggestion(owner, names.into_iter());
            let text = format!("no step has the owner `{}`{hint}", shown(owner));
            self.problems.push(item.problem(".when.owner", text));
        }
        if when.message.as_deref() == Some("") {
            let text = "an empty text matches every message; leave it out to match all";
            self.problems.push(item.problem(".when.message", text));
        }
        if let Some(body) = &when.cel {
            self.expression(&format_args!("{item}.when.cel"), body);
        }
        let has_class = |name: &String| {
            let named = |step: &Step| step.failure_class.as_ref() == Some(name);
            self.plan.steps.iter().any(named)
        };
        if let Some(name) = when.failure_class.as_ref().filter(|name| !has_class(name)) {
            let text = format!("no step has the failure_class `{}`", shown(name));
            self.problems.push(item.problem(".when.failure_class", text));
        }
        if when.failures == Some(0) {
            let text = "failures is 0, expected 1 or more; the first failure is 1";
            self.problems.push(item.problem(".when.failures", text));
        }
    }
}
