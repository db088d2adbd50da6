//! The health of a log: whether it can be opened for writing, and what is unusual about it.

use plan_ledger::Error;
use plan_ledger::log::TailVerdict;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint};

/// The result of opening the ledger for writing now.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OpeningJson {
    /// The reason for a refusal.
    refusal: Option<String>,
    /// The verdict about the end of the log.
    verdict: OpeningWord,
}

impl OpeningJson {
    /// The result of opening the ledger; `refusal`: why it cannot be opened, in one line.
    #[must_use]
    pub fn of(end: &Result<TailVerdict, Error>, refusal: Option<String>) -> Self {
        Self { refusal, verdict: end.into() }
    }
}

/// The verdict about the end of the log.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OpeningWord {
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
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::UnacknowledgedTail => "unacknowledged tail",
            Self::Torn => "torn",
            Self::Refused => "refused",
        }
    }
}

/// The health of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LedgerHealthJson<'a> {
    /// The number of intact records after the damage.
    pub after_damage: u64,
    /// The number of damaged places.
    pub damage: usize,
    /// Unusual facts that are not damage, for people.
    pub notes: &'a [String],
    /// The result of opening the ledger for writing now.
    pub opening: OpeningJson,
    /// The first record that was read.
    pub read_from: u64,
    /// Whether everything that was acknowledged can be read.
    pub status: HealthWord,
    /// The number of intact records after the durable end in HEAD.
    pub unacknowledged: u64,
    /// Why the state ends early; null if it does not.
    pub unreadable: Option<&'a str>,
}

/// The health of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HealthLine<'a> {
    /// Unusual facts that are not damage, for people.
    pub notes: &'a [String],
    /// The result of opening the ledger for writing now.
    pub opening: OpeningJson,
    /// Whether everything that was acknowledged can be read.
    pub status: HealthWord,
}

/// Whether everything that was acknowledged can be read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthWord {
    /// It can.
    Good,
    /// It cannot.
    Damaged,
}

impl HealthWord {
    /// Whether it can.
    #[must_use]
    pub fn of(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Damaged }
    }
}

/// The health of a log, for people: why a writer could not open it, and notes that are not damage.
#[must_use]
pub fn health_document(refusal: Option<String>, notes: &[String]) -> Document {
    let mut document = Document::default();
    if let Some(refusal) = refusal {
        document.painted(Paint::Bad, refusal);
    }
    for note in notes {
        document.painted(Paint::Notice, format!("note: {note}"));
    }
    document
}
