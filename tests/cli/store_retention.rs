//! Deleting what a store does not need any longer: every record stays where a reader finds it, every writer that was
//! replaced stays replaced, whatever call fails and however late a collector is.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::ledger::RetentionLimit;
use plan_ledger::internals::sim::{SimDisk, SimStore, StoreFate};
use plan_ledger::internals::storage::{Access, Storage, StorageFile};
use plan_ledger::internals::store::{
    AckMode, BoundLog, COLLECT_AFTER, CollectPlan, LedgerIdentity, MemoryFile, MonotonicClock,
    ObjectName, Objects, RemovableClass, RemovableObject, SegmentForm, SegmentObject, SideCar,
    StandbyFolder, StoreClient, StoreEnd, StoreKeeper, StoreOpening, StorePrune, StoreTime,
    bound_ledger, open_bound, read_in_place, read_parts_in_place, rejoin, remove, restore,
    segment_floor,
};
use plan_ledger::log::{LogReader, LoggedRecord, SegmentSizes, VerifyOptions, verify};
use plan_ledger::{Environment, Error, ErrorKind, Ledger, LedgerView, Note, State, state_hash};

use super::lab::{at, dir, reader, record};
use super::store_folder::{client, ledger, node, open, restored, small, summary, unbind};
use super::time_travel::environment;

/// A day of the store's clock.
pub(crate) const DAY: u64 = 24 * 60 * 60 * 1_000_000;

/// The log in a store as a restored folder has it.
fn log_of(store: &SimStore) -> Vec<(u64, String)> {
    summary(&restored(store).unwrap().1)
}

pub(crate) fn plan(store: &SimStore) -> Result<CollectPlan, Error> {
    plan_at(store, store.now())
}

fn plan_at(store: &SimStore, now: StoreTime) -> Result<CollectPlan, Error> {
    let client = client(&store.handle());
    let identity = bound_ledger(client.objects(), client.retry())?.unwrap();
    CollectPlan::of(&client.session(identity), now)
}

/// Carry out a plan with a process of its own, which may have fates. Returns what it deleted.
pub(crate) fn carry_out(
    process: &SimStore,
    objects: &[RemovableObject],
) -> (Result<(), Error>, Vec<String>) {
    let client = client(process);
    let mut deleted = Vec::new();
    let identity = LedgerIdentity { ledger: [0; 16], genesis: [0; 16] };
    let outcome = remove(&client.session(identity), objects, &mut |object| {
        deleted.push(object.name.clone());
    });
    (outcome, deleted)
}

pub(crate) fn of_class(plan: &[RemovableObject], class: RemovableClass) -> Vec<String> {
    let own = plan.iter().filter(|object| object.class == class);
    own.map(|object| object.name.clone()).collect()
}

fn slots(store: &SimStore) -> Vec<String> {
    store.names().into_iter().filter(|name| name.starts_with("tail/")).collect()
}

/// A ledger of two epochs whose segments are in segment objects. Returns the log of the second one, which is open, and
/// the machine of the first one, which stopped before its next commit and does not know that it was replaced.
fn two_epochs() -> (SimStore, BoundLog, BoundLog) {
    let (disk, store) = (ledger(1), SimStore::new());
    let first = open(&disk, &store.handle(), 1).unwrap();
    for number in 0..12 {
        first.log.append(&[record(number, 1500)], at(60)).unwrap();
    }
    first.keeper.upload_segments().unwrap();
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap();
    let second = open(&elsewhere, &store.handle(), 2).unwrap();
    for number in 20..32 {
        second.log.append(&[record(number, 1500)], at(70)).unwrap();
    }
    second.keeper.upload_segments().unwrap();
    (store, second, first)
}

