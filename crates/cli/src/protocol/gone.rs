//! Claims of dead processes, and the records that `ledger work` keeps of its own claims.

use std::path::{Path, PathBuf};

use plan_ledger::plan::Attempt;
use plan_ledger::{AttemptToken, State};

use super::process::is_gone;

/// The attempts in flight with a dead worker process.
pub(crate) fn gone_attempts(state: &State) -> impl Iterator<Item = &Attempt> {
    let attempt = |(run, step): &(_, _)| state.runs.get(run)?.step(*step)?.attempt();
    let attempts = state.in_flight.values().filter_map(attempt);
    attempts.filter(|attempt| attempt.process.as_ref().is_some_and(is_gone))
}

/// Why the attempt is over, for people.
pub(crate) fn gone_text(process: u32) -> String {
    format!("the process that claimed it, {process}, is gone")
}

/// The record that `ledger work` keeps of an attempt, with the place of its files.
pub(crate) fn claim_record(ledger: &Path, token: AttemptToken) -> PathBuf {
    claims_folder(ledger).join(format!("{token}.{CLAIM_EXTENSION}"))
}

/// The folder with the records of `ledger work`.
pub(crate) fn claims_folder(ledger: &Path) -> PathBuf {
    ledger.join("work").join("claims")
}

/// The extension of a record.
pub(crate) const CLAIM_EXTENSION: &str = "claim";
