//! Lines, and the markers before the text of a list item: bullet, number and checkbox.

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Text,
    /// A line of a block in fences, or a fence.
    Code,
    Comment,
}

/// A line of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: &'a str,
    pub(super) kind: LineKind,
}

use std::ops::Range;

/// The state of a checkbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checkbox {
    Open,
    Done,
    /// Another mark, such as `[-]` or `[~]`, which means dropped in some tools and started in
    /// others.
    Other(char),
}

/// Marks of a ticked box.
const TICKS: &[char] = &['x', 'X', '\u{2713}', '\u{2714}', '\u{2705}', '\u{2611}', '\u{221a}'];

/// Marks of a box that is neither open nor ticked. Letters and digits make references, not boxes.
const OTHER_MARKS: &[char] = &['-', '~', '>', '<', '/', '!', '?', '*', '+', '.', '=', '|', '\\'];

/// Symbols that are boxes themselves.
const OPEN_BOXES: &[char] = &['\u{2610}', '\u{2b1c}', '\u{1f532}', '\u{25fb}'];
const TICKED_BOXES: &[char] = &['\u{2611}'];
/// Symbols that are ticked boxes where the text also has open ones.
const TICK_SYMBOLS: &[char] = &['\u{2705}', '\u{2714}', '\u{2713}'];
/// Symbols of work that is not done, where ticks are boxes.
const PENDING_SYMBOLS: &[char] = &['\u{23f3}', '\u{1f6a7}', '\u{1f504}', '\u{1f51c}'];

/// Whether a text draws boxes, so that its ticks are boxes as well.
pub(super) fn draws_boxes(text: &str) -> bool {
    let is_pending = |line: &str| strip_marker(line.trim()).starts_with(PENDING_SYMBOLS);
    text.contains(OPEN_BOXES)
        || text.contains(TICKED_BOXES)
        || text.contains(PENDING_SYMBOLS) && text.lines().any(is_pending)
}

/// Whether a line without a bullet begins with a symbol for a box or a status, and a number if others use the symbol
/// for other things: `\u{2705} **1. Draw it**`.
pub(super) fn begins_with_symbol(line: &str) -> bool {
    line.starts_with(OPEN_BOXES)
        || line.starts_with(TICKED_BOXES)
        || line.starts_with(TICK_SYMBOLS) && parse_checkbox(line, false).is_some()
        || line.starts_with(PENDING_SYMBOLS)
}

/// Whether a text begins with the number of a task: `**1. Draw it**`.
fn is_numbered(text: &str) -> bool {
    let text = text.trim_start_matches(['*', '_']);
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.get(..text.len().saturating_sub(rest.len())).unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit())
        && (number.ends_with('.') || rest.starts_with([')', ':']) || number.contains('.'))
}

/// The place of the mark of a box in a line: between its brackets, or the symbol.
pub(super) fn mark_place(line: &str, draws_boxes: bool) -> Option<Range<usize>> {
    let mut rest = line.trim_start().trim_start_matches('#').trim_start();
    loop {
        let stripped = strip_marker(rest);
        if stripped.len() == rest.len() {
            break;
        }
        rest = stripped;
    }
    let parsed = parse_checkbox(rest, draws_boxes)?;
    let start = line.len().saturating_sub(rest.len());
    if let Some(inner) = rest.strip_prefix('[') {
        let inner = inner.split_once(']')?.0;
        let start = start.saturating_add(1);
        return Some(start..start.saturating_add(inner.len()));
    }
    let symbol = rest.get(..rest.len().saturating_sub(parsed.rest.len()))?.trim_end();
    Some(start..start.saturating_add(symbol.len()))
}

/// Removes the bullet or number before a line.
pub(super) fn strip_marker(line: &str) -> &str {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if digits.len() < line.len() {
        digits.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+'])
    };
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => line,
    }
}

/// A checkbox before a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParsedBox<'a> {
    pub(super) checkbox: Checkbox,
    /// Whether a star marks the task as optional: `[ ]*`.
    pub(super) is_optional: bool,
    pub(super) rest: &'a str,
}

