//! Text for a terminal: measured, painted and aligned in columns.
//!
//! Invariants: text from plans, workers and files is escaped before it gets here, and paint is
//! applied last, so that columns are measured without it.
//!
//! The width of grapheme clusters is not computed: an emoji sequence may break a column.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use clap::builder::styling::{AnsiColor, Style as Ansi};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Micros, Timestamp};

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Cuts a text to a width, and ends it with dots if it was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(3);
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += char_width(*c);
        used <= room
    });
    format!("{}...", kept.collect::<String>())
}

/// Wraps a text between words.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used: usize = 0;
    for word in text.split(' ') {
        let wanted = width(word);
        if used > 0 && used.saturating_add(1 + wanted) > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += wanted;
    }
    lines.push(line);
    lines
}

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
enum Colour {
    On,
    Off,
}

/// The colour support and the width of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: Colour,
    columns: Option<usize>,
}

impl Style {
    /// No colour and no width limit: for files and pipes.
    pub(crate) const PLAIN: Self = Self { colour: Colour::Off, columns: None };

    /// The style of standard output.
    pub(crate) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let colour = if is_set("NO_COLOR") || is_dumb { Colour::Off } else { Colour::On };
        Self { colour, columns: terminal_columns() }
    }

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let style = match paint {
            _ if self.colour == Colour::Off => return text.to_owned(),
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
}

/// The last column is at least this wide; in a narrower terminal it wraps.
const COLUMNS_MIN: usize = 24;

#[cfg(unix)]
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn terminal_columns() -> Option<usize> {
    None
}

/// Rows in aligned columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<(Paint, String)>>,
}

impl Table {
    /// A table with a line of headings.
    pub(crate) fn with_headings(headings: &[&str]) -> Self {
        let row = headings.iter().map(|text| (Paint::Faint, (*text).to_owned()));
        Self { rows: vec![row.collect()] }
    }

    /// Adds a row. The text must already be escaped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Paint, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The indented lines. The last column is cut at the width of the terminal.
    pub(crate) fn lines(&self, style: Style, indent: usize) -> Vec<String> {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            for (place, (_, text)) in row.iter().enumerate() {
                match widths.get_mut(place) {
                    Some(widest) => *widest = (*widest).max(width(text)),
                    None => widths.push(width(text)),
                }
            }
        }
        self.rows.iter().map(|row| line(row, &widths, style, indent)).collect()
    }
}

fn line(row: &[(Paint, String)], widths: &[usize], style: Style, indent: usize) -> String {
    let mut out = " ".repeat(indent);
    let mut column = indent;
    for (place, ((paint, text), widest)) in row.iter().zip(widths).enumerate() {
        if place + 1 == row.len() {
            out.push_str(&style.paint(*paint, &style.fit(text, column)));
        } else {
            out.push_str(&style.paint(*paint, text));
            out.push_str(&" ".repeat(widest.saturating_sub(width(text)) + GAP));
            column += widest + GAP;
        }
    }
    out.trim_end().to_owned()
}

/// Spaces between columns.
const GAP: usize = 2;

/// A variant's name as lower-case words: `LeaseExpired` is `lease expired`.
pub(crate) fn words(variant: &impl std::fmt::Debug, joint: char) -> String {
    let mut out = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(joint);
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A duration in its two largest units: `1m 5s`.
pub(crate) fn span(micros: Micros) -> String {
    const UNITS: [(Micros, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let mut rest = micros;
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        if rest >= size && parts.len() < 2 {
            parts.push(format!("{}{unit}", rest / size));
        }
        rest %= size;
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A time, and its distance from now.
pub(crate) fn moment(time: Timestamp, now: Timestamp) -> String {
    let whole = |micros: Micros| span(micros / 1_000_000 * 1_000_000);
    let distance = if time <= now {
        format!("{} ago", whole(now - time))
    } else {
        format!("in {}", whole(time - now))
    };
    format!("{} ({distance})", seconds(time))
}

/// A time to the second.
pub(crate) fn seconds(time: Timestamp) -> String {
    let text = time_text(time);
    text.split_once('.').map_or(text.clone(), |(whole, _)| format!("{whole}Z"))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    //! Goal: text from workers cannot drive a terminal, and columns stay aligned.

    use super::*;
    use crate::output::escape_control;
    use crate::protocol::{count, counted, size};

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(escape_control("\u{1b}[2J\u{1b}]0;x\u{7}"), "\\u{1b}[2J\\u{1b}]0;x\\u{7}");
        assert_eq!(escape_control("a\r\nb\tc"), "a\\r\\nb\\tc");
        assert_eq!(escape_control("\u{9b}31m\u{7f}"), "\\u{9b}31m\\u{7f}");
        assert_eq!(
            escape_control("a\u{202e}b\u{2066}c\u{200b}d"),
            "a\\u{202e}b\\u{2066}c\\u{200b}d"
        );
        assert_eq!(
            escape_control("Gr\u{fc}\u{df}e \u{4f60}\u{597d} \\n"),
            "Gr\u{fc}\u{df}e \u{4f60}\u{597d} \\n"
        );
        for c in (0..=0x11_0000).filter_map(char::from_u32) {
            assert!(!escape_control(&c.to_string()).chars().any(char::is_control), "{c:?}");
        }
    }

    #[test]
    fn text_is_cut_by_columns_and_not_by_bytes() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abc...");
        assert_eq!(cut("\u{4f60}\u{597d}\u{4f60}\u{597d}", 7), "\u{4f60}\u{597d}...");
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn tables_are_aligned_and_cut() {
        let mut table = Table::with_headings(&["a", "b"]);
        table.row([(Paint::Good, "long cell".to_owned()), (Paint::None, "x".repeat(50))]);
        assert_eq!(table.lines(Style::PLAIN, 2)[0], "  a          b");
        let narrow = Style { colour: Colour::Off, columns: Some(40) };
        assert_eq!(table.lines(narrow, 2)[1], format!("  long cell  {}...", "x".repeat(24)));
        let painted = Style { colour: Colour::On, columns: Some(40) };
        assert!(table.lines(painted, 2)[1].contains("\u{1b}[32mlong cell\u{1b}[0m  x"));
    }

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "record"), "1 record");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1_572_864), "1.5 MiB");
        assert_eq!(span(1_500_000), "1s 500ms");
        assert_eq!(span(90_061_000_000), "1d 1h");
        assert_eq!((span(0), span(999)), ("0s".to_owned(), "999us".to_owned()));
        assert_eq!(words(&plan_ledger::LostCause::LeaseExpired, '_'), "lease_expired");
        assert_eq!(moment(5_000_000, 65_000_000), "1970-01-01T00:00:05Z (1m ago)");
        assert_eq!(moment(65_000_000, 5_000_000), "1970-01-01T00:01:05Z (in 1m)");
    }
}
