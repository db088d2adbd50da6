//! What the writer of the state's snapshots keeps from one to the next: a snapshot then costs the records
//! and the leaves that changed since the last one.
//!
//! Invariants:
//! - A snapshot is the same with kept states as without them.
//! - A kept state belongs to the log, or is not used; no snapshot is based on a file that is no longer
//!   the one that was written.

use std::io;

use crate::error::{Error, Result};
use crate::format::{SnapshotBase, SnapshotHeader, SnapshotName};
use crate::log::{LogReader, SnapshotNote};
use crate::plan::State;
use crate::storage::Storage;

use super::load::{is_noted, load};
use super::state_body::{self, Base};
use super::store::{
    BodyWriter, Projected, SnapshotGuard, Validation, continue_to, project_at_with, write,
};

/// The state of the last snapshot, from which a fold continues and whose leaves keep their hashes, and
/// the bases of later ones.
#[derive(Debug, Default)]
pub(crate) struct KeptStates {
    last: Option<Projected<State>>,
    /// The snapshots that later ones may be based on.
    bases: Vec<KeptBase>,
}

#[derive(Debug)]
struct KeptBase {
    name: SnapshotName,
    state_hash: [u8; 32],
    base: Base,
}

impl KeptBase {
    /// Whether the file of the snapshot still is what it was when it was written.
    fn is_in(&self, reader: &LogReader) -> bool {
        let header = reader.snapshot_folder().header(&self.name).ok().flatten();
        header.is_some_and(|header| header.state_hash == self.state_hash)
    }
}

/// A snapshot to make.
#[derive(Debug)]
pub(crate) struct Due<'a> {
    /// Its record.
    pub(crate) seq: u64,
    /// The snapshots that it may be based on, the best first.
    pub(crate) bases: &'a [SnapshotName],
    /// The records of the snapshots up to this one that later ones may be based on.
    pub(crate) later_bases: &'a [u64],
}

impl KeptStates {
    /// Make a durable snapshot of the state, based on the first of its bases that is usable, and its
    /// note. The bytes of runs and leaves that did not change since an older snapshot was read are
    /// copied after a check of their hash.
    ///
    /// # Errors
    /// Those of folding and writing; no file remains after an error.
    pub(crate) fn make(
        &mut self,
        storage: &dyn Storage,
        reader: &LogReader,
        due: &Due<'_>,
        guard: &SnapshotGuard<'_>,
    ) -> Result<(SnapshotNote, Vec<Error>)> {
        let seq = due.seq;
        let continued = match self.last.take().filter(|last| last.seq < seq) {
            Some(last) => continue_to(reader, seq, last)?.filter(|last| last.seq == seq),
            None => None,
        };
        let mut projected = match continued {
            Some(projected) => projected,
            // Full validation would decompress every run of the ledger.
            None => project_at_with::<State>(reader, seq, Validation::Deferred)?,
        };
        let mut ignored = std::mem::take(&mut projected.ignored);
        self.bases.retain(|kept| kept.is_in(reader));
        let base = self.base(reader, due.bases, &mut ignored);
        let body = |out: &mut dyn io::Write| match base {
            None => Ok(()),
            Some(kept) => state_body::encode(&projected.value, &kept.base, out),
        };
        let body: &BodyWriter<'_> = &body;
        let based = base
            .map(|kept| (SnapshotBase { seq: kept.name.seq, state_hash: kept.state_hash }, body));
        let (header, _) = write(storage, reader, &projected, based, guard)?;
        if due.later_bases.contains(&seq) {
            let (name, state_hash) = (header.name(), header.state_hash);
            self.bases.push(KeptBase { name, state_hash, base: Base::of(&projected.value) });
        }
        self.bases.retain(|kept| due.later_bases.contains(&kept.name.seq));
        self.last = Some(projected);
        Ok((SnapshotNote::of(&header), ignored))
    }

