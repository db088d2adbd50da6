//! Removing the segments that a durable retention note covers (`format/retention.md`, section 3).
//!
//! Invariants:
//! - Nothing is removed unless the note's two anchors are there and hold, and the segment that
//!   becomes the first one is there and begins where the note says.
//! - Segments go in the order of their ordinals, one at a time, each made durable before the next
//!   one goes: whenever it is cut short, what is left is a row without a gap.
//!
//! Left out on purpose: which segments may be pruned, and what the anchors' states are worth: the
//! log's user has made sure before he appended the note.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::SnapshotName;
use crate::storage::Storage;

use super::engine::Engine;
use super::layout::Layout;
use super::reader::{LogReader, Superseded};
use super::retention::{Anchor, Retention};
use super::snapshot_file::list_snapshots;

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Segments, in order.
    pub segments: Vec<PathBuf>,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots of records that the log does not reach back to any more: nothing can be folded
    /// on from them, and nothing vouches for them.
    pub snapshots: Vec<PathBuf>,
}

/// What of a log a note covers and is still there.
pub(super) fn covered(reader: &LogReader, retention: &Retention) -> Result<Removal> {
    let note = &retention.note;
    let mut removal = Removal::default();
    for (name, path, read) in &reader.segments.list {
        if name.ordinal <= note.last_ordinal {
            removal.segments.push(path.clone());
            removal.bytes += read.as_ref().map_or(0, |segment| segment.length);
        }
    }
    removal.snapshots = reader.stale_snapshots(note.last_seq)?;
    bug!(PruneBackwards => removal.segments.reverse());
    Ok(removal)
}

/// Remove what a durable note covers. There may be nothing left to remove.
///
/// # Errors
/// `Corrupt` if what the log would stand on does not hold: nothing was removed; `Io`.
pub(super) fn remove_covered(reader: &LogReader, retention: &Retention) -> Result<Removal> {
    let removal = covered(reader, retention)?;
    if removal == Removal::default() {
        return Ok(removal);
    }
    expect_footing(reader, retention)?;
    let storage = &*reader.storage;
    for path in &removal.segments {
        remove(storage, path, &reader.segments.folder, "remove a pruned segment")?;
    }
    let folder = Layout::new(reader.dir()).snapshots();
    for path in &removal.snapshots {
        remove(storage, path, &folder, "remove an old snapshot")?;
    }
    Ok(removal)
}

fn remove(storage: &dyn Storage, path: &Path, folder: &Path, what: &str) -> Result<()> {
    storage.remove(path).map_err(|error| Error::io(what, path, error))?;
    bug!(PruneUnsynced => return Ok(()));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}

/// Whether all is there that the log stands on without what the note covers.
fn expect_footing(reader: &LogReader, retention: &Retention) -> Result<()> {
    bug!(PruneWithoutFooting => return Ok(()));
    let note = &retention.note;
    let next = reader.segments.with_ordinal(note.last_ordinal.saturating_add(1));
    let is_there = next.is_some_and(|next| {
        Some(next.header.base_seq) == note.last_seq.checked_add(1)
            && Some(next.header.prev_chain) == note.chain()
    });
    if !is_there {
        let message = format!(
            "record {} notes a prune up to record {}, but no segment begins behind it; nothing was \
             removed",
            retention.seq, note.last_seq
        );
        return Err(Error::new(ErrorKind::Corrupt, message).at_path(&reader.segments.folder));
    }
    note.anchors.iter().try_for_each(|anchor| reader.check_anchor(anchor))
}

impl LogReader {
    /// The snapshots that go with the records up to `last_seq`: those below it, and before them those
    /// that are based on one of them.
    ///
    /// # Errors
    /// `Io`.
    pub fn stale_snapshots(&self, last_seq: u64) -> Result<Vec<PathBuf>> {
        let list = list_snapshots(&*self.storage, self.dir())?;
        let (below, behind): (Vec<_>, Vec<_>) =
            list.names.into_iter().partition(|name| name.seq < last_seq);
        let path = |name: &SnapshotName| list.folder.join(name.to_string());
        let mut stale: Vec<_> = below.iter().map(path).collect();
        let mut gone: BTreeSet<_> = below.into_iter().collect();
        // None is based on a later one, and without one below there is nothing left to do.
        for name in if gone.is_empty() { Vec::new() } else { behind } {
            // One that cannot be read is of no use, and in nobody's way.
            let header = self.snapshot_folder().header(&name).ok().flatten();
            let base = header.and_then(|header| header.base_name());
            if base.is_some_and(|base| gone.contains(&base) && !bug!(PruneLeavesBased)) {
                stale.insert(0, path(&name));
                gone.insert(name);
            }
        }
        Ok(stale)
    }

    /// Check the file of an anchor: its sums, that it fits the log, that it is the one that was
    /// noted. Whether its state is the one that it says only folding shows.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check_anchor(&self, anchor: &Anchor) -> Result<()> {
        let folder = Layout::new(self.dir()).snapshots();
        let bad = |what: &str| {
            let message = format!("{what}; it is an anchor, which the pruned log stands on");
            Error::new(ErrorKind::Corrupt, message).at_path(&folder.join(&anchor.file))
        };
        let name = anchor.name().ok_or_else(|| bad("this is no name of a snapshot"))?;
        let header = self.open_snapshot(&name)?.check()?;
        if header.base.is_some() {
            return Err(bad("it is based on another snapshot"));
        }
        if Anchor::of(&header) != *anchor {
            return Err(bad("the snapshot is not the one that was noted"));
        }
        Ok(())
    }
}

impl Engine {
    /// Remove what a durable note covers.
    pub(super) fn remove_pruned(&self, retention: &Retention) -> Result<Removal> {
        self.expect_writer()?;
        if retention.seq > self.lock().durable.ack.seq {
            let message = format!("the retention note {} is not durable yet", retention.seq);
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        *self.retention.lock().unwrap_or_else(PoisonError::into_inner) = Some(retention.clone());
        remove_covered(&self.reader()?, retention)
    }
}

/// Go on with a prune that was cut short.
pub(super) fn resume(
    storage: &Arc<dyn Storage>,
    layout: &Layout,
    retention: &Retention,
) -> Result<Removal> {
    let reader = LogReader::view(storage, layout, Superseded::Windowed, Some(retention))?;
    remove_covered(&reader, retention)
}
