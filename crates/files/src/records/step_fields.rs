//! The typed fields of a step in a record.

use serde_json::Value;

use super::field_names::{CHANGES, NEW_FILES};
use super::record_fields::{RecordFields, path_list};
use crate::draft::StepField;
use plan_ledger::plan::Step;

/// Takes the typed fields that a record has. Returns the words without a typed meaning.
pub(super) fn read_step_fields(step: &mut Step, fields: &mut RecordFields) -> Vec<String> {
    let mut notes = Vec::new();
    let names = StepField::ALL
        .into_iter()
        .flat_map(|field| field.names().iter().map(move |it| (field, it)));
    let mut read = Vec::new();
    for (field, name) in names {
        let Some(name) = fields.first(&[*name]) else { continue };
        // The unit of such a number is not known.
        let is_time = matches!(field, StepField::Timeout | StepField::Estimate);
        if is_time && fields.get(&name).is_some_and(Value::is_number) {
            continue;
        }
        let Some(value) = fields.remove(&name) else { continue };
        // A second field of one meaning adds words; it replaces nothing.
        if read.contains(&field) && field != StepField::Preconditions {
            notes.push(format!("{name}: {value}"));
        } else {
            notes.extend(field.set(step, &value));
            read.push(field);
        }
    }
    notes
}

/// Takes the files that a step may change. Returns the text for `extra` about the files that it
/// creates.
pub(super) fn take_changes(step: &mut Step, fields: &mut RecordFields) -> Option<(String, Value)> {
    let created: Vec<String> = fields.take(NEW_FILES, path_list).unwrap_or_default();
    let changes = CHANGES.iter().filter_map(|name| fields.take(&[*name], path_list));
    let changes: Vec<String> = changes.flatten().chain(created.clone()).collect();
    step.changes = changes.into();
    (!created.is_empty()).then(|| ("files_to_create".to_owned(), created.into()))
}
