//! The request, the progress and the result of a verification.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use crate::log::{self, Completion, ExpectedChain, FindingClass};
use crate::plan::ContentHash;

/// How thoroughly a ledger is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyLevel {
    /// All checksums, the order of records, the links between segments, and the end of the log.
    Crc,
    /// Also every chain value, computed from the records.
    Chain,
    /// Also the files beside the log: snapshots and their notes, and blobs.
    Snapshots,
    /// Also a fold from the first record, or from the older anchor of a pruned log, with all state
    /// hashes compared.
    Replay,
}

/// The progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// The current phase.
    pub phase: VerifyPhase,
    /// Bytes done so far.
    pub done: u64,
    /// All bytes of the phase.
    pub total: u64,
}

/// The phases of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyPhase {
    /// Reading the log.
    Log,
    /// Checking snapshots and blobs, and folding the log if requested.
    Files,
}

/// How to verify a ledger.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    pub level: VerifyLevel,
    /// The number of threads. Each keeps one window of the log, one record, or one state in memory.
    pub jobs: NonZeroUsize,
    /// A chain value that must be in the log.
    pub expected: Option<ExpectedChain>,
    /// Called with the progress from any of the threads. If it returns `Break`, the verification
    /// stops.
    pub watch: &'a (dyn Fn(VerifyProgress) -> ControlFlow<()> + Sync),
}

/// The result of a verification.
#[derive(Debug)]
pub struct VerifyReport {
    /// The result for the log, with all findings: those in the log first, then those in other
    /// files.
    pub log: log::Verification,
    /// The number of checked snapshots.
    pub snapshots: u64,
    /// The number of compared snapshot notes.
    pub notes: u64,
    /// The number of checked blobs.
    pub blobs: u64,
    /// The last record that was folded, and the state hash there.
    pub state: Option<(u64, ContentHash)>,
}

/// The overall result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerCondition {
    /// All checked bytes are valid.
    Valid,
    /// All checked bytes are valid, but records were lost before the ledger was salvaged.
    Incomplete,
    /// Something is damaged, or the expected chain value is missing.
    Damaged,
    /// All bytes that this program can read are valid; a newer program wrote the rest.
    NewerFormat,
    /// It was stopped before anything was found.
    Stopped,
}

impl VerifyReport {
    /// The overall result.
    #[must_use]
    pub fn condition(&self) -> LedgerCondition {
        let is_as_expected = self.log.expectation.is_none_or(log::ExpectationResult::is_met);
        if self.log.is_damaged() || !is_as_expected {
            LedgerCondition::Damaged
        } else if self.log.count(FindingClass::NewerFormat) > 0 {
            LedgerCondition::NewerFormat
        } else if self.is_stopped() {
            LedgerCondition::Stopped
        } else if self.log.count(FindingClass::RecordedLoss) > 0 {
            LedgerCondition::Incomplete
        } else {
            LedgerCondition::Valid
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.log.completion == Completion::Stopped
    }
}
