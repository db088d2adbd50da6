//! A store that lost something, and a holder with the whole folder: what it lacks is created again, or it is named.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::ledger::RetentionLimit;
use plan_ledger::internals::sim::{SimDisk, SimStore, sweep};
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, BoundLog, DamageState, MonotonicClock, ObjectName, Objects, SegmentForm,
    SegmentObject, SideCar, StandbyFolder, StoreDamage, StoreKeeper, StoreOpening, open_bound,
    restore, segment_floor,
};
use plan_ledger::log::BlobId;
use plan_ledger::plan::ContentHash;
use plan_ledger::{
    Claim, Error, ErrorKind, Ledger, LedgerView, Plan, RunPolicy, State, state_hash,
};

use super::lab::{at, dir, options, reader, record, whole};
use super::store_folder::{client, ledger, node, open, small, summary};
use super::store_retention::{notes, prune_store, pruned_after, quiet};

/// Open the log of a folder in a store, as this handle of it.
pub(super) fn bound(disk: &SimDisk, process: &SimStore, number: u8) -> Result<BoundLog, Error> {
    let environment = quiet(disk);
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let time = environment.clock.now();
    let opening = StoreOpening { ack: AckMode::Store, node: node(number), time, clock };
    open_bound(&dir(), environment.log_options(), &client(process), &opening)
}

/// Open the ledger of a folder in a store.
pub(super) fn opened(
    disk: &SimDisk,
    store: &SimStore,
    number: u8,
) -> Result<(Ledger, Arc<StoreKeeper>), Error> {
    let bound = bound(disk, &store.handle(), number)?;
    let keeper = bound.keeper.clone();
    Ok((Ledger::of_log(bound.log, &bound.recovery, &quiet(disk))?.0, keeper))
}

fn work(ledger: &Ledger, run: &str) {
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "one"}]}"#).unwrap();
    let run = ledger.start_run(run, &plan, RunPolicy::default()).unwrap();
    let Claim::Task(task) = ledger.claim(run, "worker").unwrap() else { panic!("no task") };
    // It becomes a blob.
    let large = serde_json::json!({ "log": "a line of output; ".repeat(10_000) });
    task.succeed(large.to_string()).unwrap();
}

/// A closed ledger in a store: four epochs, segments, a first part, slots after it, a snapshot, and a blob.
pub(super) fn history(tail: usize) -> (SimDisk, SimStore) {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = opened(&disk, &store, 1).unwrap();
    work(&ledger, "first");
    notes(&ledger, 16);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 2);
    while keeper.upload_segments().unwrap() > 0 {}
    ledger.close().unwrap();
    let (ledger, keeper) = opened(&disk, &store, 2).unwrap();
    notes(&ledger, 12);
    while keeper.upload_segments().unwrap() > 0 {}
    notes(&ledger, 2);
    ledger.close().unwrap();
    // A first part takes the place of a slot.
    let lost = uncovered(&store).swap_remove(0);
    let bytes = store.peek(&lost);
    store.tamper(&lost, None);
    let (ledger, keeper) = opened(&disk, &store, 3).unwrap();
    let found = keeper.check_store().unwrap();
    assert_eq!((found.len(), found[0].state), (1, DamageState::Repaired), "{found:?}");
    store.tamper(&lost, bytes);
    notes(&ledger, tail);
    ledger.close().unwrap();
    // One more opening slot is among those that no segment object covers.
    let (ledger, _) = opened(&disk, &store, 4).unwrap();
    notes(&ledger, 2);
    ledger.close().unwrap();
    (disk, store)
}

/// Everything that must not be lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Truth {
    records: Vec<(u64, String)>,
    state: ContentHash,
    blobs: usize,
}

impl Truth {
    /// Of a folder, up to a record.
    pub(super) fn of(disk: &SimDisk, last: u64) -> Self {
        let mut records = summary(&whole(&reader(disk)));
        records.retain(|(seq, _)| *seq <= last);
        let view = LedgerView::open(&dir(), &quiet(disk)).unwrap();
        let state = state_hash(&view.state_at(last).unwrap());
        Self { records, state, blobs: reader(disk).blobs().list().unwrap().blobs.len() }
    }

