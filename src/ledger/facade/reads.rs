//! State, history and disk space of an open ledger.

use std::sync::Arc;

use crate::error::Result;
use crate::ledger::blobs::CollectedBlobs;
use crate::ledger::environment::Clock;
use crate::ledger::history::compare::RunComparison;
use crate::ledger::history::metrics::RunMetrics;
use crate::ledger::history::trace::Trace;
use crate::ledger::projection::{Projection, RecordedEvent, decode_record};
use crate::ledger::retention::prune;
use crate::ledger::retention::prune::{PruneReport, RetentionLimit};
use crate::ledger::snapshot::state_hash::state_hash;
use crate::ledger::snapshot::store::Snapshot;
use crate::ledger::transaction::{fork, time_travel};
use crate::ledger::view::LedgerView;
use crate::log::{Ack, ArchiveReference};
use crate::plan::{ContentHash, Json, Output, Run, RunId, State, Timestamp};

use super::ledger::Ledger;

/// State and history.
impl Ledger {
    /// The current state, all of it durable. It is an immutable copy. The cost is proportional to
    /// the number of events since the last call; the first call, and a call while several older
    /// copies are in use, clones the whole state.
    ///
    /// After a failed write it is the fold of the durable records and no longer changes.
    ///
    /// # Errors
    /// `Corrupt`, `Fenced` and `Io` if the log must be read again and cannot be; `Fenced` in a
    /// forked process.
    pub fn state(&self) -> Result<Arc<State>> {
        self.engine.state()
    }

    /// Hash of the current state.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn state_hash(&self) -> Result<ContentHash> {
        Ok(state_hash(&*self.state()?))
    }

    /// The last durable record.
    #[must_use]
    pub fn head(&self) -> Ack {
        self.engine.log.last_durable()
    }

    /// The last record in the store of the log; `None` without a store.
    #[doc(hidden)]
    #[must_use]
    pub fn kept_seq(&self) -> Option<u64> {
        self.engine.log.kept_seq()
    }

    /// The identifier of the ledger.
    ///
    /// # Errors
    /// `Fenced` in a forked process.
    #[doc(hidden)]
    pub fn uid(&self) -> Result<[u8; 16]> {
        self.engine.log.uid()
    }

    /// The ledger's time, which all decisions use. [`Ledger::tick`] says how it advances.
    #[doc(hidden)]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// The state after record `seq`, folded from the newest valid snapshot up to it.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record; `Pruned` if the log cannot be folded up to it.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        self.project(seq)
    }

    /// Any projection after record `seq`.
    ///
    /// # Errors
    /// As [`Ledger::state_at`].
    pub fn project<P: Projection>(&self, seq: u64) -> Result<P> {
        time_travel::project(&self.engine, seq)
    }

    /// Make a durable snapshot of a projection after the last record, and append its snapshot note.
    /// This waits for a snapshot in progress. The newest two of a projection are kept, besides
    /// those that [`crate::Environment::snapshot_every`] describes.
    ///
    /// # Errors
    /// `OutOfRange` before the first record; `Unencodable`, with the projection's error; `DiskFull` and
    /// `Io`. None of these affects the ledger.
    pub fn snapshot<P: Projection>(&self) -> Result<Snapshot> {
        time_travel::make_snapshot::<P>(&self.engine)
    }

    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Corrupt`, with the location, and `Io`.
    pub fn replay(&self, from: u64) -> Result<Vec<RecordedEvent>> {
        let reader = self.engine.reader()?;
        reader.records(from).map(|record| decode_record(&record?)).collect()
    }

    /// A copy of a full run. If the state has only a summary of it because it ended long ago, the
    /// run is folded from the log.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; as [`Ledger::state_at`].
    pub fn run(&self, run: RunId) -> Result<Run> {
        fork::current_run(&self.engine, run)
    }

    fn view(&self) -> Result<LedgerView> {
        Ok(LedgerView { reader: self.engine.reader()? })
    }

    /// All records of a run, each with the fields that it changed.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if its first records were pruned; `Corrupt` and
    /// `Io`.
    #[doc(hidden)]
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        self.view()?.trace(run)
    }

    /// The differences between two runs.
    ///
    /// # Errors
    /// As [`Ledger::trace`].
    #[doc(hidden)]
    pub fn compare(&self, one: RunId, other: RunId) -> Result<RunComparison> {
        self.view()?.compare(one, other)
    }

    /// The metrics of a run.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if some of its records were pruned and there is
    /// no snapshot of the metrics; `Corrupt` and `Io`.
    #[doc(hidden)]
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        self.view()?.metrics(run)
    }

    /// The value of an output, wherever it is stored.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, for a missing or damaged blob; `Io`.
    pub fn output(&self, output: &Output) -> Result<Json> {
        self.engine.outputs.resolve(output)
    }
}

/// Disk space.
impl Ledger {
    /// Write the snapshots from which the log would start after a prune, if the prune lacks nothing
    /// else.
    ///
    /// # Errors
    /// As [`Ledger::prune`] and [`Ledger::snapshot`].
    #[doc(hidden)]
    pub fn prepare_prune(&self, limit: RetentionLimit) -> Result<()> {
        if self.view()?.prune_needs_snapshots(limit)? {
            // The note about the first one is the record before the second one.
            self.snapshot::<State>()?;
            self.snapshot::<State>()?;
        }
        Ok(())
    }

    /// Prune: append a durable note, then remove the oldest segments. `archive` is the archive that
    /// has a copy of them, if any.
    ///
    /// # Errors
    /// `Rejected`, with the missing condition: nothing was changed. `Corrupt` if the log, or a
    /// snapshot that would be an anchor, is damaged. `Io` after the note is durable: call it again,
    /// or open the ledger again, to continue.
    pub fn prune(
        &self,
        limit: RetentionLimit,
        archive: Option<ArchiveReference>,
        by: &str,
    ) -> Result<PruneReport> {
        prune::prune(&self.engine, limit, archive, by)
    }

    /// Remove the blobs that no record references, and unfinished blobs.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` if a record cannot be read, since that record might reference
    /// any blob: nothing was removed. `Poisoned` and `Fenced`, since the next writer may append
    /// records, unknown to this writer, that reference a blob. `Io`.
    pub fn collect_blobs(&self) -> Result<CollectedBlobs> {
        self.engine.outputs.collect(&self.engine.log)
    }
}

/// The ledger's time, for code that waits until something is due.
impl Clock for Ledger {
    fn now(&self) -> Timestamp {
        self.engine.now()
    }
}
