//! TOML as a JSON value.

use serde_json::Value;

/// Parses a TOML text. Dates become text.
pub(crate) fn parse_toml(text: &str) -> Option<Value> {
    let table: toml::Table = text.parse().ok()?;
    Some(value(toml::Value::Table(table)))
}

fn value(found: toml::Value) -> Value {
    match found {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(is_set) => is_set.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => items.into_iter().map(value).collect(),
        toml::Value::Table(fields) => {
            Value::Object(fields.into_iter().map(|(name, inner)| (name, value(inner))).collect())
        }
    }
}
