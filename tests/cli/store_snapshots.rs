//! Snapshots in a store: which ones a writer uploads, and that nothing depends on them. Whatever is missing, damaged
//! or of other records, the state at every record is the one that the log has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::format::{Chain, SnapshotHeader, SnapshotName};
use plan_ledger::internals::ledger::{RetentionLimit, VerifyReport};
use plan_ledger::internals::sim::{Loss, SimDisk, SimStore, StoreFate};
use plan_ledger::internals::storage::{Storage, StorageFile};
use plan_ledger::internals::store::{
    AckMode, COLLECT_AFTER, MemoryFile, MonotonicClock, Objects, RemovableClass, RemovableObject,
    SideCar, StoreKeeper, StoreOpening, StoreStorage, bound_ledger, open_bound, read_in_place,
    read_parts_in_place, restore,
};
use plan_ledger::log::SnapshotFolder;
use plan_ledger::plan::ContentHash;
use plan_ledger::{
    Environment, Error, ErrorKind, Ledger, LedgerView, Plan, RunPolicy, State, Step, state_hash,
};

use super::lab::dir;
use super::snapshots::{opened, replayed};
use super::store_folder::{client, node};
use super::store_retention::{DAY, bound, carry_out, notes, of_class, plan, prune_plan, quiet};

/// Open the ledger of a folder in a mode.
fn bound_with(
    disk: &SimDisk,
    store: &SimStore,
    number: u8,
    ack: AckMode,
) -> (Ledger, Arc<StoreKeeper>) {
    let environment = quiet(disk);
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let time = environment.clock.now();
    let opening = StoreOpening { ack, node: node(number), time, clock };
    let bound = open_bound(&dir(), environment.log_options(), &client(store), &opening).unwrap();
    let keeper = bound.keeper.clone();
    (Ledger::of_log(bound.log, &bound.recovery, &environment).unwrap().0, keeper)
}

/// The snapshots in a store.
fn stored(store: &SimStore) -> Vec<String> {
    store.names().into_iter().filter(|name| name.starts_with("snap/")).collect()
}

fn seq_of(name: &str) -> u64 {
    SnapshotName::parse(name.trim_start_matches("snap/")).unwrap().seq
}

/// The snapshots of a folder, as a store would name them.
fn own(disk: &SimDisk) -> Vec<String> {
    let list = SnapshotFolder::of(disk, &dir()).list().unwrap();
    list.names.iter().map(|name| format!("snap/{name}")).collect()
}

fn start_run(ledger: &Ledger, name: &str) {
    let step = Step { id: "a".to_owned(), ..Step::default() };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    ledger.start_run(name, &plan, RunPolicy::default()).unwrap();
}

/// A closed ledger in a store that has so many snapshots, with records between them and after the last one. Objects
/// are created at different times.
fn history(count: usize) -> (SimDisk, SimStore) {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = bound(&disk, &store.handle(), 1);
    for number in 0..count {
        start_run(&ledger, &format!("run {number}"));
        notes(&ledger, 16);
        ledger.snapshot::<State>().unwrap();
        store.advance(1);
        keeper.upload_segments().unwrap();
    }
    notes(&ledger, 3);
    ledger.close().unwrap();
    assert_eq!(stored(&store).len(), count);
    (disk, store)
}

/// The ledger in a store, whose path is that of the folder.
fn in_place(store: &SimStore, is_part: bool) -> Result<StoreStorage, Error> {
    let disk = SimDisk::new();
    let options = quiet(&disk).log_options();
    let mut new_file = |_: u64| {
        let file: Arc<dyn StorageFile> = Arc::new(MemoryFile::default());
        Ok(file)
    };
    let read = if is_part { read_parts_in_place } else { read_in_place };
    read(&dir(), &options, &client(&store.handle()), &mut new_file)
}

