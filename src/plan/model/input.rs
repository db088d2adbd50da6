//! Inputs: the values that a run needs from its start.
//!
//! A plan declares them by name. The start of a run gives their values, which become variables of the
//! run; an input without a value takes its default.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::is_default;

/// A value that a run needs from its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PlanInput {
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: InputType,
    /// Its value if none is given; without one, a value must be given.
    #[serde(skip_serializing_if = "is_default")]
    pub default: Option<Value>,
    /// A description for people.
    #[serde(skip_serializing_if = "is_default")]
    pub title: String,
}

/// The type of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputType {
    /// Any value.
    #[default]
    Any,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A map.
    Object,
}

impl InputType {
    /// Whether a value has this type.
    #[must_use]
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl fmt::Display for InputType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        })
    }
}
