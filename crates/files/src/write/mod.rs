//! Renders plans: the native format as YAML, JSON and Markdown, the forms of other tools, and graphs of
//! the dependencies.
//!
//! Invariant: a rendered native plan reads back as the same plan with the same marks. This is
//! checked on every call, so a value that a format cannot express is an error.

mod artifact;
mod back;
mod graph;
mod lost_fields;
mod markdown;
mod render;
mod tools;

pub use back::{MarkedFile, MarkedText, Marking, Statuses};
pub use graph::{escape_dot, escape_mermaid};
pub use render::ExportFormat;
