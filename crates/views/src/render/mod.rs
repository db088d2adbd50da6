//! Renderers: text for terminals and files, and HTML, of one [`Document`](crate::Document).
//!
//! Invariants: everything is escaped here, so that no text of a plan, worker or person drives a terminal or a
//! browser; paint is applied last, so that columns are measured without it.

mod escape;
mod html;
mod style;
mod svg;
mod text;
mod width;

pub use escape::{escape_control, escape_json, escape_lines, escape_markup, is_printable};
pub use html::{html, html_start};
pub use style::Style;
pub use text::text_lines;
pub use width::{cut, width, wrap};
