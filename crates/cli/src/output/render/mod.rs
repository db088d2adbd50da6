//! The layout of text for people, the same for all commands: escaping, width, wrapping, color and tables.
//!
//! Invariants: text from plans, workers and files is escaped before it gets here, and paint is
//! applied last, so that columns are measured without it.

mod color;
mod escape;
mod local_time;
mod pager;
mod style;
mod table;
mod width;

pub(crate) use color::{ColorChoice, set_color};
pub(crate) use escape::{escape_control, escape_json, escape_lines, escape_path, is_printable};
pub(crate) use local_time::{local_moment, parse_since, time_of_day, time_of_day_now};
pub(crate) use pager::{disable_pager, with_pager};
pub(crate) use style::{Paint, Style};
pub(crate) use table::Table;
pub(crate) use width::{cut, width, wrap};
