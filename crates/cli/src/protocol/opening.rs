//! The result of opening a ledger for writing now.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Error;
use plan_ledger::log::TailVerdict;

use super::failure::error_line;

/// The result of opening the ledger for writing now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OpeningJson {
    /// The reason for a refusal.
    refusal: Option<String>,
    /// The verdict about the end of the log.
    verdict: OpeningWord,
}

impl From<&Result<TailVerdict, Error>> for OpeningJson {
    fn from(end: &Result<TailVerdict, Error>) -> Self {
        Self { refusal: end.as_ref().err().map(error_line), verdict: end.into() }
    }
}

/// The verdict about the end of the log.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum OpeningWord {
    /// The log ends with an acknowledged record.
    Clean,
    /// Intact records follow the acknowledged ones.
    UnacknowledgedTail,
    /// The last write is incomplete.
    Torn,
    /// The ledger cannot be opened for writing.
    Refused,
}

impl From<&Result<TailVerdict, Error>> for OpeningWord {
    fn from(end: &Result<TailVerdict, Error>) -> Self {
        match end {
            Ok(TailVerdict::Clean) => Self::Clean,
            Ok(TailVerdict::Unacknowledged) => Self::UnacknowledgedTail,
            Ok(_) => Self::Torn,
            Err(_) => Self::Refused,
        }
    }
}

impl OpeningWord {
    /// The verdict, for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::UnacknowledgedTail => "unacknowledged tail",
            Self::Torn => "torn",
            Self::Refused => "refused",
        }
    }
}

/// A ledger that lacks records which it had before.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RolledBackLine {
    /// The missing records, for people.
    pub(crate) what: String,
}
