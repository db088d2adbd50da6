//! Fields of native plans in the files of other tools.
//!
//! A field that says what is checked, asked, executed, limited or spent is never kept as data of a
//! tool. It is read as in `format/plan.md`, or it is a problem with its place and the form that is
//! read. Criteria are read in any form: an object that is no native criterion becomes a text.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::field_names::CRITERIA;
use super::record_fields::{RecordFields, plain_name, strip_checkbox, text_list};
use crate::files::diagnostic::{Diagnostic, Severity};
use crate::plan::{Criterion, Plan, Step};

/// A field that cannot be read: its path below the record, and why.
pub(super) type Unread = (String, String);

/// Fields of a native step whose native form takes precedence over the words of other tools.
const STEP_FIELDS: &[&str] = &[
    "command",
    "probe",
    "gate",
    "retry",
    "fallback",
    "on_false",
    "failure_hints",
    "optional_outputs",
    "timeout_seconds",
    "estimate_seconds",
    "lease_seconds",
    "cost_estimate",
    "cost_limit",
];

/// Fields of a native plan that a list of tasks may have beside it.
const PLAN_FIELDS: &[&str] = &["budget", "caps", "failure", "defaults", "gate"];

const CRITERION: &str = "`acceptance: [{command: make test}]`";
const GATE: &str = "`gate: {question: May it be published?}`";
const COMMAND: &str = "`command: make build`, a text";
const PROBE: &str = "`probe: test -e done`, a text";
const COST: &str = "`cost_limit: {money_micros: 250000}`";
const BUDGET: &str = "`budget: {attempts: 9}`";
const CAPS: &str = "`caps: {run: 4}`";
const RULES: &str = "`failure: {rules: [{id: down, when: {class: transient}, then: retry}]}`";
const SECONDS: &str = "`timeout_seconds: 1800`, or a text such as `30m`";

/// Fields of a step that must be read, and what is written instead of an unknown form.
const STEP_FORMS: &[(&str, &str)] = &[
    ("command", COMMAND),
    ("commands", COMMAND),
    ("probe", PROBE),
    ("probes", PROBE),
    ("gate", GATE),
    ("gates", GATE),
    ("on_false", "`on_false: skip`, or `wait`, `fail`, `abort`"),
    ("failure_hints", "`failure_hints: {timeout: transient}`"),
    ("optional_outputs", "`optional_outputs: [name]`"),
    ("timeout", SECONDS),
    ("timeout_seconds", SECONDS),
    ("lease_seconds", "`lease_seconds: 900`"),
    ("cost_estimate", "`cost_estimate: {money_micros: 250000}`"),
    ("cost_limit", COST),
    ("budget", COST),
    ("budgets", COST),
    ("limit", COST),
    ("limits", COST),
    ("cap", "`tags` of the step and `caps: {tags: {name: 1}}` of the plan"),
    ("caps", "`tags` of the step and `caps: {tags: {name: 1}}` of the plan"),
    ("rule", RULES),
    ("rules", RULES),
];

/// Fields of a plan that must be read, and what is written instead of an unknown form.
const PLAN_FORMS: &[(&str, &str)] = &[
    ("gate", GATE),
    ("gates", GATE),
    ("budget", BUDGET),
    ("budgets", BUDGET),
    ("limit", BUDGET),
    ("limits", BUDGET),
    ("cap", CAPS),
    ("caps", CAPS),
    ("failure", RULES),
    ("rule", RULES),
    ("rules", RULES),
    ("command", "`defaults: {command: make build}`"),
    ("commands", "`defaults: {command: make build}`"),
    ("probe", "`probe` of a step"),
    ("probes", "`probe` of a step"),
    ("defaults", "`defaults: {command: make build, timeout_seconds: 1800}`"),
    ("barriers", "the whole plan in the native form"),
];

/// Names under which other tools write the command of a check.
const COMMAND_NAMES: &[&str] = &["cmd", "commands", "run", "script", "shell", "exec", "bash"];

/// Takes the fields of a step that have their native form.
pub(super) fn read_step(step: &mut Step, fields: &mut RecordFields) {
    read(step, fields, STEP_FIELDS);
}

/// Takes the fields of a plan that have their native form.
pub(super) fn read_plan(plan: &mut Plan, fields: &mut RecordFields) {
    read(plan, fields, PLAN_FIELDS);
}

fn read<T: Serialize + DeserializeOwned>(
    target: &mut T,
    fields: &mut RecordFields,
    names: &[&str],
) {
    for name in names {
        let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { continue };
        let Ok(Value::Object(all)) = serde_json::to_value(&*target) else { continue };
        let with = |value: Value| {
            let mut all = all.clone();
            all.insert((*name).to_owned(), value);
            serde_json::from_value(Value::Object(all)).ok()
        };
        // A cell of a table has a number or an object as text.
        let of_text = || with(serde_json::from_str(value.as_str()?).ok()?);
        if let Some(read) = with(value.clone()).or_else(of_text) {
            *target = read;
            fields.remove(name);
        }
    }
}

