//! Folds a projection from its best snapshot, and makes new snapshots.
//!
//! Invariants:
//! - A snapshot is used only if every check of `format/snapshot.md` holds. A bad one is reported
//!   and is not an error: the next older one is tried, and finally a fold from record 1.
//! - A fold reads the log through a [`LogReader`] and does not touch the live state.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SnapshotBase, SnapshotHeader, SnapshotName};
use crate::log::{
    BatchSink, LogReader, LoggedRecord, SnapshotList, SnapshotNote, is_full_batch, read_ahead,
    write_snapshot,
};
use crate::plan::{ContentHash, State, Timestamp};
use crate::storage::Storage;

use crate::ledger::projection::{Projection, RecordedEvent, decode_record, is_valid_name};

use super::load::{
    UncheckedSnapshot, is_noted, is_supported, load, load_validated, path_of, unusable,
};

/// The lock for making, removing and anchoring snapshots. A snapshot writer removes unfinished
/// files and cannot distinguish an abandoned file from one that another thread is writing. The lock
/// also limits memory and CPU to one snapshot at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct SnapshotLock(Arc<Mutex<()>>);

/// While this guard exists, no other snapshot is made or removed.
pub(crate) type SnapshotGuard<'a> = MutexGuard<'a, ()>;

impl SnapshotLock {
    pub(crate) fn lock(&self) -> SnapshotGuard<'_> {
        // The lock protects files, and each file is complete or absent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that was folded in.
    pub seq: u64,
    /// Hash of the state.
    pub state_hash: ContentHash,
    /// Its file.
    pub path: PathBuf,
}

/// A projection at a record.
#[derive(Debug)]
pub(crate) struct Projected<P> {
    pub(crate) value: P,
    /// The last folded record; 0 for none.
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    pub(crate) chain: Chain,
    /// The record of the snapshot from which the fold began; `None` for the start of the log.
    pub(crate) from: Option<u64>,
    /// The errors of snapshots that were not used.
    pub(crate) ignored: Vec<Error>,
}

/// How a snapshot is validated before a fold continues from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    /// Runs are validated when they are first used.
    Deferred,
    /// Everything is validated now.
    Full,
}

/// A projection after record `seq`, or after the last durable one if there are fewer.
///
/// # Errors
/// `Corrupt` for damage after the newest valid snapshot; `Unsupported`; `Io`. A bad snapshot is not
/// an error.
pub(crate) fn project<P: Projection>(reader: &LogReader, seq: u64) -> Result<Projected<P>> {
    project_with(reader, seq, Validation::Deferred, None)
}

/// As [`project`], after the last durable record, from a snapshot that was already loaded, if it is
/// valid.
///
/// # Errors
/// As [`project`].
pub(crate) fn project_newest<P: Projection>(
    reader: &LogReader,
    newest: Option<UncheckedSnapshot<P>>,
) -> Result<Projected<P>> {
    project_with(reader, u64::MAX, Validation::Deferred, newest)
}

/// Continue a projection to the last durable record. One that does not belong to the log is made again.
///
/// # Errors
/// As [`project`].
pub(crate) fn continue_to_newest<P: Projection>(
    reader: &LogReader,
    projected: Projected<P>,
) -> Result<Projected<P>> {
    match continue_to(reader, u64::MAX, projected)? {
        Some(projected) => Ok(projected),
        None => project_newest(reader, None),
    }
}

/// Continue a projection to record `seq`, or the last durable one; `None` if it does not belong to the
/// log, or cannot be used.
///
/// # Errors
/// As [`project`].
pub(crate) fn continue_to<P: Projection>(
    reader: &LogReader,
    seq: u64,
    projected: Projected<P>,
) -> Result<Option<Projected<P>>> {
    if projected.seq < reader.first_seq() {
        return Ok(None);
    }
    let last = reader.record(projected.seq)?;
    let is_own = last.is_some_and(|last| last.chain == projected.chain);
    if !is_own && !mutant!(FollowedStateUnchecked) {
        return Ok(None);
    }
    match fold_from(reader, seq, projected, None) {
        // A run that was not unpacked before may be invalid in the snapshot.
        Ok(projected) => Ok(Some(projected).filter(|made| made.value.fault().is_none())),
        Err(FoldError::Failed(error)) => Err(error),
        Err(FoldError::Contradicted(_)) => Ok(None),
    }
}

