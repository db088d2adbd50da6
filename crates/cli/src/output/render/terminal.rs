//! The style of an output of this process: color and width of its terminal.

use std::io::{self, IsTerminal as _};

use plan_ledger_views::Style;

use super::color::is_colored;

/// The style of standard output.
pub(crate) fn stdout_style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    style(is_terminal, || terminal_columns(io::stdout()))
}

/// The style of standard error.
pub(crate) fn stderr_style() -> Style {
    let is_terminal = io::stderr().is_terminal();
    style(is_terminal, || terminal_columns(io::stderr()))
}

fn style(is_terminal: bool, columns: impl FnOnce() -> Option<usize>) -> Style {
    let columns = if is_terminal { columns() } else { None };
    Style { is_colored: is_colored(is_terminal), columns }
}

/// The width of a terminal: `COLUMNS`, else the width that the terminal reports.
#[cfg(unix)]
fn terminal_columns(terminal: impl rustix::fd::AsFd) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let size = || rustix::termios::tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col));
    set.or_else(size).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn terminal_columns<T>(_terminal: T) -> Option<usize> {
    None
}
