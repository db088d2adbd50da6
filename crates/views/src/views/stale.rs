//! The steps with files that changed since their plan was made.

use plan_ledger::{Run, StepNumber};

use crate::layout::{Document, Paint};
use crate::words::step_name;

/// How many steps are listed.
const LISTED_MAX: usize = 5;

/// The text about files that changed.
#[must_use]
pub fn stale_text(files: &[String]) -> String {
    format!("changed since the plan was made: {}", files.join(", "))
}

/// A line for each of the first steps with files that changed since the plan was made.
#[must_use]
pub fn stale_document(run: &Run, stale: &[(StepNumber, Vec<String>)], indent: usize) -> Document {
    let line = |(number, files): &(StepNumber, Vec<String>)| {
        format!("warning: {}: {}", step_name(run, *number), stale_text(files))
    };
    let rest = stale.len().saturating_sub(LISTED_MAX);
    let more = (rest > 0).then(|| format!("warning: the same for {rest} more steps"));
    let mut document = Document::default();
    for line in stale.iter().take(LISTED_MAX).map(line).chain(more) {
        document.indented(indent, (Paint::Notice, line));
    }
    document
}
