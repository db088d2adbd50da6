//! Times of day where the user is: for progress lines, and for options such as `--since 22:00`.

use jiff::Zoned;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::parse_time;

/// The current time of day: `22:04:11`.
pub(crate) fn time_of_day_now() -> String {
    Zoned::now().strftime("%H:%M:%S").to_string()
}

/// The time of day of a time: `22:04:11`.
pub(crate) fn time_of_day(time: Timestamp) -> String {
    local(time).map_or_else(String::new, |time| time.strftime("%H:%M:%S").to_string())
}

/// A time where the user is: `22:04:11`, or `2026-11-25 22:04` if it is on another day than now.
pub(crate) fn local_moment(time: Timestamp) -> String {
    let Some(local) = local(time) else { return String::new() };
    let format = if local.date() == Zoned::now().date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    local.strftime(format).to_string()
}

/// Parses a time of the past: `8h` (that long ago), `22:00` (the last time it was that time of day),
/// `2026-11-25 22:00` (where the user is), or a time with a zone (RFC 3339).
pub(crate) fn parse_since(text: &str, now: Timestamp) -> Option<Timestamp> {
    last_time_of_day(text, now).or_else(|| local_date_time(text)).or_else(|| parse_time(text, now))
}

fn last_time_of_day(text: &str, now: Timestamp) -> Option<Timestamp> {
    let parse = |format| Time::strptime(format, text).ok();
    let time = parse("%H:%M").or_else(|| parse("%H:%M:%S"))?;
    let now = local(now)?;
    let on = |date: jiff::civil::Date| date.to_datetime(time).to_zoned(TimeZone::system()).ok();
    let found = on(now.date()).filter(|found| *found <= now);
    micros(&found.or_else(|| on(now.date().yesterday().ok()?))?)
}

fn local_date_time(text: &str) -> Option<Timestamp> {
    // A date alone is its midnight.
    let time: DateTime = text.parse().ok()?;
    micros(&time.to_zoned(TimeZone::system()).ok()?)
}

fn local(time: Timestamp) -> Option<Zoned> {
    let micros = i64::try_from(time).ok()?;
    Some(jiff::Timestamp::from_microsecond(micros).ok()?.to_zoned(TimeZone::system()))
}

fn micros(time: &Zoned) -> Option<Timestamp> {
    Timestamp::try_from(time.timestamp().as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    //! Goal: a time has its local meaning in every time zone.

    use super::*;

    const HOUR: Timestamp = 3_600_000_000;

    #[test]
    fn time_of_day_is_the_last_one_before_now() {
        let now = 1_763_696_316_000_000;
        for ago in [1, 5, 23] {
            let then = now - ago * HOUR;
            assert_eq!(parse_since(&time_of_day(then), now), Some(then), "{ago} hours ago");
        }
        assert_eq!(parse_since(&time_of_day(now), now), Some(now));
        for wrong in ["24:00", "22:60", "22", "noon", "22:00 yesterday", ""] {
            assert_eq!(last_time_of_day(wrong, now), None, "{wrong}");
        }
    }

    #[test]
    fn dates_durations_and_zoned_times_are_read() {
        let now = 1_763_696_316_000_000;
        assert_eq!(parse_since("8h", now), Some(now - 8 * HOUR));
        assert_eq!(parse_since("1970-01-01T00:00:07Z", now), Some(7_000_000));
        let there = local(now).unwrap().strftime("%Y-%m-%d %H:%M:%S").to_string();
        assert_eq!(parse_since(&there, now), Some(now));
        assert_eq!(parse_since("yesterday", now), None);
    }
}
