//! Removes old snapshots. It keeps full snapshots, small deltas, the newest two of a projection,
//! the newest two made on request, the anchors of a pruned log, and the bases of all of these.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{LogReader, list_snapshots};
use crate::storage::Storage;

use crate::ledger::projection::Projection;

use super::intervals::SnapshotIntervals;
use super::load::is_supported;

/// How many of a projection's newest snapshots are kept at any record, and how many of those made
/// on request.
const NEWEST_KEPT: usize = 2;
/// A delta snapshot is kept if its file has at most this many bytes for each record of its span: an
/// eighth of the size of the records.
const KEPT_BYTES_PER_RECORD: u64 = 64;

/// Remove the snapshots of a projection that need not be kept. `reader` must be newer than the last
/// prune.
///
/// Nothing is removed while the newest retention note is not durable according to HEAD: it may be lost
/// in the next crash, and then the log needs the anchors of the previous note.
///
/// # Errors
/// `Io`.
pub(crate) fn remove_old_snapshots<P: Projection>(
    storage: &dyn Storage,
    reader: &LogReader,
    intervals: SnapshotIntervals,
) -> Result<()> {
    let list = list_snapshots(storage, reader.dir())?;
    // Ignore snapshots after the durable end of the log.
    let durable = reader.head().map_or(u64::MAX, |head| head.durable_seq);
    if reader.retention().is_some_and(|note| note.seq > durable) {
        return Ok(());
    }
    let is_candidate = |name: &&SnapshotName| is_supported::<P>(name) && name.seq <= durable;
    let names: Vec<_> = list.names.iter().filter(is_candidate).rev().collect();
    let from = names.get(NEWEST_KEPT).map_or(0, |name| intervals.recheck_from(name.seq));
    let (mut old, mut unread) = removable(reader, intervals, &names, from);
    if old.iter().any(|(name, _)| name.seq < from) {
        // Earlier snapshots were made at other intervals: any of them may be a base.
        (old, unread) = removable(reader, intervals, &names, 0);
    }
    let (folder, mut bases) = (&list.folder, BTreeSet::new());
    for (name, base) in old {
        if bases.contains(name) {
            // Remove a base only after the removal of the snapshots based on it is durable.
            let io = |error| Error::io("sync the folder", folder, error);
            storage.sync_dir(folder).map_err(io)?;
        }
        let path = folder.join(name.to_string());
        storage.remove(&path).map_err(|error| Error::io("remove an old snapshot", &path, error))?;
        bases.extend(base);
    }
    unread.map_or(Ok(()), Err)
}

/// A snapshot to remove, and its base.
type Removable<'a> = (&'a SnapshotName, Option<SnapshotName>);

/// The snapshots to remove, newest first, and the first error. Full snapshots and deltas before
/// record `from` are skipped.
fn removable<'a>(
    reader: &LogReader,
    intervals: SnapshotIntervals,
    names: &[&'a SnapshotName],
    from: u64,
) -> (Vec<Removable<'a>>, Option<Error>) {
    let is_anchor = |name| reader.retention().is_some_and(|retention| retention.is_anchor(name));
    let (mut bases, mut base_seqs, mut requested) = (BTreeSet::new(), BTreeSet::new(), 0);
    let (mut old, mut unread) = (Vec::new(), None);
    for (age, name) in names.iter().copied().enumerate() {
        let (is_full, is_delta) = (intervals.is_full(name.seq), intervals.is_delta(name.seq));
        if name.seq < from && (is_full || is_delta) {
            continue;
        }
        let header = match reader.snapshot_folder().header(name) {
            Ok(header) => header,
            Err(error) => {
                // Keep a snapshot that cannot be read, and its possible bases.
                base_seqs.extend(intervals.bases(name.seq));
                unread = unread.or(Some(error));
                continue;
            }
        };
        let is_requested = !is_full && !is_delta;
        requested += usize::from(is_requested);
        let is_small = || {
            let length = header.as_ref().and_then(SnapshotHeader::file_length);
            let most = KEPT_BYTES_PER_RECORD.saturating_mul(intervals.span(name.seq));
            is_delta && length.is_some_and(|length| length <= most)
        };
        let is_new = age < NEWEST_KEPT || (is_requested && requested <= NEWEST_KEPT);
        let is_base = bases.contains(name) || base_seqs.contains(&name.seq);
        if is_new || is_full || is_anchor(name) || is_base || is_small() {
            mutant!(BaseSnapshotRemoved => continue);
            bases.extend(header.and_then(|header| header.base_name()));
        } else {
            old.push((name, header.and_then(|header| header.base_name())));
        }
    }
    (old, unread)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::ledger::{Ledger, LedgerView, RetentionLimit};
    use crate::plan::{Plan, RunPolicy, State, Step};
    use crate::sim::{FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk};

    /// Goal: the anchors of a pruned log survive every outcome of the next prune. Story: the sync
    /// of a retention note failed. The snapshot thread could read the note, trusted it, and removed
    /// the anchors of the previous prune. After a power loss the note was gone, and no state could
    /// be folded from the rest.
    #[test]
    fn retention_note_that_is_not_durable_removes_no_older_anchor() {
        let (disk, dir) = (SimDisk::new(), Path::new("/ledger"));
        let environment = crate::sim::environment(&disk);
        let ledger = Ledger::create(dir, &environment).unwrap();
        let step = Step { id: "a".to_owned(), ..Step::default() };
        let plan = Plan { steps: vec![step], ..Plan::default() };
        let mut runs = 0..;
        let mut snapshot = |count| {
            for _ in 0..count {
                let name = format!("run-{}", runs.next().unwrap_or_default());
                ledger.start_run(&name, &plan, RunPolicy::default()).unwrap();
            }
            ledger.snapshot::<State>().unwrap().seq
        };
        let older = snapshot(100);
        let newer = snapshot(3);
        ledger.prune(RetentionLimit::Record(older), None, "ana").unwrap();
        let next = snapshot(100);
        snapshot(3);
        let newest = disk.files(&dir.join("log")).pop().unwrap();
        let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure).of(Operation::Sync).on(newest));
        ledger.prune(RetentionLimit::Record(next), None, "ana").unwrap_err();

        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let reader = LogReader::open(&storage, dir).unwrap();
        let head = reader.head().unwrap().durable_seq;
        assert!(reader.retention().unwrap().seq > head, "the note is readable but not durable");
        remove_old_snapshots::<State>(&*storage, &reader, SnapshotIntervals::new(1024)).unwrap();
        disk.sync_dir(&dir.join("snap")).unwrap();
        drop(ledger);
        disk.lose_power(Loss::Everything);

        drop(Ledger::open_with(dir, &environment).unwrap());
        let view = LedgerView::open(dir, &environment).unwrap();
        assert!(view.log().first_seq() > 1);
        for seq in [older, newer] {
            assert_eq!(view.state_at(seq).unwrap().seq, seq);
        }
    }
}
