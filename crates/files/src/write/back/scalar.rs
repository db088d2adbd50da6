//! The places of scalars and cells in a text.
//!
//! The tree has the start of each value. A value whose text is not found there as it is (an alias, an escape, a
//! text of several lines) has no place.

use std::ops::Range;

use super::mark::MarkKind;
use crate::draft::Cells;
use crate::syntax::{Kind, Node};

/// The place of a value: without its quotes, and with all that belongs to it.
pub(super) struct Found {
    pub(super) inner: Range<usize>,
    pub(super) span: Range<usize>,
    pub(super) kind: MarkKind,
}

/// The text of a value as it is in the file; `None` for a list or an object.
pub(super) fn source_of(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Text(text) => Some(text),
        Kind::Plain(plain) => Some(&plain.source),
        Kind::List(_) | Kind::Map(_) => None,
    }
}

/// Finds the scalar at an offset.
pub(super) fn scalar(text: &str, at: usize, node: &Node) -> Option<Found> {
    let expected = source_of(node)?;
    let rest = text.get(at..)?;
    if let Some(quote) = rest.chars().next().filter(|c| ['"', '\''].contains(c)) {
        let inner = rest.strip_prefix(quote)?.split_once(quote)?.0;
        let start = at.saturating_add(1);
        let inner = (inner == expected).then_some(start..start.saturating_add(inner.len()))?;
        let span = at..inner.end.saturating_add(1);
        return Some(Found { inner, span, kind: MarkKind::Quoted(quote) });
    }
    let line = rest.split('\n').next().unwrap_or_default();
    let bare = line.split(" #").next().unwrap_or_default().trim_end();
    let in_brackets = bare.split([',', ']', '}']).next().unwrap_or_default().trim_end();
    let found = [bare, in_brackets].into_iter().find(|it| *it == expected && !it.is_empty())?;
    let span = at..at.saturating_add(found.len());
    Some(Found { inner: span.clone(), span, kind: MarkKind::PlainWord })
}

/// Finds the cell at an offset.
pub(super) fn cell(text: &str, at: usize, node: &Node, cells: Cells) -> Option<Found> {
    let expected = source_of(node)?;
    let rest = text.get(at..)?;
    match cells {
        Cells::Csv => {
            if let Some(inner) = rest.strip_prefix('"') {
                let inner = inner.split_once('"')?.0;
                let start = at.saturating_add(1);
                let is_found = inner.trim() == expected;
                let inner = is_found.then_some(start..start.saturating_add(inner.len()))?;
                let span = at..inner.end.saturating_add(1);
                return Some(Found { inner, span, kind: MarkKind::Quoted('"') });
            }
            let span = at..at.saturating_add(expected.len());
            let is_found = rest.starts_with(expected);
            is_found.then(|| Found { inner: span.clone(), span, kind: MarkKind::Word })
        }
        Cells::Table => {
            let before = text.get(..at)?;
            let line = before.rfind('\n').map_or(0, |end| end.saturating_add(1));
            let start = before.rfind('|').map_or(line, |bar| bar.saturating_add(1)).max(line);
            let after = rest.find(['|', '\n']).unwrap_or(rest.len());
            let inner = at..at.saturating_add(expected.len());
            let span = start..at.saturating_add(after);
            let is_found = rest.starts_with(expected) && inner.end <= span.end;
            is_found.then_some(Found { inner, span, kind: MarkKind::Cell })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{json_tree, toml_tree, yaml_tree};

    fn found(text: &str, tree: &Node) -> Option<(String, MarkKind)> {
        let node = tree.field("s").unwrap();
        let source = super::super::text::SourceText::new("f".into(), text.to_owned());
        let found = scalar(text, source.offset(node.place)?, node)?;
        Some((text[found.span].to_owned(), found.kind))
    }

    #[test]
    fn scalars_are_found_as_they_are_written() {
        for (text, span) in [
            ("{\"s\": \"to do\", \"t\": 1}", Some("\"to do\"")),
            ("{\"s\": false}", Some("false")),
            ("{\"s\": \"t\\u006fdo\"}", None),
        ] {
            let found = found(text, &json_tree(text).unwrap());
            assert_eq!(found.map(|it| it.0).as_deref(), span, "{text}");
        }
        for (text, span) in [
            ("s: to do  # later\n", Some("to do")),
            ("s: 'to do'\n", Some("'to do'")),
            ("\u{e9}: 1\ns:   open\n", Some("open")),
            ("{\u{e9}: 1, s: open, t: 2}\n", Some("open")),
            ("s: >\n  open\n", None),
            ("a: &x open\ns: *x\n", None),
        ] {
            let found = found(text, &yaml_tree(text).unwrap());
            assert_eq!(found.map(|it| it.0).as_deref(), span, "{text}");
        }
        for (text, span) in [("s = \"open\"\n", Some("\"open\"")), ("s = true # x\n", Some("true"))]
        {
            let found = found(text, &toml_tree(text).unwrap());
            assert_eq!(found.map(|it| it.0).as_deref(), span, "{text}");
        }
    }
}
