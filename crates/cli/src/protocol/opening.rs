//! The result of opening a ledger for writing now, and a ledger that lost records.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Error;
use plan_ledger::log::TailVerdict;
use plan_ledger_views::OpeningJson;

use super::failure::error_line_of_view;

/// The result of opening the ledger for writing now.
pub(crate) fn opening(end: &Result<TailVerdict, Error>) -> OpeningJson {
    OpeningJson::of(end, end.as_ref().err().map(error_line_of_view))
}

/// A ledger that lacks records which it had before.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RolledBackLine {
    /// The missing records, for people.
    pub(crate) what: String,
}
