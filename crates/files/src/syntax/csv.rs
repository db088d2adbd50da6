//! Comma-separated values with a header (RFC 4180); tabs and semicolons also separate values.

/// The rows of a text, each with its line. `None` if it is not comma-separated values: the header
/// and every row must have the same number of values, at least two.
pub(crate) fn csv_rows(text: &str) -> Option<Vec<(u64, Vec<String>)>> {
    let header = text.lines().next()?;
    let count = |separator: char| header.matches(separator).count();
    let separator = [',', ';', '\t'].into_iter().max_by_key(|separator| count(*separator))?;
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1_u64;
    while chars.peek().is_some() {
        let start = line;
        let mut row = Vec::new();
        loop {
            let mut value = String::new();
            let mut is_quoted = false;
            if chars.peek() == Some(&'"') {
                chars.next();
                is_quoted = true;
            }
            let mut end = None;
            while let Some(char) = chars.next() {
                line = line.saturating_add(u64::from(char == '\n'));
                match char {
                    '"' if is_quoted && chars.peek() == Some(&'"') => {
                        chars.next();
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
            row.push(value.trim().to_owned());
            if end != Some(separator) {
                break;
            }
        }
        if row.iter().any(|value| !value.is_empty()) {
            rows.push((start, row));
        }
    }
    let width = rows.first().map_or(0, |(_, row)| row.len());
    let is_table = width >= 2 && rows.len() >= 2 && rows.iter().all(|(_, row)| row.len() == width);
    is_table.then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_separators_and_line_breaks_are_read() {
        let rows = csv_rows("Key,Summary\nA-1,\"one, \"\"two\"\"\nthree\"\nA-2,four\n").unwrap();
        assert_eq!(rows[1], (2, vec!["A-1".to_owned(), "one, \"two\"\nthree".to_owned()]));
        assert_eq!(rows[2].0, 4);
        assert_eq!(csv_rows("a;b\n1;2\n").unwrap()[1].1, ["1", "2"]);
        for text in ["", "a", "a,b\n1\n", "a,b\n\"1,2\n", "only\nwords\n"] {
            assert!(csv_rows(text).is_none(), "{text}");
        }
    }
}
