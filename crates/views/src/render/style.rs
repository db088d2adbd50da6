//! The style of an output: whether it is colored, and its width.

use anstyle::{AnsiColor, Style as Ansi};

use super::width::{cut, wrap_lines};
use crate::layout::Paint;

/// The color support and the width of an output.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether the output is colored.
    pub is_colored: bool,
    /// The width in columns; `None`: any.
    pub columns: Option<usize>,
}

impl Style {
    /// No color and no width limit: for files and pipes.
    pub const PLAIN: Self = Self { is_colored: false, columns: None };

    /// A text with that emphasis.
    #[must_use]
    pub fn paint(self, paint: Paint, text: &str) -> String {
        let style = match paint {
            _ if !self.is_colored => return text.to_owned(),
            Paint::None => return text.to_owned(),
            Paint::Heading => Ansi::new().bold(),
            Paint::Faint => Ansi::new().dimmed(),
            Paint::Good => AnsiColor::Green.on_default(),
            Paint::Notice => AnsiColor::Yellow.on_default(),
            Paint::Bad => AnsiColor::Red.on_default().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// Cuts a text to the columns that remain after `used`.
    #[must_use]
    pub fn fit(self, text: &str, used: usize) -> String {
        match self.columns {
            Some(columns) => cut(text, columns.saturating_sub(used).max(COLUMNS_MIN)),
            None => text.to_owned(),
        }
    }

    /// Wraps the lines of a text to the width of the terminal.
    #[must_use]
    pub fn wrap(self, text: &str) -> String {
        match self.columns {
            Some(columns) => wrap_lines(text, columns),
            None => text.to_owned(),
        }
    }
}

/// The last column is at least this wide; in a narrower terminal it wraps.
const COLUMNS_MIN: usize = 24;

/// The class of a paint in HTML.
pub(super) fn class(paint: Paint) -> &'static str {
    match paint {
        Paint::None => "",
        Paint::Heading => "name",
        Paint::Faint => "faint",
        Paint::Good => "good",
        Paint::Notice => "notice",
        Paint::Bad => "bad",
    }
}
