//! The JSON Schema of the native plan format, generated from the Rust types.

use serde_json::{Value, json};

use super::native::{MARKS_FIELD, Marks};
use crate::plan::Plan;

/// The JSON Schema of a plan file, for editors and for tools that write plans.
///
/// It requires at least one step. A schema cannot check that every name refers to something;
/// [`crate::plan::validate`] does.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Plan).to_value();
    let mut marks = schemars::schema_for!(Marks).to_value();
    if let Some(marks) = marks.as_object_mut() {
        for name in ["$schema", "title"] {
            marks.remove(name);
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("required".to_owned(), json!(["steps"]));
    }
    if let Some(fields) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        fields.insert(MARKS_FIELD.to_owned(), marks);
    }
    if let Some(steps) = schema.pointer_mut("/properties/steps").and_then(Value::as_object_mut) {
        steps.insert("minItems".to_owned(), json!(1));
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_schema_matches_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/plan.schema.json");
        let text = format!("{:#}\n", schema());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let published: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(
            published == schema(),
            "format/plan.schema.json is stale; run with UPDATE_GOLDEN=1"
        );
    }
}
