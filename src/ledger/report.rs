//! What opening a ledger found and did, for people and for programs.

use std::fmt;

use crate::log::{self, Verdict};
use crate::storage::Medium;

/// What opening a ledger found and did.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// The ledger was made by this call.
    pub created: bool,
    /// What the end of the log was: `clean`, `unproven_tail`, `torn` or `ambiguous_forced`.
    pub verdict: String,
    /// Things a person should know, one line each; none after a clean close.
    pub notes: Vec<String>,
    /// Sequence number of the last record.
    pub last_seq: u64,
    /// The record of the snapshot that the state was folded from; `None`: from the start.
    pub from_snapshot: Option<u64>,
}

impl OpenReport {
    pub(super) fn created(medium: Medium) -> Self {
        let notes = warning(medium).into_iter().collect();
        Self { created: true, verdict: "clean".to_owned(), notes, last_seq: 0, from_snapshot: None }
    }

    pub(super) fn opened(report: &log::OpenReport, last_seq: u64) -> Self {
        let mut notes: Vec<String> = warning(report.medium).into_iter().collect();
        let is_forced = report.verdict == Verdict::Ambiguous;
        if is_forced {
            notes.push(format!(
                "it cannot be told whether something that was acknowledged is missing at the end \
                 (evidence {}); what holds was taken over, as you asked",
                report.evidence.letters()
            ));
        }
        if let Some(survivors) = report.survivors.filter(|_| !is_forced) {
            notes.push(format!(
                "the last process ended in the middle of a commit: records {} to {} were whole \
                 and were taken over",
                survivors.first, survivors.last
            ));
        }
        for range in &report.discarded {
            let what = if is_forced {
                "that are no whole record"
            } else {
                "of a write that never finished, and was never acknowledged,"
            };
            notes.push(format!(
                "{} bytes {what} were fenced off (offset {}, blake3 {}); they stay in the file",
                range.length, range.offset, range.blake3
            ));
        }
        if !report.strangers.is_empty() {
            notes.push(format!(
                "files in the folder `log` that do not belong there were left alone: {}",
                report.strangers.join(", ")
            ));
        }
        match &report.pruned {
            Ok(removal) if removal.segments.is_empty() => {}
            Ok(removal) => notes.push(format!(
                "a prune that had been cut short was finished: {} segments, {} bytes",
                removal.segments.len(),
                removal.bytes
            )),
            Err(why) => notes.push(format!("a prune that was cut short cannot go on: {why}")),
        }
        let verdict = match report.verdict {
            Verdict::Clean => "clean",
            Verdict::Unproven => "unproven_tail",
            Verdict::Ambiguous => "ambiguous_forced",
            _ => "torn",
        };
        Self { created: false, verdict: verdict.to_owned(), notes, last_seq, from_snapshot: None }
    }
}

/// What speaks against the place where the ledger stands.
fn warning(medium: Medium) -> Option<String> {
    medium.warning().map(|why| format!("the ledger stands on {why}"))
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.created { "created" } else { "opened" };
        write!(f, "{verb} at record {} ({})", self.last_seq, self.verdict)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n  {note}"))
    }
}
