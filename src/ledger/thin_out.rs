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
/// Nothing is removed while the newest prune is one that HEAD does not vouch for: its note may be
/// gone after the next crash, and then the log stands on the anchors of the note before.
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
    if reader.retention().is_some_and(|note| note.seq > durable) {
        return Ok(());
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::ledger::{Ledger, LedgerView, Through};
    use crate::plan::{Plan, RunPolicy, State, Step};
    use crate::sim::{Effect, Failure, Loss, Operation, OsError, Rule, SimDisk};

    /// Goal: the anchors that a pruned log stands on are there whatever becomes of the next prune.
    /// Story: a prune wrote its note, whose sync failed. The thread that makes snapshots went by the
    /// note all the same, since it could be read, and removed the anchors of the prune before. The
    /// power went, and the second note with it: no state could be folded from what was left.
    #[test]
    fn a_note_that_is_not_durable_costs_the_one_before_no_anchor() {
        let (disk, dir) = (SimDisk::new(), Path::new("/ledger"));
        let environment = crate::lab::environment(&disk);
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
        ledger.prune(Through::Record(older), None, "ana").unwrap();
        let next = snapshot(100);
        snapshot(3);
        let newest = disk.files(&dir.join("log")).pop().unwrap();
        let failure = Failure::Error(OsError::Io, Effect::Nothing);
        disk.inject(Rule::next(failure).of(Operation::Sync).on(newest));
        ledger.prune(Through::Record(next), None, "ana").unwrap_err();

        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let reader = LogReader::open(&storage, dir).unwrap();
        let head = reader.head().unwrap().durable_seq;
        assert!(reader.retention().unwrap().seq > head, "the note can be read, and is not durable");
        thin_out::<State>(&*storage, &reader, Spacing::of(1024)).unwrap();
        disk.sync_dir(&dir.join("snap")).unwrap();
        drop(ledger);
        disk.lose_power(Loss::Everything);

        drop(Ledger::open(dir, &environment).unwrap());
        let view = LedgerView::open(dir, &environment).unwrap();
        assert!(view.log().first_seq() > 1);
        for seq in [older, newer] {
            assert_eq!(view.state_at(seq).unwrap().seq, seq);
        }
    }
}
