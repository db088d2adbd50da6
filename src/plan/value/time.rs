//! Times for people and in JSON.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::ids::Timestamp;

/// A time in UTC: `2026-11-21T03:38:36.000000Z`.
#[must_use]
pub fn time_text(time: Timestamp) -> String {
    // The library cannot format times after the year 9999.
    const LAST: Timestamp = 253_402_300_799_000_000;
    let time = UNIX_EPOCH + Duration::from_micros(time.min(LAST));
    humantime::format_rfc3339_micros(time).to_string()
}

/// The JSON form of a time: as text in UTC (RFC 3339), and in microseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UtcTime {
    /// In UTC (RFC 3339).
    pub utc: String,
    /// In microseconds since the Unix epoch.
    pub micros: Timestamp,
}

impl From<Timestamp> for UtcTime {
    fn from(micros: Timestamp) -> Self {
        Self { utc: time_text(micros), micros }
    }
}

/// Serializes a time or an optional time: in JSON as [`UtcTime`], elsewhere in microseconds.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Copy + Into<Option<Timestamp>> + Serialize, S: Serializer>(
    time: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return time.serialize(serializer);
    }
    (*time).into().map(UtcTime::from).serialize(serializer)
}

/// Serializes a time; 0 is `null` in JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn unless_zero<S: Serializer>(
    time: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return time.serialize(serializer);
    }
    serialize(&Some(*time).filter(|time| *time != 0), serializer)
}