/// The fields of a step that must be read and were not taken.
pub(super) fn unread_step_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    unread(fields, STEP_FORMS)
}

/// The fields around a list of tasks that must be read and were not taken.
pub(super) fn unread_plan_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    let mut found = unread(fields, PLAN_FORMS);
    let is_native = |name: &str, value: &Value| match plain_name(name).as_str() {
        "barriers" => value.as_array().into_iter().flatten().any(|it| it.get("members").is_some()),
        "failure" | "defaults" => value.is_object(),
        _ => true,
    };
    found.retain(|(name, _)| fields.get(name).is_some_and(|value| is_native(name, value)));
    found
}

/// The problems of an object in a text whose fields are kept as they are: those that must be read.
pub(crate) fn problems_of_fields(fields: &Map<String, Value>, line: u64) -> Vec<Diagnostic> {
    let problem = |(name, message): Unread| {
        let message = format!("`{name}`: {message}, in a native plan");
        Diagnostic::at_line(Severity::Problem, Some(line), message)
    };
    unread_plan_fields(fields).into_iter().map(problem).collect()
}

fn unread(fields: &Map<String, Value>, forms: &[(&str, &str)]) -> Vec<Unread> {
    let mut found = Vec::new();
    for (name, value) in fields {
        let plain = plain_name(name);
        let form = forms.iter().find(|(known, _)| plain_name(known) == plain);
        if let Some((_, form)) = form.filter(|_| !is_empty(value)) {
            let message = format!("{} cannot be read here; write {form}", kind_of(value));
            found.push((name.clone(), message));
        }
    }
    found
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "this text",
        Value::Array(_) => "this list",
        Value::Object(_) => "this object",
    }
}

/// Takes the criteria under all of their names. An object that is no native criterion stays with its
/// record, too.
pub(super) fn take_criteria(fields: &mut RecordFields) -> (Vec<Criterion>, Vec<Unread>) {
    let (mut criteria, mut unread) = (Vec::new(), Vec::new());
    for name in CRITERIA {
        if let Some(texts) = fields.take(&[*name], text_list) {
            criteria.extend(texts.into_iter().map(Criterion::Text));
            continue;
        }
        let (Some(value), Some(written)) = (fields.get(name), fields.first(&[*name])) else {
            continue;
        };
        let items = match value {
            Value::Array(items) => items.as_slice(),
            Value::Object(_) => std::slice::from_ref(value),
            _ => continue,
        };
        let mut is_native = true;
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !is_empty(item)) {
            if let Ok(criterion) = serde_json::from_value::<Criterion>(item.clone()) {
                criteria.push(match criterion {
                    Criterion::Text(text) => Criterion::Text(strip_checkbox(text.trim()).into()),
                    other => other,
                });
                continue;
            }
            is_native = false;
            match described_criterion(item) {
                Some(criterion) => criteria.push(criterion),
                None => {
                    let place = if value.is_array() { format!("[{index}]") } else { String::new() };
                    let message = format!("this check cannot be read; write {CRITERION}");
                    unread.push((format!("{written}{place}"), message));
                }
            }
        }
        if is_native {
            fields.remove(name);
        }
    }
    (criteria, unread)
}

/// The criterion that an object of another tool means; `None` if it has a command under a name that is
/// not known to be one.
fn described_criterion(item: &Value) -> Option<Criterion> {
    let Some(object) = item.as_object() else { return Some(Criterion::Text(item.to_string())) };
    let text = |name: &str| {
        let text = object.get(name)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    if let Some(command) = text("command") {
        return Some(Criterion::Command(command));
    }
    if let Some(expression) = text("cel") {
        return Some(Criterion::Cel(expression));
    }
    let is_command = |name: &String| COMMAND_NAMES.contains(&plain_name(name).as_str());
    if object.iter().any(|(name, value)| is_command(name) && !is_empty(value)) {
        return None;
    }
    let names = ["criterion", "description", "text", "title", "name", "condition"];
    let words = || {
        let fields = object.iter().filter(|(_, value)| !is_empty(value));
        let field = |(name, value): (&String, &Value)| match value.as_str() {
            Some(text) => format!("{name}: {}", text.trim()),
            None => format!("{name}: {value}"),
        };
        fields.map(field).collect::<Vec<_>>().join("; ")
    };
    Some(Criterion::Text(names.into_iter().find_map(text).unwrap_or_else(words)))
}
