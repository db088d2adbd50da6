//! Snapshots of projections: which one may be used, folding on from it, making new ones.
//!
//! Invariants:
//! - A snapshot is used only if every check of `format/snapshot.md` holds. One that is not used
//!   is reported, never fatal: the next older one is tried, and in the end record 1.
//! - Folding goes through a reader of the log and touches nobody's live state.
//!
//! Left out on purpose: when snapshots are made (`ladder` says).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SnapshotBase, SnapshotHeader, SnapshotName};
use crate::log::{LogReader, SnapshotList, SnapshotNote, write_snapshot};
use crate::plan::{ContentHash, Micros, State};
use crate::storage::Storage;

use super::load::{Unfitted, is_read, load, load_whole, path_of, unusable};
use super::projection::{Projection, is_name_of};
use super::replay::recorded;

/// The state is kept at every multiple of so many records.
pub(super) const RUNG: u64 = 65_536;

/// Held while a snapshot is made or removed, or becomes an anchor: a writer removes what others left
/// unfinished, and cannot tell it from what another is at. And two that are made side by side take two
/// processors, and the memory of two states, from the work.
#[derive(Debug, Clone, Default)]
pub(super) struct Keeping(Arc<Mutex<()>>);

/// As long as this is there, nobody else makes a snapshot or removes one.
pub(super) type Kept<'a> = MutexGuard<'a, ()>;

impl Keeping {
    /// Wait for whoever has it.
    pub(super) fn keep(&self) -> Kept<'_> {
        // It guards files, which are whole or not there whatever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that it stands for.
    pub seq: u64,
    /// Hash of the state.
    pub state_hash: ContentHash,
    /// Its file.
    pub path: PathBuf,
}

/// A projection at a record.
#[derive(Debug)]
pub(super) struct Projected<P> {
    pub(super) value: P,
    /// The last record that was folded in; 0 for none.
    pub(super) seq: u64,
    pub(super) time: Micros,
    pub(super) chain: Chain,
    /// The record of the snapshot that folding began with; `None` for the start of the log.
    pub(super) from: Option<u64>,
    /// Snapshots that were not used, and why.
    pub(super) ignored: Vec<Error>,
}

/// How closely a snapshot is looked at before it is folded on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// What it holds may be looked at when somebody asks for it.
    Lazy,
    /// All of it is looked at: what is made of it is kept.
    Whole,
}

/// A projection after record `seq`, or after the last durable one if there are fewer.
///
/// # Errors
/// `Corrupt` for damage behind the newest good snapshot, `Unsupported`, and `Io`. Bad snapshots
/// are no errors.
pub(super) fn project<P: Projection>(reader: &LogReader, seq: u64) -> Result<Projected<P>> {
    project_with(reader, seq, Care::Lazy, None)
}

/// The same after the last durable record, with a snapshot that was read before.
///
/// # Errors
/// As [`project`].
pub(super) fn project_newest<P: Projection>(
    reader: &LogReader,
    newest: Option<Unfitted<P>>,
) -> Result<Projected<P>> {
    project_with(reader, u64::MAX, Care::Lazy, newest)
}

fn project_with<P: Projection>(
    reader: &LogReader,
    seq: u64,
    care: Care,
    before: Option<Unfitted<P>>,
) -> Result<Projected<P>> {
    // Listing some thousand snapshots takes as long as reading one. Where one of the list cannot be
    // used, it may be gone since.
    if let Some(list) = reader.snapshots_listed()
        && let Ok(projected) = project_among(reader, (seq, care), None, &list, Vec::new())
        && projected.from.is_some()
        && projected.ignored.is_empty()
    {
        return Ok(projected);
    }
    let (list, ignored) = match reader.list_snapshots() {
        Ok(list) => (list, Vec::new()),
        Err(error) => (Arc::default(), vec![error]),
    };
    project_among(reader, (seq, care), before, &list, ignored)
}

