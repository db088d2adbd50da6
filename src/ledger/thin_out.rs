//! Which snapshots are kept: those on the ladder, the newest, and those that a pruned log stands on.
//!
//! Left out on purpose: when they are made (`ladder` says).

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::SnapshotName;
use crate::log::{LogReader, list_snapshots};
use crate::storage::{Access, Storage};

use super::projection::Projection;
use super::snapshots::is_read;

/// So many of a projection's newest snapshots are kept, on the ladder or not.
const KEPT: usize = 2;
/// A file up to so many bytes is kept on a step between two rungs, too: about half of what the
/// records between two steps take.
const SPARING: u64 = 2 << 20;

/// How far apart the snapshots are that are kept, in records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spacing {
    /// Those of any size.
    pub(super) rungs: u64,
    /// Those that are small.
    pub(super) steps: u64,
}

/// Remove the snapshots of a projection that are neither on the ladder nor the newest, and that
/// no pruned log stands on. `reader` must know of every prune.
///
/// # Errors
/// `Io`.
pub(super) fn thin_out<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    ladder: Spacing,
) -> Result<()> {
    let list = list_snapshots(storage, reader.dir())?;
    let is_ours = |name: &&SnapshotName| is_read::<P>(name);
    let is_anchor = |name| reader.retention().is_some_and(|retention| retention.is_anchor(name));
    for name in list.names.iter().filter(is_ours).rev().skip(KEPT) {
        let path = list.folder.join(name.to_string());
        let is_step = name.seq.is_multiple_of(ladder.steps);
        if name.seq.is_multiple_of(ladder.rungs)
            || is_anchor(name)
            || (is_step && is_sparing(storage, &path)?)
        {
            continue;
        }
        storage.remove(&path).map_err(|error| Error::io("remove an old snapshot", &path, error))?;
    }
    Ok(())
}

fn is_sparing(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let length = storage.open(path, Access::Read).and_then(|file| file.length());
    length
        .map(|length| length <= SPARING)
        .map_err(|error| Error::io("measure an old snapshot", path, error))
}
