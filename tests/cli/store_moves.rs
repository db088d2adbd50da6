//! A ledger that one store held goes to another one, or to its own after that was emptied: its writer notes become opening
//! slots again, every record keeps its chain value, and only one history grows, whatever call fails and whatever process
//! brings it there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::ledger::{RetentionLimit, import};
use plan_ledger::internals::sim::{SimDisk, SimStore, StoreFate, sweep};
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, MonotonicClock, ObjectName, SideCar, SlotHeader, StoreClient, StoreKeeper, StoreLag,
    StoreOpening, open_bound, rejoin,
};
use plan_ledger::log::{LoggedRecord, VerifyOptions, verify};
use plan_ledger::{Error, ErrorKind, Ledger, LedgerView, State, state_hash};

use super::lab::{at, dir, reader, whole};
use super::store_folder::{PATIENCE, URL, node, restored, summary, unbind};
use super::store_retention::{DAY, carry_out, notes, plan, quiet};

/// Where the other store is.
const ELSEWHERE: &str = "sim://other/ledger";

/// The kind of a writer note.
const WRITER_NOTE: u16 = 0x8008;

fn client(store: &SimStore, url: &str) -> StoreClient {
    StoreClient::new(url, Arc::new(store.clone()), |unclear| unclear < PATIENCE)
}

fn opening(number: u8, ack: AckMode) -> StoreOpening {
    let clock = MonotonicClock::new(|| Duration::ZERO);
    StoreOpening { ack, node: node(number), time: at(1000), clock }
}

/// A process that holds a ledger in a store.
struct Held {
    ledger: Ledger,
    keeper: Arc<StoreKeeper>,
    epoch: u64,
    shipped: u64,
}

fn hold_in(
    disk: &SimDisk,
    store: &SimStore,
    url: &str,
    (number, ack): (u8, AckMode),
) -> Result<Held, Error> {
    let environment = quiet(disk);
    let options = environment.log_options();
    let bound = open_bound(&dir(), options, &client(store, url), &opening(number, ack))?;
    let (keeper, epoch, shipped) = (bound.keeper.clone(), bound.epoch, bound.progress.shipped);
    let ledger = Ledger::of_log(bound.log, &bound.recovery, &environment)?.0;
    Ok(Held { ledger, keeper, epoch, shipped })
}

/// Hold the ledger in the other store.
fn hold(disk: &SimDisk, store: &SimStore, number: u8) -> Result<Held, Error> {
    hold_in(disk, store, ELSEWHERE, (number, AckMode::Store))
}

fn side_car(disk: &SimDisk, store: &SimStore, number: u8) -> Result<SideCar, Error> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let opening = opening(number, AckMode::Local);
    SideCar::open(&dir(), &storage, &client(store, ELSEWHERE), &opening)
}

/// A process of machine `number` writes some records in the first store.
fn write(disk: &SimDisk, store: &SimStore, number: u8, count: usize) {
    let held = hold_in(disk, &store.handle(), URL, (number, AckMode::Store)).unwrap();
    notes(&held.ledger, count);
    held.ledger.close().unwrap();
}

/// A ledger that its store held in five epochs: another machine took over twice, and the folder diverged and joined
/// again.
fn held() -> (SimDisk, SimStore) {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    write(&disk, &store, 1, 12);
    write(&restored(&store).unwrap().0, &store, 2, 5);
    let alone = hold_in(&disk, &store.handle(), URL, (3, AckMode::Local)).unwrap();
    notes(&alone.ledger, 3);
    disk.kill_process();
    drop(alone);
    write(&restored(&store).unwrap().0, &store, 4, 9);
    let mut line = |record: &LoggedRecord| record.seq.to_string();
    let joined =
        rejoin(&dir(), quiet(&disk).log_options(), &client(&store, URL), &mut line).unwrap();
    assert_eq!(joined.lost, 3);
    write(&disk, &store, 5, 6);
    let notes = writers(&whole(&reader(&disk)));
    assert_eq!(notes.iter().map(|note| note.epoch).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    let why: Vec<&str> = notes.iter().map(|note| note.why.as_str()).collect();
    assert_eq!(why, ["create", "takeover", "takeover", "takeover", "rejoin"]);
    (disk, store)
}

/// A writer note.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Writer {
    seq: u64,
    epoch: u64,
    node: String,
    why: String,
    before: Option<(u64, String)>,
}

