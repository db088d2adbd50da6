//! A line of JSON output: a struct; its fields are the members of the line.

use serde::Serialize;
use serde_json::Value;

/// A line of JSON output. `json_lines.rs` lists them all.
///
/// The comment of the struct and of each field is its description in the published schema.
pub(crate) trait JsonLine: Serialize {
    /// The member `type`; `None` for an enum with a type for each variant.
    const TYPE: Option<&'static str>;
}

/// The members of a line in alphabetical order.
pub(crate) fn line_value<L: JsonLine>(line: &L) -> Value {
    let mut members = serde_json::to_value(line).expect("a line consists of JSON values");
    if let (Some(word), Value::Object(members)) = (L::TYPE, &mut members) {
        members.insert("type".to_owned(), Value::from(word));
    }
    members
}

/// The text of a line, with its end.
pub(crate) fn line_text<L: JsonLine>(line: &L) -> String {
    format!("{}\n", line_value(line))
}