/// Parses the checkbox before a text: `[ ]`, `[x]`, `[ x ]`, `[]`, `[ ]*`, or a symbol.
pub(super) fn parse_checkbox(text: &str, draws_boxes: bool) -> Option<ParsedBox<'_>> {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(char::is_whitespace);
    let symbol = text.chars().next()?;
    let checkbox = match symbol {
        '[' => return parse_bracket(text),
        _ if OPEN_BOXES.contains(&symbol) => Checkbox::Open,
        _ if TICKED_BOXES.contains(&symbol) => Checkbox::Done,
        _ if TICK_SYMBOLS.contains(&symbol) => Checkbox::Done,
        _ if PENDING_SYMBOLS.contains(&symbol) => Checkbox::Open,
        _ => return None,
    };
    let rest = text.get(symbol.len_utf8()..)?.trim_start_matches('\u{fe0f}');
    let is_other = TICK_SYMBOLS.contains(&symbol) || PENDING_SYMBOLS.contains(&symbol);
    let is_box = !is_other || draws_boxes || is_numbered(rest.trim_start());
    let is_optional = false;
    let parsed = || ParsedBox { checkbox, is_optional, rest: rest.trim_start() };
    (is_box && is_end(rest)).then(parsed)
}

fn parse_bracket(text: &str) -> Option<ParsedBox<'_>> {
    let (inner, rest) = text.strip_prefix('[')?.split_once(']')?;
    let inner = inner.trim().trim_end_matches('\u{fe0f}');
    let mut chars = inner.chars();
    let checkbox = match (chars.next(), chars.next()) {
        (None, _) => Checkbox::Open,
        (Some(mark), None) if TICKS.contains(&mark) => Checkbox::Done,
        (Some(mark), None) if OTHER_MARKS.contains(&mark) || u32::from(mark) > 0x2000 => {
            Checkbox::Other(mark)
        }
        _ => return None,
    };
    let (is_optional, rest) = match rest.strip_prefix('*') {
        Some(rest) if !rest.starts_with('*') => (true, rest),
        _ => (false, rest),
    };
    let is_end = rest.is_empty() || rest.starts_with(char::is_whitespace);
    is_end.then(|| ParsedBox { checkbox, is_optional, rest: rest.trim_start() })
}

/// Removes the checkbox before a text.
pub(super) fn strip_checkbox(text: &str) -> (Option<Checkbox>, &str) {
    match parse_checkbox(text, false) {
        Some(parsed) => (Some(parsed.checkbox), parsed.rest),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_box_has_its_place_in_the_line() {
        for (line, mark) in [
            ("- [ ] do", " "),
            ("  1. [x] do [y]", "x"),
            ("### [ x ] do", " x "),
            ("* [] do", ""),
            ("- 2) [-] do", "-"),
            ("- \u{2611}\u{fe0f} do", "\u{2611}\u{fe0f}"),
            ("\u{2610} do", "\u{2610}"),
        ] {
            let place = mark_place(line, false).unwrap();
            assert_eq!(&line[place.clone()], mark, "{line}");
            assert!(!line[..place.start].contains("do"), "{line}");
        }
        assert_eq!(mark_place("- do [x]", false), None);
    }

    #[test]
    fn boxes_are_read_in_every_spelling() {
        for (text, checkbox, is_optional) in [
            ("[ ] do", Checkbox::Open, false),
            ("[] do", Checkbox::Open, false),
            ("[ ]* do", Checkbox::Open, true),
            ("[x]* do", Checkbox::Done, true),
            ("[ x ] do", Checkbox::Done, false),
            ("[x ] do", Checkbox::Done, false),
            ("[\u{2713}] do", Checkbox::Done, false),
            ("[-] do", Checkbox::Other('-'), false),
            ("[>] do", Checkbox::Other('>'), false),
            ("\u{2610} do", Checkbox::Open, false),
            ("\u{2611}\u{fe0f} do", Checkbox::Done, false),
        ] {
            let expected = ParsedBox { checkbox, is_optional, rest: "do" };
            assert_eq!(parse_checkbox(text, false), Some(expected), "{text}");
        }
        for text in ["[1] do", "[a](b) do", "[x](y)", "[P] do", "[link] x", "x [ ]", "\u{2705} do"]
        {
            assert_eq!(parse_checkbox(text, false), None, "{text}");
        }
        assert!(parse_checkbox("\u{2705} do", true).is_some());
        assert!(parse_checkbox("\u{2705} **1. Do**", false).is_some());
        assert!(draws_boxes("- \u{1f6a7} do\n") && !draws_boxes("It is \u{1f6a7} now.\n"));
    }
}
