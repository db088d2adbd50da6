//! The public interface for reading a ledger, which may be open elsewhere, closed or damaged. Reads
//! take no lock.

use std::path::Path;

use crate::error::Result;
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{BlobState, LogReader};
use crate::plan::{Json, Output, State};

use super::blobs::{self, BlobCheck, BlobSurvey};
use super::environment::Environment;
use super::projection::Projection;
use super::snapshot::{load, store};

/// A read-only view of a ledger. It shows the ledger as it was when the view was opened; to see
/// later records, open a new view or follow the log.
#[derive(Debug, Clone)]
pub struct LedgerView {
    pub(crate) reader: LogReader,
}

impl LedgerView {
    /// Open a view of a ledger.
    ///
    /// # Errors
    /// `NotALedger`, and `Io`. Damage is not an error here.
    pub fn open(dir: &Path, environment: &Environment) -> Result<Self> {
        Ok(Self { reader: LogReader::open(&environment.storage, dir)? })
    }

    /// The log: segments, HEAD, records, damage.
    #[doc(hidden)]
    #[must_use]
    pub fn log(&self) -> &LogReader {
        &self.reader
    }

    /// The state after record `seq`, folded from the newest valid snapshot up to it.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record; `Corrupt` for damage between the two.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        self.project(seq)
    }

    /// Any projection after record `seq`.
    ///
    /// # Errors
    /// As [`LedgerView::state_at`].
    pub fn project<P: Projection>(&self, seq: u64) -> Result<P> {
        Ok(store::project_at(&self.reader, seq)?.value)
    }

    /// Check a snapshot as far as this program can: its file, whether it belongs to this log, and,
    /// for the ledger's own state, its content. The runs that it shares with its base are checked
    /// with the base. [`LogReader::snapshots`] lists the names.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    #[doc(hidden)]
    pub fn check_snapshot(&self, name: &SnapshotName) -> Result<SnapshotHeader> {
        load::check(&self.reader, name)
    }

    /// The value of an output, wherever it is stored.
    ///
    /// # Errors
    /// As [`super::Ledger::output`].
    pub fn output(&self, output: &Output) -> Result<Json> {
        blobs::resolve(&self.reader.blobs(), output)
    }

    /// The state of an output's blob; `None` for an inline output.
    #[doc(hidden)]
    #[must_use]
    pub fn blob_state(&self, output: &Output) -> Option<BlobState> {
        blobs::blob_state(&self.reader, output)
    }

    /// All blobs that are stored or that a record references. Damage is not an error here.
    ///
    /// # Errors
    /// `Io`.
    #[doc(hidden)]
    pub fn blobs(&self, check: BlobCheck) -> Result<BlobSurvey> {
        blobs::survey_with(&self.reader, check)
    }
}
