//! The typed fields of a step in a record.

use serde_json::Value;

use super::record_fields::RecordFields;
use crate::files::draft::StepField;
use crate::plan::Step;

/// Takes the typed fields that a record has. Returns the words without a typed meaning.
pub(super) fn read_step_fields(step: &mut Step, fields: &mut RecordFields) -> Vec<String> {
    let mut notes = Vec::new();
    for field in StepField::ALL {
        let Some(name) = fields.first(field.names()) else { continue };
        // The unit of such a number is not known.
        let is_time = matches!(field, StepField::Timeout | StepField::Estimate);
        if is_time && fields.get(&name).is_some_and(Value::is_number) {
            continue;
        }
        if let Some(value) = fields.remove(&name) {
            notes.extend(field.set(step, &value));
        }
    }
    let seconds = |value: &Value| u32::try_from(value.as_u64()?).ok().filter(|it| *it > 0);
    if let Some(seconds) = fields.take(&["timeoutSeconds"], seconds) {
        step.timeout_seconds = Some(seconds);
    }
    if let Some(seconds) = fields.take(&["estimateSeconds", "estimate_seconds"], seconds) {
        step.estimate_seconds = Some(seconds);
    }
    notes
}
