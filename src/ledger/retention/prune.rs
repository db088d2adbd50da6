//! Prunes a log: removes the oldest segments, which two verified snapshots, the anchors, replace
//! (`format/retention.md`). Nothing is pruned without a request.
//!
//! Invariants:
//! - Nothing is removed before the retention note is durable and the anchors that it names were
//!   compared with a fold of the log.
//! - No snapshot is removed while anchors are chosen.

#![warn(missing_docs)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{Chain, SegmentHeader, SnapshotHeader, SnapshotName};
use crate::ledger::view::LedgerView;
use crate::log::{
    Anchor, ArchiveReference, KEY_WINDOW, KIND_BATCH_KEY, LogItem, LogReader, LoggedRetentionNote,
    PruneSet, RecordStatus, RetentionNote,
};
use crate::plan::{RunId, RunStatus, State};

use crate::ledger::codec::event::decode;
use crate::ledger::projection::{apply_owned_record, decode_record};
use crate::ledger::snapshot::load::load_validated;
use crate::ledger::snapshot::state_hash::computed_state_hash;
use crate::ledger::snapshot::store;
use crate::ledger::transaction::engine::Engine;

/// The segments that a prune or an archive may include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetentionLimit {
    /// All segments whose last record is at most this one.
    Record(u64),
    /// All segments before the first one with a record of an open run.
    #[serde(rename = "ended")]
    EndedRuns,
    /// Both limits: the segments must satisfy `EndedRuns` and `Record`.
    #[serde(rename = "ended_up_to")]
    EndedRunsUpTo(u64),
}

impl RetentionLimit {
    /// The last record that may be removed.
    fn last(self) -> u64 {
        match self {
            Self::Record(last) | Self::EndedRunsUpTo(last) => last,
            Self::EndedRuns => u64::MAX,
        }
    }

    /// Whether open runs keep their records.
    fn keeps_open_runs(self) -> bool {
        match self {
            Self::Record(_) => false,
            Self::EndedRuns | Self::EndedRunsUpTo(_) => true,
        }
    }
}

/// The files that a prune would remove, and the anchors that would replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePreview {
    /// The first record that would be removed: the first of the log.
    pub first_seq: u64,
    /// The last record that would be removed.
    pub last_seq: u64,
    /// Ordinal of its segment.
    pub last_ordinal: u64,
    /// Its chain value.
    pub chain: Chain,
    /// The files of the segments, in order.
    pub segments: Vec<PathBuf>,
    /// Their size in bytes.
    pub bytes: u64,
    /// The anchors. Each was compared with a fold of the log.
    pub anchors: Vec<Anchor>,
    /// Snapshots that would be removed, since no fold could begin with them after the prune.
    pub snapshots: Vec<PathBuf>,
    /// Open runs that would lose a part of their history.
    pub open_runs: Vec<String>,
}

/// The result of a prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneReport {
    /// The preview, as the retention note records it.
    pub preview: PrunePreview,
    /// The record of the retention note.
    pub note_seq: u64,
    /// The removed files.
    pub removal: PruneSet,
}

/// The oldest segments of a log.
#[derive(Debug)]
pub(crate) struct SegmentPrefix {
    /// File, header and length of each.
    pub(crate) segments: Vec<(PathBuf, SegmentHeader, u64)>,
    /// The header of the segment after them.
    pub(crate) next: SegmentHeader,
    /// The open runs with a record in them.
    pub(crate) open_runs: Vec<String>,
}

/// Prune; see [`crate::Ledger::prune`].
pub(crate) fn prune(
    engine: &Engine,
    limit: RetentionLimit,
    archive: Option<ArchiveReference>,
    by: &str,
) -> Result<PruneReport> {
    let log = &engine.log;
    log.check_process()?;
    let lock = engine.scheduler().snapshot_lock();
    let _guard = lock.lock();
    let reader = log.reader()?;
    if let Some(interrupted) = reader.retention() {
        // If the interrupted prune cannot be finished, the note of this prune replaces its note.
        let _ = log.remove_pruned(interrupted);
    }
    let view = LedgerView { reader: log.reader()? };
    let preview = view.preview_prune(limit)?;
    let folder = view.log().dir().join("snap");
    engine
        .environment
        .storage
        .sync_dir(&folder)
        .map_err(|error| Error::io("sync the folder", &folder, error))?;
    let note = RetentionNote {
        first_seq: preview.first_seq,
        last_seq: preview.last_seq,
        last_ordinal: preview.last_ordinal,
        chain: preview.chain.to_string(),
        anchors: preview.anchors.clone(),
        archive,
        by: by.to_owned(),
    };
    debug_assert!(note.is_valid(log.last_durable().seq.saturating_add(1)), "{note:?}");
    mutant!(PruneBeforeNote => log.remove_pruned(&LoggedRetentionNote { seq: 0, note: note.clone() })?);
    let note_seq = engine.append_note(note.record(), None)?.seq;
    let removal = log.remove_pruned(&LoggedRetentionNote { seq: note_seq, note })?;
    Ok(PruneReport { preview, note_seq, removal })
}

