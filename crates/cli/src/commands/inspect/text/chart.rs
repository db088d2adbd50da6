//! Bars and charts in ASCII: how much of a limit is used, and a value over time.
//!
//! Invariant: only ASCII, so that a chart looks the same in every terminal, log and bug report.

use plan_ledger::Timestamp;

use crate::commands::inspect::text::units::seconds;
use crate::output::render::{Style, width};

/// Width of a chart if the output is not a terminal.
const COLUMNS: usize = 100;
/// Minimum width of a chart.
const COLUMNS_MIN: usize = 40;

/// The width available for a chart.
pub(crate) fn columns(style: Style) -> usize {
    style.columns().unwrap_or(COLUMNS).max(COLUMNS_MIN)
}

/// A bar with this number of cells: `[####....----]` for used, reserved and remaining.
pub(crate) fn bar(used: u64, reserved: u64, of: u64, cells: u64) -> String {
    let cell = |number: u64| scaled(number.min(of), of, cells);
    // Any use fills at least one cell.
    let used_cells = cell(used).max(u64::from(used > 0));
    let reserved_cells = cell(used.saturating_add(reserved)).max(used_cells) - used_cells;
    let left = cells.saturating_sub(used_cells + reserved_cells);
    format!("[{}{}{}]", run('#', used_cells), run('+', reserved_cells), run('-', left))
}

/// Repeats a character.
pub(crate) fn run(cell: char, cells: u64) -> String {
    std::iter::repeat_n(cell, usize::try_from(cells).unwrap_or(0)).collect()
}

/// `number / of * cells`, rounded down; 0 if `of` is 0.
pub(crate) fn scaled(number: u64, of: u64, cells: u64) -> u64 {
    let product = u128::from(number) * u128::from(cells);
    product.checked_div(u128::from(of)).and_then(|cells| u64::try_from(cells).ok()).unwrap_or(0)
}

/// A value over time; each point holds until the next one.
pub(crate) struct Series<'a> {
    /// Times, in order, and the values from then on.
    pub(crate) points: &'a [(Timestamp, u64)],
    /// The interval of the chart.
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The value at the top.
    pub(crate) top: u64,
}

/// Rows of a chart.
const ROWS: u64 = 8;

impl Series<'_> {
    /// The value at the end of each of so many columns.
    fn samples(&self, columns: u64) -> Vec<u64> {
        let span = self.until.saturating_sub(self.from);
        let mut points = self.points.iter().peekable();
        let mut value = points.peek().map_or(0, |(_, value)| *value);
        let mut samples = Vec::new();
        for column in 0..columns {
            let time = self.from.saturating_add(scaled(column + 1, columns, span));
            while let Some((_, next)) = points.next_if(|(at, _)| *at <= time) {
                value = *next;
            }
            samples.push(value);
        }
        samples
    }

    /// The lines of the chart, with a time axis below.
    pub(crate) fn chart(&self, columns: usize, labels: (&str, &str)) -> Vec<String> {
        let (top, bottom) = labels;
        let margin = width(top).max(width(bottom));
        let room = columns.saturating_sub(margin + 3).max(10);
        let samples = self.samples(u64::try_from(room).unwrap_or(10));
        let mut lines = Vec::new();
        for row in (0..ROWS).rev() {
            let label = if row + 1 == ROWS { top } else { "" };
            let cells = samples.iter().map(|value| {
                let height = scaled(*value, self.top, ROWS);
                if height > row || (*value > 0 && row == 0) { '#' } else { ' ' }
            });
            let cells: String = cells.collect();
            lines.push(format!("{label:>margin$} |{}", cells.trim_end()).trim_end().to_owned());
        }
        lines.push(format!("{bottom:>margin$} +{}", "-".repeat(room)));
        let (from, until) = (seconds(self.from), seconds(self.until));
        let gap = room.saturating_sub(from.len() + until.len()).max(2);
        lines.push(format!("{:>margin$}  {from}{}{until}", "", " ".repeat(gap)));
        lines
    }
}

#[cfg(test)]
mod tests {
    //! Goal: bars and charts match their numbers, at the limits too.

    use super::*;

    #[test]
    fn bar_cells_are_proportional() {
        assert_eq!(bar(0, 0, 10, 10), "[----------]");
        assert_eq!(bar(1, 0, 1000, 10), "[#---------]");
        assert_eq!(bar(5, 2, 10, 10), "[#####++---]");
        assert_eq!(bar(10, 0, 10, 10), "[##########]");
        assert_eq!(bar(25, 9, 10, 10), "[##########]");
        assert_eq!(bar(0, 0, 0, 4), "[----]");
        assert_eq!(bar(u64::MAX, u64::MAX, u64::MAX, 4), "[####]");
    }

    #[test]
    fn chart_holds_a_value_until_the_next_point() {
        let points = [(0, 8), (50, 4), (100, 0)];
        let course = Series { points: &points, from: 0, until: 100, top: 8 };
        assert_eq!(course.samples(10), [8, 8, 8, 8, 4, 4, 4, 4, 4, 0]);
        let lines = course.chart(15, ("8", "0"));
        assert_eq!(lines[0], "8 |#####");
        assert_eq!(lines[4], "  |##########");
        assert_eq!(lines[8], "0 +-----------");
        assert!(course.samples(0).is_empty());
    }
}
