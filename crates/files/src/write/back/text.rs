//! The text of a file as it was read, with line feeds, and as it is in the file.

use std::ops::Range;
use std::path::PathBuf;

use crate::syntax::{Place, normalized_text};

/// A file, and its text as it was read.
#[derive(Debug)]
pub(super) struct SourceText {
    pub(super) path: PathBuf,
    /// The text of the file.
    pub(super) raw: String,
    /// The text with line feeds at the ends of lines.
    pub(super) text: String,
    /// The offset of each line.
    lines: Vec<usize>,
    /// The line feeds with a carriage return before them in the file.
    returns: Vec<usize>,
}

impl SourceText {
    pub(super) fn new(path: PathBuf, raw: String) -> Self {
        let text = normalized_text(&raw).into_owned();
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        let lines = std::iter::once(0).chain(starts).collect();
        let mark = raw.len().saturating_sub(crate::syntax::without_byte_order_mark(&raw).len());
        let pairs = raw.match_indices("\r\n").zip(0_usize..);
        let returns = pairs.map(|((at, _), before)| at.saturating_sub(mark).saturating_sub(before));
        let returns = returns.collect();
        Self { path, raw, text, lines, returns }
    }

    /// The place of a line, counted from 1, without its end.
    pub(super) fn line(&self, line: u64) -> Option<Range<usize>> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = *self.lines.get(index)?;
        let end = self.lines.get(index.saturating_add(1)).map(|next| next.saturating_sub(1));
        Some(start..end.unwrap_or(self.text.len()))
    }

    /// The offset of a place.
    pub(super) fn offset(&self, place: Place) -> Option<usize> {
        let line = self.line(place.line)?;
        let column = usize::try_from(place.column).ok()?.checked_sub(1)?;
        let text = self.text.get(line.clone())?;
        let at = match text.char_indices().nth(column) {
            Some((at, _)) => at,
            None if text.chars().count() == column => text.len(),
            None => return None,
        };
        line.start.checked_add(at)
    }

    pub(super) fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// The offset in the file.
    fn in_file(&self, at: usize) -> usize {
        let mark =
            self.raw.len().saturating_sub(self.text.len()).saturating_sub(self.returns.len());
        let before = self.returns.partition_point(|end| *end < at);
        at.saturating_add(before).saturating_add(mark)
    }

    /// The text of the file with other texts in some places, which are in order and do not overlap.
    pub(super) fn with(&self, edits: &[(Range<usize>, String)]) -> String {
        let mut text = String::with_capacity(self.raw.len());
        let mut from = 0_usize;
        for (range, new) in edits {
            text.push_str(self.raw.get(from..self.in_file(range.start)).unwrap_or_default());
            if self.returns.is_empty() {
                text.push_str(new);
            } else {
                text.push_str(&new.replace('\n', "\r\n"));
            }
            from = self.in_file(range.end);
        }
        text.push_str(self.raw.get(from..).unwrap_or_default());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_file() {
        let raw = "\u{feff}one\r\n\u{e9} two\r\nthree\nfour\rfive";
        let source = SourceText::new(PathBuf::new(), raw.to_owned());
        assert_eq!(source.text, "one\n\u{e9} two\nthree\nfour\nfive");
        for (line, column, word) in
            [(1, 1, "one"), (2, 3, "two"), (3, 1, "three"), (4, 1, "four"), (5, 1, "five")]
        {
            let start = source.offset(Place { line, column }).unwrap();
            let range = start..start + word.len();
            assert_eq!(source.slice(range.clone()), word);
            let edited = source.with(&[(range, "X".to_owned())]);
            assert_eq!(edited, raw.replacen(word, "X", 1));
        }
        assert_eq!(source.offset(Place { line: 5, column: 5 }), Some(source.text.len()));
        assert_eq!(source.offset(Place { line: 5, column: 6 }), None);
        assert_eq!(source.offset(Place { line: 6, column: 1 }), None);
        assert_eq!(source.with(&[]), raw);
        let end = source.text.len();
        assert_eq!(source.with(&[(end..end, "\n".to_owned())]), format!("{raw}\r\n"));
    }
}
