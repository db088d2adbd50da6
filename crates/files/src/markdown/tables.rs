//! Tables with pipes.

use super::list_markers::{Line, LineKind};
use crate::syntax::{Cell, Place};

/// A table: rows of cells; the first row is the header.
pub(crate) struct Table {
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The line of the header.
    pub(crate) fn line(&self) -> u64 {
        self.rows.first().and_then(|header| header.first()).map_or(1, |cell| cell.place.line)
    }
}

/// The tables of some lines outside of code.
pub(super) fn find_tables<'a>(lines: impl Iterator<Item = Line<'a>>) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut before: Option<Line<'_>> = None;
    let mut is_open = false;
    for line in lines {
        if line.kind == LineKind::Code || !line.text.contains('|') {
            (before, is_open) = (None, false);
            continue;
        }
        if is_open {
            if let Some(table) = found.last_mut() {
                table.rows.push(cells(line.number, line.text));
            }
        } else if let Some(header) = before.filter(|_| is_rule(line.text)) {
            found.push(Table { rows: vec![cells(header.number, header.text)] });
            is_open = true;
        }
        before = Some(line);
    }
    found.retain(|table| table.rows.len() > 1);
    found
}

/// Whether a line is the rule below a header: `|---|:--:|`.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.chars().all(|c| "|-: \t".contains(c))
}

/// The cells of a row.
fn cells(line: u64, content: &str) -> Vec<Cell> {
    let row = content.trim();
    let row = row.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(row);
    let indent = content.len().saturating_sub(content.trim_start().len());
    let (mut cells, mut rest, mut at) = (Vec::new(), row, indent);
    if let Some(inner) = row.strip_prefix('|') {
        (rest, at) = (inner, at.saturating_add(1));
    }
    loop {
        let end = cell_end(rest);
        let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let (mark, text) = without_marks(part.trim());
        // A cell without text has its place after a space.
        let blank = if text.is_empty() {
            usize::from(part.starts_with(' '))
        } else {
            part.len().saturating_sub(part.trim_start().len())
        };
        let before = content.get(..at.saturating_add(blank).saturating_add(mark));
        let before = before.unwrap_or_default();
        let column = u64::try_from(before.chars().count()).unwrap_or(u64::MAX).saturating_add(1);
        let text = text.replace("\\|", "|");
        cells.push(Cell { place: Place { line, column }, text });
        let Some(end) = end.map(|end| end.saturating_add(1)) else { return cells };
        rest = rest.get(end..).unwrap_or_default();
        at = at.saturating_add(end);
    }
}

/// The end of the first cell, unless it is the last one.
fn cell_end(row: &str) -> Option<usize> {
    let is_end = |at: &usize| row.get(..*at).is_some_and(|before| !before.ends_with('\\'));
    row.match_indices('|').map(|(at, _)| at).find(is_end)
}

/// A cell without the marks around all of it, and their length: `**Task**`, but not `` `a` and `b` ``.
fn without_marks(cell: &str) -> (usize, &str) {
    let inner = |mark: &str| {
        let inner = cell.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inner.is_empty() && !inner.contains(mark)).then_some((mark.len(), inner))
    };
    ["**", "*", "`"].into_iter().find_map(inner).unwrap_or((0, cell))
}

#[cfg(test)]
mod tests {
    use super::super::outline::Outline;

    #[test]
    fn tables_outside_of_code_are_found() {
        let text = "a | b\n\n| ID | **Task** |\n|----|:---:|\n| 1 | x \\| y |\n| 2 | `z` in `w` |\n| `3` | Use `z` |\n\n```\n| a |\n|---|\n| b |\n```\n";
        let outline = Outline::parse(text).unwrap();
        assert_eq!(outline.tables().len(), 1);
        let rows: Vec<Vec<(u64, u64, &str)>> = outline.tables()[0]
            .rows
            .iter()
            .map(|row| {
                let cells = row.iter();
                cells.map(|it| (it.place.line, it.place.column, it.text.as_str())).collect()
            })
            .collect();
        assert_eq!(rows[0], [(3, 3, "ID"), (3, 10, "Task")]);
        assert_eq!(rows[1], [(5, 3, "1"), (5, 7, "x | y")]);
        assert_eq!(rows[2], [(6, 3, "2"), (6, 7, "`z` in `w`")]);
        assert_eq!(rows[3], [(7, 4, "3"), (7, 9, "Use `z`")]);
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn cells_without_text_have_a_place() {
        let text = "| a | b | c |\n|--|--|--|\n|  |\u{e9}||\n\tx |   | y";
        let outline = Outline::parse(text).unwrap();
        let columns = |row: usize| -> Vec<u64> {
            outline.tables()[0].rows[row].iter().map(|cell| cell.place.column).collect()
        };
        assert_eq!(columns(1), [3, 5, 7]);
        assert_eq!(columns(2), [2, 6, 10]);
    }
}
