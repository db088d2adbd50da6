//! Plan files: the native format as YAML, JSON or Markdown, and the files of other tools.
//!
//! [`read()`] detects the format from the content, never from the file name, and returns a valid
//! [`PlanFile`] or an error with every problem and its line. [`lint_text`] also returns warnings and
//! notes, and [`ReadOptions`] says how to read. [`PlanFile::render`] writes any plan in the native format
//! or as a graph.
//!
//! How a file becomes a plan:
//! 1. *Parse.* JSON, YAML, TOML, front matter, rows of tables and lines of JSON Lines become one tree
//!    (`syntax`): values with places, and scalars with their source, so that the reader of a field decides
//!    whether `1.10` is a number or an id. Markdown becomes an outline (`markdown`): sections and the items
//!    of their lists, with places; org-mode is first brought into the spelling of Markdown.
//! 2. *Recognize.* The whole content decides between the native format, the rows of known tools
//!    (`records`), any other list of tasks, and Markdown (`read`). A name of a file never does.
//! 3. *Map.* A native plan is read from its tree by the types of its fields (`native`); records by a table
//!    of names and a row for each tool; an outline by what is work: boxes, numbered headings, items.
//! 4. *Settle* (`draft`). Ids become unique, statuses become marks, the order becomes dependencies where
//!    none are written, and the plan is checked; each problem gets the line of its place.
//!
//! Each part of a file counts once: as a step, a part of one, a criterion, a field of the plan, its context,
//! data that is kept, or a line of the report about what is no work.
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
pub use draft::TaskStatus;
pub use plan_file::{PlanFile, PlanFormat, StatedCommand};
pub use read::{LintReport, ReadOptions, lint_text, parse, read};
pub use read_report::{
    Correction, CorrectionKind, FileReading, OPTIONAL_TAG, PartKind, ReadReport, Reading,
    UnreadPart,
};
pub use schema::schema;
pub use syntax::{FILE_BYTES_MAX, json_problem, list_for_object};
pub use tools::read_tools;
pub use write::{
    ExportFormat, MarkedFile, MarkedText, Marking, Statuses, escape_dot, escape_mermaid,
};

#[cfg(test)]
mod tests;