fn project_with<P: Projection>(
    reader: &LogReader,
    seq: u64,
    validation: Validation,
    loaded: Option<UncheckedSnapshot<P>>,
) -> Result<Projected<P>> {
    // Listing thousands of snapshots takes as long as reading one, so try the cached list first. A
    // snapshot in it that cannot be used may have been removed since.
    if let Some(list) = reader.cached_snapshots()
        && let Ok(projected) = project_from(reader, seq, validation, None, &list, Vec::new())
        && projected.from.is_some()
        && projected.ignored.is_empty()
    {
        return Ok(projected);
    }
    let (list, ignored) = match reader.refresh_snapshot_cache() {
        Ok(list) => (list, Vec::new()),
        Err(error) => (Arc::default(), vec![error]),
    };
    project_from(reader, seq, validation, loaded, &list, ignored)
}

/// The projection from the best snapshot of a list; `ignored` has the errors so far.
fn project_from<P: Projection>(
    reader: &LogReader,
    seq: u64,
    validation: Validation,
    mut loaded: Option<UncheckedSnapshot<P>>,
    list: &SnapshotList,
    mut ignored: Vec<Error>,
) -> Result<Projected<P>> {
    let usable = of_projection::<P>(reader, list).rev().filter(|name| name.seq <= seq);
    for name in usable.filter(|name| is_noted(reader, name)) {
        let loaded = match (loaded.take_if(|loaded| loaded.has_name(name)), validation) {
            (Some(loaded), Validation::Deferred) => loaded.check_against(reader),
            (_, Validation::Deferred) => load::<P>(reader, name),
            (_, Validation::Full) => load_validated::<P>(reader, name),
        };
        let tried = loaded.map(|(value, header)| {
            fold_from(reader, seq, Projected::loaded(value, &header), Some(&header))
        });
        match tried {
            Ok(Ok(projected)) => match projected.value.fault() {
                Some(fault) => ignored.push(unusable(&path_of(reader, name), fault)),
                None => return Ok(Projected { ignored, ..projected }),
            },
            Ok(Err(FoldError::Contradicted(error))) | Err(error) => ignored.push(error),
            Ok(Err(FoldError::Failed(error))) => return Err(error),
        }
    }
    if reader.first_seq() > 1 {
        return Err(no_origin::<P>(reader, seq, list, &ignored));
    }
    match fold_from(reader, seq, Projected::empty(), None) {
        Ok(projected) => Ok(Projected { ignored, ..projected }),
        Err(FoldError::Failed(error) | FoldError::Contradicted(error)) => Err(error),
    }
}

/// The error of a pruned log without a usable snapshot.
fn no_origin<P: Projection>(
    reader: &LogReader,
    seq: u64,
    list: &SnapshotList,
    ignored: &[Error],
) -> Error {
    let what = format!("the log begins at record {}", reader.first_seq());
    let mut names = of_projection::<P>(reader, list);
    if let Some(oldest) = names.by_ref().map(|name| name.seq).find(|oldest| *oldest > seq) {
        let message = format!(
            "{what}, and the oldest snapshot of `{}` is at record {oldest}; ask for that record or a \
             later one",
            P::NAME
        );
        return Error::new(ErrorKind::Pruned, message).at_path(reader.dir()).at_seq(seq);
    }
    let tried: Vec<_> = ignored.iter().map(ToString::to_string).collect();
    let tried = if tried.is_empty() { "there is no snapshot".to_owned() } else { tried.join("; ") };
    let is_anchored = P::NAME == State::NAME && reader.retention().is_some();
    let kind = if is_anchored { ErrorKind::Corrupt } else { ErrorKind::Pruned };
    let message =
        format!("{what}, and no snapshot of `{}` replaces the earlier ones: {tried}", P::NAME);
    Error::new(kind, message).at_path(reader.dir())
}

