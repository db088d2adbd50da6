//! Erasing: the values that durable erasure notes name are overwritten, and files that hold copies of
//! them are removed (`format/retention.md`, *Erasure*).
//!
//! A file named `ERASING` in the ledger's folder says that an erasure may not be complete. It is made
//! before the note is appended, and removed last. An opening that finds it repeats all steps, for
//! every note of the log.
//!
//! Invariants:
//! - No byte is erased before a durable note names it.
//! - A segment is never changed in place: the new file, with the same header, frames and chain, is
//!   complete and synced before it is renamed over the old one. A sealed one is then unsealed, and
//!   the opening seals it again.
//! - Without the marker nothing is searched, so that an opening costs one call more.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Detached, FrameFault, SegmentHeader, SegmentReason, SegmentSeed, erase_in_frame,
};
use crate::log::blob::{BlobId, BlobReader};
use crate::log::bytes::len_u64;
use crate::log::folder::LedgerPaths;
use crate::log::notes::{ErasureNote, KIND_ERASURE};
use crate::log::reader::{LogReader, SegmentAccess};
use crate::log::record::{LogItem, RecordStatus};
use crate::log::segment::{ChainCheck, FramePosition, Scan, SegmentBytes, valid_segment};
use crate::log::snapshot::list_snapshots;
use crate::storage::{Access, Storage};

/// The changes with which an opening completed erasures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedFiles {
    /// Whether there was an erasure to complete.
    pub is_resumed: bool,
    /// Whether the erasure must wait until the end of the log is recovered.
    pub(crate) is_postponed: bool,
    /// Segments that were written again.
    pub segments: Vec<PathBuf>,
    /// Snapshots that were removed.
    pub snapshots: Vec<PathBuf>,
    /// Blobs that were removed.
    pub blobs: Vec<PathBuf>,
}

/// All that the erasure notes of a log name.
#[derive(Debug, Default)]
struct Erasures {
    records: BTreeSet<u64>,
    digests: BTreeSet<[u8; 32]>,
    blobs: BTreeSet<[u8; 32]>,
}

/// Make the marker durable. The erasure note is appended after it.
pub(crate) fn mark_erasing(storage: &dyn Storage, paths: &LedgerPaths) -> Result<()> {
    let path = paths.erasing();
    match storage.create(&path) {
        Ok(file) => file.sync().map_err(|error| Error::io("sync the file", &path, error))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::io("create the file", &path, error)),
    }
    sync(storage, paths.dir())
}

/// Complete the erasures of a log, if a marker says that one may not be complete. The caller has the
/// lock, and no file of the log is open; `check` confirms the lock before anything is replaced.
pub(crate) fn resume_erasure(
    storage: &Arc<dyn Storage>,
    paths: &LedgerPaths,
    check: &dyn Fn() -> Result<()>,
) -> Result<ErasedFiles> {
    let marker = paths.erasing();
    match storage.open(&marker, Access::Read) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ErasedFiles::default()),
        Err(error) => return Err(Error::io("open the file", &marker, error)),
    }
    let reader = LogReader::load(storage, paths, SegmentAccess::Windowed, None)?;
    if has_open_end(&reader)? && !mutant!(ErasureForgotten) {
        // The note may be among records with unknown durability.
        return Ok(ErasedFiles { is_postponed: true, ..ErasedFiles::default() });
    }
    let mut all = Erasures::default();
    for record in reader.records_of_kind(KIND_ERASURE, reader.first_seq()) {
        let Some(note) = ErasureNote::from_record(&record?) else { continue };
        all.records.extend(&note.records);
        all.digests.extend(note.digests());
        all.blobs.extend(note.blob_hashes());
    }
    let mut erased = ErasedFiles { is_resumed: true, ..ErasedFiles::default() };
    erase_in_segments(storage, paths, &reader, &all, check, &mut erased)?;
    remove_snapshots(storage, paths, &reader, &all, &mut erased)?;
    remove_blobs(storage, paths, &all, &mut erased)?;
    check()?;
    storage.remove(&marker).map_err(|error| Error::io("remove the file", &marker, error))?;
    sync(&**storage, paths.dir())?;
    Ok(erased)
}

