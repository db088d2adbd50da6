//! Hours for starting work without a person, such as `23:00-07:00`, in the time zone of the
//! machine.

use jiff::Zoned;
use jiff::civil::Time;

/// The part of each day for starting work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    from: Time,
    to: Time,
}

impl Hours {
    /// Parses `FROM-TO`. The hours may span midnight.
    ///
    /// # Errors
    /// A message for a text in another form, and for empty hours.
    pub fn parse(text: &str) -> Result<Self, String> {
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let found = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
        let hours = found.filter(|(from, to)| from != to).map(|(from, to)| Self { from, to });
        hours.ok_or_else(|| "expected two different times of day, such as 23:00-07:00".to_owned())
    }

    /// When they begin next; `None` if they have begun.
    pub(crate) fn next_begin(self, now: &Zoned) -> Option<Zoned> {
        let (Self { from, to }, time) = (self, now.time());
        let is_open =
            if from < to { (from..to).contains(&time) } else { time >= from || time < to };
        if is_open {
            return None;
        }
        let day = if time < from { now.date() } else { now.date().tomorrow().ok()? };
        day.to_datetime(from).to_zoned(now.time_zone().clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: work starts within the hours only, also across midnight and a change of the clocks.

    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn hours_may_span_midnight() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let begin = |hours: &str, hour, minute| {
            let now = date(2026, 10, 24).at(hour, minute, 0, 0).to_zoned(zone.clone()).unwrap();
            let begin = Hours::parse(hours).unwrap().next_begin(&now);
            begin.map(|begin| begin.strftime("%d %H:%M").to_string())
        };
        for (hours, at, expected) in [
            ("23:00-07:00", (22, 59), Some("24 23:00")),
            ("23:00-07:00", (23, 0), None),
            ("23:00-07:00", (6, 59), None),
            ("23:00-07:00", (7, 0), Some("24 23:00")),
            ("9:30-17:00", (9, 29), Some("24 09:30")),
            ("9:30-17:00", (9, 30), None),
            ("9:30-17:00", (17, 0), Some("25 09:30")),
        ] {
            assert_eq!(begin(hours, at.0, at.1).as_deref(), expected, "{hours} {at:?}");
        }
        for wrong in ["", "23:00", "7-9", "24:00-07:00", "07:00-07:00", "23:00-07:00-09:00"] {
            assert!(Hours::parse(wrong).is_err(), "{wrong}");
        }
    }
}
