//! Snapshots of projections: which one may be used, folding on from it, making new ones.
//!
//! Invariants:
//! - A snapshot is used only if every check of `format/snapshot.md` holds. One that is not used
//!   is reported, never fatal: the next older one is tried, and in the end record 1.
//! - Folding goes through a reader of the log and touches nobody's live state.
//!
//! Left out on purpose: when snapshots are made (`ladder` says).

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Packing, SnapshotHeader, SnapshotName, is_projection_name};
use crate::log::{LogReader, SnapshotNote, SnapshotReader, write_snapshot};
use crate::plan::{ContentHash, Micros, State};
use crate::storage::Storage;

use super::projection::Projection;
use super::replay::recorded;

/// The state is kept at every multiple of so many records.
pub(super) const RUNG: u64 = 65_536;

/// So many bytes of a snapshot are decoded at a time.
const PIECE: usize = 64 << 10;

/// Held while snapshots are written or removed, or become anchors: a writer removes what others left
/// unfinished, and cannot tell it from what another is at.
pub(super) type Keeping = Arc<Mutex<()>>;

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
    project_with(reader, seq, Care::Lazy)
}

fn project_with<P: Projection>(reader: &LogReader, seq: u64, care: Care) -> Result<Projected<P>> {
    let mut ignored = Vec::new();
    let names = match names::<P>(reader) {
        Ok(names) => names,
        Err(error) => {
            ignored.push(error);
            Vec::new()
        }
    };
    for name in names.iter().rev().filter(|name| name.seq <= seq) {
        let loaded = match care {
            Care::Lazy => load::<P>(reader, name),
            Care::Whole => load_whole::<P>(reader, name),
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
        return Err(no_ground::<P>(reader, seq, &names, &ignored));
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
    names: &[SnapshotName],
    ignored: &[Error],
) -> Error {
    let what = format!("the log begins at record {}", reader.first_seq());
    if let Some(oldest) = names.iter().map(|name| name.seq).find(|oldest| *oldest > seq) {
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
    let projected = project_with::<P>(reader, seq, care)?;
    if projected.seq == seq {
        return Ok(projected);
    }
    let message = format!("expected a record up to {}, found {seq}", projected.seq);
    Err(Error::new(ErrorKind::OutOfRange, message))
}

impl<P: Projection> Projected<P> {
    fn empty() -> Self {
        const {
            assert!(is_projection_name(P::NAME), "the name of a projection: a-z, 0-9 and _");
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

fn fold_on<P: Projection>(
    reader: &LogReader,
    seq: u64,
    mut projected: Projected<P>,
    begun: Option<&SnapshotHeader>,
) -> std::result::Result<Projected<P>, Stop> {
    if projected.seq >= seq {
        return Ok(projected);
    }
    for record in reader.records_to(projected.seq + 1, seq) {
        let record = record.map_err(Stop::Failed)?;
        if let Some(header) = begun
            && let Some(note) = SnapshotNote::in_record(&record)
            && note.contradicts(header)
        {
            let path = path_of(reader, &header.name());
            let what = format!("record {} says something else of its state", record.seq);
            return Err(Stop::Contradicted(unusable(&path, &what)));
        }
        projected.value.take(recorded(&record).map_err(Stop::Failed)?);
        projected.seq = record.seq;
        projected.time = record.time;
        projected.chain = record.chain;
    }
    Ok(projected)
}

/// Snapshots of a projection that the log reaches back to, oldest first.
pub(super) fn names<P: Projection>(reader: &LogReader) -> Result<Vec<SnapshotName>> {
    let mut names = reader.snapshots()?.names;
    let is_reached = |name: &SnapshotName| name.seq.saturating_add(1) >= reader.first_seq();
    names.retain(|name| is_read::<P>(name) && is_reached(name));
    Ok(names)
}

/// How long the body of the newest snapshot of a projection is, in bytes, if it can be opened.
pub(super) fn newest_length<P: Projection>(reader: &LogReader) -> Option<u64> {
    let names = names::<P>(reader).ok()?;
    Some(reader.open_snapshot(names.last()?).ok()?.header().body_length)
}

/// Whether a snapshot is one of that projection, and of a version that is read.
pub(super) fn is_read<P: Projection>(name: &SnapshotName) -> bool {
    name.projection == P::NAME && (P::OLDEST..=P::VERSION).contains(&name.version)
}

/// What a snapshot holds, after every check but that for a note that contradicts it, and that of
/// what is looked at later.
///
/// # Errors
/// `Corrupt` with file and offset; `Unsupported`; `Io`.
pub(super) fn load<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    let mut file = reader.open_snapshot(name)?;
    let path = file.path().to_owned();
    // Decoders ask for a few bytes at a time.
    let mut input = BufReader::with_capacity(PIECE, &mut file);
    let decoded = P::decode_version(name.version, &mut input);
    let ahead = u64::try_from(input.buffer().len()).unwrap_or(u64::MAX);
    let value = match decoded {
        Ok(value) => value,
        Err(error) => return Err(why(file, &path, &error)),
    };
    let unread = file.unread().saturating_add(ahead);
    if unread > 0 {
        let what = format!("{unread} bytes follow the end of its state");
        return Err(unusable(&path, &what));
    }
    let header = file.check()?;
    if value.hash_in(header.version).0 != header.state_hash && !bug!(SnapshotStateTrusted) {
        return Err(unusable(&path, "its state is not the one that its header says"));
    }
    Ok((value, header))
}

/// The same, with nothing left for later.
///
/// # Errors
/// As [`load`].
pub(super) fn load_whole<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    let (value, header) = load::<P>(reader, name)?;
    match value.check() {
        Some(fault) => Err(unusable(&path_of(reader, name), fault)),
        None => Ok((value, header)),
    }
}

/// Damage that the reader found is what counts; else the bytes were never a state.
fn why(mut file: SnapshotReader, path: &Path, error: &std::io::Error) -> Error {
    let what = format!("its sums hold, but its body cannot be decoded: {error}");
    file.take_fault().or_else(|| file.check().err()).unwrap_or_else(|| unusable(path, &what))
}

fn unusable(path: &Path, what: &str) -> Error {
    let message = format!("{what}; the snapshot is not used, and may be deleted");
    Error::new(ErrorKind::Corrupt, message).at_path(path)
}

fn path_of(reader: &LogReader, name: &SnapshotName) -> PathBuf {
    reader.dir().join("snap").join(name.to_string())
}

/// Check a snapshot as far as this program can: its file, that it belongs to the log, and for
/// the ledger's own state what it holds.
pub(super) fn check(reader: &LogReader, name: &SnapshotName) -> Result<SnapshotHeader> {
    if is_read::<State>(name) {
        let (state, header) = load_whole::<State>(reader, name)?;
        if state.seq == header.seq {
            return Ok(header);
        }
        let what = format!("its header says record {}, its state {}", header.seq, state.seq);
        return Err(unusable(&path_of(reader, name), &what));
    }
    reader.open_snapshot(name)?.check()
}

/// Make a snapshot of a projection at a record, durably, and the note that goes with it. With
/// [`Care::Lazy`] it goes on what nobody has looked at since the snapshot before, as far as that
/// has the hash which the state's hash is of.
///
/// # Errors
/// What folding and writing say; nothing is left behind then.
pub(super) fn make<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    (seq, care): (u64, Care),
    keeping: &Keeping,
) -> Result<(Snapshot, SnapshotNote, Vec<Error>)> {
    let projected = project_at_with::<P>(reader, seq, care)?;
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
        packing: Packing::Plain,
    };
    let _keeping = keeping.lock().unwrap_or_else(PoisonError::into_inner);
    let (header, path) =
        write_snapshot(storage, reader.dir(), header, |out| projected.value.encode(out))?;
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