    pub(super) fn restored(store: &SimStore, last: u64) -> Result<Self, Error> {
        let copy = SimDisk::new();
        let options = quiet(&copy).log_options();
        restore(&dir(), options, &client(&store.handle()), &mut |_| ())?;
        Ok(Self::of(&copy, last))
    }
}

pub(super) fn last_of(disk: &SimDisk) -> u64 {
    whole(&reader(disk)).last().unwrap().seq
}

/// Look at everything, as a process does after it opened the log. Returns what was found at the end.
fn look(keeper: &StoreKeeper) -> BTreeMap<String, StoreDamage> {
    let mut found = BTreeMap::new();
    let mut check = || {
        let damage = keeper.check_store().unwrap();
        found.extend(damage.into_iter().map(|damage| (damage.object.clone(), damage)));
    };
    check();
    loop {
        let step = keeper.scrub().unwrap();
        if step.is_damaged {
            check();
        }
        if step.is_last {
            break;
        }
    }
    found
}

fn unrepaired(found: &BTreeMap<String, StoreDamage>) -> Vec<&StoreDamage> {
    found.values().filter(|damage| damage.state != DamageState::Repaired).collect()
}

/// How an object is damaged.
fn damages(bytes: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut damages = vec![("missing".to_owned(), None)];
    for at in [0, 20, 300, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 4;
            damages.push((format!("flipped at {at}"), Some(flipped)));
        }
    }
    for length in [0, bytes.len() / 2, bytes.len() - 1] {
        damages.push((format!("cut to {length}"), Some(bytes[..length].to_vec())));
    }
    damages
}

/// Goal: whatever one object of a store is missing or damaged, a holder that has the whole folder makes the store whole
/// again, so that a restore from the store alone has every record, the state and the blobs; or it names the object, and
/// once that is deleted, the holder, or the next one, makes the store whole.
#[test]
fn sweep_each_damaged_object_is_repaired_or_named() {
    let every: Vec<usize> = (0..10).collect();
    let kinds = sweep(vec![0, 4, 8], every.clone(), every);
    let (disk, store) = history(5);
    let last = last_of(&disk);
    let truth = Truth::of(&disk, last);
    assert_eq!(truth.blobs, 1);
    assert_eq!(Truth::restored(&store, last).unwrap(), truth);
    let names = store.names();
    let has = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    assert!(has(".seg") >= 3 && has(".part") >= 1 && has(".index") >= 1, "{names:?}");
    assert!(has("snap/") == 1 && has("blob/") == 1 && has("tail/") > 20, "{names:?}");
    let (mut repaired, mut named, mut refused) = (0, 0, Vec::new());
    for name in &names {
        let damages = damages(&store.peek(name).unwrap());
        for (how, bytes) in kinds.iter().filter_map(|kind| damages.get(*kind).cloned()) {
            let story = format!("{name} {how}");
            let (disk, store) = (disk.fork(), store.fork());
            store.tamper(name, bytes.clone());
            let (ledger, keeper) = match opened(&disk, &store, 5) {
                Ok(opened) => opened,
                Err(error) => {
                    assert!(error.to_string().contains(name.as_str()), "{story}: {error}");
                    assert!(bytes.is_some(), "{story}: {error}");
                    refused.push(name.clone());
                    continue;
                }
            };
            let found = look(&keeper);
            let left = unrepaired(&found);
            assert!(left.iter().all(|damage| damage.object == *name), "{story}: {left:?}");
            repaired += usize::from(!found.is_empty() && left.is_empty());
            if !left.is_empty() {
                named += 1;
                assert!(bytes.is_some(), "{story}: {left:?}");
                assert_eq!(left[0].state, DamageState::Deletable, "{story}: {left:?}");
                // A person deletes it. This process, or the next one, creates it again.
                store.tamper(name, None);
                let mut next = None;
                if named % 2 == 0 {
                    drop(ledger);
                    disk.kill_process();
                    next = Some(opened(&disk, &store, 6).unwrap());
                }
                let keeper = next.as_ref().map_or(&keeper, |(_, keeper)| keeper);
                let found = keeper.check_store().unwrap();
                let object = found.iter().find(|damage| damage.object == *name);
                let state = object.map(|damage| damage.state);
                assert_eq!(state, Some(DamageState::Repaired), "{story}: {found:?}");
                assert_eq!(look(keeper), BTreeMap::new(), "{story}");
            }
            assert_eq!(Truth::restored(&store, last).unwrap(), truth, "{story}");
        }
    }
    // Only whose log it is cannot be known without this object.
    refused.dedup();
    assert_eq!(refused, ["LEDGER.json"]);
    println!("{} objects: {repaired} repaired, {named} named", names.len());
    assert!(repaired > 20 && named > 10, "{repaired} {named}");
}

