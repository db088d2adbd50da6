//! Tables with pipes.

use super::code_fence::CodeFence;

/// The tables of a text outside of code: rows of cells, each with its line; the first row is the
/// header.
pub(crate) fn tables(text: &str) -> Vec<Vec<(u64, Vec<String>)>> {
    let mut found: Vec<Vec<(u64, Vec<String>)>> = Vec::new();
    let mut fence = CodeFence::default();
    let mut before: Option<(u64, &str)> = None;
    let mut is_open = false;
    for (line, content) in (1_u64..).zip(text.lines()) {
        if fence.contains(content.trim()) || !content.contains('|') {
            (before, is_open) = (None, false);
            continue;
        }
        if is_open {
            if let Some(table) = found.last_mut() {
                table.push((line, cells(content)));
            }
        } else if let Some((first, header)) = before
            && is_rule(content)
        {
            found.push(vec![(first, cells(header))]);
            is_open = true;
        }
        before = Some((line, content));
    }
    found.retain(|table| table.len() > 1);
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
    use super::*;

    #[test]
    fn tables_outside_of_code_are_found() {
        let text = "a | b\n\n| ID | **Task** |\n|----|:---:|\n| 1 | x \\| y |\n| 2 | `z` in `w` |\n| `3` | Use `z` |\n\n```\n| a |\n|---|\n| b |\n```\n";
        let found = tables(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0][0], (3, vec!["ID".to_owned(), "Task".to_owned()]));
        assert_eq!(found[0][1], (5, vec!["1".to_owned(), "x | y".to_owned()]));
        assert_eq!(found[0][2], (6, vec!["2".to_owned(), "`z` in `w`".to_owned()]));
        assert_eq!(found[0][3], (7, vec!["3".to_owned(), "Use `z`".to_owned()]));
        assert_eq!(found[0].len(), 4);
    }
}
