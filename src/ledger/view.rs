//! The public interface for reading a ledger, which may be open elsewhere, closed or damaged. Reads
//! take no lock.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Result;
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{BlobState, LogReader, LoggedRecord};
use crate::plan::{Json, Output, Run, RunId, State, StepNumber};

use super::blobs::{self, BlobCheck, BlobSurvey};
use super::environment::Environment;
use super::history::changes::{self, ChangedField};
use super::history::compare::{self, RunComparison};
use super::history::metrics::{self, RunMetrics};
use super::history::run::run_of;
use super::history::run_history::{self, RunHistory};
use super::history::trace::{self, PartialTrace, Trace};
use super::projection::Projection;
use super::replay::{self, Fold, FoldObserver};
use super::retention::prune::{self, PrunePreview, RetentionLimit};
use super::snapshot::{load, store};
use super::transfer::export::{self, DescribeRecord, ExportReport};

/// A read-only view of a ledger. It shows the ledger as it was when the view was opened; to see
/// later records, open a new view or follow the log.
#[derive(Debug, Clone)]
pub struct LedgerView {
    reader: LogReader,
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

    /// Fold all valid records up to record `seq`, and report the damage. After damage the fold
    /// continues from the next valid snapshot, which replaces the missing records.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn fold(&self, seq: u64) -> Result<Fold> {
        self.fold_with(seq, &mut |_, _| ControlFlow::Continue(()))
    }

    /// As [`LedgerView::fold`]. `observe` is called with the fold after each durable record; if it
    /// returns `Break`, the fold stops. Its state is the one after that record, unless the record
    /// comes after damage.
    ///
    /// # Errors
    /// As [`LedgerView::fold`].
    pub fn fold_with(&self, seq: u64, observe: FoldObserver<'_>) -> Result<Fold> {
        replay::fold(&self.reader, seq, observe)
    }

    /// As [`LedgerView::fold`], from the newest valid snapshot on: earlier records are not read, and
    /// damage among them is not found. If segments are damaged or missing, or there is damage after the
    /// snapshot, the whole log is read.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn fold_recent(&self) -> Result<Fold> {
        replay::fold_recent(&self.reader)
    }

    /// Check a snapshot as far as this program can: its file, whether it belongs to this log, and,
    /// for the ledger's own state, its content. The runs that it shares with its base are checked
    /// with the base. [`LogReader::snapshots`] lists the names.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn check_snapshot(&self, name: &SnapshotName) -> Result<SnapshotHeader> {
        load::check(&self.reader, name)
    }

    /// A full run, as [`super::Ledger::run`] returns it, after the last durable record.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; `Corrupt` for damage.
    pub fn run(&self, run: RunId) -> Result<Run> {
        run_of(&self.reader, run)
    }

    /// The records of a run, up to record `last`.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn run_history(&self, run: RunId, last: u64) -> Result<RunHistory> {
        run_history::run_history(&self.reader, run, last)
    }

    /// The state after record `seq` with this run only, without other runs and the ledger's caps.
    /// `None` if some record of the run cannot be read; [`LedgerView::state_at`] then reports the
    /// reason.
    ///
    /// # Errors
    /// `Io`.
    pub fn state_of_run(&self, run: RunId, seq: u64) -> Result<Option<State>> {
        run_history::state_of_run(&self.reader, run, seq)
    }

    /// The records of a step, oldest first. Pruned records are omitted.
    ///
    /// # Errors
    /// `Corrupt` for damage in them; `Io`.
    pub fn step_records(&self, run: &Run, step: StepNumber) -> Result<Vec<LoggedRecord>> {
        run_history::step_records(&self.reader, run, step)
    }

    /// Every record of a run, with the fields that it changed.
    ///
    /// # Errors
    /// As [`super::Ledger::trace`].
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace::trace(&self.reader, run)
    }

    /// The trace of a run in a log that was pruned or is damaged.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Io`.
    pub fn partial_trace(&self, run: RunId) -> Result<PartialTrace> {
        trace::partial_trace(&self.reader, run)
    }

    /// The fields that changed between two records, in the order of runs and fields; and the state after
    /// the second.
    ///
    /// # Errors
    /// `OutOfRange` if there is no such record, or the second comes first; as [`LedgerView::state_at`];
    /// `Corrupt` for damage between the two.
    pub fn changes(&self, from: u64, to: u64) -> Result<(Vec<ChangedField>, State)> {
        changes::changes(&self.reader, from, to)
    }

    /// The differences between two runs.
    ///
    /// # Errors
    /// As [`super::Ledger::compare`].
    pub fn compare(&self, one: RunId, other: RunId) -> Result<RunComparison> {
        compare::compare(&self.reader, [one, other])
    }

    /// The metrics of a run.
    ///
    /// # Errors
    /// As [`super::Ledger::metrics`].
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        metrics::metrics_of(&self.reader, run)
    }

    /// The value of an output, wherever it is stored.
    ///
    /// # Errors
    /// As [`super::Ledger::output`].
    pub fn output(&self, output: &Output) -> Result<Json> {
        blobs::resolve(&self.reader.blobs(), output)
    }

    /// The state of an output's blob; `None` for an inline output.
    #[must_use]
    pub fn blob_state(&self, output: &Output) -> Option<BlobState> {
        blobs::blob_state(&self.reader, output)
    }

    /// All blobs that are stored or that a record references. Damage is not an error here.
    ///
    /// # Errors
    /// `Io`.
    pub fn blobs(&self, check: BlobCheck) -> Result<BlobSurvey> {
        blobs::survey_with(&self.reader, check)
    }

    /// The files that a prune would remove now. This writes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`super::Ledger::prune`].
    pub fn preview_prune(&self, limit: RetentionLimit) -> Result<PrunePreview> {
        prune::preview(&self.reader, limit)
    }

    /// Write records `from` to `to` (by default the last durable one), and the blobs that they
    /// reference, as JSON Lines. `describe` adds a description of each record.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record, or if `to` is in the middle of a batch; `Pruned`
    /// for pruned records; `Corrupt` at the first damage, with its location; `Ambiguous` if the
    /// durable end of the log is unknown and needed; `Io` for the ledger or for `out`.
    pub fn export(
        &self,
        from: u64,
        to: Option<u64>,
        describe: DescribeRecord<'_>,
        out: &mut dyn Write,
    ) -> Result<ExportReport> {
        export::export(&self.reader, from, to, describe, out)
    }
}