fn writers(records: &[LoggedRecord]) -> Vec<Writer> {
    let notes = records.iter().filter(|record| record.kind == WRITER_NOTE);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    notes
        .map(|record| {
            let note: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
            let before = &note["before"];
            let before = before
                .as_object()
                .map(|_| (before["epoch"].as_u64().unwrap(), text(&before["node"])));
            let (epoch, node) = (note["epoch"].as_u64().unwrap(), text(&note["node"]));
            Writer { seq: record.seq, epoch, node, why: text(&note["why"]), before }
        })
        .collect()
}

/// Every writer note is an opening slot of its epoch and its process, and every other slot is in the epoch of the last
/// note before it.
#[track_caller]
fn expect_epochs(store: &SimStore, records: &[LoggedRecord]) {
    let writers = writers(records);
    let mut opened = Vec::new();
    for name in store.names().iter().filter(|name| name.starts_with("tail/")) {
        let slot = SlotHeader::decode(&store.peek(name).unwrap()).unwrap();
        let writer = writers.iter().rfind(|writer| writer.seq <= slot.last_seq);
        assert_eq!(slot.epoch, writer.map_or(0, |writer| writer.epoch), "{name}");
        let own = writer.filter(|writer| writer.seq == slot.last_seq);
        assert_eq!(slot.opens, own.is_some(), "{name}");
        if let Some(writer) = own {
            assert_eq!(slot.first_seq, slot.last_seq, "{name}");
            let node: String = slot.node.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(node, writer.node, "{name}");
            opened.push(writer.epoch);
        }
    }
    assert_eq!(opened, writers.iter().map(|writer| writer.epoch).collect::<Vec<_>>());
}

/// The state of a ledger at a record.
fn hash_at(disk: &SimDisk, seq: u64) -> String {
    let view = LedgerView::open(&dir(), &quiet(disk)).unwrap();
    format!("{:?}", state_hash(&view.state_at(seq).unwrap()))
}

/// The store has everything of a folder, in its epochs.
#[track_caller]
fn expect_moved(disk: &SimDisk, store: &SimStore) {
    let own = whole(&reader(disk));
    let (copy, records) = restored(store).unwrap();
    assert_eq!(summary(&records), summary(&own));
    expect_epochs(store, &records);
    let last = own.last().unwrap().seq;
    assert_eq!(hash_at(&copy, last), hash_at(disk, last));
    let storage: Arc<dyn Storage> = Arc::new(copy);
    assert!(!verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap().is_damaged());
}

/// Goal: a ledger that a store held in several epochs goes to another store by opening it there, and to its own one after
/// that was emptied, also with records that were written without a store in between. Its next epoch is higher than all
/// before, and names the last writer.
#[test]
fn ledger_moves_by_opening_it_in_another_store() {
    for (is_emptied, is_written) in [(false, false), (false, true), (true, false)] {
        let (disk, old) = held();
        let (names, new) = (old.names(), SimStore::new());
        let error = hold(&disk, &new.handle(), 6).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(
            error.to_string().contains(URL) && error.to_string().contains(ELSEWHERE),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("remove /ledger/STORE.json"), "{error}");
        assert_eq!(side_car(&disk, &new.handle(), 6).unwrap_err().kind(), ErrorKind::Rejected);
        assert_eq!(new.names(), Vec::<String>::new());
        if is_emptied {
            // Another folder may have more: a person chooses.
            let error = hold_in(&disk, &new.handle(), URL, (6, AckMode::Store)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.hint().unwrap().contains("/ledger/STORE.json"), "{error}");
            assert_eq!(new.names(), Vec::<String>::new());
        }
        unbind(&disk);
        if is_written {
            let ledger = Ledger::open_with(&dir(), &quiet(&disk)).unwrap().0;
            notes(&ledger, 7);
            ledger.close().unwrap();
        }
        let own = whole(&reader(&disk));
        let url = if is_emptied { URL } else { ELSEWHERE };
        let held = hold_in(&disk, &new.handle(), url, (6, AckMode::Store)).unwrap();
        assert_eq!(held.shipped, own.last().unwrap().seq);
        let (before, after) = (writers(&own), writers(&whole(&reader(&disk))));
        let (last, next) = (before.last().unwrap(), after.last().unwrap());
        assert_eq!(after.len(), before.len() + 1);
        assert_eq!(next.epoch, held.epoch);
        assert!(next.epoch > last.epoch, "{next:?}");
        assert_eq!(next.before, Some((last.epoch, last.node.clone())));
        assert_eq!(next.why, if is_written { "takeover" } else { "open" });
        notes(&held.ledger, 3);
        held.ledger.close().unwrap();
        expect_moved(&disk, &new);
        assert_eq!(old.names(), names);
        // Another machine takes over there, and the folder follows.
        let other = restored(&new).unwrap().0;
        let taken = hold_in(&other, &new.handle(), URL, (7, AckMode::Store));
        let taken = taken.map(|held| (held.epoch, held.ledger.close().unwrap())).unwrap();
        assert_eq!(taken.0, next.epoch + 1);
        let held = hold_in(&disk, &new.handle(), url, (8, AckMode::Store)).unwrap();
        assert_eq!(held.shipped, 0);
        held.ledger.close().unwrap();
        expect_moved(&disk, &new);
    }
}

