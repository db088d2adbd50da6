//! What was read of a plan file of another tool, and what was not: printed before a step is
//! dispatched.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::files::{PlanFile, ReadReport};

use crate::output::print_message;

/// The report of `ledger run` and `ledger plan lint` about a file of another tool.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadLine {
    /// The ids and dependencies that differ from the file.
    corrections: Vec<CorrectionJson>,
    /// The number of steps that the file marks as done.
    done: usize,
    /// The number of steps that the file marks as dropped.
    dropped: usize,
    /// The form of the file.
    form: String,
    /// The number of optional steps.
    optional: usize,
    /// The number of steps.
    steps: usize,
    /// The parts that are not steps.
    unread: Vec<UnreadJson>,
}

/// Parts of a file that are not steps.
#[derive(Debug, Serialize, JsonSchema)]
struct UnreadJson {
    /// Their number.
    count: usize,
    /// Their kind.
    kind: &'static str,
    /// The line of the first one.
    line: Option<u64>,
    /// The title of the section around them.
    section: String,
}

/// An id or a dependency that differs from the file.
#[derive(Debug, Serialize, JsonSchema)]
struct CorrectionJson {
    /// What was changed.
    kind: &'static str,
    /// The line of the step.
    line: Option<u64>,
    /// The name in the file.
    name: String,
    /// The id of the step.
    step: String,
}

impl From<&PlanFile> for ReadLine {
    fn from(file: &PlanFile) -> Self {
        let ReadReport { unread, corrections } = &file.report;
        let unread = unread.iter().map(|part| UnreadJson {
            count: part.count,
            kind: part.kind.json_word(),
            line: part.line,
            section: part.section.clone(),
        });
        let corrections = corrections.iter().map(|each| CorrectionJson {
            kind: each.kind.json_word(),
            line: each.line,
            name: each.name.clone(),
            step: each.step.clone(),
        });
        Self {
            corrections: corrections.collect(),
            done: file.done.len(),
            dropped: file.skipped.len(),
            form: file.format.to_string(),
            optional: file.optional(),
            steps: file.plan.steps.len(),
            unread: unread.collect(),
        }
    }
}

/// Prints what was read, and each kind of correction.
pub(super) fn print_read_report(path: &Path, file: &PlanFile) {
    let name = path.display();
    print_message(&format!("{name}: {}", file.read_summary()));
    for (_, text) in file.report.correction_lines() {
        print_message(&format!("{name}: {text}"));
    }
}