#[doc(hidden)]
impl LedgerView {
    /// Whether a prune lacks only the snapshots from which the log would start.
    ///
    /// # Errors
    /// As [`LedgerView::preview_prune`], for another missing condition.
    pub fn prune_needs_snapshots(&self, limit: RetentionLimit) -> Result<bool> {
        let prefix = SegmentPrefix::of(&self.reader, limit)?;
        let last_seq = prefix.next.prev_last_seq;
        expect_no_keys(&self.reader, last_seq)?;
        match anchors(&self.reader, last_seq) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The files that a prune would remove now. This writes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`crate::Ledger::prune`].
    pub fn preview_prune(&self, limit: RetentionLimit) -> Result<PrunePreview> {
        let prefix = SegmentPrefix::of(&self.reader, limit)?;
        let last_seq = prefix.next.prev_last_seq;
        expect_no_keys(&self.reader, last_seq)?;
        let anchors = anchors(&self.reader, last_seq)?;
        Ok(PrunePreview {
            first_seq: self.reader.first_seq(),
            last_seq,
            last_ordinal: prefix.next.ordinal.saturating_sub(1),
            chain: prefix.next.prev_chain,
            bytes: prefix.segments.iter().map(|(_, _, length)| length).sum(),
            segments: prefix.segments.into_iter().map(|(path, _, _)| path).collect(),
            anchors,
            snapshots: self.reader.stale_snapshots(last_seq)?,
            open_runs: prefix.open_runs,
        })
    }
}

fn rejected(reader: &LogReader, message: String) -> Error {
    Error::new(ErrorKind::Rejected, message).at_path(reader.dir())
}

impl SegmentPrefix {
    /// The oldest segments, up to the limit.
    ///
    /// # Errors
    /// `Rejected` without a segment; `Corrupt` if one is damaged.
    pub(crate) fn of(reader: &LogReader, limit: RetentionLimit) -> Result<Self> {
        let mut rest = headers(reader)?.into_iter().peekable();
        let state = store::project::<State>(reader, u64::MAX)?.value;
        let (mut segments, mut next, mut open) = (Vec::new(), None, BTreeSet::new());
        let mut why = "the log has one segment, and the newest one is always kept".to_owned();
        while let (Some(segment), Some(following)) = (rest.next(), rest.peek()) {
            let following = following.1.clone();
            let (first, last) = (segment.1.base_seq, following.prev_last_seq);
            if last > limit.last() {
                why = format!(
                    "only whole segments are removed, and the first one ends with record {last}: \
                     expected that record or a later one, found {}",
                    limit.last()
                );
                break;
            }
            let of_segment = open_runs(reader, &state, first, last)?;
            if limit.keeps_open_runs()
                && let Some(run) = of_segment.first()
            {
                why = format!(
                    "run `{}` is open and has records in the first segment (records {first} to \
                     {last})",
                    name_of(&state, *run)
                );
                break;
            }
            open.extend(of_segment);
            segments.push(segment);
            next = Some(following);
        }
        if next.as_ref().is_some_and(|next| next.prev_last_seq < reader.first_seq()) {
            // A crash can leave a segment without records, but a retention note needs one.
            (next, why) = (None, format!("the segments before it have no records, and {why}"));
        }
        let next =
            next.ok_or_else(|| rejected(reader, format!("no segment can be removed: {why}")))?;
        let open_runs = open.into_iter().map(|run| name_of(&state, run)).collect();
        Ok(Self { segments, next, open_runs })
    }
}

fn name_of(state: &State, run: RunId) -> String {
    let whole = state.runs.get(&run).map(|run| run.name.clone());
    let summary = || state.summaries.get(&run).map(|run| run.name.clone());
    whole.or_else(summary).unwrap_or_else(|| run.to_string())
}

/// File, header and length of each segment; all headers must be valid.
fn headers(reader: &LogReader) -> Result<Vec<(PathBuf, SegmentHeader, u64)>> {
    let good = |segment: crate::log::SegmentSummary| {
        let header = segment.header.map_err(|fault| {
            let message = format!("{fault}; a damaged log cannot be pruned or archived");
            Error::new(ErrorKind::Corrupt, message).at_path(&segment.path).at_offset(0)
        })?;
        Ok((segment.path, header, segment.length))
    };
    reader.segments().into_iter().map(good).collect()
}

