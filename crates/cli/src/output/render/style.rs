//! The style of an output: whether it is colored, and its width.

use std::io::{self, IsTerminal as _};

use clap::builder::styling::{AnsiColor, Style as Ansi};

use super::color::is_colored;
use super::width::{cut, wrap_lines};

/// The emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    None,
    Heading,
    Faint,
    Good,
    Notice,
    Bad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    On,
    Off,
}

/// The color support and the width of an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(super) color: Color,
    pub(super) columns: Option<usize>,
}

impl Style {
    /// No color and no width limit: for files and pipes.
    pub(crate) const PLAIN: Self = Self { color: Color::Off, columns: None };

    /// The style of standard output.
    pub(crate) fn of_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self::new(is_terminal, || terminal_columns(io::stdout()))
    }

    /// The style of standard error.
    pub(crate) fn of_stderr() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self::new(is_terminal, || terminal_columns(io::stderr()))
    }

    fn new(is_terminal: bool, columns: impl FnOnce() -> Option<usize>) -> Self {
        let color = if is_colored(is_terminal) { Color::On } else { Color::Off };
        Self { color, columns: if is_terminal { columns() } else { None } }
    }

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let style = match paint {
            _ if self.color == Color::Off => return text.to_owned(),
            Paint::None => return text.to_owned(),
            Paint::Heading => Ansi::new().bold(),
            Paint::Faint => Ansi::new().dimmed(),
            Paint::Good => AnsiColor::Green.on_default(),
            Paint::Notice => AnsiColor::Yellow.on_default(),
            Paint::Bad => AnsiColor::Red.on_default().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// The width of the terminal, if known.
    pub(crate) fn columns(self) -> Option<usize> {
        self.columns
    }

    /// Cuts a text to the columns that remain after `used`.
    pub(crate) fn fit(self, text: &str, used: usize) -> String {
        match self.columns {
            Some(columns) => cut(text, columns.saturating_sub(used).max(COLUMNS_MIN)),
            None => text.to_owned(),
        }
    }

    /// Wraps the lines of a text to the width of the terminal.
    pub(crate) fn wrap(self, text: &str) -> String {
        match self.columns {
            Some(columns) => wrap_lines(text, columns),
            None => text.to_owned(),
        }
    }
}

/// The last column is at least this wide; in a narrower terminal it wraps.
const COLUMNS_MIN: usize = 24;

/// The width of a terminal: `COLUMNS`, else what the terminal says.
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
