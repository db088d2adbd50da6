//! Pruning: removing the segments that a durable retention note covers (`format/retention.md`,
//! section 3).
//!
//! Invariants:
//! - Nothing is removed unless both anchors of the note are valid and the segment that becomes the
//!   first one starts where the note says.
//! - Segments are removed in the order of their ordinals, each removal durable before the next: an
//!   interrupted prune never leaves a gap.
//! - The ledger decides what may be pruned, and checks the states of the anchors before it appends
//!   the note.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::folder::LedgerPaths;
use crate::log::notes::LoggedRetentionNote;
use crate::log::reader::{LogReader, SegmentAccess};
use crate::storage::Storage;

/// The files that a prune removes or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneSet {
    /// Segments, in order.
    pub segments: Vec<PathBuf>,
    /// Their size in bytes.
    pub bytes: u64,
    /// Snapshots that can no longer be used as a starting point, because the records after them are
    /// pruned.
    pub snapshots: Vec<PathBuf>,
}

/// The segments and snapshots that the note covers and that still exist.
pub(crate) fn prunable(reader: &LogReader, retention: &LoggedRetentionNote) -> Result<PruneSet> {
    let note = &retention.note;
    let mut removal = PruneSet::default();
    for (name, path, read) in &reader.segments.list {
        if name.ordinal <= note.last_ordinal {
            removal.segments.push(path.clone());
            removal.bytes += read.as_ref().map_or(0, |segment| segment.length);
        }
    }
    removal.snapshots = reader.stale_snapshots(note.last_seq)?;
    mutant!(PruneOutOfOrder => removal.segments.reverse());
    Ok(removal)
}

/// Remove the files that a durable note covers. Some or all may already be removed.
///
/// # Errors
/// `Corrupt` if an anchor or the next segment is invalid: nothing was removed; `Io`.
pub(crate) fn remove_covered(
    reader: &LogReader,
    retention: &LoggedRetentionNote,
) -> Result<PruneSet> {
    let removal = prunable(reader, retention)?;
    if removal == PruneSet::default() {
        return Ok(removal);
    }
    check_anchors(reader, retention)?;
    let storage = &*reader.storage;
    for path in &removal.segments {
        remove(storage, path, &reader.segments.folder, "remove a pruned segment")?;
    }
    let folder = LedgerPaths::new(reader.dir()).snapshots();
    for path in &removal.snapshots {
        remove(storage, path, &folder, "remove a stale snapshot")?;
    }
    Ok(removal)
}

fn remove(storage: &dyn Storage, path: &Path, folder: &Path, what: &str) -> Result<()> {
    storage.remove(path).map_err(|error| Error::io(what, path, error))?;
    mutant!(PruneRemovalUnsynced => return Ok(()));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}

/// Check everything that the log needs once the covered segments are gone.
fn check_anchors(reader: &LogReader, retention: &LoggedRetentionNote) -> Result<()> {
    mutant!(PruneWithoutAnchor => return Ok(()));
    let note = &retention.note;
    let next = reader.segments.with_ordinal(note.last_ordinal.saturating_add(1));
    let is_there = next.is_some_and(|next| {
        Some(next.header.base_seq) == note.last_seq.checked_add(1)
            && Some(next.header.prev_chain) == note.chain()
    });
    if !is_there {
        let message = format!(
            "record {} notes a prune up to record {}, but no segment starts after it; nothing was \
             removed",
            retention.seq, note.last_seq
        );
        return Err(Error::new(ErrorKind::Corrupt, message).at_path(&reader.segments.folder));
    }
    note.anchors.iter().try_for_each(|anchor| reader.check_anchor(anchor))
}

/// Complete an interrupted prune.
pub(crate) fn resume(
    storage: &Arc<dyn Storage>,
    paths: &LedgerPaths,
    retention: &LoggedRetentionNote,
) -> Result<PruneSet> {
    let reader = LogReader::load(storage, paths, SegmentAccess::Windowed, Some(retention))?;
    remove_covered(&reader, retention)
}