/// Whether anything follows the last record known to be durable.
fn has_open_end(reader: &LogReader) -> Result<bool> {
    let last = reader.head().map_or(0, |head| head.durable_seq);
    for item in reader.walk(last.max(reader.first_seq())) {
        match item? {
            LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. } => {
                return Ok(true);
            }
            LogItem::Damage(damage) => return Err(damage.into_error()),
            LogItem::Record(..) | LogItem::DerivedDamage(_) => {}
        }
    }
    Ok(false)
}

fn sync(storage: &dyn Storage, folder: &Path) -> Result<()> {
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}

fn erase_in_segments(
    storage: &Arc<dyn Storage>,
    paths: &LedgerPaths,
    reader: &LogReader,
    all: &Erasures,
    check: &dyn Fn() -> Result<()>,
    erased: &mut ErasedFiles,
) -> Result<()> {
    let segments: Vec<_> = reader.segments.list.iter().filter_map(valid_segment).collect();
    for (index, segment) in segments.iter().enumerate() {
        let header = &segment.header;
        let next = segments.get(index + 1).map(|next| &next.header);
        let after = next.map_or(u64::MAX, |next| next.base_seq);
        let wanted: BTreeSet<u64> = all.records.range(header.base_seq..after).copied().collect();
        // An unfinished write of a value, or its copy before a fence, may be among the dead bytes.
        let has_dead = next.is_some_and(|next| next.reason != SegmentReason::Rotate)
            && all.records.range(after..).next().is_some()
            && !mutant!(DeadBytesSurviveErase);
        if wanted.is_empty() && !has_dead {
            continue;
        }
        let path = paths.segment(header.name());
        let dead = next.filter(|_| has_dead).map(|next| next.prev_data_end);
        let end = next.map(|next| next.prev_data_end);
        let found = read_without(&**storage, &path, header, (end, dead), &wanted, &all.digests)?;
        if let Some(bytes) = found {
            replace(&**storage, paths, header, &bytes, check)?;
            erased.segments.push(path);
        }
    }
    Ok(())
}

/// The bytes of a segment without the values; `None` if it has none of the values. Index and footer
/// are left out.
fn read_without(
    storage: &dyn Storage,
    path: &Path,
    header: &SegmentHeader,
    (end, dead): (Option<u64>, Option<u64>),
    wanted: &BTreeSet<u64>,
    digests: &BTreeSet<[u8; 32]>,
) -> Result<Option<Vec<u8>>> {
    let io = |error| Error::io("read the segment", path, error);
    let open = || storage.open(path, Access::Read).map_err(io);
    let file = open()?;
    let length = file.length().map_err(io)?;
    let too_long = |_| io(io::ErrorKind::FileTooLarge.into());
    let mut bytes = vec![0; usize::try_from(length).map_err(too_long)?];
    let count = file.read_at(&mut bytes, 0).map_err(io)?;
    bytes.truncate(count);
    let mut has_changed = false;
    if let Some(dead) = dead {
        let rest = bytes.get_mut(usize::try_from(dead).map_err(too_long)?..).unwrap_or_default();
        has_changed |= rest.iter().any(|byte| *byte != 0);
        rest.fill(0);
    }
    let end = end.unwrap_or(length);
    let mut scan = Scan::new(SegmentBytes::windowed(open()?), header, end);
    scan.chain_check = ChainCheck::Trust;
    let seeds = SegmentSeed::new(&header.segment);
    let (mut at, mut left) = (FramePosition::start(header), wanted.clone());
    while !left.is_empty() && at.offset < end {
        match scan.next(&mut at).map_err(io)? {
            Ok(found) => {
                if left.remove(&found.seq) {
                    let from = usize::try_from(found.offset).map_err(too_long)?;
                    let size = usize::try_from(found.size).map_err(too_long)?;
                    let frame = bytes.get_mut(from..from + size).unwrap_or_default();
                    let is_wanted = |value: &Detached<'_>| digests.contains(&value.digest);
                    has_changed |= erase_in_frame(frame, &seeds.at(found.offset), is_wanted) > 0;
                }
            }
            Err(FrameFault::Empty) => break,
            Err(_) => {
                let due = at.next_seq;
                match scan.find(at.offset + 64, |frame| frame.stamp.seq >= due).map_err(io)? {
                    None => break,
                    Some(found) => at = found,
                }
            }
        }
    }
    if let Some(seq) = left.first() {
        let message = format!("record {seq} holds a value to erase, and cannot be read");
        return Err(Error::new(ErrorKind::Corrupt, message).at_path(path).at_seq(*seq));
    }
    if !has_changed {
        return Ok(None);
    }
    if length != header.prealloc_len {
        // A sealed segment: without index and footer it has the length that it had before.
        bytes.truncate(usize::try_from(end).map_err(too_long)?);
        bytes.resize(usize::try_from(header.prealloc_len.max(end)).map_err(too_long)?, 0);
    }
    Ok(Some(bytes))
}