/// A projection after exactly that record.
///
/// # Errors
/// As [`project`], and `OutOfRange` if no such record is durable.
pub(crate) fn project_at<P: Projection>(reader: &LogReader, seq: u64) -> Result<Projected<P>> {
    project_at_with(reader, seq, Validation::Deferred)
}

pub(crate) fn project_at_with<P: Projection>(
    reader: &LogReader,
    seq: u64,
    validation: Validation,
) -> Result<Projected<P>> {
    let projected = project_with::<P>(reader, seq, validation, None)?;
    if projected.seq == seq {
        return Ok(projected);
    }
    Err(out_of_range(reader, projected.seq, seq))
}

/// The error for a record past the end of the log.
pub(crate) fn out_of_range(reader: &LogReader, last: u64, found: u64) -> Error {
    let what = match (last, reader.head_names_present_segment()) {
        (0, false) => "HEAD confirms no durable record; `ledger verify` lists the records",
        _ => "ask for that record or an earlier one",
    };
    let message = format!("expected a record up to {last}, found {found}; {what}");
    Error::new(ErrorKind::OutOfRange, message).at_path(reader.dir())
}

impl<P: Projection> Projected<P> {
    fn empty() -> Self {
        const {
            assert!(
                is_valid_name(P::OWNER, P::NAME),
                "the name of a projection: a-z, 0-9 and _; `state` and `metrics` are the ledger's"
            );
            assert!(P::VERSION > 0, "versions of projections begin at 1");
        }
        let (value, chain) = (P::default(), Chain::GENESIS);
        Self { value, seq: 0, time: 0, chain, from: None, ignored: Vec::new() }
    }

    fn loaded(value: P, header: &SnapshotHeader) -> Self {
        let (seq, time, chain) = (header.seq, header.time, header.chain);
        Self { value, seq, time, chain, from: Some(seq), ignored: Vec::new() }
    }
}

/// The failure of a fold from a snapshot.
enum FoldError {
    /// A snapshot note in the log contradicts the snapshot.
    Contradicted(Error),
    /// The log cannot be read, so no other snapshot would help.
    Failed(Error),
}

impl From<Error> for FoldError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn fold_from<P: Projection>(
    reader: &LogReader,
    seq: u64,
    mut projected: Projected<P>,
    snapshot: Option<&SnapshotHeader>,
) -> std::result::Result<Projected<P>, FoldError> {
    if projected.seq >= seq {
        return Ok(projected);
    }
    let decoded = |record: LoggedRecord<&[u8]>| {
        if let Some(header) = snapshot
            && let Some(note) = SnapshotNote::from_record(&record)
            && note.contradicts(header)
        {
            let path = path_of(reader, &header.name());
            let what = format!("the snapshot note in record {} contradicts it", record.seq);
            return Err(FoldError::Contradicted(unusable(&path, &what)));
        }
        Ok((decode_record(&record)?, record.chain))
    };
    let from = projected.seq + 1;
    let read = |sink: BatchSink<'_, Vec<(RecordedEvent, Chain)>>| {
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        let result: std::result::Result<(), FoldError> =
            reader.for_each_record(from, seq, |record| {
                bytes = bytes.saturating_add(record.payload.len());
                batch.push(decoded(record)?);
                if is_full_batch(batch.len(), bytes) {
                    bytes = 0;
                    // `apply` below never ends the reading.
                    let _ = sink(std::mem::take(&mut batch));
                }
                Ok(())
            });
        let _ = sink(batch);
        result
    };
    read_ahead(reader.is_long(from, seq), read, |batch| {
        for (event, chain) in batch {
            (projected.seq, projected.time, projected.chain) = (event.seq, event.time, chain);
            projected.value.apply_owned(event);
        }
        ControlFlow::Continue(())
    })?;
    Ok(projected)
}

