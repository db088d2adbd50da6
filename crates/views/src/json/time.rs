//! Times.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::time_text;

/// A time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TimeJson {
    /// Microseconds since the Unix epoch.
    pub micros: Timestamp,
    /// The same for people, in UTC (RFC 3339).
    pub utc: String,
}

/// Serializes a time, or an optional one, as a [`TimeJson`].
pub(crate) fn time_json<T: Copy + Into<Option<Timestamp>>, S: Serializer>(
    time: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*time).into().map(TimeJson::from).serialize(serializer)
}

impl From<Timestamp> for TimeJson {
    fn from(micros: Timestamp) -> Self {
        Self { micros, utc: time_text(micros) }
    }
}