/// Size of a write in bytes.
const CHUNK: usize = 1 << 20;

/// Write a segment anew and rename it over the old one.
fn replace(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
    bytes: &[u8],
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let (path, temporary) = (paths.segment(header.name()), paths.temporary(header.name()));
    let io = |error| Error::io("write the segment without the erased values", &temporary, error);
    // An interrupted erasure may have left a file behind.
    let _ = storage.remove(&temporary);
    let file = storage.create(&temporary).map_err(io)?;
    let mut offset = 0;
    for chunk in bytes.chunks(CHUNK) {
        file.write_at(chunk, offset).map_err(io)?;
        offset += len_u64(chunk);
    }
    if !mutant!(ErasedSegmentUnsynced) {
        file.sync().map_err(io)?;
    }
    check()?;
    storage.rename(&temporary, &path).map_err(io)?;
    sync(storage, &paths.log())
}

/// Remove the snapshots of states that may hold an erased value, newest first, so that no snapshot
/// remains without its base. The anchors of a pruned log stay: the ledger refuses to erase values
/// that they hold.
fn remove_snapshots(
    storage: &Arc<dyn Storage>,
    paths: &LedgerPaths,
    reader: &LogReader,
    all: &Erasures,
    erased: &mut ErasedFiles,
) -> Result<()> {
    mutant!(SnapshotSurvivesErase => return Ok(()));
    let Some(first) = all.records.first() else { return Ok(()) };
    let list = list_snapshots(&**storage, paths.dir())?;
    let is_anchor = |name: &_| reader.retention().is_some_and(|note| note.is_anchor(name));
    let names = list.names.iter().rev().filter(|name| name.seq >= *first && !is_anchor(name));
    let names = names.map(ToString::to_string).chain(list.temporary.iter().cloned());
    for name in names {
        let path = list.folder.join(name);
        storage.remove(&path).map_err(|error| Error::io("remove the snapshot", &path, error))?;
        sync(&**storage, &list.folder)?;
        erased.snapshots.push(path);
    }
    Ok(())
}

fn remove_blobs(
    storage: &Arc<dyn Storage>,
    paths: &LedgerPaths,
    all: &Erasures,
    erased: &mut ErasedFiles,
) -> Result<()> {
    let blobs = BlobReader::new(storage, paths);
    for hash in &all.blobs {
        let id = BlobId { hash: *hash, length: 0 };
        let path = blobs.path(&id);
        for path in [path.clone(), path.with_extension("tmp")] {
            match storage.remove(&path) {
                Ok(()) => {
                    sync(&**storage, &blobs.folder(&id))?;
                    erased.blobs.push(path);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("remove the blob", &path, error)),
            }
        }
    }
    Ok(())
}
