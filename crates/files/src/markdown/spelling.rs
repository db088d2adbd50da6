//! Brings the spellings of lists into the one that `CommonMark` reads. The number of lines, and the text of each line
//! behind its marker, stay the same.
//!
//! - `-[ ] text` has no space after the bullet.
//! - Tabs indent lists.
//! - `step 1: text` is a numbered item, and the labelled lines after it belong to it.
//! - Lines that begin with a symbol for a box, or with another bullet, are items.
//! - `1.1. text` below the item `1.` is an item inside it.

use std::borrow::Cow;

use super::labels::parse_label;
use super::list_markers::{begins_with_symbol, parse_checkbox};

/// Bullets that `CommonMark` does not know.
const OTHER_BULLETS: &[char] = &['\u{2022}', '\u{25e6}', '\u{25aa}'];

/// A text in common spelling.
pub(super) struct Spelled<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether its tasks are lines `step 1: text`.
    pub(super) has_step_lines: bool,
}

/// The text in the spelling of `CommonMark`. `code_lines` finds the lines that are code.
pub(super) fn in_common_spelling(
    text: &str,
    code_lines: impl FnOnce() -> Vec<bool>,
) -> Spelled<'_> {
    if !text.lines().any(is_other) {
        return Spelled { text: Cow::Borrowed(text), has_step_lines: false };
    }
    let code = code_lines();
    let is_code = |at: usize| code.get(at).copied().unwrap_or_default();
    let steps = text.lines().enumerate().filter(|(at, line)| !is_code(*at) && is_step_line(line));
    let has_step_lines = steps.count() >= 2;
    let mut lines: Vec<String> = Vec::new();
    let mut is_step_open = false;
    let mut number: Option<String> = None;
    for (at, line) in text.lines().enumerate() {
        if is_code(at) {
            lines.push(line.to_owned());
            continue;
        }
        let line = with_spaces(line);
        let content = line.trim();
        if let Some((number, text)) = step_line(&line).filter(|_| has_step_lines) {
            is_step_open = true;
            lines.push(format!("{number}. {text}"));
            continue;
        }
        let is_label = is_step_open && parse_label(content).is_some();
        is_step_open &= is_label || content.is_empty();
        let part = part_number(content).filter(|part| number.as_deref() == Some(part));
        let own = content.split_once(['.', ')']).map_or("", |(number, _)| number);
        if !own.is_empty() && own.chars().all(|c| c.is_ascii_digit()) {
            number = Some(own.to_owned());
        } else if content.starts_with('#') {
            number = None;
        }
        lines.push(match part {
            _ if is_label => {
                let bullet = if content.starts_with(['-', '*']) { "" } else { "- " };
                format!("    {bullet}{content}")
            }
            Some(part) => format!("{}- {content}", " ".repeat(part.len().saturating_add(2))),
            None => with_bullet(line),
        });
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Spelled { text: Cow::Owned(text), has_step_lines }
}

/// Whether a line may be in another spelling.
fn is_other(line: &str) -> bool {
    let content = line.trim_start();
    let indent = line.get(..line.len().saturating_sub(content.len())).unwrap_or_default();
    let bullet = content.trim_start_matches(['-', '*', '+']);
    indent.contains('\t')
        || bullet.len() < content.len() && bullet.starts_with('[')
        || content.starts_with(OTHER_BULLETS)
        || begins_with_symbol(content)
        || part_number(content).is_some()
        || is_step_line(line)
}

/// The first number of a line such as `1.1. text`, or `1.1 text`.
fn part_number(content: &str) -> Option<&str> {
    let rest = content.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let numbers = content.get(..content.len().saturating_sub(rest.len()))?;
    let (first, inner) = numbers.trim_end_matches('.').split_once('.')?;
    (!first.is_empty() && !inner.is_empty() && rest.starts_with(' ')).then_some(first)
}

/// A line with spaces instead of tabs in its indentation.
fn with_spaces(line: &str) -> String {
    let rest = line.trim_start_matches([' ', '\t']);
    let indent = line.get(..line.len().saturating_sub(rest.len())).unwrap_or_default();
    if !indent.contains('\t') {
        return line.to_owned();
    }
    let width: usize = indent.chars().map(|c| if c == '\t' { 4 } else { 1 }).sum();
    format!("{}{rest}", " ".repeat(width))
}

/// `-[ ] text` with a space after its bullet, and a line with a symbol for a bullet or a box with a bullet before it.
fn with_bullet(line: String) -> String {
    let rest = line.trim_start();
    let indent = line.get(..line.len().saturating_sub(rest.len())).unwrap_or_default();
    let bullet = rest.chars().next().filter(|c| ['-', '*', '+'].contains(c));
    let text = rest.get(1..).filter(|text| bullet.is_some() && text.starts_with('['));
    match (bullet, text) {
        (Some(bullet), Some(text)) if parse_checkbox(text, false).is_some() => {
            format!("{indent}{bullet} {text}")
        }
        _ if begins_with_symbol(rest) => format!("{indent}- {rest}"),
        _ => match rest.strip_prefix(OTHER_BULLETS) {
            Some(text) if text.starts_with([' ', '\u{a0}']) => {
                format!("{indent}- {}", text.trim_start())
            }
            _ => line,
        },
    }
}

fn is_step_line(line: &str) -> bool {
    step_line(line).is_some()
}

/// The number and the text of a line such as `step 1: text`.
fn step_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("- ").unwrap_or(line);
    let rest = ["step ", "Step ", "STEP "].iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let (number, rest) = rest.split_at(end);
    let text = rest.strip_prefix([':', '.', ')'])?.trim();
    (!text.is_empty()).then_some((number, text))
}
