//! Which snapshots are kept: those on the ladder, the newest, those that a pruned log stands on, and
//! those that any of these is based on.
//!
//! Left out on purpose: when they are made (`ladder` says).

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{LogReader, list_snapshots};
use crate::storage::Storage;

use super::load::is_read;
use super::projection::Projection;
use super::spacing::Spacing;

/// So many of a projection's newest snapshots are kept, on the ladder or not, and so many of those that
/// somebody asked for.
const KEPT: usize = 2;
/// A file is kept at a step between two rungs, too, if it has no more bytes for each record of its
/// reach: an eighth of what the records take.
const SPARING: u64 = 64;

/// Remove the snapshots of a projection that are neither on the ladder nor the newest, that no pruned
/// log stands on, and that none of these is based on. `reader` must know of every prune.
///
/// # Errors
/// `Io`.
pub(super) fn thin_out<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    spacing: Spacing,
) -> Result<()> {
    let list = list_snapshots(storage, reader.dir())?;
    // What does not fit the log says nothing about what does.
    let durable = reader.head().map_or(u64::MAX, |head| head.durable_seq);
    let is_ours = |name: &&SnapshotName| is_read::<P>(name) && name.seq <= durable;
    let names: Vec<_> = list.names.iter().filter(is_ours).rev().collect();
    let settled = names.get(KEPT).map_or(0, |name| spacing.unsettled(name.seq));
    let (mut old, mut unread) = of_no_use(reader, spacing, &names, settled);
    if old.iter().any(|(name, _)| name.seq < settled) {
        // Somebody spaced them otherwise before: any may be based on any.
        (old, unread) = of_no_use(reader, spacing, &names, 0);
    }
    let (folder, mut bases) = (&list.folder, BTreeSet::new());
    for (name, base) in old {
        if bases.contains(name) {
            // No base goes before what is based on it has gone for good.
            let io = |error| Error::io("sync the folder", folder, error);
            storage.sync_dir(folder).map_err(io)?;
        }
        let path = folder.join(name.to_string());
        storage.remove(&path).map_err(|error| Error::io("remove an old snapshot", &path, error))?;
        bases.extend(base);
    }
    unread.map_or(Ok(()), Err)
}

/// A snapshot that may go, and what it is based on.
type Old<'a> = (&'a SnapshotName, Option<SnapshotName>);

/// Those that may go, newest first, and why another could not be looked at. Steps before record
/// `settled` were looked at before.
fn of_no_use<'a>(
    reader: &LogReader,
    spacing: Spacing,
    names: &[&'a SnapshotName],
    settled: u64,
) -> (Vec<Old<'a>>, Option<Error>) {
    let is_anchor = |name| reader.retention().is_some_and(|retention| retention.is_anchor(name));
    let (mut bases, mut places, mut asked) = (BTreeSet::new(), BTreeSet::new(), 0);
    let (mut old, mut unread) = (Vec::new(), None);
    for (age, name) in names.iter().copied().enumerate() {
        let (is_rung, is_step) = (spacing.is_rung(name.seq), spacing.is_between(name.seq));
        if name.seq < settled && (is_rung || is_step) {
            continue;
        }
        let header = match reader.snapshot_folder().header(name) {
            Ok(header) => header,
            Err(error) => {
                // It stays while it cannot be read, and so does what it may be based on.
                places.extend(spacing.bases(name.seq));
                unread = unread.or(Some(error));
                continue;
            }
        };
        let is_asked = !is_rung && !is_step;
        asked += usize::from(is_asked);
        let is_sparing = || {
            let length = header.as_ref().and_then(SnapshotHeader::file_length);
            let most = SPARING.saturating_mul(spacing.reach(name.seq));
            is_step && length.is_some_and(|length| length <= most)
        };
        let is_new = age < KEPT || (is_asked && asked <= KEPT);
        let is_base = bases.contains(name) || places.contains(&name.seq);
        if is_new || is_rung || is_anchor(name) || is_base || is_sparing() {
            bug!(BaseThinnedOut => continue);
            bases.extend(header.and_then(|header| header.base_name()));
        } else {
            old.push((name, header.and_then(|header| header.base_name())));
        }
    }
    (old, unread)
}
