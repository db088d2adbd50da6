//! The marks of a native plan in YAML or JSON: its field `marks`, which is added at the end if it is not there.

use std::ops::Range;

use super::text::SourceText;
use crate::native::{MARKS_FIELD, Marks};
use crate::plan_file::PlanFormat;
use crate::syntax::{Kind, Node};

/// The place of the field.
#[derive(Debug)]
pub(super) struct MarksPlace {
    /// The field with what belongs to it, or the place for it.
    pub(super) span: Range<usize>,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    /// A block of YAML; at the end of the file, with the line ends before it.
    Block { is_last: bool },
    /// A field of JSON, after a comma if it is the last one of several.
    Field { is_last: bool, indent: Option<usize> },
}

/// Finds the place; `None` if a field cannot be added there.
pub(super) fn marks_place(
    source: &SourceText,
    tree: &Node,
    format: PlanFormat,
) -> Option<MarksPlace> {
    match format {
        PlanFormat::Json => json_place(source, tree),
        PlanFormat::Yaml => yaml_place(source, tree),
        _ => None,
    }
}

fn json_place(source: &SourceText, tree: &Node) -> Option<MarksPlace> {
    let Kind::Map(fields) = &tree.kind else { return None };
    let start = source.offset(tree.place)?;
    let first = fields.first()?;
    let is_on_lines = first.place.line > tree.place.line;
    let column = usize::try_from(first.place.column).ok()?;
    let indent = is_on_lines.then(|| column.saturating_sub(1));
    let trimmed = |end: usize| source.slice(0..end).trim_end().len();
    let is_before_last = fields.last().is_some_and(|last| last.name != MARKS_FIELD);
    match fields.iter().find(|field| field.name == MARKS_FIELD) {
        Some(field) => {
            let (key, value) = (source.offset(field.place)?, source.offset(field.value.place)?);
            let end = value.saturating_add(object_length(source.slice(value..source.text.len()))?);
            let is_last = !is_before_last && fields.len() > 1;
            let start = if is_last { trimmed(trimmed(key).checked_sub(1)?) } else { key };
            Some(MarksPlace { span: start..end, layout: Layout::Field { is_last, indent } })
        }
        None => {
            let length = object_length(source.slice(start..source.text.len()))?;
            let at = trimmed(start.saturating_add(length).checked_sub(1)?);
            Some(MarksPlace { span: at..at, layout: Layout::Field { is_last: true, indent } })
        }
    }
}

/// The length of the object of JSON at the start of a text.
fn object_length(text: &str) -> Option<usize> {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth = depth.saturating_add(1),
            b'}' | b']' if !is_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return at.checked_add(1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn yaml_place(source: &SourceText, tree: &Node) -> Option<MarksPlace> {
    let Kind::Map(fields) = &tree.kind else { return None };
    let length = source.text.len();
    let trimmed = |end: usize| source.slice(0..end).trim_end().len();
    if fields.iter().any(|field| field.place.column != 1) {
        return None;
    }
    let Some(field) = fields.iter().find(|field| field.name == MARKS_FIELD) else {
        let layout = Layout::Block { is_last: true };
        return Some(MarksPlace { span: trimmed(length)..length, layout });
    };
    let key = source.offset(field.place)?;
    // The field ends before the next line that is not indented.
    let mut end = key;
    for (index, line) in source.slice(key..length).split_inclusive('\n').enumerate() {
        if index > 0 && !line.trim().is_empty() && !line.starts_with([' ', '\t']) {
            break;
        }
        end = end.saturating_add(line.len());
    }
    let is_last = end == length;
    let start = if is_last { trimmed(key) } else { key };
    Some(MarksPlace { span: start..end, layout: Layout::Block { is_last } })
}

impl MarksPlace {
    /// The text of the field with these marks.
    pub(super) fn text(&self, marks: &Marks) -> String {
        match self.layout {
            Layout::Block { is_last } => {
                let gap = if is_last { "\n" } else { "" };
                if marks.is_empty() && is_last {
                    return gap.to_owned();
                }
                format!("{gap}{}", block(marks))
            }
            Layout::Field { is_last, .. } if is_last && marks.is_empty() => String::new(),
            Layout::Field { is_last, indent } => {
                let value = match indent {
                    Some(_) => serde_json::to_string_pretty(marks),
                    None => serde_json::to_string(marks),
                };
                let value = value.unwrap_or_default();
                let blank = " ".repeat(indent.unwrap_or_default());
                let value = value.replace('\n', &format!("\n{blank}"));
                let field = format!("\"{MARKS_FIELD}\": {value}");
                match (is_last, indent) {
                    (false, _) => field,
                    (true, Some(_)) => format!(",\n{blank}{field}"),
                    (true, None) => format!(", {field}"),
                }
            }
        }
    }
}

/// The field as a block of YAML. Its texts are written as in JSON, which is YAML.
fn block(marks: &Marks) -> String {
    if marks.is_empty() {
        return format!("{MARKS_FIELD}: {{}}\n");
    }
    let mut text = format!("{MARKS_FIELD}:\n");
    let value = serde_json::to_value(marks).unwrap_or_default();
    for (name, list) in value.as_object().into_iter().flatten() {
        text.push_str(&["  ", name, ":\n"].concat());
        for (id, mark) in list.as_object().into_iter().flatten() {
            let id = serde_json::to_string(id).unwrap_or_default();
            text.push_str(&["    ", &id, ": ", &mark.to_string(), "\n"].concat());
        }
    }
    text
}
