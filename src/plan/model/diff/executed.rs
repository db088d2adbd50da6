//! The commands, questions and costs that a person approves with a plan.
//!
//! The list has the commands first, in plan order, then gates, idempotence, actions after failures,
//! and limits. Defaults of the plan are filled in, so the list shows what will run. Every place
//! that shows a plan for approval renders this list, whole.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::plan::model::criterion::Criterion;
use crate::plan::model::fields::is_default;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::{Idempotence, Step};

/// The kind of an entry; the commands come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecutedKind {
    /// The shell command of a step.
    Command,
    /// The shell command that checks the outcome of a lost attempt.
    Probe,
    /// A criterion that is a shell command.
    Check,
    /// A question to a person before a step, or before the plan.
    Gate,
    /// The idempotence of a step, unless the step may be repeated.
    Idempotent,
    /// The step, the owner or the value that is used after the final failure of a step.
    Fallback,
    /// How often and how soon a failed step is dispatched again.
    Retry,
    /// The seconds after which the worker of a step is stopped.
    Timeout,
    /// A rule that decides about failures, in their order.
    Rule,
    /// The external decider about failures.
    Decider,
    /// The most versions of the plan that may replace it.
    MaxReplans,
    /// The most that an attempt of a step may cost.
    CostLimit,
    /// The budget of the run.
    Budget,
    /// The most attempts in flight.
    Caps,
}

impl ExecutedKind {
    const ALL: [Self; 14] = [
        Self::Command,
        Self::Probe,
        Self::Check,
        Self::Gate,
        Self::Idempotent,
        Self::Fallback,
        Self::Retry,
        Self::Timeout,
        Self::Rule,
        Self::Decider,
        Self::MaxReplans,
        Self::CostLimit,
        Self::Budget,
        Self::Caps,
    ];

    /// The label in a list: the name of the field in the plan, or of one entry of this field.
    fn label(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Probe => "probe",
            Self::Check => "check",
            Self::Gate => "gate",
            Self::Idempotent => "idempotent",
            Self::Fallback => "fallback",
            Self::Retry => "retry",
            Self::Timeout => "timeout_seconds",
            Self::Rule => "rule",
            Self::Decider => "decider",
            Self::MaxReplans => "max_replans",
            Self::CostLimit => "cost_limit",
            Self::Budget => "budget",
            Self::Caps => "caps",
        }
    }
}

/// One thing that a plan executes, asks or may spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutedPart {
    /// The kind of the entry.
    pub kind: ExecutedKind,
    /// The id of the step; null for the plan.
    pub step: Option<String>,
    /// The command, or the value as in the plan file: any JSON.
    pub value: Value,
}

/// One thing that a plan executes, asks or may spend, in two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutedChange {
    /// The kind of the entry.
    pub kind: ExecutedKind,
    /// The new command or value: any JSON; null if there is none.
    pub new: Option<Value>,
    /// The old command or value: any JSON; null if there was none.
    pub old: Option<Value>,
    /// The id of the step; null for the plan.
    pub step: Option<String>,
}

#[doc(hidden)]
impl Plan {
    /// Lists everything that a plan executes, asks and may spend.
    #[must_use]
    pub fn executed(&self) -> Vec<ExecutedPart> {
        let mut found = Vec::new();
        let steps: Vec<Step> = self.steps.iter().map(|step| self.with_defaults(step)).collect();
        for kind in ExecutedKind::ALL {
            for step in &steps {
                let entry = |value| ExecutedPart { kind, step: Some(step.id.clone()), value };
                found.extend(of_step(kind, step).into_iter().map(entry));
            }
            found.extend(of_plan(kind, self).into_iter().map(|value| ExecutedPart {
                kind,
                step: None,
                value,
            }));
        }
        mutant!(ApprovedCommandHidden => found.retain(|part| part.kind != ExecutedKind::Probe));
        found
    }
}

fn of_step(kind: ExecutedKind, step: &Step) -> Vec<Value> {
    let one = |value: Option<Value>| value.into_iter().collect();
    match kind {
        ExecutedKind::Command => one(step.command.clone().map(Value::from)),
        ExecutedKind::Probe => one(step.probe.clone().map(Value::from)),
        ExecutedKind::Check => commands_of(&step.acceptance),
        ExecutedKind::Gate => one(step.gate.as_ref().map(json)),
        ExecutedKind::Idempotent => {
            one(step.idempotent.filter(|it| *it != Idempotence::Yes).as_ref().map(json))
        }
        ExecutedKind::Fallback => one(step.fallback.as_ref().map(json)),
        ExecutedKind::Retry => one(step.retry.as_ref().map(json)),
        ExecutedKind::Timeout => one(step.timeout_seconds.map(Value::from)),
        ExecutedKind::CostLimit => one(step.cost_limit.as_ref().map(json)),
        ExecutedKind::Rule
        | ExecutedKind::Decider
        | ExecutedKind::MaxReplans
        | ExecutedKind::Budget
        | ExecutedKind::Caps => Vec::new(),
    }
}

