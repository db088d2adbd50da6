//! The fields of one record. Each is taken once, under any of its names; the rest is kept.

use serde_json::{Map, Value};

use crate::files::diagnostic::{Diagnostic, Severity};

/// The fields of one record that were not taken yet.
pub(super) struct RecordFields(Map<String, Value>);

impl RecordFields {
    pub(super) fn new(fields: &Map<String, Value>) -> Self {
        Self(fields.clone())
    }

    /// The fields that were not taken, without nulls.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.0.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Takes the first of these fields that `read` accepts. Other fields stay.
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

    /// Takes all of these fields that exist.
    pub(super) fn take_all(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| self.0.remove_entry(*name)).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Takes one trimmed text; a filled one is preferred to an empty one.
    pub(super) fn text(&mut self, names: &[&str]) -> String {
        let read = |value: &Value| Some(value.as_str()?.trim().to_owned());
        let filled = self.take(names, |value| read(value).filter(|text| !text.is_empty()));
        filled.or_else(|| self.take(names, read)).unwrap_or_default()
    }
}

/// An id, which tools write as a number or as text.
pub(super) fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.trim().to_owned()),
        _ => None,
    }
}

/// A warning about an id, or the first id of a list, that is a number with a fraction.
pub(super) fn fractional_id(value: &Value, place: String) -> Option<Diagnostic> {
    let has_fraction = |value: &&Value| value.is_f64();
    let number = match value {
        Value::Array(items) => items.iter().find(has_fraction),
        one => Some(one).filter(has_fraction),
    }?;
    let message = format!(
        "a number cannot tell {number} from {number}0; the id was read as `{number}`; write it in \
         quotes"
    );
    Some(Diagnostic::at_path(Severity::Warning, place, message))
}

/// A list of ids, or one id; `None` if it has any other value.
pub(super) fn id_list(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(id_text).collect(),
        Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
        other => id_text(other).map(|id| vec![id]),
    }
}

/// A list of non-empty texts, or a single text, whose bullets are a list.
pub(super) fn text_list(value: &Value) -> Option<Vec<String>> {
    let texts = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items
            .iter()
            .map(|item| Some(item.as_str()?.trim().to_owned()))
            .collect::<Option<_>>()?,
        Value::String(text) => split_bullets(text),
        _ => return None,
    };
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// The items of a text in which every line begins or continues a bullet; otherwise the whole text.
pub(super) fn split_bullets(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.trim().lines() {
        let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
        match (bullet, items.last_mut()) {
            (Some(item), _) => items.push(strip_checkbox(item).trim().to_owned()),
            (None, Some(item)) if line.starts_with("  ") || line.trim().is_empty() => {
                item.push('\n');
                item.push_str(line.trim());
            }
            (None, _) => return vec![text.trim().to_owned()],
        }
    }
    items.iter().map(|item| item.trim().to_owned()).collect()
}

fn strip_checkbox(text: &str) -> &str {
    ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text)
}
