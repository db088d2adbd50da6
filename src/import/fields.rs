//! Fields of a record of another tool: each is taken once, under any of its names, and what
//! nobody took is kept.

use serde_json::{Map, Value};

use super::finding::{Finding, Severity};

/// The fields of one record.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn new(fields: &Map<String, Value>) -> Self {
        Self(fields.clone())
    }

    /// What nobody took, empty values left out: they say nothing.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.0.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// The first of these fields that can be read so. One that cannot is left where it is.
    pub(super) fn take<T>(
        &mut self,
        names: &[&str],
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let (name, value) =
            names.iter().find_map(|name| Some((*name, read(self.0.get(*name)?)?)))?;
        self.0.remove(name);
        Some(value)
    }

    /// All of these fields that are there.
    pub(super) fn take_all(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| self.0.remove_entry(*name)).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// One text, without white space around it. An empty one is taken, too, and is nothing.
    pub(super) fn text(&mut self, names: &[&str]) -> String {
        let read = |value: &Value| Some(value.as_str()?.trim().to_owned());
        let filled = self.take(names, |value| read(value).filter(|text| !text.is_empty()));
        filled.or_else(|| self.take(names, read)).unwrap_or_default()
    }
}

/// The text of an id, which tools write as a number or as text.
pub(super) fn name_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.trim().to_owned()),
        _ => None,
    }
}

/// What is to be said where an id, or one of a list, is a number with a fraction.
pub(super) fn doubtful_id(value: &Value, place: String) -> Option<Finding> {
    let has_fraction = |value: &&Value| value.is_f64();
    let number = match value {
        Value::Array(items) => items.iter().find(has_fraction),
        one => Some(one).filter(has_fraction),
    }?;
    let message = format!(
        "the number {number} cannot be told from {number}0: it was read as `{number}`; write it as text, \
         in quotes"
    );
    Some(Finding { severity: Severity::Warning, line: None, place, message })
}

/// A list of names, or one name. Nothing, if anything else stands in it.
pub(super) fn names(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(name_text).collect(),
        Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
        other => name_text(other).map(|name| vec![name]),
    }
}

/// A list of texts that say something; a single text with bullets is a list, too.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items
            .iter()
            .map(|item| Some(item.as_str()?.trim().to_owned()))
            .collect::<Option<_>>()?,
        Value::String(text) => bullets(text),
        _ => return None,
    };
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// The items of a text of which every line is a bullet or goes on with one; else the text itself.
pub(super) fn bullets(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.trim().lines() {
        let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
        match (bullet, items.last_mut()) {
            (Some(item), _) => items.push(unboxed(item).trim().to_owned()),
            (None, Some(item)) if line.starts_with("  ") || line.trim().is_empty() => {
                item.push('\n');
                item.push_str(line.trim());
            }
            (None, _) => return vec![text.trim().to_owned()],
        }
    }
    items.iter().map(|item| item.trim().to_owned()).collect()
}

/// A text without the box before it.
fn unboxed(text: &str) -> &str {
    ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text)
}

/// What a word for a status means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Done,
    Dropped,
    Open,
}

/// The meaning of a status in any spelling.
pub(super) fn mark(status: &str) -> Mark {
    let word: String = status
        .trim()
        .chars()
        .map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() })
        .filter(|c| *c != '\'')
        .collect();
    match word.as_str() {
        "done" | "completed" | "complete" | "closed" | "passed" | "passes" | "finished"
        | "resolved" | "merged" | "accepted" | "fixed" => Mark::Done,
        "cancelled" | "canceled" | "skipped" | "wont_do" | "wont_fix" | "wontfix" | "removed"
        | "deleted" | "obsolete" | "dropped" | "abandoned" | "rejected" | "superseded"
        | "duplicate" => Mark::Dropped,
        _ => Mark::Open,
    }
}
