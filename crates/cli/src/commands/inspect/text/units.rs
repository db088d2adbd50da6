//! Amounts, times and names as people read them.

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::Micros;

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

#[cfg(test)]
mod tests {
    //! Goal: numbers are short and exact enough.

    use super::*;
    use crate::protocol::{count, counted, size};

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