fn view_of(storage: StoreStorage) -> (LedgerView, Environment) {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let environment = Environment { storage, ..quiet(&SimDisk::new()) };
    (LedgerView::open(&dir(), &environment).unwrap(), environment)
}

fn view(store: &SimStore) -> LedgerView {
    view_of(in_place(store, false).unwrap()).0
}

/// What the most thorough verification of the ledger in a store finds.
fn verified(store: &SimStore) -> VerifyReport {
    replayed(&view_of(in_place(store, false).unwrap()).1)
}

/// The record of the snapshot from which a reader of the store folds; 1 without one.
fn folded_from(store: &SimStore) -> u64 {
    view(store).fold_recent().unwrap().read_from()
}

/// The state hash at every record.
fn hashes(view: &LedgerView) -> BTreeMap<u64, ContentHash> {
    let last = view.log().head().unwrap().durable_seq;
    (1..=last).map(|seq| (seq, state_hash(&view.state_at(seq).unwrap()))).collect()
}

/// The same without snapshots: everything is folded from the start.
fn truth(store: &SimStore) -> BTreeMap<u64, ContentHash> {
    let bare = store.fork();
    for name in stored(&bare) {
        bare.tamper(&name, None);
    }
    hashes(&view(&bare))
}

/// A folder that is restored, and the record of the snapshot from which it is opened, with the state hash.
fn restored(store: &SimStore) -> (SimDisk, Option<u64>, ContentHash) {
    let disk = SimDisk::new();
    restore(&dir(), quiet(&disk).log_options(), &client(&store.handle()), &mut |_| ()).unwrap();
    disk.lose_power(Loss::Everything);
    // As a copy that may be written alone.
    let copy = disk.fork();
    copy.remove(&dir().join("STORE.json")).unwrap();
    let (hash, from, _) = opened(&copy, &quiet(&copy));
    (disk, from, hash)
}

/// Goal: each snapshot of the folder goes to the store, the oldest first and one at a time. A reader of the store has
/// the same state at every record as without them, and its verification checks all of them.
#[test]
fn stored_snapshots_lead_to_the_same_states() {
    let (disk, store) = history(5);
    assert!(own(&disk).iter().all(|name| stored(&store).contains(name)));
    for name in own(&disk) {
        let file = name.trim_start_matches("snap/");
        assert_eq!(store.peek(&name), disk.read(&dir().join("snap").join(file)).ok());
    }
    let truth = truth(&store);
    assert_eq!(hashes(&view(&store)), truth);
    let report = verified(&store);
    assert_eq!((report.snapshots, report.log.findings.len()), (5, 0), "{:?}", report.log.findings);
    assert_eq!(report.state.map(|(_, hash)| hash), truth.values().last().copied());
    assert_eq!(folded_from(&store), seq_of(&stored(&store)[4]));
    // Each alone is enough.
    for kept in stored(&store) {
        let one = store.fork();
        for name in stored(&store).iter().filter(|name| **name != kept) {
            one.tamper(name, None);
        }
        assert_eq!(hashes(&view(&one)), truth, "{kept}");
        assert_eq!(folded_from(&one), seq_of(&kept));
        assert_eq!(verified(&one).snapshots, 1);
    }
    // A reader of few records lists them when it needs them.
    assert_eq!(hashes(&view_of(in_place(&store, true).unwrap()).0), truth);
}

