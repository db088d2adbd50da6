//! Plans inside of other text: in a code block, in the front matter, or as task elements.
//!
//! Every function returns the part of the text with the plan, padded so that its lines have the
//! numbers of the whole text.

use serde_json::{Map, Value};

/// A part of a text, with the number of its first line.
pub(super) struct Embedded<'a> {
    /// The part, padded with line breaks.
    pub(super) text: String,
    /// The text before and after it.
    pub(super) around: (&'a str, &'a str),
}

/// The code blocks of a Markdown text that begin like JSON.
pub(super) fn json_blocks(text: &str) -> Vec<Embedded<'_>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, usize)> = None;
    let mut at = 0_usize;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim();
        let next = at.saturating_add(line.len());
        if content.starts_with("```") {
            match open {
                None => open = Some((number.saturating_add(1), at, next)),
                Some((first, start, body)) => {
                    open = None;
                    let block = text.get(body..at).unwrap_or_default();
                    if block.trim_start().starts_with(['{', '[']) {
                        let around = (
                            text.get(..start).unwrap_or_default(),
                            text.get(next..).unwrap_or_default(),
                        );
                        let text = format!("{}{block}", "\n".repeat(first));
                        found.push(Embedded { text, around });
                    }
                }
            }
        }
        at = next;
    }
    found
}

/// The front matter of a text, with its first mark, and the text after it.
pub(super) fn front_matter(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let mut length = lines.next().filter(|line| line.trim_end() == "---")?.len();
    for line in lines {
        if line.trim_end() == "---" {
            let body = text.get(length.saturating_add(line.len())..)?;
            return Some((text.get(..length)?, body));
        }
        length = length.saturating_add(line.len());
    }
    None
}

/// The task elements of a text (`<task><name>...</name>...</task>`), each with its line.
pub(super) fn task_elements(text: &str) -> Vec<(u64, Value)> {
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
        if fields.contains_key("name") || fields.contains_key("action") {
            found.push((line, Value::Object(fields)));
        }
        line = line.saturating_add(line_breaks(element));
        rest = after;
    }
    found
}

fn line_breaks(text: &str) -> u64 {
    u64::try_from(text.matches('\n').count()).unwrap_or(0)
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
                fields.insert(name.to_owned(), Value::String(value.trim().to_owned()));
                rest = after;
            }
            None => rest = content,
        }
    }
    fields
}