/// The open runs with a record in a range, by number.
fn open_runs(reader: &LogReader, state: &State, first: u64, last: u64) -> Result<Vec<RunId>> {
    let mut open = BTreeSet::new();
    for item in reader.walk(first) {
        let record = match item? {
            LogItem::Record(record, _) if record.seq > last => break,
            LogItem::Record(record, RecordStatus::Durable) => record,
            LogItem::Damage(damage) => return Err(damage.into_error()),
            LogItem::Record(..) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => continue,
        };
        let run = decode(&record)?.as_ref().and_then(crate::plan::Event::run);
        let is_open = |run: &RunId| {
            let status = state.runs.get(run).map(|run| run.status);
            !matches!(status, Some(RunStatus::Ended(_))) && !state.summaries.contains_key(run)
        };
        open.extend(run.filter(is_open));
    }
    Ok(open.into_iter().collect())
}

/// Reject a prune that would remove idempotency keys that the writer still needs.
fn expect_no_keys(reader: &LogReader, last_seq: u64) -> Result<()> {
    let durable = reader.head().map_or(0, |head| head.durable_seq);
    let from = durable.saturating_add(1).saturating_sub(KEY_WINDOW).max(reader.first_seq());
    let key = reader.records_of_kind(KIND_BATCH_KEY, from).next().transpose()?;
    match key.filter(|key| key.seq <= last_seq) {
        None => Ok(()),
        Some(key) => Err(rejected(
            reader,
            format!(
                "record {} is an idempotency key, which is kept for {KEY_WINDOW} records; prune less, \
                 or later",
                key.seq
            ),
        )),
    }
}

/// Two snapshots of the state at or after a record, each verified by a fold of the log.
fn anchors(reader: &LogReader, last_seq: u64) -> Result<Vec<Anchor>> {
    let names = store::names::<State>(reader)?;
    let mut whole = Vec::new();
    for name in names.into_iter().filter(|name| name.seq >= last_seq) {
        let header = reader.snapshot_folder().header(&name).ok().flatten();
        if header.is_none_or(|header| header.base.is_none()) {
            whole.push(name);
        }
    }
    let mut search = AnchorSearch { reader, names: whole, found: Vec::new(), wrong: Vec::new() };
    if !search.names.is_empty() {
        search.run()?;
    }
    let AnchorSearch { found, wrong, .. } = search;
    if found.len() == 2 {
        return Ok(found);
    }
    let wrong: String = wrong.iter().map(|error| format!("; {error}")).collect();
    Err(rejected(
        reader,
        format!(
            "expected two verified snapshots without a base, at different records from {last_seq} on, \
             found {}{wrong}",
            found.len()
        ),
    )
    .with_advice(Advice::MakeSnapshots))
}

/// Searches anchors during a fold.
struct AnchorSearch<'a> {
    reader: &'a LogReader,
    /// Candidates, oldest first.
    names: Vec<SnapshotName>,
    found: Vec<Anchor>,
    wrong: Vec<Error>,
}

impl AnchorSearch<'_> {
    fn run(&mut self) -> Result<()> {
        let (first, mut ignored) = store::first_state(self.reader, u64::MAX);
        let Some((mut state, _)) = first else {
            return Err(ignored.pop().unwrap_or_else(|| self.reader.pruned(1)));
        };
        self.compare(&state);
        for record in self.reader.records(state.seq.saturating_add(1)) {
            if self.found.len() == 2 || self.names.iter().all(|name| name.seq <= state.seq) {
                return Ok(());
            }
            apply_owned_record(&mut state, decode_record(&record?)?);
            self.compare(&state);
        }
        Ok(())
    }

    /// If a candidate at the current record has the state of the fold, add it as an anchor.
    fn compare(&mut self, state: &State) {
        for name in self.names.iter().filter(|name| name.seq == state.seq) {
            match self.check(name, state) {
                Ok(header) => {
                    self.found.push(Anchor::of(&header));
                    return;
                }
                Err(error) => self.wrong.push(error),
            }
        }
    }

    fn check(&self, name: &SnapshotName, state: &State) -> Result<SnapshotHeader> {
        let (_, header) = load_validated::<State>(self.reader, name)?;
        if header.state_hash == computed_state_hash(state).0 {
            return Ok(header);
        }
        let message = format!("snapshot {name} differs from a fold of the log; it may be deleted");
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}
