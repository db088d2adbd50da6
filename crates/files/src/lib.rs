//! Plan files: the native format as YAML, JSON or Markdown, and the files of other tools.
//!
//! [`read()`] detects the format from the content, never from the file name, and returns a valid
//! [`PlanFile`] or an error with every problem and its line. [`lint_text`] also returns warnings and
//! notes, and [`ReadOptions`] says how to read. [`PlanFile::render`] writes any plan in the native format
//! or as a graph.
//!
//! Invariants:
//! - No information is lost: fields without a counterpart in a plan go to `extra`, and statuses
//!   are kept beside the plan, so that progress does not change the plan's hash.
//! - The same text always gives the same plan, and a rendered plan reads back as the same plan
//!   with the same marks.

mod commands;
mod diagnostic;
mod draft;
mod markdown;
mod native;
mod plan_file;
mod read;
mod read_report;
mod records;
mod schema;
mod syntax;
mod tools;
mod write;

pub use commands::{Programs, as_written_commands};
pub use diagnostic::{Diagnostic, Severity};
pub use plan_file::{PlanFile, PlanFormat, StatedCommand};
pub use read::{LintReport, ReadOptions, lint_text, parse, read};
pub use read_report::{Correction, CorrectionKind, OPTIONAL_TAG, PartKind, ReadReport, UnreadPart};
pub use schema::schema;
pub use syntax::{FILE_BYTES_MAX, json_problem, list_for_object};
pub use tools::read_tools;
pub use write::{ExportFormat, escape_dot, escape_mermaid};

#[cfg(test)]
mod tests;
