//! todo.txt, and other lists of plain lines: a task on each line, `x` before one that is done, `(A)` for its priority, `+project` and `@context`.

use serde_json::{Map, Value, json};

use crate::syntax::Node;

/// The tasks of a text; `None` if it is no list of tasks. A line has a sign of one, or all lines look like titles; and no
/// line is prose, or of another form.
pub(super) fn tasks(text: &str) -> Option<Node> {
    let lines = (1_u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let lines: Vec<(u64, &str)> = lines.collect();
    let any = |is_wanted: fn(&str) -> bool| lines.iter().any(|(_, line)| is_wanted(line));
    let is_list = any(has_sign) || lines.len() > 1 && !any(|line| !is_title(line));
    if !is_list || any(|line| is_other(line) || is_prose(line)) {
        return None;
    }
    Some(Node::list_of(lines.into_iter().map(|(line, text)| (line, task(text))).collect()))
}

/// Whether a line is of another form.
fn is_other(line: &str) -> bool {
    line.starts_with([' ', '\t', '#', '-', '|', '<', '{', '[']) || line.ends_with(':')
}

/// Whether a line without a sign is a part of a sentence, or a field.
fn is_prose(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with(['.', ',', ';', '?', '!']) || !has_sign(line) && line.contains(": ")
}

/// Whether a line looks like the title of a task.
fn is_title(line: &str) -> bool {
    line.len() <= TITLE_BYTES_MAX && line.starts_with(|c: char| c.is_uppercase() || !c.is_ascii())
}

/// The longest line that is the title of a task without a sign.
const TITLE_BYTES_MAX: usize = 120;

fn has_sign(line: &str) -> bool {
    let is_tag = |word: &str| word.len() > 1 && word.starts_with(['+', '@']);
    done(line).is_some_and(|text| !text.starts_with(char::is_lowercase))
        || priority(line).is_some()
        || is_date(line.split(' ').next().unwrap_or_default())
        || line.split_whitespace().any(is_tag)
}

/// The text of a task that is done.
fn done(line: &str) -> Option<&str> {
    line.strip_prefix("x ")
}

/// The priority of a task, and the text after it.
fn priority(line: &str) -> Option<(char, &str)> {
    let (mark, rest) = line.strip_prefix('(')?.split_once(") ")?;
    let mut letters = mark.chars();
    let letter = letters.next().filter(char::is_ascii_uppercase)?;
    letters.next().is_none().then_some((letter, rest))
}

fn is_date(word: &str) -> bool {
    let digits =
        |part: &str, count: usize| part.len() == count && part.chars().all(|c| c.is_ascii_digit());
    let parts: Vec<&str> = word.split('-').collect();
    matches!(parts.as_slice(), [year, month, day]
        if digits(year, 4) && digits(month, 2) && digits(day, 2))
}

fn without_dates(mut text: &str) -> &str {
    while let Some((_, rest)) = text.split_once(' ').filter(|(word, _)| is_date(word)) {
        text = rest;
    }
    text
}

/// The length of the mark of a line that is done: `x ` and the day on which it was done.
pub(crate) fn mark_length(line: &str) -> usize {
    let Some(text) = done(line) else { return 0 };
    let day = text.split_once(' ').filter(|(word, _)| is_date(word)).map(|(_, rest)| rest);
    line.len().saturating_sub(day.unwrap_or(text).len())
}

fn task(line: &str) -> Value {
    let is_done = done(line).is_some();
    // The days on which it was done and made, before or after the priority.
    let text = without_dates(done(line).unwrap_or(line));
    let (letter, rest) = priority(text).unzip();
    let text = rest.map_or(text, without_dates);
    let tags =
        text.split_whitespace().filter(|word| word.len() > 1 && word.starts_with(['+', '@']));
    let tags: Vec<&str> = tags.collect();
    let mut fields = Map::new();
    fields.insert("title".to_owned(), json!(text.trim()));
    if is_done {
        fields.insert("status".to_owned(), json!("done"));
    }
    if !tags.is_empty() {
        fields.insert("tags".to_owned(), json!(tags));
    }
    if let Some(letter) = letter {
        let word = match letter {
            'A' => "critical",
            'B' => "high",
            'C' => "medium",
            _ => "low",
        };
        fields.insert("priority".to_owned(), json!(word));
    }
    Value::Object(fields)
}
