//! Fields of native plans in the files of other tools.
//!
//! A field about checks, questions, commands, limits or costs is never kept as data of a tool. It
//! is read as in `format/plan.md`, or it is a problem with its place and the form that is read. A
//! criterion that is an object of another tool becomes a text, unless it has a command.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::described_check::{described_criterion, is_empty};
use super::field_names::{COMMAND_LISTS, CRITERIA};
use super::field_words::{Meaning, is_command_list, is_structured};
use super::must_read::{CRITERION, TESTS, Unread, meaning_by_words, unread_kept_fields};
use super::record_fields::{RecordFields, is_same_name, strip_checkbox, text_list};
use crate::diagnostic::{Diagnostic, Severity};
use crate::draft::{InRecords, NATIVE_FIELDS};
use crate::syntax::list_for_object;
use plan_ledger::plan::{Criterion, Plan, Step};

/// Fields of a native plan that a list of tasks may have beside it.
const PLAN_FIELDS: &[&str] = &["budget", "caps", "owners", "failure", "defaults", "gate"];

/// Takes the fields of a step that have their native form.
pub(super) fn read_step(step: &mut Step, fields: &mut RecordFields) {
    let is_read =
        |(name, place): &(&'static str, InRecords)| (*place != InRecords::No).then_some(*name);
    read(step, fields, &NATIVE_FIELDS.iter().filter_map(is_read).collect::<Vec<_>>());
}

/// Takes the fields of a plan that have their native form.
pub(super) fn read_plan(plan: &mut Plan, fields: &mut RecordFields) {
    read(plan, fields, PLAN_FIELDS);
}

fn read<T: Serialize + DeserializeOwned + Default>(
    target: &mut T,
    fields: &mut RecordFields,
    names: &[&str],
) {
    let unset = serde_json::to_value(T::default()).unwrap_or_default();
    for name in names {
        let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { continue };
        let Ok(Value::Object(all)) = serde_json::to_value(&*target) else { continue };
        // A second value replaces nothing; it is left, and refused.
        if all.get(*name) != unset.get(*name) {
            continue;
        }
        let with = |value: Value| {
            let mut all = all.clone();
            all.insert((*name).to_owned(), value.clone());
            let read: T = serde_json::from_value(Value::Object(all)).ok()?;
            let again = serde_json::to_value(&read).ok()?;
            let as_object = again.get(*name).and_then(|again| list_for_object(&value, again));
            as_object.is_none().then_some(read)
        };
        // A cell of a table has a number or an object as text.
        let of_text = || with(serde_json::from_str(value.as_str()?).ok()?);
        if let Some(read) = with(value.clone()).or_else(of_text) {
            *target = read;
            fields.remove(name);
        }
    }
}

/// The problems of an object in a text that keeps its fields: the fields that must be read.
pub(crate) fn problems_of_fields(fields: &Map<String, Value>, line: u64) -> Vec<Diagnostic> {
    let problem = |(name, message): Unread| {
        let message = format!("`{name}`: {message}");
        Diagnostic::at_line(Severity::Problem, Some(line), message)
    };
    unread_kept_fields(fields).into_iter().map(problem).collect()
}

/// Takes the criteria under all of their names. An object that is not a native criterion stays with
/// its record, too.
pub(super) fn take_criteria(fields: &mut RecordFields) -> (Vec<Criterion>, Vec<Unread>) {
    let (mut criteria, mut unread) = (Vec::new(), Vec::new());
    let is_check = |name: &&&str| {
        // The prose and the paths of such a field are data of the tool.
        !TESTS.contains(*name) || fields.get(name).is_some_and(is_structured)
    };
    let names = CRITERIA.iter().chain(TESTS).filter(is_check).map(|name| (*name).to_owned());
    let names: Vec<String> = names.chain(criteria_by_words(fields)).collect();
    for name in &names {
        if let Some(texts) = fields.take(&[name], text_list) {
            criteria.extend(texts.into_iter().map(Criterion::Text));
            continue;
        }
        let (Some(value), Some(written)) = (fields.get(name), fields.first(&[name])) else {
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
            fields.remove(&written);
        } else {
            fields.keep_all(&[name]);
        }
    }
    (criteria, unread)
}

/// The names of criteria that no list has, such as `exit_criteria`.
fn criteria_by_words(fields: &RecordFields) -> Vec<String> {
    let known = |name: &str| CRITERIA.iter().chain(TESTS).any(|it| is_same_name(it, name));
    let is_criterion = |(name, value): &(&String, &Value)| {
        !known(name) && meaning_by_words(name, value) == Some(Meaning::Criterion)
    };
    fields.left().iter().filter(is_criterion).map(|(name, _)| name.clone()).collect()
}

/// The texts of criteria that tools write for a program.
pub(super) fn listed_texts(fields: &RecordFields) -> Vec<String> {
    let by_words = criteria_by_words(fields).into_iter().filter(|name| is_command_list(name));
    let names = COMMAND_LISTS.iter().map(|name| (*name).to_owned()).chain(by_words);
    names.filter_map(|name| text_list(fields.get(&name)?)).flatten().collect()
}
