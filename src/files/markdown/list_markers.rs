//! The markers before the text of a list item: bullet, number and checkbox.

/// The state of a checkbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checkbox {
    Open,
    Done,
    /// `[-]` or `[~]`, which means dropped in some tools and started in others.
    Other,
}

/// Removes the bullet or number before a line.
pub(super) fn strip_marker(line: &str) -> &str {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if digits.len() < line.len() {
        digits.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+'])
    };
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => line,
    }
}

/// Removes the checkbox before a text.
pub(super) fn strip_checkbox(text: &str) -> (Option<Checkbox>, &str) {
    let mark = |text: &str| {
        Some(match text {
            "[ ]" => Checkbox::Open,
            "[x]" | "[X]" => Checkbox::Done,
            "[-]" | "[~]" => Checkbox::Other,
            _ => return None,
        })
    };
    let (found, rest) = (text.get(..3).and_then(mark), text.get(3..).unwrap_or_default());
    match found {
        Some(check) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
            (Some(check), rest.trim_start())
        }
        _ => (None, text),
    }
}
