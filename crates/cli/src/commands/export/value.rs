//! A value in a row of an exported table.

use serde::Serialize;
use serde_json::Value as Json;

/// A value in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
}

impl Value {
    /// The value of a column: the JSON form of `value`, with lists and objects as JSON text.
    pub(super) fn of(value: &impl Serialize) -> Self {
        serde_json::to_value(value).map_or(Self::Null, |json| Self::of_json(&json))
    }

    /// As [`Value::of`], for a value in its JSON form.
    pub(super) fn of_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            // A database integer has 63 bits; a larger number is stored as text.
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Self::Text(number.to_string()), Self::Number)
            }
            Json::String(text) => Self::Text(text.clone()),
            Json::Bool(_) | Json::Array(_) | Json::Object(_) => Self::Text(json.to_string()),
        }
    }
}

/// The values of a row.
macro_rules! row {
    ($($value:expr),* $(,)?) => { &[$(super::value::Value::of(&$value)),*] };
}
pub(super) use row;