/// Goal: a folder whose own file is damaged says neither that the object in the store is, nor that a damaged object may be
/// deleted: it might be the only good copy.
#[test]
fn damaged_folder_leaves_the_store_alone() {
    let (disk, store) = history(5);
    let last = last_of(&disk);
    let truth = Truth::of(&disk, last);
    let (_ledger, keeper) = opened(&disk, &store, 6).unwrap();
    let sealed: Vec<String> =
        store.names().into_iter().filter(|name| name.contains(".seg")).collect();
    let header = reader(&disk).segments()[1].header.clone().unwrap();
    let object = sealed.iter().find(|name| name.contains(&format!("seg/{:020}-", header.base_seq)));
    let object = object.unwrap();
    let path = dir().join("log").join(header.name().to_string());
    let byte = disk.read(&path).unwrap()[5000];
    disk.overwrite(&path, 5000, &[byte ^ 1]).unwrap();
    let found = look(&keeper);
    assert_eq!(unrepaired(&found), Vec::<&StoreDamage>::new());
    let mut stored = store.peek(object).unwrap();
    stored.truncate(5000);
    store.tamper(object, Some(stored));
    let found = look(&keeper);
    assert_eq!(found[object].state, DamageState::Lost, "{found:?}");
    // Without the object, nothing wrong takes its place: the slots have its records.
    store.tamper(object, None);
    let found = look(&keeper);
    assert_eq!(found[object].state, DamageState::Repaired, "{found:?}");
    assert_eq!(store.peek(object), None);
    assert_eq!(Truth::restored(&store, last).unwrap(), truth);
}

fn slots(store: &SimStore) -> Vec<String> {
    store.names().into_iter().filter(|name| name.starts_with("tail/")).collect()
}

/// The slots that no segment object covers.
fn uncovered(store: &SimStore) -> Vec<String> {
    let names = store.names();
    let objects = names.iter().filter_map(|name| match ObjectName::parse(name)? {
        ObjectName::Segment(object) => Some(object.last_seq),
        _ => None,
    });
    let floor = objects.max().unwrap_or(0);
    let is_after = |name: &String| matches!(ObjectName::parse(name), Some(ObjectName::Slot(first)) if first > floor);
    slots(store).into_iter().filter(is_after).collect()
}

/// Goal: a first part that takes the place of a lost slot ends where the log does, and a damaged first part is replaced by a
/// longer one, as soon as there are more records.
#[test]
fn damaged_first_part_is_replaced_by_a_longer_one() {
    let (disk, store) = history(5);
    let slot = uncovered(&store).into_iter().nth_back(2).unwrap();
    store.tamper(&slot, None);
    let (ledger, keeper) = opened(&disk, &store, 5).unwrap();
    let before = store.names();
    let found = keeper.check_store().unwrap();
    assert_eq!((found[0].object.as_str(), found[0].state), (slot.as_str(), DamageState::Repaired));
    assert_eq!(uncovered(&store), Vec::<String>::new());
    let parts: Vec<String> = store
        .names()
        .into_iter()
        .filter(|name| !before.contains(name) && name.contains(".part"))
        .collect();
    let newest = parts.last().unwrap();
    let whole = store.peek(newest).unwrap();
    store.tamper(newest, Some(whole[..whole.len() - 1].to_vec()));
    // It ends with the log: nothing can be longer yet.
    let found = keeper.check_store().unwrap();
    assert_eq!((found.len(), found[0].state), (1, DamageState::Deletable), "{found:?}");
    notes(&ledger, 1);
    let found = keeper.check_store().unwrap();
    assert_eq!((found.len(), found[0].state), (1, DamageState::Repaired), "{found:?}");
    assert_eq!(keeper.check_store().unwrap(), []);
    let last = last_of(&disk);
    assert_eq!(Truth::restored(&store, last).unwrap(), Truth::of(&disk, last));
}

