//! The terminal of this process: colors, width, pager, and the time zone of the user.
//!
//! The layout of text itself is in `plan_ledger_views`.

mod color;
mod local_time;
mod pager;
mod terminal;

pub(crate) use color::{ColorChoice, set_color};
pub(crate) use local_time::{local_moment, parse_since, time_of_day, time_of_day_now};
pub(crate) use pager::{disable_pager, with_pager};
pub(crate) use plan_ledger_views::{
    Paint, Style, cut, escape_control, escape_json, escape_lines, is_printable,
};
pub(crate) use terminal::{stderr_style, stdout_style};