fn of_plan(kind: ExecutedKind, plan: &Plan) -> Vec<Value> {
    let one = |value: Option<Value>| value.into_iter().collect();
    match kind {
        ExecutedKind::Check => commands_of(&plan.test_criteria),
        ExecutedKind::Gate => one(plan.gate.as_ref().map(json)),
        ExecutedKind::Rule => plan.failure.rules.iter().map(json).collect(),
        ExecutedKind::Decider => {
            one((!is_default(&plan.failure.decider)).then(|| json(&plan.failure.decider)))
        }
        ExecutedKind::MaxReplans => one(plan.failure.max_replans.map(Value::from)),
        ExecutedKind::Budget => one((!is_default(&plan.budget)).then(|| json(&plan.budget))),
        ExecutedKind::Caps => one((!is_default(&plan.caps)).then(|| json(&plan.caps))),
        ExecutedKind::Command
        | ExecutedKind::Probe
        | ExecutedKind::Idempotent
        | ExecutedKind::Fallback
        | ExecutedKind::Retry
        | ExecutedKind::Timeout
        | ExecutedKind::CostLimit => Vec::new(),
    }
}

fn commands_of(criteria: &[Criterion]) -> Vec<Value> {
    let commands = criteria.iter().filter_map(|criterion| match criterion {
        Criterion::Command(command) => Some(Value::from(command.as_str())),
        Criterion::Text(_) | Criterion::Cel(_) => None,
    });
    commands.collect()
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Compares the lists of two plans: the entries of steps in both plans, of new steps and of removed
/// steps.
pub(super) fn executed_changes(old: &Plan, new: &Plan) -> Vec<ExecutedChange> {
    let (before, after) = (old.executed(), new.executed());
    // Equal entries are no change. A command that a step has twice counts twice.
    let mut gone = before;
    let mut added = Vec::new();
    for entry in after {
        match gone.iter().position(|each| *each == entry) {
            Some(place) => drop(gone.remove(place)),
            None => added.push(entry),
        }
    }
    let mut changes: Vec<ExecutedChange> = Vec::new();
    for ExecutedPart { kind, step, value } in added {
        let place = gone.iter().position(|each| each.kind == kind && each.step == step);
        let old = place.map(|place| gone.remove(place).value);
        changes.push(ExecutedChange { kind, new: Some(value), old, step });
    }
    changes.extend(gone.into_iter().map(|ExecutedPart { kind, step, value }| ExecutedChange {
        kind,
        new: None,
        old: Some(value),
        step,
    }));
    changes.sort_by_key(|change| change.kind);
    changes
}

/// A value as a single uncut line. Control characters are escaped, and so is a backslash that would
/// look like the start of such an escape, so that different texts have different lines.
fn one_line(value: &Value) -> String {
    // In JSON the backslashes of a text are escaped already.
    let (text, is_escaped) = match value {
        Value::String(text) => (text.clone(), false),
        other => (other.to_string(), true),
    };
    let mut line = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let begins_escape = |next: &char| {
            next.is_control() || !next.is_ascii() || ['n', 'r', 't', 'u', '\\'].contains(next)
        };
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
            if char == '\\' && !is_escaped && chars.peek().is_some_and(begins_escape) {
                line.push(char);
            }
        }
    }
    line
}

impl ExecutedPart {
    /// The shell command, if the entry has one.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        let is_command =
            matches!(self.kind, ExecutedKind::Command | ExecutedKind::Probe | ExecutedKind::Check);
        self.value.as_str().filter(|_| is_command)
    }

    /// Its name: `build.command`, `plan.budget`.
    #[must_use]
    pub fn name(&self) -> String {
        named(self.kind, self.step.as_ref())
    }

    /// Its value in one line, whole.
    #[must_use]
    pub fn text(&self) -> String {
        one_line(&self.value)
    }
}

impl ExecutedChange {
    /// Its name: `build.command`, `plan.budget`.
    #[must_use]
    pub fn name(&self) -> String {
        named(self.kind, self.step.as_ref())
    }

    /// The old and the new value, each in one line, whole.
    #[must_use]
    pub fn texts(&self) -> (Option<String>, Option<String>) {
        (self.old.as_ref().map(one_line), self.new.as_ref().map(one_line))
    }
}

/// The name of an entry: `build.command`, `plan.budget`.
fn named(kind: ExecutedKind, step: Option<&String>) -> String {
    format!("{}.{}", step.map_or("plan", String::as_str), kind.label())
}

impl fmt::Display for ExecutedPart {
    /// One line: `build.command: make all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.text())
    }
}