/// Goal: slots that segment objects cover are collected, those that open an epoch stay, and so a writer that was
/// replaced days ago is refused.
#[test]
fn opening_slots_are_never_collected() {
    let (store, second, first) = two_epochs();
    let before = log_of(&store);
    store.advance(3 * DAY);
    let planned = plan(&store).unwrap();
    let collected = of_class(&planned.objects, RemovableClass::Slot);
    assert!(collected.len() > 15 && planned.uncovered > 0, "{planned:?}");
    assert_eq!((planned.opening, planned.young, planned.invalid), (2, 0, 0), "{planned:?}");
    assert_eq!(
        collected.len() + 2 + usize::try_from(planned.uncovered).unwrap(),
        slots(&store).len()
    );
    let next = ObjectName::Slot(first.log.last_durable().seq + 1).to_string();
    assert!(slots(&store).contains(&next) && !collected.contains(&next));
    let (outcome, deleted) = carry_out(&store.handle(), &planned.objects);
    outcome.unwrap();
    assert_eq!(deleted.len(), planned.objects.len());
    assert_eq!(log_of(&store), before);
    assert_eq!(first.log.append(&[record(50, 9)], at(90)).unwrap_err().kind(), ErrorKind::Fenced);
    second.log.append(&[record(51, 9)], at(90)).unwrap();
    assert_eq!(log_of(&store).len(), before.len() + 1);
    // There is nothing more to collect.
    assert_eq!(plan(&store).unwrap().objects, []);
}

/// Goal: a slot is kept until the store says that it is 48 hours old, to the microsecond, whatever a machine thinks.
#[test]
fn young_slots_are_kept() {
    let (store, _second, _first) = two_epochs();
    let written = store.now().0;
    for (age, is_collected) in
        [(0, false), (DAY, false), (COLLECT_AFTER - 1, false), (COLLECT_AFTER, true)]
    {
        let planned = plan_at(&store, StoreTime(written + age)).unwrap();
        assert_eq!(!planned.objects.is_empty(), is_collected, "{age}: {planned:?}");
        assert_eq!(planned.young == 0, is_collected, "{age}: {planned:?}");
    }
    // A time before that of the slots is no reason either.
    assert_eq!(plan_at(&store, StoreTime(0)).unwrap().objects, []);
}