/// Goal: a lost opening slot is created again with the same bytes, so that the process that it replaced stays replaced.
#[test]
fn lost_opening_slot_still_fences() {
    let (disk, store) = (ledger(3), SimStore::new());
    let first = open(&disk, &store.handle(), 1).unwrap();
    first.log.append(&[record(1, 900)], at(60)).unwrap();
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap();
    let second = open(&elsewhere, &store.handle(), 2).unwrap();
    for number in 0..30 {
        second.log.append(&[record(number, 900)], at(70)).unwrap();
    }
    while second.keeper.upload_segments().unwrap() > 0 {}
    let name = ObjectName::Slot(first.log.last_durable().seq + 1).to_string();
    let bytes = store.peek(&name).unwrap();
    store.tamper(&name, None);
    // As if it were away for less than a day, which the store's clock would show.
    let found = second.keeper.check_store().unwrap();
    assert_eq!((found[0].object.as_str(), found[0].state), (name.as_str(), DamageState::Repaired));
    assert_eq!(store.peek(&name), Some(bytes));
    let refused = first.log.append(&[record(50, 9)], at(90)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    assert_eq!(second.keeper.check_store().unwrap(), []);
}

/// Goal: a holder makes the object again without which no reader finds a ledger; a wrong one is named.
#[test]
fn lost_ledger_object_is_made_again() {
    let (disk, store) = (ledger(3), SimStore::new());
    let bound = open(&disk, &store.handle(), 1).unwrap();
    bound.log.append(&[record(1, 900)], at(60)).unwrap();
    let name = "LEDGER.json";
    for damaged in [None, Some(b"{}".to_vec())] {
        let is_missing = damaged.is_none();
        store.tamper(name, damaged);
        let elsewhere = SimDisk::new();
        let refused = restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let found = bound.keeper.check_store().unwrap();
        let state = if is_missing { DamageState::Repaired } else { DamageState::Deletable };
        assert_eq!((found[0].object.as_str(), found[0].state), (name, state));
        store.tamper(name, if is_missing { store.peek(name) } else { None });
        bound.keeper.check_store().unwrap();
        assert_eq!(bound.keeper.check_store().unwrap(), []);
        restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap();
    }
}

/// Goal: what neither the folder nor a slot has is lost, and it is named.
#[test]
fn pruned_records_without_their_object_are_lost() {
    let (disk, store) = history(5);
    let (ledger, keeper) = opened(&disk, &store, 3).unwrap();
    for _ in 0..2 {
        notes(&ledger, 12);
        ledger.snapshot::<State>().unwrap();
        notes(&ledger, 12);
    }
    while keeper.upload_segments().unwrap() > 0 {}
    ledger.prune(RetentionLimit::Record(30), None, "ann").unwrap();
    while keeper.upload_segments().unwrap() > 0 {}
    assert!(reader(&disk).first_seq() > 20);
    assert_eq!(keeper.check_store().unwrap(), []);
    let sealed: Vec<String> =
        store.names().into_iter().filter(|name| name.contains(".seg")).collect();
    store.tamper(&sealed[1], None);
    // Its records are in slots.
    let found = keeper.check_store().unwrap();
    assert_eq!((found.len(), found[0].state), (1, DamageState::Repaired), "{found:?}");
    for name in store.names() {
        let is_gone = match ObjectName::parse(&name) {
            Some(ObjectName::Slot(first)) => first < 20,
            Some(ObjectName::Segment(object)) => {
                object.form == SegmentForm::Part && object.base_seq < 20
            }
            _ => name == sealed[1],
        };
        if is_gone {
            store.tamper(&name, None);
        }
    }
    let found = keeper.check_store().unwrap();
    let lost: Vec<_> = found.iter().filter(|damage| damage.state == DamageState::Lost).collect();
    assert_eq!(lost.len(), 1, "{found:?}");
    assert!(sealed[1].starts_with(&lost[0].object), "{found:?}");
}

/// Goal: while nothing is damaged, a check costs three listings, a read of LEDGER.json and the slots that no segment
/// object covers, and says nothing; and a pass over the objects reads each of them once.
#[test]
fn check_of_a_whole_store_needs_few_requests() {
    let (disk, store) = history(5);
    let process = store.handle();
    let bound = bound(&disk, &process, 3).unwrap();
    let before = process.calls();
    assert_eq!(bound.keeper.check_store().unwrap(), []);
    let slots = u64::try_from(uncovered(&store).len()).unwrap();
    // Three listings, LEDGER.json and the slots.
    assert_eq!(process.calls() - before, 4 + slots);
    let before = process.calls();
    let mut objects = 0;
    while !bound.keeper.scrub().unwrap().is_last {
        objects += 1;
    }
    let is_read = |name: &&String| {
        name.starts_with("blob/") || name.contains(".seg") || name.contains(".part")
    };
    assert_eq!(objects + 1, store.names().iter().filter(is_read).count());
    assert_eq!(process.calls() - before, 3 + u64::try_from(objects + 1).unwrap());
}

/// Story: a standby that had followed from record 1 took over after the ledger and its store were pruned. It uploaded again
/// what was deleted on request: its folder begins at record 1, so no note said for it that the log begins later.
#[test]
fn standby_that_takes_over_uploads_nothing_that_was_pruned() {
    let follower = std::cell::RefCell::new(None);
    let (disk, store) = pruned_after(&|_, store, keeper| {
        keeper.upload_segments().unwrap();
        let copy = SimDisk::new();
        let options = quiet(&copy).log_options();
        let process = client(&store.handle());
        follower.replace(Some((StandbyFolder::open(&dir(), options, &process).unwrap(), copy)));
    });
    let (mut standby, copy) = follower.into_inner().unwrap();
    assert!(standby.follow_to_end().unwrap());
    let deleted = prune_store(&disk, &store);
    assert!(deleted.len() > 2, "{deleted:?}");
    drop(standby);
    let (ledger, keeper) = opened(&copy, &store, 2).unwrap();
    assert_eq!(reader(&copy).first_seq(), 1);
    assert!(reader(&copy).retention().is_none());
    let names = store.names();
    assert_eq!(look(&keeper), BTreeMap::new());
    assert_eq!(store.names(), names);
    // The anchors count for it as for the folder that was pruned.
    let anchor = names.iter().find(|name| name.ends_with(".anchor")).unwrap();
    let lowest = names.iter().find(|name| name.starts_with("seg/") && !name.contains(".index"));
    let lowest = lowest.unwrap();
    for lost in [anchor, lowest] {
        store.tamper(lost, None);
        let found = keeper.check_store().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].object, *lost);
        if lost == lowest {
            assert_eq!((found[0].state, store.names()), (DamageState::Repaired, names.clone()));
        }
    }
    notes(&ledger, 3);
    ledger.close().unwrap();
}