impl fmt::Display for ExecutedChange {
    /// The name, and a line for the old and the new value, without a trailing newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name())?;
        let (old, new) = self.texts();
        for (sign, text) in [('-', old), ('+', new)] {
            if let Some(text) = text {
                write!(f, "\n  {sign} {text}")?;
            }
        }
        Ok(())
    }
}

#[doc(hidden)]
impl Plan {
    /// Everything that a plan executes, asks and may spend, as text without a trailing newline;
    /// empty for an empty list.
    #[must_use]
    pub fn executed_text(&self) -> String {
        let lines: Vec<String> = self.executed().iter().map(|each| format!("  {each}")).collect();
        if lines.is_empty() { String::new() } else { format!("executes:\n{}", lines.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(value: Value) -> Plan {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn commands_come_first_whole_and_in_one_line() {
        let long = "x".repeat(5000);
        let found = plan(json!({
            "budget": {"attempts": 9}, "gate": {"question": "start?"}, "caps": {"run": 2},
            "defaults": {"command": long, "idempotent": "no", "timeout_seconds": 60},
            "failure": {"decider": "external", "max_replans": 2, "rules": [
                {"id": "again", "when": {"class": "transient"}, "then": "retry"}, {"id": "ask", "then": {"escalate": {}}}]},
            "test_criteria": ["t", {"command": "c\u{1b}[2J"}],
            "steps": [
                {"id": "a", "gate": {"question": "really?"}, "probe": "test\n-e x"},
                {"id": "b", "command": "rm -rf x", "idempotent": "yes", "cost_limit": {"tokens": 5},
                    "timeout_seconds": 5, "retry": {"max_attempts": 4}, "fallback": {"owner": "other"},
                    "acceptance": [{"command": "one"}, {"cel": "true"}, {"command": "two"}]},
            ],
        })).executed_text();
        let expected = [
            "executes:",
            &format!("  a.command: {long}"),
            "  b.command: rm -rf x",
            "  a.probe: test\\n-e x",
            "  b.check: one",
            "  b.check: two",
            "  plan.check: c\\u{1b}[2J",
            "  a.gate: {\"question\":\"really?\"}",
            "  plan.gate: {\"question\":\"start?\"}",
            "  a.idempotent: no",
            "  b.fallback: {\"owner\":\"other\"}",
            "  b.retry: {\"max_attempts\":4}",
            "  a.timeout_seconds: 60",
            "  b.timeout_seconds: 5",
            "  plan.rule: {\"id\":\"again\",\"then\":\"retry\",\"when\":{\"class\":\"transient\"}}",
            "  plan.rule: {\"id\":\"ask\",\"then\":{\"escalate\":{}}}",
            "  plan.decider: external",
            "  plan.max_replans: 2",
            "  b.cost_limit: {\"money_micros\":0,\"tokens\":5}",
            "  plan.budget: {\"attempts\":9}",
            "  plan.caps: {\"run\":2}",
        ];
        assert_eq!(found, expected.join("\n"));
    }

    #[test]
    fn different_commands_never_look_alike() {
        let parts = ["\n", "\\", "n", "u{202e}", "\u{202e}", "\u{1b}", "u{1b}", "x"];
        let mut seen = std::collections::BTreeMap::new();
        for first in parts {
            for second in parts {
                for third in parts {
                    let text = [first, second, third].concat();
                    // As a terminal shows it, where invisible characters are escaped, too.
                    let shown = one_line(&json!(text)).replace('\u{202e}', "\\u{202e}");
                    if let Some(other) = seen.insert(shown.clone(), text.clone()) {
                        assert_eq!(other, text, "{shown}");
                    }
                }
            }
        }
        assert_eq!(one_line(&json!(r"sed 's/\./x/'")), r"sed 's/\./x/'");
        assert_eq!(one_line(&json!("a\nb")), r"a\nb");
        assert_eq!(one_line(&json!(r"a\nb")), r"a\\nb");
    }

    #[test]
    fn changes_show_old_and_new_commands() {
        let old = plan(json!({"steps": [
            {"id": "a", "command": "one", "acceptance": [{"command": "x"}, {"command": "y"}]},
            {"id": "b", "probe": "p"}, {"id": "d", "command": "same"}]}));
        let new = plan(json!({"steps": [
            {"id": "a", "command": "two", "acceptance": [{"command": "y"}, {"command": "z"}]},
            {"id": "d", "command": "same"}, {"id": "c", "command": "new"}]}));
        let texts: Vec<String> =
            executed_changes(&old, &new).iter().map(ToString::to_string).collect();
        let expected = [
            "a.command:\n  - one\n  + two",
            "c.command:\n  + new",
            "b.probe:\n  - p",
            "a.check:\n  - x\n  + z",
        ];
        assert_eq!(texts, expected);
    }
}
