//! JSON values as the log holds them: canonical text (RFC 8785).
//!
//! Two values are equal exactly when their texts are, and a record that holds one decodes
//! without a self-describing format.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON value in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Json(String);

impl Json {
    /// The canonical form of a value.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        Self(canonical(value))
    }

    /// A value by its canonical text, as the log or a blob holds it: it is not looked at.
    pub(crate) fn from_canonical(text: String) -> Self {
        Self(text)
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value. Text that is not JSON (only possible in a record that somebody forged) is
    /// given back as a JSON string, so that reading a ledger never fails on it.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.clone()))
    }
}

impl Default for Json {
    /// `null`.
    fn default() -> Self {
        Self("null".to_owned())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::new(&value)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The canonical text (RFC 8785) of anything that serializes to JSON with string keys.
#[must_use]
pub fn canonical<T: Serialize>(value: &T) -> String {
    // Only a map with keys that are not strings, or a number that is not finite, can fail, and
    // neither a `serde_json::Value` nor a type of this module holds one.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| "null".to_owned())
}
