//! Our own form of a plan file: the types of [`crate::plan`], strictly.
//!
//! Invariants: an unknown field is an error, so that a slip of the pen is not a lost dependency;
//! every error has a line and a column. Text that looks like a number stays as it was written.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DefaultMessageFormatter, Error as YamlError, MessageFormatter, Options};

pub(super) mod more;

use more::words as json_words;

use super::PlanFormat;
use super::draft::{Draft, Places};
use super::finding::{Finding, Refusal};
use super::marks::PlanFile;
use super::{bad_plan, text};
use crate::plan::nearest;

/// What comes of reading: a value, or why there is none, with its line.
pub(super) type Read<T> = Result<T, Refusal>;

/// How deeply a YAML plan may nest. JSON readers stop at 128, and a plan is stored as JSON.
const YAML_DEPTH_MAX: usize = 64;

/// How many parts a YAML plan may have: a part has at least one byte, so the size of the file is
/// the true bound.
const YAML_PARTS_MAX: usize = 64 * 1024 * 1024;

/// How many bytes aliases may stand for beyond the file itself.
const YAML_ALIAS_PARTS_MAX: usize = 100_000;

/// What a plan of our own form may say and no other tool does.
const OWN_FIELDS: [&str; 4] = ["barriers", "defaults", "caps", "failure"];

/// What a step of our own form may say and no other tool does.
const OWN_STEP_FIELDS: [&str; 16] = [
    "after",
    "preconditions",
    "on_false",
    "condition",
    "failure_hints",
    "retry",
    "fallback",
    "side_effects",
    "idempotent",
    "probe",
    "timeout_seconds",
    "lease_seconds",
    "cost_estimate",
    "cost_limit",
    "gate",
    "extra",
];

/// What steps of other tools say and ours do not. One of them makes a list of steps theirs, if
/// nothing in it is ours alone: then it is a slip of the pen.
const OTHER_STEP_FIELDS: [&str; 20] = [
    "order",
    "step",
    "step_number",
    "stepNumber",
    "name",
    "description",
    "details",
    "status",
    "files_to_modify",
    "filesToModify",
    "files_to_create",
    "files",
    "validation",
    "test_criteria",
    "testCriteria",
    "acceptance_criteria",
    "acceptanceCriteria",
    "dependencies",
    "depends_on",
    "dependsOn",
];

/// Whether a JSON value is a plan of our own form: it has steps, and they are not another tool's.
pub(super) fn is_ours(value: &Value) -> bool {
    value.get("steps").is_some_and(|steps| !is_of_another_tool(value, steps))
}

/// Whether a JSON value without steps is meant to be a plan of our own form, because it says what
/// a plan may say: its author is told what is missing.
pub(super) fn is_meant(value: &Value) -> bool {
    let names = ["title", "goal", "outcome", "context", "phases"];
    names.iter().chain(&OWN_FIELDS).any(|name| value.get(name).is_some())
}

fn is_of_another_tool(plan: &Value, steps: &Value) -> bool {
    let steps: Vec<&Value> = steps.as_array().into_iter().flatten().collect();
    let says =
        |names: &[&str]| steps.iter().any(|step| names.iter().any(|name| step.get(name).is_some()));
    let is_ours = OWN_FIELDS.iter().any(|name| plan.get(name).is_some()) || says(&OWN_STEP_FIELDS);
    !is_ours && says(&OTHER_STEP_FIELDS)
}

/// A plan of our own form as JSON, of which the value is known, too.
pub(super) fn json_draft(text: &str, value: &Value) -> Read<Draft> {
    match json::<PlanFile>(text) {
        Ok(file) => Ok(Draft::own(file.imported(PlanFormat::Json), Places::Json)),
        Err(refusal) => Err(all(refusal, |_| more::of_json(text, value))),
    }
}

/// A plan of our own form as YAML.
pub(super) fn yaml_draft(text: &str) -> Read<Draft> {
    match yaml::<PlanFile>(text) {
        Ok(file) => Ok(Draft::own(file.imported(PlanFormat::Yaml), Places::Yaml)),
        Err(refusal) => Err(all(refusal, |first| more::of_yaml(text, first))),
    }
}

/// Everything that is wrong, if that is more than one thing.
fn all(refusal: Refusal, look: impl Fn(Refusal) -> Vec<Finding>) -> Refusal {
    let Refusal::Unreadable { line, column, error } = refusal else { return refusal };
    let again = || Refusal::Unreadable { line, column, error: bad_plan(error.message()) };
    let found = look(again());
    if found.len() > 1 { Refusal::Problems(found) } else { again() }
}

/// Any JSON value.
pub(super) fn json_value(text: &str) -> Read<Value> {
    serde_json::from_str(text).map_err(|error| json_error(&error))
}

/// A plan, or another of our own forms, from JSON.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Read<T> {
    serde_json::from_str(text).map_err(|error| json_error(&error))
}

/// A plan, or another of our own forms, from YAML.
pub(super) fn yaml<T: DeserializeOwned>(text: &str) -> Read<T> {
    serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| yaml_error(&error))
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: YAML_PARTS_MAX,
            max_nodes: YAML_PARTS_MAX,
            max_depth: YAML_DEPTH_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_ALIAS_PARTS_MAX,
        },
        // YAML 1.2: only `true` and `false` are truth values, so `no` and `on` stay words.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn json_error(error: &serde_json::Error) -> Refusal {
    json_error_at(u64::try_from(error.line()).unwrap_or(u64::MAX), error)
}

/// The error of a text that begins on some line of its file and has but one.
pub(super) fn json_error_at(line: u64, error: &serde_json::Error) -> Refusal {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let column = u64::try_from(error.column()).unwrap_or(u64::MAX);
    text::at(line, column, &json_words(message))
}

fn yaml_error(error: &YamlError) -> Refusal {
    let error = error.without_snippet();
    let hint = match error {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            did_you_mean(field, expected.iter().copied())
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            did_you_mean(variant, expected.iter().copied())
        }
        _ => String::new(),
    };
    let message = error.render_with_formatter(&Words);
    let Some(place) = error.location() else {
        return bad_plan(format!("{message}{hint}")).into();
    };
    let (line, column) = (place.line(), place.column());
    let suffix = format!(" at line {line}, column {column}");
    let message = message.replacen(&suffix, "", 1);
    text::at(line, column, &format!("{message}{hint}"))
}

/// The messages of the YAML reader, for somebody who writes plans and not for its programmer.
struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a YamlError) -> Cow<'a, str> {
        let text = match error {
            YamlError::Unexpected { expected: "sequence start", .. } => "expected a list",
            YamlError::Unexpected { expected: "mapping start", .. } => {
                "expected fields, as in `title: Text`"
            }
            YamlError::NullIntoString { .. } => "nothing is written here, expected text",
            YamlError::MultipleDocuments { .. } => {
                "the file has more than one YAML document, expected one plan; split the file"
            }
            YamlError::InvalidScalar { ty: "u32" | "u64", .. } => {
                "expected a whole number from 0 on"
            }
            YamlError::InvalidScalar { ty: "i32", .. } => "expected a whole number",
            YamlError::NonFiniteFloat { .. } => {
                "the number is not finite or too large; write it as text"
            }
            YamlError::DuplicateMappingKey { key: Some(key), .. } => {
                return format!("field `{key}` is there twice; remove one").into();
            }
            _ => return DefaultMessageFormatter.format_message(error),
        };
        text.into()
    }
}

/// What stands between pairs of backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn did_you_mean<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(written, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn quote_it() -> String {
    "; write it in quotes".to_owned()
}