/// Story: a prune deleted objects between a check's listing and its repair. They were created again, and the store had a
/// hole when the process ended in between.
#[test]
fn repair_creates_nothing_that_a_prune_deletes_meanwhile() {
    let (disk, store) = history(5);
    let process = store.handle();
    let bound = bound(&disk, &process, 3).unwrap();
    let objects: Vec<String> =
        store.names().into_iter().filter(|name| name.contains(".seg")).collect();
    store.tamper(&objects[1], None);
    // The listings are three calls, and then the slots are read.
    let call = process.calls() + 4;
    let (pruned, lowest) = (store.handle(), objects[0].clone());
    let base = ObjectName::parse(&lowest);
    process.before_call(call, move || {
        for name in pruned.names() {
            let is_lowest = match (ObjectName::parse(&name), &base) {
                (Some(ObjectName::Segment(object)), Some(ObjectName::Segment(base))) => {
                    object.base_seq == base.base_seq
                }
                _ => false,
            };
            if is_lowest {
                pruned.tamper(&name, None);
            }
        }
    });
    bound.keeper.check_store().unwrap();
    assert_eq!(store.peek(&objects[1]), None);
}

/// Story: a segment object that was created after the end of the log was read made a check find nothing.
#[test]
fn check_of_a_busy_log_sees_what_is_lost_before_its_end() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let open = || {
        let clock = MonotonicClock::new(|| Duration::ZERO);
        let opening = StoreOpening { ack: AckMode::Local, node: node(1), time: at(1000), clock };
        let mut car = SideCar::open(&dir(), &storage, &client(&store.handle()), &opening).unwrap();
        car.ship().unwrap();
        while car.upload_segments().unwrap() > 0 {}
        car
    };
    work(&ledger, "first");
    notes(&ledger, 24);
    let mut car = open();
    notes(&ledger, 24);
    open();
    let names = store.names();
    let objects = store.list("seg/").unwrap();
    assert!(segment_floor(&objects) >= car.end().position.next_seq);
    let blob = names.iter().find(|name| name.starts_with("blob/")).unwrap();
    let segment = names.iter().filter(|name| name.contains(".seg")).nth(1).unwrap();
    for lost in [blob, segment] {
        store.tamper(lost, None);
        let found = car.check_store().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].object, found[0].state), (lost, DamageState::Repaired));
    }
    assert_eq!(store.names(), names);
    assert_eq!(car.check_store().unwrap(), []);
    ledger.close().unwrap();
}