/// Goal: the same with side-cars, two of which work at once, with segment objects, after a collection, and when the
/// ledger is opened there later.
#[test]
fn ledger_moves_by_side_cars() {
    let (disk, _old) = held();
    unbind(&disk);
    let new = SimStore::new();
    let mut one = side_car(&disk, &new.handle(), 1).unwrap();
    let mut two = side_car(&disk, &new.handle(), 2).unwrap();
    let ledger = Ledger::open_with(&dir(), &quiet(&disk)).unwrap().0;
    for _ in 0..4 {
        notes(&ledger, 3);
        assert_eq!(one.ship().unwrap(), StoreLag::default());
        notes(&ledger, 2);
        assert_eq!(two.ship().unwrap(), StoreLag::default());
    }
    ledger.close().unwrap();
    assert_eq!(one.ship().unwrap(), StoreLag::default());
    expect_moved(&disk, &new);
    let own = summary(&whole(&reader(&disk)));
    assert!(one.upload_segments().unwrap() > 3);
    new.advance(3 * DAY);
    let planned = plan(&new).unwrap().objects;
    assert!(planned.len() > 5, "{planned:?}");
    carry_out(&new.handle(), &planned).0.unwrap();
    let notes_at: Vec<u64> =
        writers(&whole(&reader(&disk))).iter().map(|writer| writer.seq).collect();
    for seq in notes_at {
        assert!(new.peek(&ObjectName::Slot(seq).to_string()).is_some(), "{seq}");
    }
    assert_eq!(summary(&restored(&new).unwrap().1), own);
    // One that is started again, and then a process that holds the ledger there.
    side_car(&disk, &new.handle(), 3).unwrap().ship().unwrap();
    let held = hold(&disk, &new.handle(), 4).unwrap();
    assert_eq!((held.epoch > 6, held.shipped), (true, 0));
    notes(&held.ledger, 20);
    held.keeper.upload_segments().unwrap();
    held.ledger.close().unwrap();
    assert_eq!(summary(&restored(&new).unwrap().1), summary(&whole(&reader(&disk))));
    keep(&new);
}

/// Keep the objects as files: CI lets `format/store_reader.py` read them.
fn keep(store: &SimStore) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved.store");
    let _ = std::fs::remove_dir_all(&kept);
    for name in store.names() {
        let path = kept.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, store.peek(&name).unwrap()).unwrap();
    }
}

/// How a folder goes to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Opening,
    SideCar,
}

fn bring(way: Way, disk: &SimDisk, store: &SimStore, number: u8) -> Result<(), Error> {
    match way {
        Way::Opening => hold(disk, store, number)?.ledger.close().map(drop),
        Way::SideCar => side_car(disk, store, number)?.ship().map(drop),
    }
}

/// A folder that had a store and has left it, and the calls that each way makes to bring it to an empty one.
fn leaving(way: Way) -> (SimDisk, Vec<u64>) {
    let (disk, _) = held();
    unbind(&disk);
    let calm = SimStore::new();
    bring(way, &disk.fork(), &calm, 8).unwrap();
    let step = sweep(4, 1, 1);
    (disk, (1..=calm.calls()).step_by(step).collect())
}

