//! The native plan format (`format/plan.md`), read strictly from JSON, YAML or Markdown.
//!
//! An unknown field is an error, so that a misspelled `after` does not lose a dependency. A file
//! may also have `marks`, which record how far the work is and are not part of the plan.

mod markdown;
mod markdown_layout;
mod marks;
mod recognize;
mod strict;

pub(super) use markdown::{is_native_markdown, parse_markdown};
pub(super) use markdown_layout::{HEADER, LIST_SECTIONS, STEP_FIELDS, TEXT_SECTIONS, ValueKind};
pub(super) use marks::{MARKS_FIELD, Marks};
pub(super) use recognize::{is_native, resembles_native};
pub(super) use strict::{parse, parse_valid, yaml_errors};
