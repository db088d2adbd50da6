//! Amounts on the command line: money as `3.00` or `$3.00`, and durations as `5m` or seconds.

use std::time::Duration;

use plan_ledger::internals::ledger::parse_duration;

/// The help of an option that takes a lease.
pub(crate) const LEASE_HELP: &str =
    "How long the claim holds without a renewal: `90s`, `2h`, or seconds [default: from the plan]";

/// The help of an option that takes an owner, and of one that takes a tag.
pub(crate) const OWNER_HELP: &str =
    "Only steps of this owner, or without an owner; may be repeated. `human` is a person";
pub(crate) const TAG_HELP: &str = "Only steps with this tag; repeated: with one of them";

/// Decimals of an amount of money; the ledger counts in millionths.
const MONEY_DECIMALS: usize = 6;

/// Parses money, `3`, `3.00` or `$3.00`, into millionths of the currency unit.
pub(crate) fn parse_money(text: &str) -> Result<u64, String> {
    let expected = || format!("expected an amount such as 3.00 or $3.00, found `{text}`");
    let digits = text.strip_prefix('$').unwrap_or(text);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return Err(expected());
    }
    if decimals.len() > MONEY_DECIMALS {
        return Err(format!("expected at most {MONEY_DECIMALS} decimals, found `{text}`"));
    }
    format!("{whole}{decimals:0<MONEY_DECIMALS$}")
        .parse()
        .map_err(|_| format!("the amount `{text}` is too large"))
}

/// Parses a duration: `90s`, `5m`, `2h 30m`, or a number of seconds.
pub(crate) fn parse_timespan(text: &str) -> Result<Duration, String> {
    let seconds = || text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    // A person who types `5M` rarely means five months.
    let is_month = text.contains('M');
    let parsed = seconds().or_else(|| parse_duration(text)).filter(|_| !is_month);
    parsed.ok_or_else(|| {
        let hint = if is_month { "; minutes are written as `m`" } else { "" };
        format!("expected a duration such as 90s, 5m or 2h 30m, or seconds, found `{text}`{hint}")
    })
}

/// Parses a duration into whole seconds, rounded up.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    let duration = parse_timespan(text)?;
    Ok(duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)))
}

/// A lease in seconds, rounded up.
pub(crate) fn parse_lease(text: &str) -> Result<u32, String> {
    let expected = || format!("expected a time from 1s to {}s, such as 90s or 2h 30m", u32::MAX);
    let seconds = parse_seconds(text)?;
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    //! Goal: amounts are read exactly, and any other text is rejected.

    use super::*;

    #[test]
    fn money_is_exact() {
        assert_eq!(parse_money("3"), Ok(3_000_000));
        assert_eq!(parse_money("$3.00"), Ok(3_000_000));
        assert_eq!(parse_money("0.000001"), Ok(1));
        assert_eq!(parse_money("$0.5"), Ok(500_000));
        assert_eq!(parse_money("18446744073709.551615"), Ok(u64::MAX));
        for wrong in ["", "$", ".5", "3.", "-1", "+1", "1e3", "1,000", "0.0000001", "$ 3", "NaN"] {
            assert!(parse_money(wrong).is_err(), "{wrong}");
        }
        assert!(parse_money("18446744073709.551616").is_err());
    }

    #[test]
    fn durations_have_units_or_are_seconds() {
        assert_eq!(parse_seconds("90"), Ok(90));
        assert_eq!(parse_seconds("1.2"), Ok(2));
        assert_eq!(parse_seconds("5m"), Ok(300));
        assert_eq!(parse_seconds("2h 30m"), Ok(9_000));
        for wrong in ["", "m", "-1", "5M", "5 parsecs", "NaN", "inf", "1e300"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
