//! Times and durations as people read them.

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::Micros;

/// A duration in its two largest units: `1m 5s`.
#[must_use]
pub fn span(micros: Micros) -> String {
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
#[must_use]
pub fn moment(time: Timestamp, now: Timestamp) -> String {
    let whole = |micros: Micros| span(micros / 1_000_000 * 1_000_000);
    let distance = if time <= now {
        format!("{} ago", whole(now - time))
    } else {
        format!("in {}", whole(time - now))
    };
    format!("{} ({distance})", seconds(time))
}

/// A time to the second.
#[must_use]
pub fn seconds(time: Timestamp) -> String {
    let text = time_text(time);
    text.split_once('.').map_or(text.clone(), |(whole, _)| format!("{whole}Z"))
}
