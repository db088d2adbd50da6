//! Comma-separated values with a header (RFC 4180); tabs and semicolons also separate values.

use super::tree::{Cell, Place};

/// The rows of a text. `None` if it is not comma-separated values: the header and every row must have the same number
/// of values, at least two.
pub(crate) fn csv_rows(text: &str) -> Option<Vec<Vec<Cell>>> {
    let header = text.lines().next()?;
    let separator = separator(header)?;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut chars = text.chars().peekable();
    let mut next = Place { line: 1, column: 1 };
    while chars.peek().is_some() {
        let mut row = Vec::new();
        loop {
            let mut place = next;
            let mut value = String::new();
            let is_in_quotes = chars.next_if_eq(&'"').is_some();
            next.column = next.column.saturating_add(u64::from(is_in_quotes));
            let mut is_quoted = is_in_quotes;
            let mut end = None;
            while let Some(char) = chars.next() {
                match char {
                    '\n' => next = Place { line: next.line.saturating_add(1), column: 1 },
                    _ => next.column = next.column.saturating_add(1),
                }
                match char {
                    '"' if is_quoted && chars.peek() == Some(&'"') => {
                        chars.next();
                        next.column = next.column.saturating_add(1);
                        value.push('"');
                    }
                    '"' if is_quoted => is_quoted = false,
                    _ if is_quoted => value.push(char),
                    '\n' => {
                        end = Some(char);
                        break;
                    }
                    _ if char == separator => {
                        end = Some(char);
                        break;
                    }
                    _ => value.push(char),
                }
            }
            if is_quoted {
                return None;
            }
            let text = value.trim();
            if !is_in_quotes && !text.is_empty() {
                let blank = value.chars().take_while(|c| c.is_whitespace()).count();
                place.column = place.column.saturating_add(u64::try_from(blank).unwrap_or(0));
            }
            row.push(Cell { place, text: text.to_owned() });
            if end != Some(separator) {
                break;
            }
        }
        if row.iter().any(|cell| !cell.text.is_empty()) {
            rows.push(row);
        }
    }
    let width = rows.first().map_or(0, Vec::len);
    let is_table = width >= 2 && rows.len() >= 2 && rows.iter().all(|row| row.len() == width);
    is_table.then_some(rows)
}

/// The character between the values: the most frequent one of a header.
fn separator(header: &str) -> Option<char> {
    let count = |separator: char| header.matches(separator).count();
    [',', ';', '\t'].into_iter().max_by_key(|separator| count(*separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_separators_and_line_breaks_are_read() {
        let rows = csv_rows("Key,Summary\nA-1,\"one, \"\"two\"\"\nthree\"\nA-2,four\n").unwrap();
        let cell = |line: u64, column: u64, text: &str| Cell {
            place: Place { line, column },
            text: text.to_owned(),
        };
        assert_eq!(rows[1], [cell(2, 1, "A-1"), cell(2, 5, "one, \"two\"\nthree")]);
        assert_eq!(rows[2], [cell(4, 1, "A-2"), cell(4, 5, "four")]);
        let rows = csv_rows("a;b;c\n1; 2;\n").unwrap();
        assert_eq!(rows[1], [cell(2, 1, "1"), cell(2, 4, "2"), cell(2, 6, "")]);
        for text in ["", "a", "a,b\n1\n", "a,b\n\"1,2\n", "only\nwords\n"] {
            assert!(csv_rows(text).is_none(), "{text}");
        }
    }
}
