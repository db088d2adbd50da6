//! The fields of one record. Each is taken once, under any of its names; the rest is kept.
//!
//! Tools spell one name in several ways: `acceptance_criteria`, `acceptanceCriteria`, and
//! `Acceptance criteria` in the header of a table. Names are equal if their letters and digits are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::draft::TaskStatus;

/// The fields of one record that were not taken yet.
pub(super) struct RecordFields {
    fields: Map<String, Value>,
    /// Fields that were read, and that stay data of the tool, too.
    kept: Map<String, Value>,
    /// The name in the record of each plain name.
    names: BTreeMap<String, String>,
}

/// A name without case and punctuation.
pub(super) fn plain_name(name: &str) -> String {
    letters(name).collect()
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// Whether two names are one name without case and punctuation.
pub(super) fn is_same_name(name: &str, other: &str) -> bool {
    letters(name).eq(letters(other))
}

/// A field of an object under one of these names.
pub(super) fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    field_in(value.as_object()?, names)
}

/// A field under one of these names.
pub(super) fn field_in<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| {
        fields.get(*name).or_else(|| {
            fields.iter().find(|(other, _)| is_same_name(other, name)).map(|(_, value)| value)
        })
    })
}

/// An id with its numbers as numbers, for sorting.
pub(super) fn natural(id: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = id;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(text);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(end);
        parts.push((word.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}

impl RecordFields {
    pub(super) fn new(fields: &Map<String, Value>) -> Self {
        let mut names = BTreeMap::new();
        for name in fields.keys() {
            names.entry(plain_name(name)).or_insert_with(|| name.clone());
        }
        Self { fields: fields.clone(), kept: Map::new(), names }
    }

    /// The fields that were not taken, and those that stay, without nulls.
    pub(super) fn rest(self) -> Map<String, Value> {
        let all = self.fields.into_iter().chain(self.kept);
        all.filter(|(_, value)| !value.is_null()).collect()
    }

    /// Takes fields that stay data of the tool, too.
    pub(super) fn keep_all(&mut self, names: &[&str]) {
        let taken = self.take_all(names);
        self.kept.extend(taken);
    }

    /// The fields that were not taken.
    pub(super) fn left(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The name of a field as the record spells it.
    fn written(&self, name: &str) -> Option<&String> {
        self.names.get(&plain_name(name)).filter(|name| self.fields.contains_key(*name))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(self.written(name)?)
    }

    /// The first of these fields that is there, as the record spells it.
    pub(super) fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.written(name)).cloned()
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        let name = self.written(name)?.clone();
        self.fields.remove(&name)
    }

    /// Takes the first of these fields that `read` accepts. Other fields stay.
    pub(super) fn take<T>(
        &mut self,
        names: &[&str],
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let (name, value) = names.iter().find_map(|name| Some((*name, read(self.get(name)?)?)))?;
        self.remove(name);
        Some(value)
    }

    /// Takes all of these fields that exist.
    pub(super) fn take_all(&mut self, names: &[&str]) -> Map<String, Value> {
        let mut taken = Map::new();
        for name in names {
            let Some(written) = self.written(name).cloned() else { continue };
            taken.extend(self.fields.remove_entry(&written));
        }
        taken
    }

    /// Takes one trimmed text; a filled one is preferred to an empty one.
    pub(super) fn text(&mut self, names: &[&str]) -> String {
        let read = |value: &Value| Some(value.as_str()?.trim().to_owned());
        let filled = self.take(names, |value| read(value).filter(|text| !text.is_empty()));
        filled.or_else(|| self.take(names, read)).unwrap_or_default()
    }

    /// Takes all of these texts that are there, in this order.
    pub(super) fn texts(&mut self, names: &[&str]) -> Vec<String> {
        let read = |value: &Value| Some(value.as_str()?.trim().to_owned());
        let found = names.iter().filter_map(|name| self.take(&[*name], read));
        found.filter(|text| !text.is_empty()).collect()
    }

    /// Takes the texts of all of these lists.
    pub(super) fn lists(&mut self, names: &[&str]) -> Vec<String> {
        let found = names.iter().filter_map(|name| self.take(&[*name], text_list));
        found.flatten().collect()
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

/// A truth value, also as text.
pub(super) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_set) => Some(*is_set),
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" => Some(true),
            mark if TaskStatus::parse(mark) == TaskStatus::Done => Some(true),
            "false" | "no" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A list of non-empty texts, or a single text with a list of bullets.
pub(super) fn text_list(value: &Value) -> Option<Vec<String>> {
    let texts = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items
            .iter()
            .map(|item| Some(strip_checkbox(item.as_str()?.trim()).to_owned()))
            .collect::<Option<_>>()?,
        Value::String(text) => split_bullets(text),
        _ => return None,
    };
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// Names in a list, or in one text that separates them by commas.
pub(super) fn name_list(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) if !text.contains('\n') => {
            let names = text.split([',', ';']).map(|name| name.trim().to_owned());
            Some(names.filter(|name| !name.is_empty()).collect())
        }
        other => text_list(other),
    }
}

/// The paths in a list of texts, or of objects that have a path.
pub(super) fn path_list(value: &Value) -> Option<Vec<String>> {
    let names = ["path", "file", "filePath", "name"];
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items
            .iter()
            .map(|item| id_text(item).or_else(|| id_text(field(item, &names)?)))
            .collect(),
        other => name_list(other),
    }
}

/// The items of a text in which every line begins or continues a bullet; otherwise the whole text.
pub(super) fn split_bullets(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.trim().lines() {
        if line.trim_start().starts_with("<!--") && line.trim_end().ends_with("-->") {
            continue;
        }
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

/// Whether a text or a list has checkboxes, and all of them are ticked.
pub(super) fn is_all_ticked(value: &Value) -> bool {
    let lines: Vec<&str> = match value {
        Value::String(text) => text.lines().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => return false,
    };
    let boxes = lines.iter().map(|line| line.trim_start().trim_start_matches(['-', '*', ' ']));
    let mut count = 0_usize;
    for text in boxes.filter(|text| strip_checkbox(text).len() < text.len()) {
        if text.starts_with("[ ]") {
            return false;
        }
        count = count.saturating_add(1);
    }
    count > 0
}

pub(super) fn strip_checkbox(text: &str) -> &str {
    ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text)
}