fn blob_path(object: &str) -> PathBuf {
    let hash = object.strip_prefix("blob/").unwrap();
    dir().join("blob").join(&hash[..2]).join(hash)
}

/// Story: a put that the store refused leaves a file that no record names. Each outage ended in a report of damage.
#[test]
fn blob_that_no_record_names_is_not_missed() {
    let (disk, store) = history(5);
    let (ledger, keeper) = opened(&disk, &store, 6).unwrap();
    let bytes = b"no record names this".repeat(9);
    let id = BlobId::of(&bytes);
    let named = store.names().into_iter().find(|name| name.starts_with("blob/")).unwrap();
    let path = blob_path(&format!("blob/{}", id.hex()));
    let storage: &dyn Storage = &disk;
    let _ = storage.create_dir(path.parent().unwrap());
    let file = storage.create(&path).unwrap();
    file.write_at(&bytes, 0).unwrap();
    assert!(reader(&disk).blobs().list().unwrap().blobs.iter().any(|blob| blob.id == id));
    assert_eq!(keeper.check_store().unwrap(), []);
    assert_eq!(store.peek(&format!("blob/{}", id.hex())), None);
    store.tamper(&named, None);
    let found = keeper.check_store().unwrap();
    assert_eq!(found.iter().map(|it| &it.object).collect::<Vec<_>>(), [&named]);
    ledger.close().unwrap();
}

/// Story: a file of the folder that was cut made the good object of the store count as damaged.
#[test]
fn cut_blob_of_the_folder_leaves_the_store_alone() {
    let (disk, store) = history(5);
    let (_ledger, keeper) = opened(&disk, &store, 6).unwrap();
    let blob = store.names().into_iter().find(|name| name.starts_with("blob/")).unwrap();
    disk.set_length(&blob_path(&blob), 1000).unwrap();
    let found = look(&keeper);
    assert_eq!(found[&blob].state, DamageState::Uncompared, "{found:?}");
    // A damaged object must not be deleted then: a copy of the store may have it.
    store.tamper(&blob, Some(b"other".to_vec()));
    let found = look(&keeper);
    assert_eq!(found[&blob].state, DamageState::Lost, "{found:?}");
}