/// Goal: a snapshot goes to the store only after its note, and so after its records; in every mode, and for a side-car.
#[test]
fn snapshot_is_uploaded_after_its_note() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = bound_with(&disk, &store.handle(), 1, AckMode::Local);
    notes(&ledger, 20);
    keeper.ship().unwrap();
    // Its records are in the store, and its note is not.
    ledger.snapshot::<State>().unwrap();
    keeper.upload_segments().unwrap();
    assert_eq!((own(&disk).len(), stored(&store)), (1, vec![]));
    // Nor are the records of the second one.
    notes(&ledger, 20);
    ledger.snapshot::<State>().unwrap();
    keeper.upload_segments().unwrap();
    assert_eq!(stored(&store), Vec::<String>::new());
    assert_eq!(verified(&store).log.findings.len(), 0);
    keeper.ship().unwrap();
    for count in 1..=3 {
        keeper.upload_segments().unwrap();
        assert_eq!(stored(&store).len(), count.min(2));
        assert_eq!(verified(&store).log.findings.len(), 0);
    }
    assert_eq!(stored(&store), own(&disk));
    ledger.close().unwrap();

    let (disk, store) = (SimDisk::new(), SimStore::new());
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    notes(&ledger, 20);
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let opening = StoreOpening { ack: AckMode::Local, node: node(7), time: 1_000, clock };
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut car = SideCar::open(&dir(), &storage, &client(&store.handle()), &opening).unwrap();
    car.ship().unwrap();
    ledger.snapshot::<State>().unwrap();
    car.upload_segments().unwrap();
    assert_eq!(stored(&store), Vec::<String>::new());
    car.ship().unwrap();
    car.upload_segments().unwrap();
    assert_eq!(stored(&store), own(&disk));
    assert_eq!(verified(&store).snapshots, 1);
}

/// Goal: the snapshots of a store have at most 512 bytes for each record. If there is nothing to upload, there is no
/// request, also with a folder that has snapshots.
#[test]
fn bytes_of_stored_snapshots_are_bounded() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = bound(&disk, &store.handle(), 1);
    let process = keeper.clone();
    let upload = || {
        while process.upload_segments().unwrap() > 0 {}
    };
    // A state that is large for so few records.
    for number in 0..120 {
        start_run(&ledger, &format!("run {number}"));
    }
    let mut made = 0;
    for _ in 0..40 {
        notes(&ledger, 2);
        ledger.snapshot::<State>().unwrap();
        made += 1;
        upload();
        let names = stored(&store);
        let (mut before, mut bytes) = (0, 0);
        for name in &names {
            let length = store.peek(name).unwrap().len();
            let records = usize::try_from(seq_of(name) - before).unwrap();
            assert!(length <= 512 * records, "{name}: {length} bytes after {records} records");
            (before, bytes) = (seq_of(name), bytes + length);
        }
        let last = usize::try_from(keeper.end().position.next_seq).unwrap();
        assert!(bytes <= 512 * last, "{bytes} bytes for {last} records");
    }
    let count = stored(&store).len();
    assert!(count >= 2 && count < made / 3, "{count} of {made}");
    let calls = store.names().len();
    upload();
    assert_eq!(store.names().len(), calls);
    ledger.close().unwrap();
    // A process that knows nothing yet lists once, and then asks for nothing.
    let process = store.handle();
    let (ledger, keeper) = bound(&disk, &process, 2);
    keeper.upload_segments().unwrap();
    let before = process.calls();
    keeper.upload_segments().unwrap();
    assert_eq!(process.calls(), before);
    ledger.close().unwrap();
}

