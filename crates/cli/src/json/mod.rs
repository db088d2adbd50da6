//! JSON output as types: the lines, and the parts that several lines share.
//!
//! Every line is a struct with a [`JsonLine`] implementation, which the table in `json_lines.rs`
//! gives it: a type that is not in the table cannot be printed. The comment of each field is its
//! description in the published schema, `format/json-lines.schema.json`, which a test generates.
//!
//! Members are printed in alphabetical order, whatever the order of the fields.

mod line;
#[cfg(test)]
mod schema;

pub(crate) use line::{JsonLine, line_text, line_value};
pub(crate) use plan_ledger_views::AnyJson;
#[cfg(test)]
pub(crate) use plan_ledger_views::event_definition;
#[cfg(test)]
pub(crate) use schema::PublishedSchema;
