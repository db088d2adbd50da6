//! Times in a sentence about a limit: `3:34am (Asia/Kolkata)`, `Dec 2nd, 2026 1:34 AM`, `5 days 22
//! hours 11 minutes`, `4h28m20s`, or seconds since the Unix epoch after `|`.
//!
//! A time of day without a date is the next one, and so is a date without a year, if it is not too far ahead. A time
//! without a zone is in the zone of the machine. An unknown zone gives no time, because a wrong one would be worse.

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

/// The words before a time.
const LEADS: &[&str] = &[
    "reset after ",
    "resets after ",
    "reset in ",
    "resets in ",
    "try again in ",
    "retry in ",
    "retrying in ",
    "try again at ",
    "try again on ",
    "reset at ",
    "resets at ",
    "reset on ",
    "resets on ",
    "cycle ends on ",
    "resets ",
];

/// Names of months, by their first letters.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Abbreviated zones and their hours from UTC.
const ZONES: &[(&str, i8)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("pst", -8),
    ("pdt", -7),
    ("mst", -7),
    ("mdt", -6),
    ("cst", -6),
    ("cdt", -5),
    ("est", -5),
    ("edt", -4),
    ("cet", 1),
    ("cest", 2),
    ("jst", 9),
];

/// A time of day has minutes only, and clocks differ a little.
const SLACK: SignedDuration = SignedDuration::from_secs(30);

/// A time of day that passed this long ago is not tomorrow's.
const JUST_PASSED: SignedDuration = SignedDuration::from_mins(10);

/// The longest delay in seconds: 400 days.
const DELAY_MAX: u64 = 400 * 24 * 3600;

/// A date without a year is at most this many days ahead; otherwise it has just passed.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(62 * 24);

/// The length of a number of seconds since the Unix epoch.
const EPOCH_LENGTH: usize = 10;

/// A time that a sentence names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedTime {
    pub(super) time: Timestamp,
    /// Whether the sentence names how long it takes until then, and no time of a clock.
    pub(super) is_delay: bool,
}

/// The time that a sentence names, if it is after that at which the sentence was printed. Abbreviated zones are in
/// capital letters.
pub(super) fn time_in(sentence: &str, printed: &Zoned) -> Option<NamedTime> {
    let lower = sentence.to_ascii_lowercase();
    let by_clock = |time| NamedTime { time, is_delay: false };
    let found = epoch(&lower).map(by_clock).or_else(|| {
        LEADS.iter().find_map(|lead| {
            let after = lower.find(lead)?.checked_add(lead.len())?;
            let (rest, cased) = (lower.get(after..)?, sentence.get(after..)?);
            let delayed = || {
                let time = printed.timestamp().checked_add(delay(rest)?).ok()?;
                Some(NamedTime { time, is_delay: true })
            };
            delayed().or_else(|| moment(rest, cased, printed).map(by_clock))
        })
    });
    found.filter(|found| found.time > printed.timestamp())
}

fn epoch(sentence: &str) -> Option<Timestamp> {
    let (_, rest) = sentence.split_once('|')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let is_epoch = digits.len() == EPOCH_LENGTH;
    is_epoch.then(|| Timestamp::from_second(digits.parse().ok()?).ok()).flatten()
}

/// A delay such as `4h28m20s`, `5 days 22 hours` or `28.6s`. Parts of a second, and of another unit, count as
/// a whole one.
fn delay(text: &str) -> Option<SignedDuration> {
    let mut rest = text;
    let mut seconds: Option<u64> = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        let (number, after) = leading(rest, |it| it.is_ascii_digit());
        let Ok(number) = number.parse::<u64>() else { break };
        let (number, after) = match after.strip_prefix('.') {
            Some(fraction) if fraction.starts_with(|it: char| it.is_ascii_digit()) => {
                (number.saturating_add(1), leading(fraction, |it| it.is_ascii_digit()).1)
            }
            _ => (number, after),
        };
        let (unit, after) = leading(after.trim_start(), |it| it.is_ascii_alphabetic());
        let part = match unit {
            "ms" => number.div_ceil(1000),
            "s" | "sec" | "secs" | "second" | "seconds" => number,
            "m" | "min" | "mins" | "minute" | "minutes" => number.saturating_mul(60),
            "h" | "hr" | "hrs" | "hour" | "hours" => number.saturating_mul(3600),
            "d" | "day" | "days" => number.saturating_mul(24 * 3600),
            "w" | "week" | "weeks" => number.saturating_mul(7 * 24 * 3600),
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0).saturating_add(part));
        rest = after;
    }
    let seconds = i64::try_from(seconds.filter(|seconds| *seconds <= DELAY_MAX)?).ok()?;
    Some(SignedDuration::from_secs(seconds))
}

fn leading(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|it| !is_part(it)).unwrap_or(text.len());
    text.split_at(end)
}

fn words_of(text: &str) -> Vec<&str> {
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.trim_end_matches(['.', ';', '!'])).collect()
}