/// The snapshots of a projection from which the log can be folded, oldest first.
pub(crate) fn names<P: Projection>(reader: &LogReader) -> Result<Vec<SnapshotName>> {
    let list = reader.snapshots()?;
    Ok(of_projection::<P>(reader, &list).cloned().collect())
}

fn of_projection<'a, P: Projection>(
    reader: &LogReader,
    list: &'a SnapshotList,
) -> impl DoubleEndedIterator<Item = &'a SnapshotName> + use<'a, P> {
    let first_seq = reader.first_seq();
    let is_reachable = move |name: &SnapshotName| name.seq.saturating_add(1) >= first_seq;
    list.names.iter().filter(move |name| is_supported::<P>(name) && is_reachable(name))
}

/// Make a durable snapshot of a projection at a record, and its snapshot note. Everything that the
/// older snapshot defers is validated.
///
/// # Errors
/// Those of folding and writing; no file remains after an error.
pub(crate) fn make<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    seq: u64,
    guard: &SnapshotGuard<'_>,
) -> Result<(Snapshot, SnapshotNote, Vec<Error>)> {
    let projected = project_at_with::<P>(reader, seq, Validation::Full)?;
    let (header, path) = write(storage, reader, &projected, None, guard)?;
    let note = SnapshotNote::of(&header);
    let snapshot = Snapshot { seq, state_hash: ContentHash(header.state_hash), path };
    Ok((snapshot, note, projected.ignored))
}

/// Writes the body of a snapshot.
pub(crate) type BodyWriter<'a> = dyn Fn(&mut dyn io::Write) -> io::Result<()> + 'a;

/// Write a snapshot of a projection. With a base it has another body.
///
/// # Errors
/// As [`make`].
pub(crate) fn write<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    projected: &Projected<P>,
    based: Option<(SnapshotBase, &BodyWriter<'_>)>,
    _guard: &SnapshotGuard<'_>,
) -> Result<(SnapshotHeader, PathBuf)> {
    let seq = projected.seq;
    let Some((ledger, genesis)) = reader.uids().filter(|_| seq > 0) else {
        let message = "there is no record yet to make a snapshot of";
        return Err(Error::new(ErrorKind::OutOfRange, message));
    };
    let header = SnapshotHeader {
        ledger,
        genesis,
        seq,
        time: projected.time,
        chain: projected.chain,
        state_hash: projected.value.hash().0,
        projection: P::NAME.to_owned(),
        version: P::VERSION,
        body_length: 0,
        body_hash: [0; 32],
        stored_length: 0,
        base: None,
    };
    // An anchor has no base, and neither has the snapshot that replaces it.
    let name = header.name();
    let is_anchor = reader.retention().is_some_and(|retention| retention.is_anchor(&name));
    let based = based.filter(|_| !is_anchor);
    let header = SnapshotHeader { base: based.map(|(base, _)| base), ..header };
    write_snapshot(storage, reader.dir(), header, |out| match based {
        None => projected.value.encode(out),
        Some((_, body)) => body(out),
    })
}

/// The starting state of a fold of the log up to record `seq`, and its record: the empty state, or
/// that of the oldest valid snapshot of a pruned log; and the errors of older snapshots.
pub(crate) fn first_state(reader: &LogReader, seq: u64) -> (Option<(State, u64)>, Vec<Error>) {
    if reader.first_seq() == 1 {
        return (Some((State::default(), 0)), Vec::new());
    }
    let mut ignored = Vec::new();
    let names = names::<State>(reader).unwrap_or_else(|error| {
        ignored.push(error);
        Vec::new()
    });
    for name in names.iter().filter(|name| name.seq <= seq) {
        match load_validated::<State>(reader, name) {
            Ok((state, header)) => return (Some((state, header.seq)), ignored),
            Err(error) => ignored.push(error),
        }
    }
    (None, ignored)
}
