//! Writes the output of a view: text or HTML for people, or JSON Lines for programs.
//!
//! Control characters in JSON strings are escaped, so that no line can drive a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::io::Write;

use plan_ledger_views::{Document, html, html_start, text_lines};
use serde_json::Value;

use crate::json::{JsonLine, line_value};
use crate::output::{Failure, is_printable};

use crate::output::render::Style;

/// Writes documents as text or HTML, and JSON Lines.
pub(crate) struct Output<'a> {
    out: &'a mut dyn Write,
    style: Style,
    is_html: bool,
    /// Whether the start of the page is written: an error before the view leaves no page.
    is_page_begun: bool,
}

impl<'a> Output<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, style: Style) -> Self {
        Self { out, style, is_html: false, is_page_begun: false }
    }

    /// Writes documents as HTML.
    pub(crate) fn html(out: &'a mut dyn Write) -> Self {
        Self { out, style: Style::PLAIN, is_html: true, is_page_begun: false }
    }

    /// Writes a document.
    pub(crate) fn document(&mut self, document: &Document) -> Result<(), Failure> {
        if self.is_html {
            let is_first = !std::mem::replace(&mut self.is_page_begun, true);
            let start = if is_first { html_start("ledger inspect") } else { String::new() };
            return writeln!(self.out, "{start}{}", html(document)).map_err(Failure::Output);
        }
        let lines = text_lines(document, self.style);
        lines.iter().try_for_each(|line| writeln!(self.out, "{line}").map_err(Failure::Output))
    }

    /// Writes a JSON line.
    pub(crate) fn json<L: JsonLine>(&mut self, line: &L) -> Result<(), Failure> {
        let mut members = line_value(line);
        let word = members.as_object_mut().and_then(|members| members.remove("type"));
        let word = word.as_ref().and_then(Value::as_str).unwrap_or_default();
        write_tagged(self.out, word, &members).map_err(Failure::Output)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::Output)
    }
}

/// Writes an object as a single line. The first member is the type.
fn write_tagged(out: &mut dyn Write, kind: &str, fields: &Value) -> io::Result<()> {
    let fields = fields.to_string();
    let fields = fields.strip_prefix('{').unwrap_or("}");
    let comma = if fields == "}" { "" } else { "," };
    writeln!(out, "{{\"type\":\"{kind}\"{comma}{}", escaped(fields))
}

/// Escapes control and invisible characters in JSON. They occur only in strings.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    // The common case.
    if json.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_printable(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    //! Goal: every line names its type, is valid JSON, and cannot drive a terminal.

    use serde_json::json;

    use super::*;

    fn tagged(kind: &str, fields: &Value) -> String {
        let mut out = Vec::new();
        write_tagged(&mut out, kind, fields).unwrap();
        assert_eq!(out.pop(), Some(b'\n'));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_lines_are_tagged_and_escaped() {
        assert_eq!(tagged("x", &json!({})), r#"{"type":"x"}"#);
        let text = "\u{1b}[0m \u{9b} \u{202e} \u{e0001} \u{fc} \n";
        let line = tagged("x", &json!({ "a": text }));
        assert!(line.starts_with(r#"{"type":"x","a":""#));
        assert!(line.chars().all(is_printable), "{line}");
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["a"], text);
    }
}
