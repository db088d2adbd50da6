//! Tables with pipes.

use super::list_markers::{Line, LineKind};

/// A table: rows of cells, each with its line; the first row is the header.
pub(crate) struct Table {
    pub(crate) rows: Vec<(u64, Vec<String>)>,
}

impl Table {
    /// The line of the header.
    pub(crate) fn line(&self) -> u64 {
        self.rows.first().map_or(1, |(line, _)| *line)
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
                table.rows.push((line.number, cells(line.text)));
            }
        } else if let Some(header) = before.filter(|_| is_rule(line.text)) {
            found.push(Table { rows: vec![(header.number, cells(header.text))] });
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
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.replace("\\|", "\u{1}")
        .split('|')
        .map(|cell| without_marks(cell.trim()).replace('\u{1}', "|"))
        .collect()
}

/// A cell without the marks around all of it: `**Task**`, but not `` `a` and `b` ``.
fn without_marks(cell: &str) -> &str {
    let inner = |mark: &str| {
        let inner = cell.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inner.is_empty() && !inner.contains(mark)).then_some(inner)
    };
    ["**", "*", "`"].into_iter().find_map(inner).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::super::outline::Outline;

    #[test]
    fn tables_outside_of_code_are_found() {
        let text = "a | b\n\n| ID | **Task** |\n|----|:---:|\n| 1 | x \\| y |\n| 2 | `z` in `w` |\n| `3` | Use `z` |\n\n```\n| a |\n|---|\n| b |\n```\n";
        let outline = Outline::parse(text).unwrap();
        assert_eq!(outline.tables().len(), 1);
        let found = &outline.tables()[0].rows;
        assert_eq!(found[0], (3, vec!["ID".to_owned(), "Task".to_owned()]));
        assert_eq!(found[1], (5, vec!["1".to_owned(), "x | y".to_owned()]));
        assert_eq!(found[2], (6, vec!["2".to_owned(), "`z` in `w`".to_owned()]));
        assert_eq!(found[3], (7, vec!["3".to_owned(), "Use `z`".to_owned()]));
        assert_eq!(found.len(), 4);
    }
}
