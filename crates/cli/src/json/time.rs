//! Times.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::time_text;

/// A time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TimeJson {
    /// Microseconds since the Unix epoch.
    micros: Timestamp,
    /// The same for people, in UTC (RFC 3339).
    utc: String,
}

impl From<Timestamp> for TimeJson {
    fn from(micros: Timestamp) -> Self {
        Self { micros, utc: time_text(micros) }
    }
}
