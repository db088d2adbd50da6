//! Layout: a view as headings, lines, tables, charts, trees and commands, without a form of output.
//!
//! A view describes itself as a [`Document`]. The renderers make text or HTML of it.
//!
//! Invariant: a document has text as plans, workers and people wrote it: renderers escape it. Text that is escaped
//! already stays as it is.

mod chart;
mod document;
mod table;
mod text;
mod timeline;
mod tree;

pub use chart::{Bar, Series, scaled};
pub use document::{Block, Document};
pub use table::Table;
pub use text::{Paint, Span, Text};
pub use timeline::{Timeline, TimelineCell, TimelineRow};
pub use tree::{Tree, TreeRow};