/// Goal: whatever becomes of a call while a snapshot is uploaded, the log and its states are the same, the commit after it
/// succeeds, and a later upload finishes. Nothing but whole snapshots is in the store.
#[test]
fn every_fate_of_an_upload_costs_nothing() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, _) = bound(&disk, &store.handle(), 1);
    notes(&ledger, 20);
    ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
    let calm = |disk: &SimDisk, process: &SimStore| {
        let (ledger, keeper) = bound(disk, process, 2);
        let from = process.calls();
        let uploaded = keeper.upload_segments();
        (ledger, keeper, from, uploaded)
    };
    let (process, copy) = (store.fork(), disk.fork());
    let (ledger, _, from, uploaded) = calm(&copy, &process);
    uploaded.unwrap();
    let last = process.calls();
    assert!(stored(&process).len() == 1 && last > from);
    ledger.close().unwrap();
    for call in from + 1..=last {
        for fate in StoreFate::ALL {
            let (store, disk) = (store.fork(), disk.fork());
            let process = store.handle();
            process.set_fate(call, fate);
            let (ledger, keeper, ..) = calm(&disk, &process);
            let story = format!("{fate:?} of call {call}");
            if process.is_dead() {
                drop(ledger);
                disk.kill_process();
            } else {
                notes(&ledger, 1);
                while keeper.upload_segments().unwrap() > 0 {}
                ledger.close().unwrap();
            }
            store.carry_out_all();
            let (ledger, keeper) = bound(&disk, &store.handle(), 3);
            while keeper.upload_segments().unwrap() > 0 {}
            notes(&ledger, 1);
            ledger.close().unwrap();
            assert_eq!(stored(&store), own(&disk), "{story}");
            assert_eq!(hashes(&view(&store)), truth(&store), "{story}");
            let report = verified(&store);
            assert_eq!((report.snapshots, report.log.findings.len()), (1, 0), "{story}");
        }
    }
}

/// Goal: another object under the name of a snapshot stays, and stops neither a later upload nor a commit.
#[test]
fn other_object_of_the_name_stays() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = bound(&disk, &store.handle(), 1);
    notes(&ledger, 20);
    ledger.snapshot::<State>().unwrap();
    let name = own(&disk).remove(0);
    store.create(&name, b"of another program").unwrap();
    // One after the end of the log does not count as the newest.
    store.create("snap/00000000000099999999-state-v1-00000000.snap", b"of the future").unwrap();
    keeper.upload_segments().unwrap();
    assert_eq!(store.peek(&name).unwrap(), b"of another program");
    notes(&ledger, 20);
    ledger.snapshot::<State>().unwrap();
    keeper.upload_segments().unwrap();
    assert_eq!(stored(&store).len(), 3);
    ledger.close().unwrap();
    assert_eq!(hashes(&view(&store)), truth(&store));
    let (_, from, _) = restored(&store);
    assert_eq!(from, own(&disk).last().map(|name| seq_of(name)));
}

/// Goal: a restored folder has the newest valid snapshot and is opened from it. Damage, wherever it is, leads to the next
/// older one; the folder has nothing of it, and verifies.
#[test]
fn restored_folder_opens_from_the_newest_valid_snapshot() {
    let (_, store) = history(3);
    let (names, last) = (stored(&store), truth(&store).into_values().last().unwrap());
    let (disk, from, hash) = restored(&store);
    assert_eq!((from, hash), (Some(seq_of(&names[2])), last));
    assert_eq!(own(&disk), names[2..]);
    assert_eq!(replayed(&quiet(&disk)).log.findings.len(), 0);
    let length = store.peek(&names[2]).unwrap().len();
    for at in [0, 9, 20, 50, 70, 100, 150, 508, 512, 516, length / 2, length - 1] {
        let damaged = store.fork();
        let mut bytes = store.peek(&names[2]).unwrap();
        bytes[at] ^= 0x10;
        damaged.tamper(&names[2], Some(bytes));
        let (disk, from, hash) = restored(&damaged);
        assert_eq!((from, hash), (Some(seq_of(&names[1])), last), "{at}");
        assert_eq!(own(&disk), names[1..2], "{at}");
        assert_eq!(folded_from(&damaged), seq_of(&names[1]), "{at}");
        assert_eq!(hashes(&view(&damaged)).into_values().last(), Some(last), "{at}");
        // A verifier names it. It is derived data.
        let report = verified(&damaged);
        let is_named = |finding: &_| format!("{finding:?}").contains(&names[2]);
        assert!(report.log.findings.iter().any(is_named), "{at}: {:?}", report.log.findings);
        assert_eq!(report.state.map(|(_, hash)| hash), Some(last), "{at}");
    }
    // Without any that is valid, everything is folded.
    let none = store.fork();
    for name in &names {
        none.tamper(name, Some(vec![0; 600]));
    }
    assert_eq!(folded_from(&none), 1);
    let (disk, from, hash) = restored(&none);
    assert_eq!((own(&disk).len(), from, hash), (0, None, last));
    // And another machine takes over.
    let (ledger, _) = bound(&disk, &none.handle(), 2);
    notes(&ledger, 1);
    ledger.close().unwrap();
}

