//! Numbers, sizes and bytes as text.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{BudgetPart, Micros};

pub(crate) use plan_ledger_views::{count, counted, hex, size};

/// The largest number of ranges that a text lists.
const RANGES_MAX: usize = 5;

/// Records that were lost before the ledger was salvaged: `records 3 to 5 and record 9 were lost
/// before it was salvaged`. Each range has its first and its last record.
pub(crate) fn lost_records_text(ranges: &[(u64, u64)]) -> String {
    let range = |&(first, last): &(u64, u64)| match last.saturating_sub(first) {
        0 => format!("record {first}"),
        _ => format!("records {first} to {last}"),
    };
    let listed: Vec<String> = ranges.iter().take(RANGES_MAX).map(range).collect();
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    let is_one = matches!(ranges, [(first, last)] if first == last);
    let verb = if is_one { "was" } else { "were" };
    format!("{}{more} {verb} lost before it was salvaged", listed.join(", "))
}

/// How an attempt compares with the estimate of its step.
pub(crate) fn slow_text(elapsed: Micros, estimate_seconds: u32) -> String {
    let seconds = elapsed / 1_000_000;
    format!("takes {seconds} s so far, at least twice its estimate of {estimate_seconds} s")
}

/// A part of a run's budget that is mostly used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BudgetUse {
    /// The part.
    pub part: BudgetPart,
    /// How much of it is used, in percent: more than 100 after an overrun. Rounded down, and an overrun up.
    pub percent: u64,
}

impl BudgetUse {
    /// The used part of a limit.
    pub(crate) fn of(part: BudgetPart, used: u64, limit: u64) -> Self {
        let (hundredfold, whole) = (u128::from(used) * 100, u128::from(limit.max(1)));
        let percent = match (used, limit) {
            (0, 0) => 100,
            _ if used > limit => hundredfold.div_ceil(whole),
            _ => hundredfold / whole,
        };
        Self { part, percent: u64::try_from(percent).unwrap_or(u64::MAX) }
    }

    /// Whether more than the limit is used.
    pub(crate) fn is_overrun(self) -> bool {
        self.percent > 100
    }
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, percent } = self;
        let part = part.adjective();
        if self.is_overrun() {
            return write!(f, "the run's {part} budget is overrun: {percent} % is used");
        }
        write!(f, "{percent} % of the run's {part} budget is used")
    }
}
