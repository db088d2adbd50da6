//! Escapes text that others wrote, so that it cannot drive a terminal or hide its content.

use std::fmt::Write as _;

/// Escapes all control and invisible characters, line breaks included. The result is one line.
#[must_use]
pub fn escape_control(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// Escapes each line of a text and keeps the line breaks.
#[must_use]
pub fn escape_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&escape_control(line));
    }
    out
}

/// Escapes the text of HTML and keeps its line breaks and tabs. Values of attributes stay the same: a program reads
/// them. Each `<` and `>` must be one of a tag, as in HTML without scripts.
#[must_use]
pub fn escape_markup(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut is_tag = false;
    for c in html.chars() {
        is_tag = c == '<' || is_tag && c != '>';
        match c {
            '\n' | '\t' => out.push(c),
            _ if is_printable(c) => out.push(c),
            // Writing to a string does not fail.
            _ if is_tag => _ = write!(out, "&#{};", u32::from(c)),
            _ => out.extend(c.escape_default()),
        }
    }
    out
}

/// Escapes the strings of a JSON text; their values stay the same. Control characters of JSON
/// itself, such as line breaks between values, are kept.
#[must_use]
pub fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if c == '\n' || is_printable(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

pub use plan_ledger::internals::ledger::is_printable;

#[cfg(test)]
mod tests {
    //! Goal: nothing that a worker writes can drive a terminal.

    use super::*;

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a": "b\u{202e}c\u{e0001}\u{7f}\n\u{1b}", "d": 1});
        for text in [value.to_string(), format!("{value:#}")] {
            let escaped = escape_json(&text);
            assert!(escaped.chars().all(|c| c == '\n' || is_printable(c)), "{escaped}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
        assert!(escape_json(&value.to_string()).contains("\\udb40\\udc01"));
    }

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        assert_eq!(escape_control("\u{1b}[2J\u{1b}]0;x\u{7}"), "\\u{1b}[2J\\u{1b}]0;x\\u{7}");
        assert_eq!(escape_control("a\r\nb\tc"), "a\\r\\nb\\tc");
        assert_eq!(escape_lines("a\r\nb\tc\n"), "a\\r\nb\\tc\n");
        assert_eq!(escape_control("\u{9b}31m\u{7f}"), "\\u{9b}31m\\u{7f}");
        let hidden = "a\u{202e}b\u{2066}c\u{200b}d";
        assert_eq!(escape_control(hidden), "a\\u{202e}b\\u{2066}c\\u{200b}d");
        let visible = "Gr\u{fc}\u{df}e \u{4f60}\u{597d} \\n";
        assert_eq!(escape_control(visible), visible);
        for c in (0..=0x11_0000).filter_map(char::from_u32) {
            assert!(!escape_control(&c.to_string()).chars().any(char::is_control), "{c:?}");
        }
    }
}
