//! Values that a plan, a worker or a person wrote.

use plan_ledger::Json;

/// JSON over several lines; a string as its own text.
#[must_use]
pub fn value_text(value: &Json) -> String {
    match value.value() {
        serde_json::Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string()),
    }
}