/// Goal: whatever becomes of a call, and if the process stops after it, the store has the first records of the folder
/// then, and the next process continues.
#[test]
fn sweep_move_continues_after_every_fate() {
    for way in [Way::Opening, Way::SideCar] {
        let (origin, calls) = leaving(way);
        let own = summary(&whole(&reader(&origin)));
        for (call, fate) in
            calls.into_iter().flat_map(|call| StoreFate::ALL.map(|fate| (call, fate)))
        {
            let (disk, new) = (origin.fork(), SimStore::new());
            let process = new.handle();
            process.set_fate(call, fate);
            let _ = bring(way, &disk, &process, 9);
            disk.kill_process();
            new.carry_out_all();
            if let Ok((_, records)) = restored(&new) {
                let found = summary(&records);
                let both = found.len().min(own.len());
                assert_eq!(found[..both], own[..both], "{way:?}: {fate:?} of {call}");
            }
            bring(way, &disk, &new.handle(), 10)
                .unwrap_or_else(|error| panic!("{way:?}: {fate:?} of {call}: {error}"));
            let records = restored(&new).unwrap().1;
            assert_eq!(summary(&records)[..own.len()], own, "{way:?}: {fate:?} of {call}");
            expect_epochs(&new, &records);
        }
    }
}

/// Goal: two processes that bring the same folder, or copies of it, make one log, wherever the second one comes between;
/// a process that takes over an unfinished copy excludes both.
#[test]
fn sweep_two_movers_make_one_log() {
    for way in [Way::Opening, Way::SideCar] {
        let (origin, calls) = leaving(way);
        let own = summary(&whole(&reader(&origin)));
        for call in calls {
            for second in [Some(Way::SideCar), Some(Way::Opening), None] {
                let story = format!("{way:?}: {second:?} before {call}");
                let (disk, copy, new) = (origin.fork(), origin.fork(), SimStore::new());
                let (process, other) = (new.handle(), new.clone());
                process.before_call(call, move || match second {
                    // The first one may have opened its epoch already, which this folder does not have.
                    Some(second) => match bring(second, &copy, &other.handle(), 20) {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Diverged, "{error}"),
                    },
                    None => {
                        let Ok((machine, _)) = restored(&other) else { return };
                        write(&machine, &other, 21, 1);
                    }
                });
                let brought = bring(way, &disk, &process, 9);
                let records = restored(&new).unwrap().1;
                expect_epochs(&new, &records);
                let found = summary(&records);
                match brought {
                    Ok(()) => assert_eq!(found[..own.len()], own, "{story}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Diverged, "{story}: {error}");
                        assert!(second != Some(Way::SideCar), "{story}: {error}");
                        // What only the folder has is still there.
                        assert_eq!(summary(&whole(&reader(&disk)))[..own.len()], own, "{story}");
                    }
                }
            }
        }
    }
}

/// Goal: an import puts each writer note at the start of a segment, so that an imported ledger goes to a store, too; a
/// folder that has one elsewhere is refused before a slot says what no reader accepts.
#[test]
fn imported_ledger_goes_to_a_store() {
    let (disk, _) = held();
    let environment = quiet(&disk);
    let mut exported = Vec::new();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    view.export(None, None, &|_| None, &mut exported).unwrap();
    let other = SimDisk::new();
    import(&dir(), &mut exported.as_slice(), &quiet(&other)).unwrap();
    let own = whole(&reader(&other));
    assert_eq!(summary(&own), summary(&whole(&reader(&disk))));
    let begun: Vec<u64> =
        reader(&other).segments().iter().map(|own| own.header.as_ref().unwrap().base_seq).collect();
    for writer in writers(&own) {
        assert!(begun.contains(&writer.seq), "{writer:?}: {begun:?}");
    }
    let new = SimStore::new();
    let held = hold(&other, &new.handle(), 6).unwrap();
    assert_eq!(held.epoch, 7);
    notes(&held.ledger, 30);
    held.keeper.upload_segments().unwrap();
    held.ledger.close().unwrap();
    expect_moved(&other, &new);
    // The slots of its last segments are gone: what is common is found by the segments.
    new.advance(3 * DAY);
    let planned = plan(&new).unwrap().objects;
    carry_out(&new.handle(), &planned).0.unwrap();
    let held = hold(&other, &new.handle(), 7).unwrap();
    assert_eq!(held.epoch, 8);
    held.ledger.close().unwrap();
}