/// The same from a snapshot of a list; `ignored` is what went wrong before.
fn project_among<P: Projection>(
    reader: &LogReader,
    (seq, care): (u64, Care),
    mut before: Option<Unfitted<P>>,
    list: &SnapshotList,
    mut ignored: Vec<Error>,
) -> Result<Projected<P>> {
    for name in of_projection::<P>(reader, list).rev().filter(|name| name.seq <= seq) {
        let loaded = match (before.take_if(|before| before.is_of(name)), care) {
            (Some(before), Care::Lazy) => before.fit(reader),
            (_, Care::Lazy) => load::<P>(reader, name),
            (_, Care::Whole) => load_whole::<P>(reader, name),
        };
        let tried = loaded.map(|(value, header)| {
            fold_on(reader, seq, Projected::loaded(value, &header), Some(&header))
        });
        match tried {
            Ok(Ok(projected)) => match projected.value.fault() {
                Some(fault) => ignored.push(unusable(&path_of(reader, name), fault)),
                None => return Ok(Projected { ignored, ..projected }),
            },
            Ok(Err(Stop::Contradicted(error))) | Err(error) => ignored.push(error),
            Ok(Err(Stop::Failed(error))) => return Err(error),
        }
    }
    if reader.first_seq() > 1 {
        return Err(no_ground::<P>(reader, seq, list, &ignored));
    }
    match fold_on(reader, seq, Projected::empty(), None) {
        Ok(projected) => Ok(Projected { ignored, ..projected }),
        Err(Stop::Failed(error) | Stop::Contradicted(error)) => Err(error),
    }
}

/// Why there is nothing to fold a projection from in a log that begins later.
fn no_ground<P: Projection>(
    reader: &LogReader,
    seq: u64,
    list: &SnapshotList,
    ignored: &[Error],
) -> Error {
    let what = format!("the log begins at record {}", reader.first_seq());
    let mut names = of_projection::<P>(reader, list);
    if let Some(oldest) = names.by_ref().map(|name| name.seq).find(|oldest| *oldest > seq) {
        let message = format!(
            "{what}, and the oldest snapshot of `{}` that it can be folded on from is at record \
             {oldest}: ask for that one or a later one",
            P::NAME
        );
        return Error::new(ErrorKind::Pruned, message).at_path(reader.dir()).at_seq(seq);
    }
    let tried: Vec<_> = ignored.iter().map(ToString::to_string).collect();
    let tried = if tried.is_empty() { "there is none".to_owned() } else { tried.join("; ") };
    let is_anchored = P::NAME == State::NAME && reader.retention().is_some();
    let kind = if is_anchored { ErrorKind::Corrupt } else { ErrorKind::Pruned };
    let message =
        format!("{what}, and no snapshot of `{}` stands for those before: {tried}", P::NAME);
    Error::new(kind, message).at_path(reader.dir())
}

/// A projection after exactly that record.
///
/// # Errors
/// As [`project`], and `OutOfRange` if there is no such durable record.
pub(super) fn project_at<P: Projection>(reader: &LogReader, seq: u64) -> Result<Projected<P>> {
    project_at_with(reader, seq, Care::Lazy)
}

fn project_at_with<P: Projection>(
    reader: &LogReader,
    seq: u64,
    care: Care,
) -> Result<Projected<P>> {
    let projected = project_with::<P>(reader, seq, care, None)?;
    if projected.seq == seq {
        return Ok(projected);
    }
    Err(beyond(reader, projected.seq, seq))
}

/// A record was asked for that the log does not have yet.
pub(super) fn beyond(reader: &LogReader, last: u64, found: u64) -> Error {
    let what = match (last, reader.has_witness()) {
        (0, false) => {
            "HEAD says of no record that it is durable: `ledger verify` shows what is there"
        }
        _ => "ask for that one or an earlier one",
    };
    let message = format!("expected a record up to {last}, found {found}; {what}");
    Error::new(ErrorKind::OutOfRange, message).at_path(reader.dir())
}

