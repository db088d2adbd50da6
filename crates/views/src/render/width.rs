//! The width of text in columns of a terminal, and text that is cut or wrapped to a width.
//!
//! Widths are those of the crate `unicode-width`; paint has none. The width of grapheme clusters is
//! not computed: an emoji sequence may break a column.

use unicode_width::UnicodeWidthChar as _;

/// The width of a text in columns.
#[must_use]
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut is_paint = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => is_paint = true,
            'm' if is_paint => is_paint = false,
            _ if is_paint => {}
            _ => columns += c.width().unwrap_or(0),
        }
    }
    columns
}

/// Cuts a text to a width, and ends it with dots if it was cut.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(3);
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    format!("{}...", kept.collect::<String>())
}

/// Wraps a text between words.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used: usize = 0;
    for word in text.split(' ') {
        let wanted = width(word);
        // A word that fits no line stays where it is: the terminal wraps it.
        if used > 0 && wanted <= columns && used.saturating_add(1 + wanted) > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += wanted;
    }
    lines.push(line);
    lines
}

/// Wraps each line of a text between words; the rest of a line is indented two columns more. A
/// command to type is never wrapped: a part of it may have another effect.
pub(crate) fn wrap_lines(text: &str, columns: usize) -> String {
    let mut out = Vec::new();
    for line in text.split('\n') {
        let body = line.trim_start_matches(' ');
        if width(line) <= columns || body.starts_with(COMMAND) {
            out.push(line.to_owned());
            continue;
        }
        let indent = line.len() - body.len();
        let room = columns.saturating_sub(indent + REST_INDENT).max(ROOM_MIN);
        let mut parts = wrap(body, room).into_iter();
        out.extend(parts.next().map(|first| format!("{:indent$}{first}", "")));
        let rest = indent + REST_INDENT;
        out.extend(parts.map(|part| format!("{:rest$}{}", "", part.trim_start_matches(' '))));
    }
    out.join("\n")
}

/// How a command to type begins. A message begins with the name and a colon.
const COMMAND: &str = "ledger ";

/// Further indentation of the rest of a wrapped line.
const REST_INDENT: usize = 2;

/// In a narrower terminal, lines are wrapped by the terminal.
const ROOM_MIN: usize = 20;

#[cfg(test)]
mod tests {
    //! Goal: text fits the terminal, and wide characters count double.

    use super::*;

    #[test]
    fn text_is_cut_by_columns_and_not_by_bytes() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abc...");
        assert_eq!(cut("\u{4f60}\u{597d}\u{4f60}\u{597d}", 7), "\u{4f60}\u{597d}...");
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("\u{1b}[1m\u{1b}[31mred\u{1b}[0m"), 3);
    }

    #[test]
    fn long_lines_are_wrapped_with_their_indentation() {
        let text = "short\n    a line of several words that is too long";
        let wrapped = wrap_lines(text, 30);
        assert_eq!(wrapped, "short\n    a line of several words\n      that is too long");
        for line in wrap_lines(&"word ".repeat(50), 30).lines() {
            assert!(width(line) <= 30, "{line}");
        }
        assert_eq!(wrap_lines("x".repeat(50).as_str(), 30), "x".repeat(50), "words are kept");
        let long = format!("failed: {}: it is too long for a line", "x".repeat(50));
        let expected = format!("failed: {}:\n  it is too long for a line", "x".repeat(50));
        assert_eq!(wrap_lines(&long, 30), expected, "what fits no line begins no line");
    }

    #[test]
    fn command_to_type_is_not_wrapped() {
        let text = "to do it, type this command\n  ledger retry plan a-step-with-a-long-name";
        let wrapped = wrap_lines(text, 24);
        let command = "\n  ledger retry plan a-step-with-a-long-name";
        assert_eq!(wrapped, format!("to do it, type this\n  command{command}"));
    }
}
