//! The syntax layer: bounded UTF-8 text, strict JSON and YAML, and the line of every value.
//!
//! Every error has a line and a column, and a message in the terms of a plan's author.

mod csv;
mod json;
mod line_index;
mod messages;
mod text;
mod toml;
mod yaml;

pub(super) use csv::csv_rows;
pub(super) use json::{duplicate_keys, json_error_at, json_value, parse_json};
pub use json::{json_problem, list_for_object};
pub(super) use line_index::LineIndex;
pub(super) use messages::{is_vague, plain_message, with_form};
pub use text::FILE_BYTES_MAX;
pub(super) use text::{is_blank, read_text, read_text_from, without_byte_order_mark};
pub(super) use toml::parse_toml;
pub(super) use yaml::parse_yaml;
