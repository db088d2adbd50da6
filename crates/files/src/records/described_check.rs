//! Checks that are objects in the files of other tools: some have a command or an expression, and
//! others become text criteria.

use serde_json::Value;

use super::record_fields::{field_in, is_same_name, plain_name};
use plan_ledger::plan::Criterion;

/// Names under which tools write the command or the expression of a check.
const COMMAND_NAMES: &[&str] = &[
    "command",
    "commands",
    "cmd",
    "cmds",
    "run",
    "script",
    "scripts",
    "shell",
    "exec",
    "execute",
    "bash",
    "sh",
    "cli",
    "automated",
    "cel",
    "expression",
];

/// Types of checks that a program judges, under the names for types.
const COMMAND_TYPES: &[&str] =
    &["command", "cmd", "shell", "bash", "sh", "script", "exec", "cli", "cel", "expression"];

/// Fields of a check that change the meaning of its command.
const COMMAND_FIELDS: &[&str] = &[
    "args",
    "arguments",
    "argv",
    "cwd",
    "workdir",
    "workingDirectory",
    "env",
    "exitCode",
    "expectedExit",
    "expectedExitCode",
    "expectFailure",
    "negate",
];

/// The criterion that an object of another tool means; `None` if it has a command or an expression in a
/// form that is not known.
pub(super) fn described_criterion(item: &Value) -> Option<Criterion> {
    let Some(object) = item.as_object() else {
        return (!has_command(item)).then(|| Criterion::Text(item.to_string()));
    };
    let text = |name: &str| {
        let text = field_in(object, &[name])?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let signs = object.iter().filter(|(name, value)| is_command(name, value)).count();
    let is_bare = |name: &String, value: &Value| {
        let is_plain = is_empty(value) || value.as_i64() == Some(0);
        is_plain || !COMMAND_FIELDS.iter().any(|known| is_same_name(known, name))
    };
    let is_bare = object.iter().all(|(name, value)| is_bare(name, value));
    match (text("command"), text("cel")) {
        (Some(command), _) if signs == 1 && is_bare => return Some(Criterion::Command(command)),
        (None, Some(expression)) if signs == 1 => return Some(Criterion::Cel(expression)),
        _ if has_command(item) => return None,
        _ => {}
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

/// Whether a check, or an object inside it, has a command or an expression.
pub(super) fn has_command(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let types = ["type", "kind", "method"];
            let is_type = types.contains(&plain_name(name).as_str())
                && value
                    .as_str()
                    .is_some_and(|word| COMMAND_TYPES.contains(&plain_name(word).as_str()));
            is_type || is_command(name, value) || has_command(value)
        }),
        Value::Array(items) => items.iter().any(has_command),
        _ => false,
    }
}

/// Whether a field of a check has a command or an expression.
fn is_command(name: &str, value: &Value) -> bool {
    let plain = plain_name(name);
    let is_named = COMMAND_NAMES.contains(&plain.as_str())
        || ["command", "commands", "cmd"].iter().any(|word| plain.ends_with(word));
    // `automated: true` says how a person works, and no command.
    is_named && !is_empty(value) && !value.is_boolean()
}

/// Whether a value is empty in meaning.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
