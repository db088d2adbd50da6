//! Brings the spellings of lists into the one that `CommonMark` reads. The number of lines and the
//! text of each stay the same.
//!
//! - `-[ ] text` has no space after the bullet.
//! - Tabs indent lists.
//! - `step 1: text` is a numbered item, and the labelled lines after it belong to it.

use super::code_fence::CodeFence;
use super::labels::parse_label;
use super::list_markers::parse_checkbox;

/// The text in the spelling of `CommonMark`.
pub(super) fn in_common_spelling(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut fence = CodeFence::default();
    let has_steps = step_lines(text) >= 2;
    let mut is_step_open = false;
    for line in text.lines() {
        let content = line.trim();
        if fence.contains(content) {
            lines.push(line.to_owned());
            continue;
        }
        let line = with_spaces(line);
        let step = Some(&line).filter(|_| has_steps).and_then(|line| step_line(line));
        if let Some((number, text)) = step {
            is_step_open = true;
            lines.push(format!("{number}. {text}"));
            continue;
        }
        let is_label = is_step_open && parse_label(content).is_some();
        is_step_open &= is_label || content.is_empty();
        if is_label {
            let bullet = if content.starts_with(['-', '*']) { "" } else { "- " };
            lines.push(format!("    {bullet}{content}"));
        } else {
            lines.push(with_space_before_box(&line));
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
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

/// `-[ ] text` with a space after its bullet.
fn with_space_before_box(line: &str) -> String {
    let rest = line.trim_start();
    let indent = line.get(..line.len().saturating_sub(rest.len())).unwrap_or_default();
    let bullet = rest.chars().next().filter(|c| ['-', '*', '+'].contains(c));
    let text = rest.get(1..).filter(|text| bullet.is_some() && text.starts_with('['));
    match (bullet, text) {
        (Some(bullet), Some(text)) if parse_checkbox(text, false).is_some() => {
            format!("{indent}{bullet} {text}")
        }
        _ => line.to_owned(),
    }
}

/// How many lines begin with `step 1:`, outside of code.
pub(super) fn step_lines(text: &str) -> usize {
    let mut is_code = false;
    let mut count = 0_usize;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && step_line(line).is_some() {
            count = count.saturating_add(1);
        }
    }
    count
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
