//! The syntax layer: bounded UTF-8 text, and one tree for JSON, YAML, TOML and comma-separated values.
//!
//! Every value has its line and column. Every error has a line and a column, and a message in the terms of a
//! plan's author.

mod csv;
mod json;
mod messages;
mod text;
mod toml;
mod tree;
mod typed;
mod yaml;

pub(super) use csv::csv_rows;
pub(super) use json::{json_lines, json_tree};
pub use json::{json_problem, list_for_object};
pub(super) use messages::plain_message;
pub use text::FILE_BYTES_MAX;
pub(super) use text::{
    is_blank, normalized_text, read_text, read_text_from, without_byte_order_mark,
};
pub(super) use toml::toml_tree;
pub(super) use tree::{Cell, Field, Kind, LineIndex, Node, Place};
pub(super) use typed::{TypedError, typed};
pub(super) use yaml::yaml_tree;
