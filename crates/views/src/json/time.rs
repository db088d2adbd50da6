//! Times.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

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

impl From<Timestamp> for TimeJson {
    fn from(micros: Timestamp) -> Self {
        Self { micros, utc: time_text(micros) }
    }
}
