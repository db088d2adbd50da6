//! Strict JSON.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::messages::{is_object_field, list_message, plain_message};
use crate::diagnostic::{ReadError, ReadResult};

/// Parses any JSON value.
pub(crate) fn json_value(text: &str) -> ReadResult<Value> {
    parse_json(text)
}

/// Parses a value of a known type.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> ReadResult<T> {
    serde_json::from_str(text)
        .map_err(|error| json_error_at(u64::try_from(error.line()).unwrap_or(u64::MAX), &error))
}

/// The path of a list in the place of an object, with a message, if any. `read` is the parsed
/// value, written as JSON again.
#[must_use]
pub fn list_for_object(written: &Value, read: &Value) -> Option<(String, String)> {
    let path = list_read_as_object(written, read)?;
    let message = list_message(&path);
    Some((path, message))
}

/// The path of a list that was read as an object, by the order of its items, if any: the JSON
/// library reads `["x"]` as a gate. `read` is the parsed value, written as JSON again.
fn list_read_as_object(written: &Value, read: &Value) -> Option<String> {
    plan_ledger::mutant!(ListReadAsObject => return None);
    match (written, read) {
        (Value::Array(_), Value::Object(_)) => Some(String::new()),
        (Value::Array(written), Value::Array(read)) => {
            (0_usize..).zip(written.iter().zip(read)).find_map(|(at, (written, read))| {
                Some(below(&format!("[{at}]"), &list_read_as_object(written, read)?))
            })
        }
        (Value::Object(written), Value::Object(read)) => {
            written.iter().find_map(|(name, value)| {
                match read.get(name) {
                    Some(read) => Some(below(name, &list_read_as_object(value, read)?)),
                    // Defaults are not written again.
                    None => {
                        let is_filled = value.as_array().is_some_and(|items| !items.is_empty());
                        (is_filled && is_object_field(name)).then(|| name.clone())
                    }
                }
            })
        }
        _ => None,
    }
}

/// The path of a part, and of one in it.
fn below(part: &str, inner: &str) -> String {
    let dot = if inner.starts_with('[') || inner.is_empty() { "" } else { "." };
    format!("{part}{dot}{inner}")
}

/// Why a text is not JSON, with its place, for people; `None` if it is.
#[must_use]
pub fn json_problem(text: &str) -> Option<String> {
    let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = plain_message(message.strip_suffix(&place).unwrap_or(&message));
    let message = message.replace("the file", "the text");
    Some(format!("line {}, column {}: {message}", error.line(), error.column()))
}

/// The error of a one-line text that begins on the given line of its file.
pub(crate) fn json_error_at(line: u64, error: &serde_json::Error) -> ReadError {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let column = u64::try_from(error.column()).unwrap_or(u64::MAX);
    ReadError::at(line, column, &plain_message(message))
}

/// The paths of the fields that an object of a well-formed text has more than once.
pub(crate) fn duplicate_keys(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = Duplicates { path: String::new(), found: &mut found };
    // A malformed text has been reported before.
    drop(seed.deserialize(&mut deserializer));
    found
}

struct Duplicates<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Duplicates<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Duplicates<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let path = format!("{}[{index}]", self.path);
            if list.next_element_seed(Duplicates { path, found: &mut *self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let is_first = self.path.is_empty();
            let path = if is_first { name.clone() } else { format!("{}.{name}", self.path) };
            if !names.insert(name) {
                self.found.push(path.clone());
            }
            map.next_value_seed(Duplicates { path, found: &mut *self.found })?;
        }
        Ok(())
    }
}