/// A date, a time of day or both, with or without a zone, in lower case and as it was printed.
fn moment(text: &str, cased: &str, printed: &Zoned) -> Option<Timestamp> {
    let (all, cased) = (words_of(text), words_of(cased));
    let mut words = all.as_slice();
    let date = date(&mut words);
    if let ["at", rest @ ..] = words {
        words = rest;
    }
    let time = time_of_day(&mut words);
    if date.is_none() && time.is_none() {
        return None;
    }
    let used = all.len().checked_sub(words.len())?;
    let zone = zone(cased.get(used..).unwrap_or_default(), printed)?;
    let now = printed.with_time_zone(zone.clone());
    let on = |date: Date| date.to_datetime(time.unwrap_or_default()).to_zoned(zone.clone()).ok();
    let found = match date {
        Some((month, day, Some(year))) => on(Date::new(year, month, day).ok()?)?,
        Some((month, day, None)) => {
            let of_year = |year| on(Date::new(year, month, day).ok()?);
            let found = of_year(now.year())?;
            let is_past = found.date().tomorrow().is_ok_and(|after| after < now.date());
            let found = if is_past { of_year(now.year().saturating_add(1))? } else { found };
            if found.timestamp().duration_since(now.timestamp()) > AHEAD_MAX {
                return None;
            }
            found
        }
        None => {
            let today = on(now.date())?;
            let since = now.timestamp().duration_since(today.timestamp());
            match since {
                since if since.is_negative() => today,
                since if since <= JUST_PASSED => return None,
                _ => on(now.date().tomorrow().ok()?)?,
            }
        }
    };
    found.timestamp().checked_add(SLACK).ok().filter(|_| found.timestamp() > now.timestamp())
}

/// A date: month, day and perhaps year.
fn date(words: &mut &[&str]) -> Option<(i8, i8, Option<i16>)> {
    let (first, rest) = words.split_first()?;
    let numbers = |sign| first.split(sign).map(str::parse).collect::<Result<Vec<i16>, _>>();
    let small = |number: i16| i8::try_from(number).ok();
    if let Ok(&[month, day, year]) = numbers('/').as_deref() {
        *words = rest;
        return Some((small(month)?, small(day)?, Some(year)));
    }
    if let Ok(&[year, month, day]) = numbers('-').as_deref() {
        *words = rest;
        return Some((small(month)?, small(day)?, Some(year)));
    }
    let month = MONTHS.iter().position(|month| first.starts_with(month))?;
    let month = i8::try_from(month).ok()?.checked_add(1)?;
    let (day, rest) = rest.split_first()?;
    let (number, suffix) = leading(day, |it| it.is_ascii_digit());
    let day = number.parse().ok().filter(|_| ["", "st", "nd", "rd", "th"].contains(&suffix))?;
    *words = rest;
    let year = rest.first().and_then(|word| word.parse::<i16>().ok()).filter(|year| *year >= 2000);
    if year.is_some() {
        *words = rest.get(1..).unwrap_or_default();
    }
    Some((month, day, year))
}

/// A time of day: `3:34am`, `4 pm`, `9:34 p.m.`, `15:30`.
fn time_of_day(words: &mut &[&str]) -> Option<Time> {
    let (first, mut rest) = words.split_first()?;
    let (clock, half) = leading(first, |it| it.is_ascii_digit() || it == ':');
    let mut half = half_of_day(half);
    if half.is_empty()
        && let Some((next, after)) = rest.split_first()
        && let next @ ("am" | "pm") = half_of_day(next)
    {
        (half, rest) = (next, after);
    }
    let (hour, minute) = clock.split_once(':').unwrap_or((clock, "0"));
    let (minute, second) = minute.split_once(':').unwrap_or((minute, "0"));
    let hour: i8 = hour.parse().ok()?;
    let hour = match half {
        "am" | "pm" if !(1..=12).contains(&hour) => return None,
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        "" if clock.contains(':') => hour,
        _ => return None,
    };
    let time = Time::new(hour, minute.parse().ok()?, second.parse().ok()?, 0).ok()?;
    *words = rest;
    Some(time)
}

/// `am` or `pm`, also with points; another word as it is.
fn half_of_day(word: &str) -> &str {
    match word {
        "a.m" => "am",
        "p.m" => "pm",
        other => other,
    }
}

/// The next zone in the text, otherwise that of the machine; `None` if it is unknown.
fn zone(words: &[&str], printed: &Zoned) -> Option<TimeZone> {
    let own = || Some(printed.time_zone().clone());
    let Some(word) = words.first() else { return own() };
    let is_in_brackets = word.starts_with('(');
    let word = word.trim_matches(['(', ')', '.']);
    if let Some(zone) = zone_from_utc(word, words.get(1).copied().unwrap_or_default()) {
        return Some(zone);
    }
    let is_abbreviation =
        (2..=5).contains(&word.len()) && word.chars().all(|it| it.is_ascii_uppercase());
    let is_place = word.contains('/') && word.starts_with(|it: char| it.is_ascii_uppercase());
    if is_in_brackets || is_abbreviation || is_place {
        return TimeZone::get(word).ok();
    }
    own()
}

/// A zone by its hours from UTC: `PST`, `GMT+5:30`, `UTC +2`, `-05:00`.
fn zone_from_utc(word: &str, next: &str) -> Option<TimeZone> {
    let fixed = |seconds: i32| Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?));
    let lower = word.to_ascii_lowercase();
    let (name, offset) = leading(&lower, |it| it.is_ascii_alphabetic());
    if !name.is_empty() && offset.is_empty() {
        let (_, hours) = ZONES.iter().find(|(zone, _)| *zone == name)?;
        let next = if ["utc", "gmt"].contains(&name) { next.trim_matches(['(', ')']) } else { "" };
        return fixed(offset_seconds(next).unwrap_or(i32::from(*hours) * 3600));
    }
    if ["", "utc", "gmt"].contains(&name) { fixed(offset_seconds(offset)?) } else { None }
}

/// The seconds of `+5:30`, `-5` or `+0530`.
fn offset_seconds(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let is_number = |text: &str| text.chars().all(|it| it.is_ascii_digit());
    let (hours, minutes): (i32, i32) = match (is_number(hours), is_number(minutes)) {
        (true, true) => (hours.parse().ok()?, minutes.parse().ok()?),
        _ => return None,
    };
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}
