//! Numbers, sizes and bytes as text.

use std::fmt;
use std::fmt::Write as _;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{BudgetPart, Micros};

/// A number with its digits in groups: `1,204`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 record`, `2 records`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

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

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A size in bytes with a suitable unit: `12.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut rest, mut unit) = (bytes, 0, "B");
    for next in UNITS {
        if whole < 1024 {
            break;
        }
        (rest, whole, unit) = (whole % 1024, whole / 1024, next);
    }
    if unit == "B" { format!("{whole} B") } else { format!("{whole}.{} {unit}", rest * 10 / 1024) }
}

/// How an attempt compares with the estimate of its step.
pub(crate) fn slow_text(elapsed: Micros, estimate_seconds: u32) -> String {
    let seconds = elapsed / 1_000_000;
    format!("takes {seconds} s so far, at least twice its estimate of {estimate_seconds} s")
}

/// A part of a run's budget of which most is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BudgetUse {
    /// The part.
    pub part: BudgetPart,
    /// How much of it is used, in percent, rounded down.
    pub percent: u64,
}

impl BudgetUse {
    /// What is used of a limit.
    pub(crate) fn of(part: BudgetPart, used: u64, limit: u64) -> Self {
        let percent = u128::from(used) * 100 / u128::from(limit.max(1));
        let percent = if limit == 0 { 100 } else { u64::try_from(percent).unwrap_or(u64::MAX) };
        Self { part, percent }
    }
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, percent } = self;
        write!(
            f,
            "{percent} % of the run's {} budget is used",
            plan_ledger_views::part_adjective(*part)
        )
    }
}