/// Goal: a snapshot of other records, made for this ledger with valid checksums, is believed neither in place nor by a
/// restore, however it is named.
#[test]
fn snapshot_of_other_records_is_not_believed() {
    let (disk, store) = history(2);
    // The same ledger, continued in another way.
    let other = disk.fork();
    other.remove(&dir().join("STORE.json")).unwrap();
    let (ledger, _) = Ledger::open_with(&dir(), &quiet(&other)).unwrap();
    start_run(&ledger, "never was");
    ledger.snapshot::<State>().unwrap();
    let name = own(&other).pop().unwrap();
    let file = name.trim_start_matches("snap/");
    let forged = other.read(&dir().join("snap").join(file)).unwrap();
    ledger.close().unwrap();
    let before = stored(&store);
    let newest = seq_of(before.last().unwrap());
    let (ledger, _) = bound(&disk, &store.handle(), 2);
    notes(&ledger, 9);
    ledger.close().unwrap();
    let truth = truth(&store);
    assert!(seq_of(&name) > newest && truth.contains_key(&seq_of(&name)));
    store.create(&name, &forged).unwrap();
    // The same with the chain value of the log: only a note would show its state.
    let mut header = SnapshotHeader::decode(&forged).unwrap();
    let chain = view(&store).log().record(header.seq).unwrap().unwrap().chain;
    assert_ne!(header.chain, chain);
    header.chain = chain;
    let with_chain = store.fork();
    with_chain.tamper(&name, Some([header.encode(), forged[512..].to_vec()].concat()));
    // And at a record that the log does not have.
    let ahead = store.fork();
    header.seq += 1000;
    header.chain = Chain([7; 32]);
    ahead.tamper(&name, None);
    let far = format!("snap/{}", header.name());
    ahead.create(&far, &[header.encode(), forged[512..].to_vec()].concat()).unwrap();
    for store in [&store, &with_chain, &ahead] {
        assert_eq!((hashes(&view(store)), folded_from(store)), (truth.clone(), newest));
        let (disk, from, hash) = restored(store);
        assert_eq!((from, hash), (Some(newest), *truth.values().last().unwrap()));
        assert_eq!(own(&disk), before[1..]);
        let findings = verified(store).log.findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}

/// Goal: a reader whose listing has a snapshot that a collector deletes meanwhile takes it as one that never was.
#[test]
fn snapshot_that_was_collected_is_no_damage() {
    let (_, store) = history(3);
    let truth = truth(&store);
    let process = store.fork();
    let storage = in_place(&process, false).unwrap();
    for name in &stored(&process)[..2] {
        process.tamper(name, None);
    }
    let (_, environment) = view_of(storage);
    let report = replayed(&environment);
    assert_eq!(report.log.findings.len(), 0, "{:?}", report.log.findings);
    assert_eq!(hashes(&LedgerView::open(&dir(), &environment).unwrap()), truth);
}

/// Goal: a snapshot is collected when two later, valid ones are 48 hours old by the store's clock. The newest two stay,
/// and one that is damaged replaces nothing.
#[test]
fn superseded_snapshots_are_collected() {
    let (_, store) = history(5);
    let (names, truth) = (stored(&store), truth(&store));
    let written = store.now();
    let snapshots =
        |store: &SimStore| of_class(&plan(store).unwrap().objects, RemovableClass::Snapshot);
    assert_eq!(snapshots(&store), Vec::<String>::new());
    // Each was created a microsecond after the one before.
    store.advance(COLLECT_AFTER - 1);
    assert_eq!(snapshots(&store), names[..2]);
    store.advance(1);
    assert_eq!(snapshots(&store), names[..3]);
    assert!(store.now() > written);
    for at in [3, 4] {
        let damaged = store.fork();
        let mut bytes = store.peek(&names[at]).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        damaged.tamper(&names[at], Some(bytes));
        assert_eq!(snapshots(&damaged), names[..2], "{at}");
    }
    let planned = plan(&store).unwrap().objects;
    let first = planned.iter().position(|object| object.class == RemovableClass::Snapshot).unwrap();
    let calls = u64::try_from(planned.len()).unwrap();
    for call in u64::try_from(first).unwrap() + 1..=calls {
        for fate in StoreFate::ALL {
            let store = store.fork();
            let process = store.handle();
            process.set_fate(call, fate);
            let (outcome, _) = carry_out(&process, &planned);
            assert_eq!(outcome.is_err(), process.is_dead(), "{call} {fate:?}: {outcome:?}");
            assert_eq!(hashes(&view(&store)), truth, "{call} {fate:?}");
            let rest = plan(&store).unwrap().objects;
            carry_out(&store.handle(), &rest).0.unwrap();
            assert_eq!(stored(&store), names[3..], "{call} {fate:?}");
        }
    }
    carry_out(&store.handle(), &planned).0.unwrap();
    assert_eq!((stored(&store), hashes(&view(&store))), (names[3..].to_vec(), truth));
    assert_eq!(verified(&store).snapshots, 2);
    assert_eq!(plan(&store).unwrap().objects, []);
    let (_, from, _) = restored(&store);
    assert_eq!(from, Some(seq_of(&names[4])));
}

/// Goal: the snapshots that a retention note names are never collected, so a prune of the store needs no folder. The prune
/// deletes those of pruned records, and a restore has its anchors and the newest one.
#[test]
fn noted_anchors_are_never_collected() {
    let (disk, store) = history(3);
    let (ledger, keeper) = bound(&disk, &store.handle(), 2);
    let before = stored(&store);
    // The folder keeps the newest two.
    let limit = RetentionLimit::Record(seq_of(&before[1]));
    let report = ledger.prune(limit, None, "ann").unwrap();
    let anchors: Vec<String> =
        own(&disk).into_iter().filter(|name| before[1..].contains(name)).collect();
    assert_eq!(anchors, before[1..], "{report:?}");
    for _ in 0..3 {
        notes(&ledger, 16);
        ledger.snapshot::<State>().unwrap();
        keeper.upload_segments().unwrap();
    }
    ledger.close().unwrap();
    let all = stored(&store);
    assert_eq!(all.len(), 6);
    store.advance(3 * DAY);
    let planned = plan(&store).unwrap().objects;
    let collected = of_class(&planned, RemovableClass::Snapshot);
    assert_eq!(collected, [all[0].clone(), all[3].clone()]);
    let whole = store.fork();
    carry_out(&store.handle(), &planned).0.unwrap();
    for (store, stale) in [(&store, 0), (&whole, 1)] {
        let (_, planned) = prune_plan(store);
        let planned = planned.unwrap();
        assert_eq!((planned.missing.len(), planned.unkept.len()), (0, 2));
        let snapshots = of_class(&planned.objects, RemovableClass::Snapshot);
        assert_eq!(snapshots, all[..stale]);
        assert!(planned.objects.len() > stale, "{planned:?}");
        let deleted = prune_in(store);
        assert_eq!(deleted[deleted.len() - stale..], all[..stale]);
        let again = prune_plan(store).1.unwrap();
        assert_eq!((again.objects.len(), again.unkept.len(), again.missing.len()), (0, 0, 0));
        let report = verified(store);
        assert_eq!(report.log.findings.len(), 0, "{:?}", report.log.findings);
        let (disk, from, hash) = restored(store);
        assert_eq!((from, report.state.map(|(_, hash)| hash)), (Some(seq_of(&all[5])), Some(hash)));
        assert_eq!(own(&disk), [all[1].clone(), all[2].clone(), all[5].clone()]);
        // An anchor is primary data: a restore names one that is damaged or missing.
        for (bytes, what) in [(Some(b"damage".to_vec()), "damaged"), (None, "missing")] {
            let damaged = store.fork();
            damaged.tamper(&all[1], None);
            damaged.tamper(&anchor(&all[1]), bytes);
            let elsewhere = SimDisk::new();
            let options = quiet(&elsewhere).log_options();
            let error = restore(&dir(), options, &client(&damaged), &mut |_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            for text in [what, &anchor(&all[1])] {
                assert!(error.to_string().contains(text), "{error}");
            }
        }
    }
}

/// The object that keeps a snapshot as an anchor.
fn anchor(name: &str) -> String {
    format!("{name}.anchor")
}

/// Prune a store that has the anchors. Returns what was deleted.
fn prune_in(store: &SimStore) -> Vec<String> {
    let (client, planned) = prune_plan(store);
    let (planned, identity) = (planned.unwrap(), bound_ledger(store, &|_| false).unwrap().unwrap());
    planned.keep_anchors(&client.session(identity)).unwrap();
    let (outcome, deleted) = carry_out(&store.handle(), &planned.objects);
    outcome.unwrap();
    deleted
}

/// Goal: a collector that made its plan before a prune, when the snapshots from which the log starts now were superseded,
/// deletes nothing of it, however late it is.
#[test]
fn late_collector_deletes_no_anchor() {
    let (disk, store) = history(3);
    let late: Vec<RemovableObject> = stored(&store)
        .into_iter()
        .map(|name| RemovableObject { class: RemovableClass::Snapshot, name, length: 1 })
        .collect();
    let (ledger, _) = bound(&disk, &store.handle(), 2);
    ledger.prune(RetentionLimit::Record(seq_of(&late[1].name)), None, "ann").unwrap();
    notes(&ledger, 9);
    ledger.close().unwrap();
    let before = hashes(&view(&store));
    assert!(prune_in(&store).len() > 1);
    carry_out(&store.handle(), &late).0.unwrap();
    assert_eq!(stored(&store).len(), 2);
    let report = verified(&store);
    assert_eq!((report.snapshots, report.log.findings.len()), (2, 0), "{:?}", report.log.findings);
    let view = view(&store);
    for (seq, hash) in before.range(seq_of(&late[1].name)..) {
        assert_eq!(state_hash(&view.state_at(*seq).unwrap()), *hash, "{seq}");
    }
    assert!(view.log().first_seq() > 1);
    let (folder, from, _) = restored(&store);
    assert_eq!((own(&folder).len(), from), (2, Some(seq_of(&late[2].name))));
}

/// Goal: a machine that stops while it restores leaves no folder under the name, and the next restore is whole.
#[test]
fn crash_of_a_restore_leaves_no_half_snapshot() {
    let (_, store) = history(2);
    let newest = stored(&store).pop().unwrap();
    let calm = SimDisk::new();
    restore(&dir(), quiet(&calm).log_options(), &client(&store), &mut |_| ()).unwrap();
    for call in (1..=calm.calls()).rev().take(40) {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let restored =
            restore(&dir(), quiet(&disk).log_options(), &client(&store.handle()), &mut |_| ());
        disk.lose_power(Loss::Some(call));
        if restored.is_err() && LedgerView::open(&dir(), &quiet(&disk)).is_err() {
            restore(&dir(), quiet(&disk).log_options(), &client(&store), &mut |_| ()).unwrap();
        }
        assert_eq!(own(&disk), std::slice::from_ref(&newest), "{call}");
        let report = replayed(&quiet(&disk));
        assert_eq!((report.snapshots, report.log.findings.len()), (1, 0), "{call}");
    }
}
