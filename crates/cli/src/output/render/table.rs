//! Tables: rows in aligned columns.

use super::style::{Paint, Style};
use super::width::{cut, width};

/// Rows in aligned columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<(Paint, String)>>,
}

impl Table {
    /// A table with a line of headings.
    pub(crate) fn with_headings(headings: &[&str]) -> Self {
        let row = headings.iter().map(|text| (Paint::Faint, (*text).to_owned()));
        Self { rows: vec![row.collect()] }
    }

    /// Adds a row. The text must already be escaped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Paint, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The indented lines. The last column is cut at the width of the terminal, and every other one at half
    /// of it.
    pub(crate) fn lines(&self, style: Style, indent: usize) -> Vec<String> {
        let limit = style.columns().map_or(usize::MAX, |columns| (columns / 2).max(CELL_MIN));
        let cell = |(paint, text): &(Paint, String)| (*paint, cut(text, limit));
        let rows: Vec<Vec<(Paint, String)>> = self
            .rows
            .iter()
            .map(|row| {
                let (last, others) =
                    row.split_last().map_or((None, &[][..]), |(last, others)| (Some(last), others));
                others.iter().map(cell).chain(last.cloned()).collect()
            })
            .collect();
        let mut widths: Vec<usize> = Vec::new();
        for row in &rows {
            for (place, (_, text)) in row.iter().enumerate() {
                match widths.get_mut(place) {
                    Some(widest) => *widest = (*widest).max(width(text)),
                    None => widths.push(width(text)),
                }
            }
        }
        rows.iter().map(|row| line(row, &widths, style, indent)).collect()
    }
}

fn line(row: &[(Paint, String)], widths: &[usize], style: Style, indent: usize) -> String {
    let mut out = " ".repeat(indent);
    let mut column = indent;
    for (place, ((paint, text), widest)) in row.iter().zip(widths).enumerate() {
        if place + 1 == row.len() {
            out.push_str(&style.paint(*paint, &style.fit(text, column)));
        } else {
            out.push_str(&style.paint(*paint, text));
            out.push_str(&" ".repeat(widest.saturating_sub(width(text)) + GAP));
            column += widest + GAP;
        }
    }
    out.trim_end().to_owned()
}

/// A cell is not cut below this width.
const CELL_MIN: usize = 24;

/// Spaces between columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    //! Goal: columns stay aligned, whatever their paint.

    use super::*;
    use crate::output::render::style::Color;

    #[test]
    fn tables_are_aligned_and_cut() {
        let mut table = Table::with_headings(&["a", "b"]);
        table.row([(Paint::Good, "long cell".to_owned()), (Paint::None, "x".repeat(50))]);
        assert_eq!(table.lines(Style::PLAIN, 2)[0], "  a          b");
        let narrow = Style { color: Color::Off, columns: Some(40) };
        assert_eq!(table.lines(narrow, 2)[1], format!("  long cell  {}...", "x".repeat(24)));
        let mut long = Table::default();
        long.row([(Paint::None, "y".repeat(90)), (Paint::None, "why".to_owned())]);
        assert_eq!(long.lines(narrow, 0)[0], format!("{}...  why", "y".repeat(21)));
        let painted = Style { color: Color::On, columns: Some(40) };
        assert!(table.lines(painted, 2)[1].contains("\u{1b}[32mlong cell\u{1b}[0m  x"));
    }
}
