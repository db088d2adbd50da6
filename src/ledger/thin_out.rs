//! Which snapshots are kept: those on the ladder, the newest, those that a pruned log stands on, and
//! those that any of these is based on.
//!
//! Left out on purpose: when they are made (`ladder` says).

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{LogReader, list_snapshots};
use crate::storage::Storage;

use super::load::is_read;
use super::projection::Projection;
use super::spacing::Spacing;

/// So many of a projection's newest snapshots are kept, on the ladder or not.
const KEPT: usize = 2;
/// A file is kept at a step between two rungs, too, if it has no more bytes for each record of its
/// reach: an eighth of what the records take.
const SPARING: u64 = 64;

/// Remove the snapshots of a projection that are neither on the ladder nor the newest, and that
/// no pruned log stands on. `reader` must know of every prune.
///
/// # Errors
/// `Io`.
pub(super) fn thin_out<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    spacing: Spacing,
) -> Result<()> {
    let list = list_snapshots(storage, reader.dir())?;
    let is_ours = |name: &&SnapshotName| is_read::<P>(name);
    let is_anchor = |name| reader.retention().is_some_and(|retention| retention.is_anchor(name));
    let names: Vec<_> = list.names.iter().filter(is_ours).rev().collect();
    let unsettled = names.first().map_or(0, |newest| spacing.unsettled(newest.seq));
    let (mut bases, mut old) = (BTreeSet::new(), Vec::new());
    for (age, name) in names.into_iter().enumerate() {
        let is_step = spacing.is_between(name.seq);
        if spacing.is_rung(name.seq) || (is_step && name.seq < unsettled) {
            continue;
        }
        let header = reader.snapshot_header(name)?;
        let is_sparing = || {
            let length = header.as_ref().and_then(SnapshotHeader::file_length).unwrap_or(0);
            is_step && length <= SPARING.saturating_mul(spacing.reach(name.seq))
        };
        if age < KEPT || is_anchor(name) || bases.contains(name) || is_sparing() {
            bug!(BaseThinnedOut => continue);
            bases.extend(header.and_then(|header| header.base_name()));
        } else {
            old.push(list.folder.join(name.to_string()));
        }
    }
    let remove = |path: &PathBuf| {
        storage.remove(path).map_err(|error| Error::io("remove an old snapshot", path, error))
    };
    old.iter().try_for_each(remove)
}