/// Story: a flipped bit in the index of a segment of the folder made the good object of the store count as damaged; once a
/// person had deleted it, the damaged index took its place.
#[test]
fn damaged_index_of_the_folder_leaves_the_store_alone() {
    let (disk, store) = history(5);
    let last = last_of(&disk);
    let truth = Truth::of(&disk, last);
    let (_ledger, keeper) = opened(&disk, &store, 6).unwrap();
    let object = store.names().into_iter().filter(|name| name.contains(".seg")).nth(1).unwrap();
    let Some(ObjectName::Segment(SegmentObject { last_seq, .. })) = ObjectName::parse(&object)
    else {
        panic!("{object}")
    };
    let record = reader(&disk).record(last_seq).unwrap().unwrap();
    let segments = reader(&disk).segments();
    let is_own = |path: &&PathBuf| disk.read(path).unwrap() == store.peek(&object).unwrap();
    let path = segments.iter().map(|segment| &segment.path).find(is_own).unwrap();
    let offset = record.offset + record.size + 20;
    let byte = disk.read(path).unwrap()[usize::try_from(offset).unwrap()];
    disk.overwrite(path, offset, &[byte ^ 1]).unwrap();
    assert_eq!(look(&keeper), BTreeMap::new());
    store.tamper(&object, None);
    let found = look(&keeper);
    assert_eq!(found[&object].state, DamageState::Repaired, "{found:?}");
    let part = object.replace(".seg", ".part");
    assert!(store.peek(&object).is_none() && store.peek(&part).is_some(), "{:?}", store.names());
    assert_eq!(look(&keeper), BTreeMap::new());
    assert_eq!(Truth::restored(&store, last).unwrap(), truth);
}

/// Story: one record of the folder that could not be read ended the whole check.
#[test]
fn damaged_record_of_the_folder_is_named_and_the_rest_is_checked() {
    let (disk, store) = history(5);
    let (_ledger, keeper) = opened(&disk, &store, 6).unwrap();
    let names = store.names();
    let sealed: Vec<u64> = names.iter().filter(|name| name.contains(".seg")).map(base).collect();
    let is_alone = |name: &&String| name.contains(".part") && !sealed.contains(&base(name));
    let part = names.iter().find(is_alone).unwrap();
    let Some(ObjectName::Segment(SegmentObject { last_seq, .. })) = ObjectName::parse(part) else {
        panic!("{part}")
    };
    let record = reader(&disk).record(last_seq).unwrap().unwrap();
    let header = |path: &PathBuf| {
        let segments = reader(&disk).segments();
        let own = segments.into_iter().find(|segment| segment.path == *path).unwrap();
        own.header.unwrap().ordinal
    };
    let mut paths = reader(&disk).segments().into_iter().map(|segment| segment.path);
    let path = paths.find(|path| header(path) == record.segment).unwrap();
    let offset = record.offset + record.size - 40;
    let byte = disk.read(&path).unwrap()[usize::try_from(offset).unwrap()];
    disk.overwrite(&path, offset, &[byte ^ 1]).unwrap();
    let blob = names.iter().find(|name| name.starts_with("blob/")).unwrap();
    store.tamper(blob, None);
    let found = keeper.check_store().unwrap();
    let states: BTreeMap<&str, DamageState> =
        found.iter().map(|damage| (damage.object.as_str(), damage.state)).collect();
    let expected = [(part.as_str(), DamageState::Uncompared), (blob, DamageState::Repaired)];
    assert_eq!(states, expected.into(), "{found:?}");
    let path = path.file_name().unwrap().to_str().unwrap();
    assert!(found.iter().any(|damage| damage.what.contains(path)), "{found:?}");
}

fn base(name: &String) -> u64 {
    match ObjectName::parse(name) {
        Some(ObjectName::Segment(object)) => object.base_seq,
        _ => panic!("{name}"),
    }
}