/// Goal: a pruned folder cannot go to an empty store, which would not begin with record 1. It is refused, says what to do,
/// and is not bound; with the objects of its old store in the new place it goes on there.
#[test]
fn pruned_folder_needs_the_objects_of_its_old_store() {
    let (disk, old) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    write(&disk, &old, 1, 40);
    let held = hold_in(&disk, &old.handle(), URL, (2, AckMode::Store)).unwrap();
    held.ledger.snapshot::<State>().unwrap();
    notes(&held.ledger, 8);
    held.ledger.snapshot::<State>().unwrap();
    notes(&held.ledger, 8);
    held.keeper.upload_segments().unwrap();
    held.ledger.prune(RetentionLimit::Record(30), None, "ann").unwrap();
    held.ledger.close().unwrap();
    unbind(&disk);
    let first = reader(&disk).first_seq();
    assert!(first > 1);
    let new = SimStore::new();
    for way in [Way::Opening, Way::SideCar] {
        let error = bring(way, &disk, &new.handle(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains(&format!("begins at record {first}")), "{error}");
        assert!(error.hint().unwrap().contains("copy every object"), "{error}");
        assert_eq!(new.names(), Vec::<String>::new());
    }
    // It is not bound, and stays an ordinary ledger.
    let ledger = Ledger::open_with(&dir(), &quiet(&disk)).unwrap().0;
    notes(&ledger, 2);
    ledger.close().unwrap();
    for name in old.names() {
        new.tamper(&name, old.peek(&name));
    }
    for way in [Way::SideCar, Way::Opening] {
        bring(way, &disk, &new.handle(), 4).unwrap();
    }
    let (last, copy) = (reader(&disk).head().unwrap().durable_seq, restored(&new).unwrap().0);
    assert_eq!(hash_at(&copy, last), hash_at(&disk, last));
}

/// Goal: a folder that was pruned while it was not bound does not continue a store that ends before its first
/// record, which would leave a hole in the store.
#[test]
fn folder_pruned_beyond_the_end_of_its_store_is_refused() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    write(&disk, &store, 1, 10);
    unbind(&disk);
    let ledger = Ledger::open_with(&dir(), &quiet(&disk)).unwrap().0;
    notes(&ledger, 30);
    for _ in 0..2 {
        ledger.snapshot::<State>().unwrap();
        notes(&ledger, 8);
    }
    ledger.prune(RetentionLimit::Record(30), None, "ann").unwrap();
    ledger.close().unwrap();
    let (first, names) = (reader(&disk).first_seq(), store.names());
    for way in [Way::Opening, Way::SideCar] {
        let error = bring(way, &disk, &store.handle(), 3).unwrap_err();
        assert!(error.to_string().contains(&format!("begins at record {first}")), "{error}");
        assert_eq!(store.names(), names);
    }
}

/// Goal: a side-car that stood still before the note of an epoch, while a copy of the folder that diverged put an ordinary
/// record there, and that slot was collected, does not take its own slot under the collected name for written. The clock
/// of the store stands still, so no difference in time shows it.
#[test]
fn copied_opening_slot_under_a_collected_name_is_not_written() {
    let (disk, old) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    write(&disk, &old, 1, 12);
    let diverged = disk.fork();
    write(&disk, &old, 2, 4);
    let note = writers(&whole(&reader(&disk))).last().unwrap().seq;
    let name = ObjectName::Slot(note).to_string();
    for disk in [&disk, &diverged] {
        unbind(disk);
    }
    let ledger = Ledger::open_with(&dir(), &quiet(&diverged)).unwrap().0;
    notes(&ledger, 30);
    ledger.close().unwrap();
    let calm = SimStore::new();
    side_car(&disk, &calm, 3).unwrap().ship().unwrap();
    let call = calm.creates().into_iter().find(|sent| sent.name == name).unwrap().call;
    let new = SimStore::new();
    let (process, other, slot) = (new.handle(), new.clone(), name.clone());
    process.before_call(call, move || {
        let mut car = side_car(&diverged, &other.handle(), 4).unwrap();
        car.ship().unwrap();
        assert!(car.upload_segments().unwrap() > 1);
        let header = SlotHeader::decode(&other.peek(&slot).unwrap()).unwrap();
        assert!(!header.opens);
        other.tamper(&slot, None);
    });
    let mut car = side_car(&disk, &process, 3).unwrap();
    let error = car.ship().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    assert!(new.peek(&name).is_some(), "its slot is an orphan");
    assert_eq!(car.ship().unwrap_err().kind(), ErrorKind::Diverged);
}