    /// The first usable one of these snapshots; it is kept. `ignored` gets the errors of the others.
    fn base(
        &mut self,
        reader: &LogReader,
        names: &[SnapshotName],
        ignored: &mut Vec<Error>,
    ) -> Option<&KeptBase> {
        for name in names.iter().filter(|name| is_noted(reader, name)) {
            if self.bases.iter().any(|kept| kept.name == *name) {
                return self.bases.iter().find(|kept| kept.name == *name);
            }
            match load::<State>(reader, name) {
                Ok((state, SnapshotHeader { state_hash, .. })) => {
                    let (name, base) = (name.clone(), Base::of(&state));
                    self.bases.push(KeptBase { name, state_hash, base });
                    return self.bases.last();
                }
                Err(error) => ignored.push(error),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::ledger::snapshot::store::SnapshotLock;
    use crate::ledger::{Environment, Ledger, open};
    use crate::plan::{Plan, Receipt, RunId, RunPolicy, Step};
    use crate::sim::SimDisk;

    const DIR: &str = "/ledger";

    /// A ledger with one run of three leaves.
    fn ledger() -> (SimDisk, Environment) {
        let disk = SimDisk::new();
        let environment = crate::sim::environment(&disk);
        let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
        let plan = Plan { steps: (0..150).map(step).collect(), ..Plan::default() };
        let ledger = Ledger::create(Path::new(DIR), &environment).unwrap();
        ledger.start_run("run", &plan, RunPolicy::default()).unwrap();
        ledger.close().unwrap();
        (disk, environment)
    }

    /// Do some steps of the run, and return the last record.
    fn work(environment: &Environment) -> u64 {
        let (ledger, _) = Ledger::open_with(Path::new(DIR), environment).unwrap();
        for _ in 0..10 {
            let task = ledger.dispatch(RunId(1), "w").unwrap().unwrap();
            ledger.record_receipt(task.token, Receipt::default()).unwrap();
        }
        let last = ledger.head().seq;
        ledger.close().unwrap();
        last
    }

    /// Make a snapshot, and return its header and the errors of those that it is not based on.
    fn make(disk: &SimDisk, kept: &mut KeptStates, due: &Due<'_>) -> (SnapshotHeader, Vec<Error>) {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let reader = LogReader::open(&storage, Path::new(DIR)).unwrap();
        let lock = SnapshotLock::default();
        let (note, ignored) = kept.make(&*storage, &reader, due, &lock.lock()).unwrap();
        let names = reader.snapshot_folder().list().unwrap().names;
        let name = names.into_iter().rfind(|name| name.seq == note.seq).unwrap();
        (reader.snapshot_folder().header(&name).unwrap().unwrap(), ignored)
    }

    fn note(environment: &Environment, header: &SnapshotHeader) {
        let (engine, _) = open::open(Path::new(DIR), environment).unwrap();
        engine.append_note(SnapshotNote::of(header).record(), None).unwrap();
        engine.close().unwrap();
    }

    fn bytes(disk: &SimDisk, name: &SnapshotName) -> Vec<u8> {
        disk.read(&Path::new(DIR).join("snap").join(name.to_string())).unwrap()
    }

    /// Goal: a snapshot that continues from kept states has the bytes of one that is made from the
    /// files alone, whatever it is based on.
    #[test]
    fn snapshot_from_kept_states_equals_one_from_files() {
        let (disk, environment) = ledger();
        let mut kept = KeptStates::default();
        let mut names: Vec<SnapshotName> = Vec::new();
        for round in 0..8_usize {
            let seq = work(&environment);
            // Each third snapshot is whole, and the others are based on the last one or that.
            let whole = round / 3 * 3;
            let near = names.get(round.saturating_sub(1)..).unwrap_or_default();
            let far = names.get(whole..whole + 1).unwrap_or_default();
            let bases = if round == whole { Vec::new() } else { [near, far].concat() };
            let later = [Some(seq), far.first().map(|name| name.seq)];
            let later: Vec<u64> = later.into_iter().flatten().collect();
            let due = Due { seq, bases: &bases, later_bases: &later };
            let fresh = disk.fork();
            let (header, ignored) = make(&disk, &mut kept, &due);
            assert!(ignored.is_empty(), "{ignored:?}");
            assert_eq!(make(&fresh, &mut KeptStates::default(), &due).0, header, "{round}");
            let name = header.name();
            assert_eq!(bytes(&fresh, &name), bytes(&disk, &name), "{round}");
            assert_eq!(header.base_name().as_ref(), bases.first(), "{round}");
            assert!(kept.bases.len() <= 2, "{}", kept.bases.len());
            note(&environment, &header);
            names.push(name);
        }
    }

    /// Goal: a kept base is used only while its file is the one that was written.
    #[test]
    fn damaged_base_is_not_used_although_it_is_kept() {
        let (disk, environment) = ledger();
        let mut kept = KeptStates::default();
        let first = work(&environment);
        let due = Due { seq: first, bases: &[], later_bases: &[first] };
        let base = make(&disk, &mut kept, &due).0;
        note(&environment, &base);
        let bases = [base.name()];
        let based = Due { seq: work(&environment), bases: &bases, later_bases: &[first] };
        assert!(make(&disk.fork(), &mut KeptStates::default(), &based).0.base.is_some());
        let file = disk.open(
            &Path::new(DIR).join("snap").join(bases[0].to_string()),
            crate::storage::Access::ReadWrite,
        );
        file.unwrap().write_at(&[0xFF; 64], 0).unwrap();
        let (header, ignored) = make(&disk, &mut kept, &based);
        assert_eq!((header.base, ignored.len()), (None, 1));
    }
}
