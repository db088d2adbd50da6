//! The JSON Schema of the native plan format. A test generates it from the Rust types, so that a program that
//! gives it needs no generator.

use serde_json::Value;

/// The JSON Schema of a plan file, for editors and for tools that write plans.
///
/// It requires at least one step. A schema cannot check that every name refers to something;
/// [`plan_ledger::plan::validate`] does.
#[must_use]
pub fn schema() -> Value {
    let published = include_str!("../plan.schema.json");
    serde_json::from_str(published).expect("a test compares it with the types")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::native::{MARKS_FIELD, Marks};
    use plan_ledger::plan::Plan;

    fn generated() -> Value {
        let mut schema = schemars::schema_for!(Plan).to_value();
        let mut marks = schemars::schema_for!(Marks).to_value();
        for name in ["$schema", "title"] {
            marks.as_object_mut().unwrap().remove(name);
        }
        schema["required"] = json!(["steps"]);
        schema["properties"][MARKS_FIELD] = marks;
        schema["properties"]["steps"]["minItems"] = json!(1);
        schema
    }

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_schema_matches_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("plan.schema.json");
        let own = generated();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{own:#}\n")).unwrap();
        }
        let published: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(published == own, "format/plan.schema.json is stale; run with UPDATE_GOLDEN=1");
    }
}
