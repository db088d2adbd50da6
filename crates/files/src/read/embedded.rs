//! Plans inside of other text: task elements, and records that are drawn as a tree.

use serde_json::{Map, Value};

use crate::markdown::Outline;
use crate::syntax::{Node, yaml_tree};

/// The task elements of a text (`<task><name>...</name>...</task>`), each with its line. Those in code are examples,
/// unless the text has no other tasks.
pub(super) fn task_elements(outline: &Outline<'_>) -> Vec<(u64, Value)> {
    if !outline.source().contains("<task") {
        return Vec::new();
    }
    let found = elements(&outline.without_code());
    let is_shown = found.is_empty() && !outline.has_checkboxes();
    if is_shown { elements(outline.source()) } else { found }
}

fn elements(text: &str) -> Vec<(u64, Value)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1_u64;
    while let Some(start) = rest.find("<task") {
        let (before, tail) = rest.split_at(start);
        line = line.saturating_add(line_breaks(before));
        let is_task = tail.get(5..).is_some_and(|rest| rest.starts_with(['>', ' ', '\n']));
        // Another element, such as `<tasks>`, is only passed.
        let end = if is_task { tail.find("</task>") } else { Some(5) };
        let Some(end) = end else { break };
        let (element, after) = tail.split_at(end);
        let fields = if is_task { element_fields(element) } else { Map::new() };
        if ["name", "title", "action"].iter().any(|name| fields.contains_key(*name)) {
            found.push((line, Value::Object(fields)));
        }
        line = line.saturating_add(line_breaks(element));
        rest = after;
    }
    found
}

/// Records drawn as a tree: a line `step_record:`, then its fields behind `\u{251c}\u{2500}\u{2500} `.
pub(super) fn drawn_records(text: &str) -> Vec<(u64, Value)> {
    let mut found = Vec::new();
    let mut fields = Map::new();
    let mut first = 0_u64;
    for (number, line) in (1_u64..).zip(text.lines().chain([""])) {
        let field = drawn_field(line);
        if let Some((name, value)) = field {
            if fields.is_empty() {
                first = number.saturating_sub(1).max(1);
            }
            fields.insert(name, value);
            continue;
        }
        let record = std::mem::take(&mut fields);
        if record.contains_key("id") || record.contains_key("goal") {
            found.push((first, Value::Object(record)));
        }
    }
    found
}

/// The name and the value behind a branch of a tree.
fn drawn_field(line: &str) -> Option<(String, Value)> {
    let branches = ["\u{251c}\u{2500}", "\u{2514}\u{2500}", "|--", "+--", "`--"];
    let line = line.trim();
    let content = branches.iter().find_map(|branch| line.strip_prefix(branch))?;
    let content = content.trim_start_matches(['\u{2500}', '-', ' ']);
    let (name, text) = content.split_once(':')?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == ' ';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let text = text.trim();
    // The values are YAML, unless they only look like it.
    let value = yaml_tree(&format!("value: {text}")).ok();
    let value = value.and_then(|tree| tree.field("value").map(Node::value));
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    Some((name.trim().replace(' ', "_"), value))
}

fn line_breaks(text: &str) -> u64 {
    u64::try_from(text.matches('\n').count()).unwrap_or(0)
}

/// A text without the tags of the elements in it, such as `<automated>`.
fn without_elements(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('<') {
        found.push_str(before);
        let name_end = tail.find('>').filter(|end| {
            let name = tail.get(..*end).unwrap_or_default().trim_start_matches('/');
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
        });
        match name_end {
            Some(end) => rest = tail.get(end.saturating_add(1)..).unwrap_or_default(),
            None => {
                found.push('<');
                rest = tail;
            }
        }
    }
    found.push_str(rest);
    found.trim().to_owned()
}

/// The child elements of an element, and its attributes.
fn element_fields(element: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    let Some((head, body)) = element.split_once('>') else { return fields };
    let mut words = head.split('"');
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let name = name.trim().trim_end_matches('=');
        let name = name.rsplit(' ').next().unwrap_or(name);
        fields.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    let mut rest = body;
    while let Some((_, tail)) = rest.split_once('<') {
        let Some((name, content)) = tail.split_once('>') else { break };
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
        match content.split_once(&format!("</{name}>")).filter(|_| is_name) {
            Some((value, after)) => {
                fields.insert(name.to_owned(), Value::String(without_elements(value)));
                rest = after;
            }
            None => rest = content,
        }
    }
    fields
}
