//! Reads plan files and folders: detects the format from the content, and finds plans that are
//! embedded in other text.

mod conflict_marks;
mod detect;
mod embedded;
mod entry;
mod folder;
mod options;
mod org;
mod tables;
mod todo_txt;

pub use entry::{LintReport, lint_text, parse, read};
pub use options::ReadOptions;
