//! Reads plan files and folders: detects the format from the content, and finds plans that are
//! embedded in other text.

mod conflict_marks;
mod detect;
mod embedded;
mod entry;
mod folder;
mod options;

pub use entry::{
    LintReport, lint, lint_text, lint_with, parse, parse_tag, parse_with, read, read_from,
    read_stream_with, read_tag, read_with,
};
pub use options::ReadOptions;
