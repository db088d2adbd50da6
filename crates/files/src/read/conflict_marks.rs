//! Marks that an unresolved merge leaves in a file.

use crate::diagnostic::{Diagnostic, Severity};

/// The problems of a text with conflict marks. Text in a code block of Markdown has none.
pub(super) fn conflict_marks(text: &str) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (line, content) in (1_u64..).zip(text.lines()) {
        if content.starts_with("```") || content.starts_with("~~~") {
            is_code = !is_code;
        }
        let mark = ["<<<<<<<", ">>>>>>>"].into_iter().find(|mark| {
            let rest = content.strip_prefix(mark);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        if let Some(mark) = mark.filter(|_| !is_code) {
            let message =
                format!("`{mark}` is the mark of a merge conflict; resolve the conflict first");
            found.push(Diagnostic::at_line(Severity::Problem, Some(line), message));
        }
    }
    // One mark alone may be a quotation.
    if found.len() < 2 { Vec::new() } else { found }
}
