//! Numbers, sizes, hashes and money as text.

use std::fmt::Write as _;

use plan_ledger::{Cost, Limits};

/// A number with its digits in groups: `1,204`.
#[must_use]
pub fn count(number: u64) -> String {
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
#[must_use]
pub fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A size in bytes with a suitable unit: `12.4 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
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

/// The limits of a budget.
#[must_use]
pub fn limits_text(limits: Limits) -> String {
    let parts = [
        limits.money_micros.map(money_text),
        limits.tokens.map(|tokens| counted(tokens, "token")),
        limits.attempts.map(|attempts| counted(attempts, "attempt")),
        limits.wall_seconds.map(|wall| counted(wall, "second")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// Money, and tokens if there are any: `$1.05 and 7 tokens`.
#[must_use]
pub fn cost_text(cost: Cost) -> String {
    let Cost { money_micros, tokens } = cost;
    let money = money_text(money_micros);
    if tokens == 0 { money } else { format!("{money} and {}", counted(tokens, "token")) }
}

/// Money with two to six decimals: `$1.50`, `$0.025`.
#[must_use]
pub fn money_text(micros: u64) -> String {
    let decimals = format!("{:06}", micros % 1_000_000);
    let (cents, rest) = decimals.split_at(2);
    format!("${}.{cents}{}", count(micros / 1_000_000), rest.trim_end_matches('0'))
}
