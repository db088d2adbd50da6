//! Reads plan files and folders: detects the format from the content, and finds plans that are
//! embedded in other text.

mod conflict_marks;
mod detect;
mod embedded;
mod entry;
mod folder;
mod options;
mod org;
mod readings;
mod tables;
mod todo_txt;

pub use entry::{LintReport, lint_text, parse, read};
pub(crate) use entry::{file_name, normalized, validated, validated_rows};
pub(crate) use folder::{RowPlace, Texts};
pub use options::ReadOptions;
pub(crate) use org::{as_markdown, keyword_place};
pub(crate) use todo_txt::mark_length;
