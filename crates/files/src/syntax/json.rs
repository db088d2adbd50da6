//! Strict JSON: the library checks the text and reads its texts and numbers; a scan over the checked text
//! finds the places.

use serde_json::Value;

use super::messages::{is_object_field, list_message, plain_message};
use super::tree::{Field, Kind, Node, Place, Plain};
use crate::diagnostic::{ReadError, ReadResult};

/// The tree of a JSON text.
pub(crate) fn json_tree(text: &str) -> ReadResult<Node> {
    json_tree_at(text, 1)
}

/// The tree of a JSON text that begins on a line of its file.
fn json_tree_at(text: &str, line: u64) -> ReadResult<Node> {
    // The check also limits the nesting.
    serde_json::from_str::<Value>(text).map_err(|error| {
        let inner = u64::try_from(error.line()).unwrap_or(u64::MAX).saturating_sub(1);
        json_error_at(line.saturating_add(inner), &error)
    })?;
    Scanner { rest: text, place: Place { line, column: 1 } }.value()
}

/// The tree of JSON Lines: a list of objects. `None` if the first line is not a JSON object; an error if a later line
/// is not.
pub(crate) fn json_lines(text: &str) -> Option<ReadResult<Node>> {
    let mut items = Vec::new();
    for (line, content) in (1_u64..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        match json_tree_at(content, line) {
            Ok(tree) if matches!(tree.kind, Kind::Map(_)) => items.push(tree),
            Err(error) if error.is_name_twice() => return Some(Err(error)),
            Ok(_) | Err(_) if items.is_empty() => return None,
            Ok(_) => {
                let text = "expected an issue: one JSON object on each line";
                return Some(Err(ReadError::at(line, 1, text)));
            }
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(Node::list(items)))
}

/// A scan over well-formed JSON. It checks nothing.
struct Scanner<'a> {
    rest: &'a str,
    place: Place,
}

impl<'a> Scanner<'a> {
    /// Takes the text up to an offset.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        for byte in taken.bytes() {
            match byte {
                b'\n' => {
                    self.place.line = self.place.line.saturating_add(1);
                    self.place.column = 1;
                }
                // A character has one first byte.
                _ if byte & 0xc0 != 0x80 => {
                    self.place.column = self.place.column.saturating_add(1);
                }
                _ => {}
            }
        }
        self.rest = rest;
        taken
    }

    /// The next byte after white space, commas and colons, without taking it.
    fn peek(&mut self) -> Option<u8> {
        let skipped = self.rest.bytes().take_while(|byte| b" \t\r\n,:".contains(byte)).count();
        self.take(skipped);
        self.rest.bytes().next()
    }

    fn value(&mut self) -> ReadResult<Node> {
        let first = self.peek();
        let place = self.place;
        let kind = match first {
            Some(b'{') => {
                self.take(1);
                let mut fields = Vec::new();
                while self.peek().is_some_and(|byte| byte == b'"') {
                    let place = self.place;
                    let name = self.text();
                    fields.push(Field { name, place, value: self.value()? });
                }
                self.take(1);
                return Node::map(place, fields);
            }
            Some(b'[') => {
                self.take(1);
                let mut items = Vec::new();
                while self.peek().is_some_and(|byte| byte != b']') {
                    items.push(self.value()?);
                }
                self.take(1);
                Kind::List(items)
            }
            Some(b'"') => Kind::Text(self.text()),
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\r', '\n']);
                let source = self.take(end.unwrap_or(self.rest.len()).max(1));
                let value = serde_json::from_str(source).unwrap_or_default();
                Kind::Plain(Plain { value, source: source.to_owned(), may_be_text: false })
            }
        };
        Ok(Node { place, kind })
    }

    /// Takes a text in quotes.
    fn text(&mut self) -> String {
        let mut is_escaped = true;
        let end = self.rest.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let quoted = self.take(end.map_or(self.rest.len(), |end| end.saturating_add(1)));
        serde_json::from_str(quoted).unwrap_or_default()
    }
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

/// The error on a line of the file.
fn json_error_at(line: u64, error: &serde_json::Error) -> ReadError {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let column = u64::try_from(error.column()).unwrap_or(u64::MAX);
    ReadError::at(line, column, &plain_message(message))
}