impl<P: Projection> Projected<P> {
    fn empty() -> Self {
        const {
            assert!(
                is_name_of(P::KEPT_FOR, P::NAME),
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

/// Why folding on from a snapshot came to nothing.
enum Stop {
    /// The log says something else of the snapshot.
    Contradicted(Error),
    /// The log cannot be read, whatever one begins with.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn fold_on<P: Projection>(
    reader: &LogReader,
    seq: u64,
    mut projected: Projected<P>,
    begun: Option<&SnapshotHeader>,
) -> std::result::Result<Projected<P>, Stop> {
    if projected.seq >= seq {
        return Ok(projected);
    }
    reader.pass_records(projected.seq + 1, seq, |record| {
        if let Some(header) = begun
            && let Some(note) = SnapshotNote::in_record(&record)
            && note.contradicts(header)
        {
            let path = path_of(reader, &header.name());
            let what = format!("record {} says something else of its state", record.seq);
            return Err(Stop::Contradicted(unusable(&path, &what)));
        }
        projected.value.take(recorded(&record)?);
        projected.seq = record.seq;
        projected.time = record.time;
        projected.chain = record.chain;
        Ok(())
    })?;
    Ok(projected)
}

/// Snapshots of a projection that the log reaches back to, oldest first.
pub(super) fn names<P: Projection>(reader: &LogReader) -> Result<Vec<SnapshotName>> {
    let list = reader.snapshots()?;
    Ok(of_projection::<P>(reader, &list).cloned().collect())
}

fn of_projection<'a, P: Projection>(
    reader: &LogReader,
    list: &'a SnapshotList,
) -> impl DoubleEndedIterator<Item = &'a SnapshotName> + use<'a, P> {
    let first_seq = reader.first_seq();
    let is_reached = move |name: &SnapshotName| name.seq.saturating_add(1) >= first_seq;
    list.names.iter().filter(move |name| is_read::<P>(name) && is_reached(name))
}

/// Make a snapshot of a projection at a record, durably, and the note that goes with it: based on
/// the first of `bases` that can be used. With [`Care::Lazy`] it goes on what nobody has looked at since
/// the snapshot before, as far as that has the hash which the state's hash is of.
///
/// # Errors
/// What folding and writing say; nothing is left behind then.
pub(super) fn make<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    (seq, care): (u64, Care),
    bases: &[SnapshotName],
    _kept: &Kept<'_>,
) -> Result<(Snapshot, SnapshotNote, Vec<Error>)> {
    let mut projected = project_at_with::<P>(reader, seq, care)?;
    let Some((ledger, genesis)) = reader.uids().filter(|_| seq > 0) else {
        let message = "there is no record yet, and so nothing to make a snapshot of";
        return Err(Error::new(ErrorKind::OutOfRange, message));
    };
    let state_hash = projected.value.hash();
    let header = SnapshotHeader {
        ledger,
        genesis,
        seq,
        time: projected.time,
        chain: projected.chain,
        state_hash: state_hash.0,
        projection: P::NAME.to_owned(),
        version: P::VERSION,
        body_length: 0,
        body_hash: [0; 32],
        stored_length: 0,
        base: None,
    };
    let is_anchor = |name| reader.retention().is_some_and(|retention| retention.is_anchor(name));
    // An anchor that turned out to be bad is made again as it was.
    let bases = if is_anchor(&header.name()) { &[] } else { bases };
    let base = bases.iter().find_map(|name| match load::<P>(reader, name) {
        Ok((base, header)) => {
            Some((base, SnapshotBase { seq: header.seq, state_hash: header.state_hash }))
        }
        Err(error) => {
            projected.ignored.push(error);
            None
        }
    });
    let header = SnapshotHeader { base: base.as_ref().map(|(_, base)| *base), ..header };
    let (header, path) = write_snapshot(storage, reader.dir(), header, |out| match &base {
        None => projected.value.encode(out),
        Some((base, _)) => projected.value.encode_changes(base, out),
    })?;
    let note = SnapshotNote::of(&header);
    Ok((Snapshot { seq, state_hash, path }, note, projected.ignored))
}

/// The state that folding a log begins with which begins later: that of its oldest good snapshot
/// up to record `seq`; and what was wrong with older ones.
pub(super) fn ground(
    reader: &LogReader,
    seq: u64,
) -> (Option<(State, SnapshotHeader)>, Vec<Error>) {
    let mut ignored = Vec::new();
    let names = names::<State>(reader).unwrap_or_else(|error| {
        ignored.push(error);
        Vec::new()
    });
    for name in names.iter().filter(|name| name.seq <= seq) {
        match load_whole::<State>(reader, name) {
            Ok(ground) => return (Some(ground), ignored),
            Err(error) => ignored.push(error),
        }
    }
    (None, ignored)
}