/// Goal: nothing is collected while the log has damage: the slot may be the only good copy.
#[test]
fn damaged_log_is_not_collected() {
    let (store, _second, _first) = two_epochs();
    store.advance(3 * DAY);
    let segments: Vec<String> =
        store.names().into_iter().filter(|name| name.contains(".seg")).collect();
    for name in &segments {
        let damaged = store.fork();
        let mut bytes = store.peek(name).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        damaged.tamper(name, Some(bytes));
        let error = plan(&damaged).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Goal: a reader that stands at a slot which is collected meanwhile lists the segment objects before it takes the
/// missing slot for the end.
#[test]
fn reader_at_a_collected_slot_reads_the_segment() {
    let (store, second, _first) = two_epochs();
    let identity = bound_ledger(&store, &|_| false).unwrap().unwrap();
    let last = second.log.last_durable().seq;
    let process = store.handle();
    // It lists the segment objects, of which there are none, and reads the first slots.
    let early = store.fork();
    for name in store.names().into_iter().filter(|name| name.starts_with("seg/")) {
        early.tamper(&name, None);
    }
    let half = last / 2;
    for name in slots(&store).into_iter().filter(
        |name| matches!(ObjectName::parse(name), Some(ObjectName::Slot(first)) if first > half),
    ) {
        early.tamper(&name, None);
    }
    let early = client(&early);
    let at_half = early.session(identity).find_end(StoreEnd::start(), &mut |_| Ok(())).unwrap();
    assert_eq!(at_half.position.next_seq, half + 1);
    // After its first listing the world moves on.
    let other = store.clone();
    let hidden: Vec<(String, Vec<u8>)> = store
        .names()
        .into_iter()
        .filter(|name| name.starts_with("seg/"))
        .map(|name| (name.clone(), store.peek(&name).unwrap()))
        .collect();
    for (name, _) in &hidden {
        store.tamper(name, None);
    }
    process.before_call(2, move || {
        for (name, bytes) in &hidden {
            other.tamper(name, Some(bytes.clone()));
        }
        other.advance(3 * DAY);
        let planned = plan(&other).unwrap();
        carry_out(&other.handle(), &planned.objects).0.unwrap();
    });
    let mut seen = BTreeSet::new();
    let process = client(&process);
    let end = process.session(identity).find_end(at_half, &mut |taken| {
        taken.for_each_record(&mut |record| {
            seen.insert(record.header.stamp.seq);
        });
        Ok(())
    });
    assert_eq!(end.unwrap().position.next_seq, last + 1);
    assert!((half + 1..=last).all(|seq| seen.contains(&seq)), "{seen:?}");
}

/// Goal: whichever delete fails, and in whatever way, the log is whole, and the next collection finishes.
#[test]
fn failed_delete_costs_nothing() {
    let (store, _second, _first) = two_epochs();
    store.advance(3 * DAY);
    let before = log_of(&store);
    let planned = plan(&store).unwrap().objects;
    let calls = u64::try_from(planned.len()).unwrap();
    for call in 1..=calls {
        for fate in StoreFate::ALL {
            let store = store.fork();
            let process = store.handle();
            process.set_fate(call, fate);
            let (outcome, _) = carry_out(&process, &planned);
            assert_eq!(outcome.is_err(), process.is_dead(), "{call} {fate:?}: {outcome:?}");
            assert_eq!(log_of(&store), before, "{call} {fate:?}");
            let rest = plan(&store).unwrap().objects;
            carry_out(&store.handle(), &rest).0.unwrap();
            assert_eq!(plan(&store).unwrap().objects, [], "{call} {fate:?}");
            assert_eq!(log_of(&store), before, "{call} {fate:?}");
        }
    }
}

/// Goal: a collector that made its plan long ago, and was fenced since, deletes nothing that the log needs.
#[test]
fn late_collector_deletes_nothing_that_is_needed() {
    let (store, second, _first) = two_epochs();
    store.advance(3 * DAY);
    let late = plan(&store).unwrap().objects;
    // Another collector is first, a third machine takes over and commits, and its slots are collected too.
    carry_out(&store.handle(), &late).0.unwrap();
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(&store), &mut |_| ()).unwrap();
    let third = open(&elsewhere, &store.handle(), 3).unwrap();
    for number in 40..52 {
        third.log.append(&[record(number, 1500)], at(80)).unwrap();
    }
    third.keeper.upload_segments().unwrap();
    store.advance(3 * DAY);
    let planned = plan(&store).unwrap().objects;
    carry_out(&store.handle(), &planned).0.unwrap();
    let (before, names) = (log_of(&store), store.names());
    carry_out(&store.handle(), &late).0.unwrap();
    assert_eq!((log_of(&store), store.names()), (before, names));
    assert_eq!(second.log.append(&[record(60, 9)], at(90)).unwrap_err().kind(), ErrorKind::Fenced);
    third.log.append(&[record(61, 9)], at(90)).unwrap();
}

/// Goal: a longer object of the same segment replaces a shorter one, and only long after it was created.
#[test]
fn replaced_parts_and_index_objects_are_collected() {
    let (store, second, _first) = two_epochs();
    let sealed = store.names().iter().find_map(|name| match ObjectName::parse(name) {
        Some(ObjectName::Segment(object)) if object.last_seq > object.base_seq => Some(object),
        _ => None,
    });
    let sealed = sealed.expect("a segment has several records");
    // A part of it, from before it was sealed.
    let part = SegmentObject { last_seq: sealed.base_seq, form: SegmentForm::Part, ..sealed };
    let whole = store.peek(&ObjectName::Segment(sealed).to_string()).unwrap();
    let name = ObjectName::Segment(part).to_string();
    let records = log_of(&store);
    let end = end_of(&second, part.last_seq);
    store.tamper(&name, Some(whole[..end].to_vec()));
    assert_eq!(log_of(&store), records);
    let indexes = store.names().into_iter().filter(|name| name.contains(".index")).count();
    assert!(indexes > 1);
    let planned = plan(&store).unwrap();
    assert_eq!(planned.objects, []);
    store.advance(COLLECT_AFTER);
    let planned = plan(&store).unwrap().objects;
    assert_eq!(of_class(&planned, RemovableClass::Part), [name]);
    assert_eq!(of_class(&planned, RemovableClass::Index).len(), indexes - 1);
    carry_out(&store.handle(), &planned).0.unwrap();
    assert_eq!(log_of(&store), records);
}

/// Where a record ends in its segment.
fn end_of(bound: &BoundLog, seq: u64) -> usize {
    let record = bound.log.reader().unwrap().record(seq).unwrap().unwrap();
    usize::try_from(record.offset + record.size).unwrap()
}

/// A ledger with small segments and no scheduled snapshots.
pub(crate) fn quiet(disk: &SimDisk) -> Environment {
    let segments = SegmentSizes { first: 8192, largest: 8192 };
    let ids = Environment::system().ids;
    Environment { snapshot_every: None, segments, ids, ..environment(disk, 1) }
}

/// All records that a log still has.
fn all(log: &LogReader) -> Vec<LoggedRecord> {
    log.records(log.first_seq()).map(Result::unwrap).collect()
}

pub(crate) fn bound(disk: &SimDisk, store: &SimStore, number: u8) -> (Ledger, Arc<StoreKeeper>) {
    let environment = quiet(disk);
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let time = environment.clock.now();
    let opening = StoreOpening { ack: AckMode::Store, node: node(number), time, clock };
    let bound = open_bound(&dir(), environment.log_options(), &client(store), &opening).unwrap();
    let keeper = bound.keeper.clone();
    (Ledger::of_log(bound.log, &bound.recovery, &environment).unwrap().0, keeper)
}

pub(crate) fn notes(ledger: &Ledger, count: usize) {
    for number in 0..count {
        let text = format!("note {number}: {}", "n".repeat(900));
        let note = Note { run: None, step: None, by: "ann".to_owned(), text };
        ledger.add_note(&note, None).unwrap();
    }
}

/// A ledger in a store that was pruned in its folder. The store has everything.
fn pruned() -> (SimDisk, SimStore) {
    pruned_after(&|_, _, keeper| {
        keeper.upload_segments().unwrap();
    })
}

/// What is done with the folder, the store and the keeper right before a prune.
pub(crate) type Step<'a> = &'a dyn Fn(&SimDisk, &SimStore, &StoreKeeper);

/// The same, if this was done right before.
pub(crate) fn pruned_after(before: Step<'_>) -> (SimDisk, SimStore) {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (ledger, keeper) = bound(&disk, &store.handle(), 1);
    notes(&ledger, 40);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    before(&disk, &store, &keeper);
    let report = ledger.prune(RetentionLimit::Record(30), None, "ann").unwrap();
    assert!(report.preview.segments.len() > 2, "{report:?}");
    notes(&ledger, 12);
    keeper.upload_segments().unwrap();
    ledger.close().unwrap();
    // As if the writer had uploaded no snapshot.
    for name in store.names().iter().filter(|name| name.starts_with("snap/")) {
        store.tamper(name, None);
    }
    (disk, store)
}

/// What a view of the ledger in a store shows: the state hash at its end, and the chain values that it has.
fn shown(store: &SimStore, is_part: bool) -> (String, Vec<(u64, String)>) {
    let root = Path::new("/a store");
    let disk = SimDisk::new();
    let options = quiet(&disk).log_options();
    let mut new_file = |_: u64| {
        let file: Arc<dyn StorageFile> = Arc::new(MemoryFile::default());
        Ok(file)
    };
    let client = client(&store.handle());
    let read = if is_part { read_parts_in_place } else { read_in_place };
    let storage: Arc<dyn Storage> = Arc::new(
        read(root, &options, &client, &mut new_file).unwrap_or_else(|error| panic!("{error}")),
    );
    let log = LogReader::open(&storage, root).unwrap();
    let records = all(&log);
    let view = LedgerView::open(root, &Environment { storage, ..quiet(&disk) }).unwrap();
    let state = view.state_at(records.last().unwrap().seq).unwrap();
    (format!("{:?}", state_hash(&state)), summary(&records))
}

pub(crate) fn prune_plan(store: &SimStore) -> (StoreClient, Option<StorePrune>) {
    let client = client(&store.handle());
    let identity = bound_ledger(client.objects(), client.retry()).unwrap().unwrap();
    let session = client.session(identity);
    let planned = StorePrune::find(&session).unwrap();
    (client.clone(), planned)
}

/// Prune a store with the snapshots of a folder. Returns what was deleted.
pub(crate) fn prune_store(disk: &SimDisk, store: &SimStore) -> Vec<String> {
    let (client, planned) = prune_plan(store);
    let planned = planned.unwrap();
    let identity = bound_ledger(store, &|_| false).unwrap().unwrap();
    planned.upload_anchors(&dir(), &quiet(disk).log_options(), &client.session(identity)).unwrap();
    let (outcome, deleted) = carry_out(&store.handle(), &planned.objects);
    outcome.unwrap();
    deleted
}

/// Goal: what a note covers is deleted, the oldest first. The rest is read in place, as a whole and in parts, restored,
/// verified, continued and taken over, with the state of the folder.
#[test]
fn pruned_segments_are_deleted_and_the_rest_continues() {
    let (disk, store) = pruned();
    let before = shown(&store, false);
    assert_eq!(before.1[0].0, 1);
    let (_, planned) = prune_plan(&store);
    let planned = planned.unwrap();
    assert_eq!(planned.missing.len(), 2);
    let first = planned.note.last_seq + 1;
    let deleted = prune_store(&disk, &store);
    assert!(deleted.len() > 2 && deleted.is_sorted(), "{deleted:?}");
    let rest: Vec<_> = before.1.iter().filter(|(seq, _)| *seq >= first).cloned().collect();
    for is_part in [false, true] {
        assert_eq!(shown(&store, is_part), (before.0.clone(), rest.clone()), "{is_part}");
    }
    // A second time, there is nothing to do and nothing missing.
    let (_, again) = prune_plan(&store);
    let again = again.unwrap();
    assert_eq!((again.objects.len(), again.missing.len()), (0, 0));
    let elsewhere = SimDisk::new();
    restore(&dir(), quiet(&elsewhere).log_options(), &client(&store), &mut |_| ()).unwrap();
    assert_eq!(summary(&all(&reader(&elsewhere))), rest);
    let storage: Arc<dyn Storage> = Arc::new(elsewhere.clone());
    let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
    assert!(!verified.is_damaged(), "{:?}", verified.findings);
    let (ledger, keeper) = bound(&elsewhere, &store.handle(), 2);
    notes(&ledger, 9);
    keeper.upload_segments().unwrap();
    ledger.close().unwrap();
    // The folder that wrote first continues as well.
    let (ledger, _) = bound(&disk, &store.handle(), 3);
    notes(&ledger, 1);
    ledger.close().unwrap();
    assert_eq!(shown(&store, false).1.len(), rest.len() + 12);
    // Slots of pruned records are collected as others are.
    store.advance(3 * DAY);
    let collected = plan(&store).unwrap().objects;
    carry_out(&store.handle(), &collected).0.unwrap();
    assert_eq!(shown(&store, true).1.len(), rest.len() + 12);
}

/// Goal: the newest segment object is never deleted, although the note covers it.
#[test]
fn newest_segment_object_is_never_pruned() {
    let (disk, store) = pruned();
    let (_, planned) = prune_plan(&store);
    let last = planned.unwrap().note.last_seq;
    // The store lost what was uploaded after the pruned segments: their slots are there.
    for name in store.names() {
        let is_later = match ObjectName::parse(&name) {
            Some(ObjectName::Segment(object)) => object.last_seq > last,
            Some(ObjectName::Index(range)) => range.last_seq > last,
            _ => false,
        };
        if is_later {
            store.tamper(&name, None);
        }
    }
    let (_, planned) = prune_plan(&store);
    let planned = planned.unwrap();
    let kept: Vec<_> = store.names().into_iter().filter(|name| name.contains(".seg")).collect();
    assert_eq!(planned.objects.len() + 1, kept.len(), "{kept:?}");
    assert!(planned.objects.iter().all(|object| Some(&object.name) != kept.last()));
    prune_store(&disk, &store);
    assert!(shown(&store, false).1[0].0 <= last);
}

/// Goal: whichever delete of a prune fails, and in whatever way, the rest begins with a complete segment and is read;
/// the next prune finishes.
#[test]
fn failed_delete_of_a_prune_costs_nothing() {
    let (disk, store) = pruned();
    let last = shown(&store, false);
    let (client, planned) = prune_plan(&store);
    let planned = planned.unwrap();
    let identity = bound_ledger(&store, &|_| false).unwrap().unwrap();
    planned.upload_anchors(&dir(), &quiet(&disk).log_options(), &client.session(identity)).unwrap();
    let calls = u64::try_from(planned.objects.len()).unwrap();
    assert!(calls > 2, "{planned:?}");
    for call in 1..=calls {
        for fate in StoreFate::ALL {
            let store = store.fork();
            let process = store.handle();
            process.set_fate(call, fate);
            let (outcome, deleted) = carry_out(&process, &planned.objects);
            assert_eq!(outcome.is_err(), process.is_dead(), "{call} {fate:?}");
            let found = shown(&store, false);
            assert_eq!((&found.0, found.1.last()), (&last.0, last.1.last()), "{call} {fate:?}");
            assert!(found.1[0].0 <= planned.note.last_seq + 1, "{call} {fate:?}: {deleted:?}");
            let (_, rest) = prune_plan(&store);
            carry_out(&store.handle(), &rest.unwrap().objects).0.unwrap();
            assert_eq!(shown(&store, false).1[0].0, planned.note.last_seq + 1, "{call} {fate:?}");
        }
    }
}

/// Goal: without a retention note, the loss of the first segments is damage and not a prune, and nothing is planned.
#[test]
fn lost_first_segment_without_a_note_is_damage() {
    let (store, _second, _first) = two_epochs();
    let (_, planned) = prune_plan(&store);
    assert_eq!(planned, None);
    let first = store.names().into_iter().find(|name| name.contains(".seg")).unwrap();
    store.tamper(&first, None);
    let error = restored(&store).unwrap_err();
    assert_eq!((error.kind(), error.location().seq), (ErrorKind::Corrupt, Some(1)), "{error}");
    assert!(error.to_string().contains("no retention note"), "{error}");
}

/// Goal: snapshots of another ledger, and damaged ones, are not uploaded, and a damaged one in the store counts as
/// missing.
#[test]
fn damaged_snapshots_are_refused() {
    let (disk, store) = pruned();
    let other_store = store.fork();
    let (client, planned) = prune_plan(&store);
    let planned = planned.unwrap();
    let identity = bound_ledger(&store, &|_| false).unwrap().unwrap();
    let upload = |disk: &SimDisk| {
        planned.upload_anchors(&dir(), &quiet(disk).log_options(), &client.session(identity))
    };
    let other = SimDisk::new();
    Ledger::create(&dir(), &quiet(&other)).unwrap().close().unwrap();
    assert_eq!(upload(&other).unwrap_err().kind(), ErrorKind::Rejected);
    let path = dir().join("snap").join(&planned.missing[1].file);
    let damaged = disk.fork();
    let middle = damaged.read(&path).unwrap().len() / 2;
    let file = damaged.open(&path, Access::ReadWrite).unwrap();
    file.write_at(b"damage", u64::try_from(middle).unwrap()).unwrap();
    assert_eq!(upload(&damaged).unwrap_err().kind(), ErrorKind::Corrupt);
    let names = upload(&disk).unwrap();
    assert!(!names.is_empty());
    let names: Vec<String> =
        planned.missing.iter().map(|anchor| format!("snap/{}.anchor", anchor.file)).collect();
    for name in &names {
        other_store.create(name, b"not a snapshot").unwrap();
    }
    assert_eq!(prune_plan(&other_store).1.unwrap().missing.len(), 2);
}

/// The segment objects of a store, without those of indexes.
fn segment_objects(store: &SimStore) -> Vec<String> {
    let names = store.names().into_iter();
    names.filter(|name| name.starts_with("seg/") && !name.contains(".index")).collect()
}

/// Story: a folder was pruned before its segments were uploaded. The uploader waited for a segment that was gone, and no
/// later one was ever uploaded. It is made of its slots instead, also if a first part of it was uploaded before.
#[test]
fn segments_pruned_before_their_upload_are_made_of_slots() {
    let usual = pruned().1;
    let records = shown(&usual, false);
    let covered = usual.list("seg/").map(|listed| segment_floor(&listed)).unwrap();
    let nothing = |_: &SimDisk, _: &SimStore, _: &StoreKeeper| ();
    // Two segments, and the first part of the third one.
    let part = |disk: &SimDisk, store: &SimStore, _: &StoreKeeper| {
        let log = reader(disk);
        let segments = log.segments();
        let headers = segments.iter().map(|segment| segment.header.clone().unwrap());
        let headers: Vec<_> = headers.collect();
        let third = headers[2].base_seq + 1;
        for (header, last_seq) in
            headers.iter().zip([headers[1].prev_last_seq, headers[2].prev_last_seq, third])
        {
            let last = log.record(last_seq).unwrap().unwrap();
            let end = usize::try_from(last.offset + last.size).unwrap();
            let bytes = disk.read(&dir().join("log").join(header.name().to_string())).unwrap();
            let (base_seq, ordinal) = (header.base_seq, header.ordinal);
            let form = SegmentForm::Part;
            let part = SegmentObject { base_seq, last_seq, ordinal, form };
            store.create(&ObjectName::Segment(part).to_string(), &bytes[..end]).unwrap();
        }
    };
    let cases: [Step<'_>; 2] = [&nothing, &part];
    for (number, before) in cases.into_iter().enumerate() {
        let (disk, store) = pruned_after(before);
        let found = store.list("seg/").map(|listed| segment_floor(&listed)).unwrap();
        assert_eq!(found, covered, "{number}");
        let parts = segment_objects(&store).iter().filter(|name| name.contains(".part")).count();
        assert!(parts > number, "{number}: {:?}", store.names());
        for is_part in [false, true] {
            assert_eq!(shown(&store, is_part).1.len(), records.1.len(), "{number}");
        }
        let copy = SimDisk::new();
        restore(&dir(), quiet(&copy).log_options(), &client(&store), &mut |_| ()).unwrap();
        assert_eq!(all(&reader(&copy)).len(), records.1.len());
        let storage: Arc<dyn Storage> = Arc::new(copy);
        let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
        assert!(!verified.is_damaged(), "{:?}", verified.findings);
        // Its slots can be collected, and the store can be pruned.
        let shown_before = shown(&store, false);
        store.advance(3 * DAY);
        let collected = plan(&store).unwrap().objects;
        assert!(collected.len() > 20, "{number}: {}", collected.len());
        carry_out(&store.handle(), &collected).0.unwrap();
        assert_eq!(shown(&store, true), shown_before, "{number}");
        assert!(prune_store(&disk, &store).len() > 2, "{number}");
        assert!(shown(&store, false).1.len() < records.1.len(), "{number}");
    }
}

/// The log of a store, restored.
fn restored_log(store: &SimStore) -> LogReader {
    let disk = SimDisk::new();
    restore(&dir(), quiet(&disk).log_options(), &client(&store.handle()), &mut |_| ()).unwrap();
    reader(&disk)
}

/// Goal: the same for a ledger that a side-car ships. The process that prunes it does not know of the store.
#[test]
fn side_car_uploads_after_a_prune() {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let opening = StoreOpening { ack: AckMode::Local, node: node(1), time: at(1000), clock };
    let mut car = SideCar::open(&dir(), &storage, &client(&store.handle()), &opening).unwrap();
    notes(&ledger, 40);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    car.ship().unwrap();
    ledger.prune(RetentionLimit::Record(30), None, "ann").unwrap();
    notes(&ledger, 8);
    car.ship().unwrap();
    let segments = reader(&disk).segments();
    let newest = segments.last().unwrap().header.as_ref().unwrap().base_seq;
    assert!(car.upload_segments().unwrap() > 2);
    let floor = store.list("seg/").map(|listed| segment_floor(&listed)).unwrap();
    assert_eq!(floor, newest - 1);
    let records = all(&restored_log(&store));
    assert_eq!(records.first().unwrap().seq, 1);
    assert_eq!(records.last().unwrap().chain, all(&reader(&disk)).last().unwrap().chain);
    ledger.close().unwrap();
}

/// Story: a folder that ended before a store that was pruned begins counted as diverged. The error says where both are; a
/// standby that needs nothing of it restores the store by itself, and keeps it.
#[test]
fn folder_that_ends_before_the_store_begins_is_named() {
    let early = std::cell::RefCell::new(None);
    let (disk, store) = pruned_after(&|_, store, keeper| {
        let copy = SimDisk::new();
        let process = client(&store.handle());
        let options = quiet(&copy).log_options();
        let follower = StandbyFolder::open(&dir(), options, &process).unwrap();
        early.replace(Some((copy, follower)));
        keeper.upload_segments().unwrap();
    });
    let (copy, mut follower) = early.into_inner().unwrap();
    let last = follower.progress().last_seq;
    // The store is pruned up to a later record than the folder has.
    let (ledger, keeper) = bound(&disk, &store.handle(), 2);
    notes(&ledger, 40);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 8);
    keeper.upload_segments().unwrap();
    ledger.prune(RetentionLimit::Record(last + 25), None, "ann").unwrap();
    notes(&ledger, 20);
    keeper.upload_segments().unwrap();
    ledger.close().unwrap();
    prune_store(&disk, &store);
    store.advance(3 * DAY);
    let collected = plan(&store).unwrap().objects;
    carry_out(&store.handle(), &collected).0.unwrap();
    let first = all(&restored_log(&store)).first().unwrap().seq;
    assert!(first > last + 1, "{first} {last}");

    let expect = |error: &Error, word: &str| {
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("the store begins at record {first}")), "{text}");
        assert!(text.contains(&format!("this folder ends at record {last}")), "{text}");
        let hint = error.hint().unwrap();
        assert!(hint.contains(word) && hint.contains("restore the store"), "{hint}");
    };
    expect(&follower.follow_to_end().unwrap_err(), "is lost");
    drop(follower);
    let options = |disk: &SimDisk| quiet(disk).log_options();
    let process = client(&store.handle());
    let files = copy.files(&dir());
    expect(&StandbyFolder::open(&dir(), options(&copy), &process).unwrap_err(), "is lost");
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let opening = StoreOpening { ack: AckMode::Store, node: node(3), time: at(1000), clock };
    let refused = open_bound(&dir(), options(&copy), &process, &opening).unwrap_err();
    expect(&refused, "is lost");
    let line = &mut |record: &LoggedRecord| record.seq.to_string();
    expect(&rejoin(&dir(), options(&copy), &process, line).unwrap_err(), "is lost");
    assert_eq!(copy.files(&dir()), files, "nothing was changed");

    // What a folder acknowledged alone may be only there: it is not replaced.
    let alone = copy.fork();
    unbind(&alone);
    let refused = StandbyFolder::open_or_restore(&dir(), options(&alone), &process).unwrap_err();
    expect(&refused, "cannot be compared");
    let storage: Arc<dyn Storage> = Arc::new(alone);
    let refused = SideCar::open(&dir(), &storage, &process, &opening).unwrap_err();
    expect(&refused, "cannot be compared");

    let folder = StandbyFolder::open_or_restore(&dir(), options(&copy), &process).unwrap();
    let kept = folder.kept().unwrap().to_owned();
    assert_eq!(kept, dir().with_file_name(format!("ledger.until-{last}")));
    folder.finish().unwrap();
    assert_eq!(all(&reader(&copy)).first().unwrap().seq, first);
    let storage: Arc<dyn Storage> = Arc::new(copy.clone());
    let old = all(&LogReader::open(&storage, &kept).unwrap());
    assert_eq!(old.last().unwrap().seq, last);
    // The new folder follows, takes over and writes.
    let folder = StandbyFolder::open_or_restore(&dir(), options(&copy), &process).unwrap();
    assert_eq!(folder.kept(), None);
    folder.take_over(&opening, None).unwrap().log.close().unwrap();
}
