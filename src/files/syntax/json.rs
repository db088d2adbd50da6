//! Strict JSON.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::messages::plain_message;
use crate::files::diagnostic::{ReadError, ReadResult};

/// Parses any JSON value.
pub(crate) fn json_value(text: &str) -> ReadResult<Value> {
    parse_json(text)
}

/// Parses a value of a known type.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> ReadResult<T> {
    serde_json::from_str(text)
        .map_err(|error| json_error_at(u64::try_from(error.line()).unwrap_or(u64::MAX), &error))
}

/// The error of a one-line text that begins on the given line of its file.
pub(crate) fn json_error_at(line: u64, error: &serde_json::Error) -> ReadError {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let column = u64::try_from(error.column()).unwrap_or(u64::MAX);
    ReadError::at(line, column, &plain_message(message))
}
