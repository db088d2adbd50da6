//! Bars and charts: how much of a limit is used, and a value over time.

use plan_ledger::Timestamp;

/// A bar: the used and the reserved part of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// The used part.
    pub used: u64,
    /// The reserved part.
    pub reserved: u64,
    /// The limit.
    pub of: u64,
    /// The number of cells in text.
    pub cells: u64,
}

impl Bar {
    /// The cells that are used, reserved, and left.
    #[must_use]
    pub fn split(self) -> (u64, u64, u64) {
        let Self { used, reserved, of, cells } = self;
        let cell = |number: u64| scaled(number.min(of), of, cells);
        // Any use fills at least one cell.
        let used_cells = cell(used).max(u64::from(used > 0));
        let reserved_cells = cell(used.saturating_add(reserved)).max(used_cells) - used_cells;
        (used_cells, reserved_cells, cells.saturating_sub(used_cells + reserved_cells))
    }
}

/// `number / of * cells`, rounded down; 0 if `of` is 0.
#[must_use]
pub fn scaled(number: u64, of: u64, cells: u64) -> u64 {
    let product = u128::from(number) * u128::from(cells);
    product.checked_div(u128::from(of)).and_then(|cells| u64::try_from(cells).ok()).unwrap_or(0)
}

/// A value over time; each point holds until the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Times, in order, and the values from then on.
    pub points: Vec<(Timestamp, u64)>,
    /// The start of the chart.
    pub from: Timestamp,
    /// The end of the chart.
    pub until: Timestamp,
    /// The value at the top.
    pub top: u64,
}

impl Series {
    /// The value at the end of each of so many columns.
    #[must_use]
    pub fn samples(&self, columns: u64) -> Vec<u64> {
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
}