/// Story: an older writer wrote at the name of a lost opening slot while it was being repaired, and that was reported as
/// repaired, although it may have acknowledged a record that the log does not have.
#[test]
fn opening_slot_that_an_older_writer_took_stays_lost() {
    let (disk, store) = (ledger(3), SimStore::new());
    let first = open(&disk, &store.handle(), 1).unwrap();
    first.log.append(&[record(1, 900)], at(60)).unwrap();
    let last = first.log.last_durable().seq;
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap();
    let process = store.handle();
    let second = open(&elsewhere, &process, 2).unwrap();
    for number in 0..30 {
        second.log.append(&[record(number, 900)], at(70)).unwrap();
    }
    while second.keeper.upload_segments().unwrap() > 0 {}
    let name = ObjectName::Slot(last + 1).to_string();
    store.tamper(&name, None);
    // The slots are listed first.
    process.before_call(process.calls() + 2, move || {
        first.log.append(&[record(50, 9)], at(90)).unwrap();
    });
    for _ in 0..2 {
        let found = second.keeper.check_store().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].object, found[0].state), (&name, DamageState::Lost), "{found:?}");
        assert!(found[0].what.contains("older writer"), "{found:?}");
    }
    // Once a person deletes it, it is the opening slot again.
    store.tamper(&name, None);
    let found = second.keeper.check_store().unwrap();
    assert_eq!((&found[0].object, found[0].state), (&name, DamageState::Repaired), "{found:?}");
}

/// Goal: while damage stays, checks read no slot again that was good and is listed unchanged.
#[test]
fn checks_of_a_damaged_store_read_little() {
    let (disk, store) = history(5);
    let process = store.handle();
    let bound = bound(&disk, &process, 3).unwrap();
    let blob = store.names().into_iter().find(|name| name.starts_with("blob/")).unwrap();
    store.tamper(&blob, Some(b"other".to_vec()));
    assert_eq!(bound.keeper.check_store().unwrap()[0].state, DamageState::Deletable);
    let before = process.calls();
    assert_eq!(bound.keeper.check_store().unwrap()[0].state, DamageState::Deletable);
    assert_eq!(process.calls() - before, 8);
    // A slot that changed is read.
    let slot = uncovered(&store).swap_remove(0);
    store.tamper(&slot, Some(b"other".to_vec()));
    let found = bound.keeper.check_store().unwrap();
    let damage = found.iter().find(|damage| damage.object == slot).unwrap();
    assert_eq!(damage.state, DamageState::Repaired);
}

/// Goal: a standby of an owner that writes as fast as it reads comes back to watch it, and a restore ends.
#[test]
fn follower_of_a_busy_owner_comes_back() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    plan_ledger::log::Log::create(&dir(), options(&disk), at(0)).unwrap().close().unwrap();
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let opening = StoreOpening { ack: AckMode::Store, node: node(1), time: at(1000), clock };
    let owner: Arc<BoundLog> =
        Arc::new(open_bound(&dir(), options(&disk), &client(&store.handle()), &opening).unwrap());
    let busy = |store: &SimStore| {
        let process = store.handle();
        for call in 1..=600 {
            let owner = Arc::clone(&owner);
            process.before_call(call, move || {
                owner.log.append(&[record(call, 10)], at(60)).unwrap();
            });
        }
        process
    };
    let standby = SimDisk::new();
    let process = busy(&store);
    let mut folder = StandbyFolder::open(&dir(), options(&standby), &client(&process)).unwrap();
    let opened = process.calls();
    assert!(opened < 120, "{opened}");
    let mut calls = opened;
    for _ in 0..3 {
        assert!(!folder.follow_to_end().unwrap());
        assert!(process.calls() - calls < 120, "{} calls", process.calls() - calls);
        calls = process.calls();
    }
    // An owner that rests is followed to the end.
    let process = store.handle();
    let rested = SimDisk::new();
    let mut folder = StandbyFolder::open(&dir(), options(&rested), &client(&process)).unwrap();
    assert!(folder.follow_to_end().unwrap());
    assert_eq!(folder.progress().last_seq, owner.log.last_durable().seq);
}

/// Goal: a restore leaves out a blob that is missing or damaged, and has everything else.
#[test]
fn restore_without_a_blob_has_all_records() {
    let (disk, store) = history(5);
    let last = last_of(&disk);
    let truth = Truth::of(&disk, last);
    let blob = store.names().into_iter().find(|name| name.starts_with("blob/")).unwrap();
    for bytes in [None, Some(b"other".to_vec())] {
        let store = store.fork();
        store.tamper(&blob, bytes);
        let restored = Truth::restored(&store, last).unwrap();
        assert_eq!((restored.blobs, &restored.records), (0, &truth.records));
        assert_eq!(restored.state, truth.state);
    }
}
