//! When a commit counts as saved: the modes `local`, `bounded` and `store`, the shipper, the binding of a
//! folder, and folders that diverged. Whatever call of the disk or the store fails, nothing is lost beyond
//! what the mode says, what is lost is named, and nothing is invented.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plan_ledger::internals::format::NewRecord;
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Loss, OsError, SimDisk, SimStore, StoreFate, sweep,
};
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, AckedBy, BoundLog, CollectPlan, DirectoryObjects, MonotonicClock, Rejoined, SideCar,
    StoreClient, StoreLag, StoreOpening, open_bound, rejoin, remove, replicate, restore,
};
use plan_ledger::log::{
    BoundAck, Log, LogCopy, LogOptions, LogReader, LoggedRecord, LoggedRetentionNote,
    RetentionNote, SegmentSizes, StoreBinding, VerifyOptions, bound_store, verify,
};
use plan_ledger::{Environment, Error, ErrorKind, Ledger};

use super::lab::{LOOKS, Restart, at, dir, kill, log_digest, mix, options, reader, record, whole};
use super::store_folder::{
    PATIENCE, URL, client, ledger, node, open, restored, small, summary, unbind,
};

/// The bound of the tests.
const BOUND: Duration = Duration::from_secs(5);

const BOUNDED: AckMode = AckMode::Bounded(BOUND);

/// The monotonic clock of a machine, in milliseconds.
#[derive(Debug, Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn opening(&self, number: u8, ack: AckMode) -> StoreOpening {
        let own = self.clone();
        let clock = MonotonicClock::new(move || Duration::from_millis(own.now()));
        StoreOpening { ack, node: node(number), time: at(1000), clock }
    }

    fn open(
        &self,
        disk: &SimDisk,
        store: &SimStore,
        number: u8,
        ack: AckMode,
    ) -> Result<BoundLog, Error> {
        open_bound(&dir(), small(disk), &client(store), &self.opening(number, ack))
    }
}

/// A line of an export: what the tests compare.
fn line(record: &LoggedRecord) -> String {
    format!("{} {} {:?}", record.seq, record.chain, record.payload)
}

fn join_again(disk: &SimDisk, store: &SimStore) -> Result<Rejoined, Error> {
    rejoin(&dir(), small(disk), &client(store), &mut line)
}

/// Another machine restores the store, takes over in the mode `store`, and commits once.
fn take_over(store: &SimStore, number: u8) -> (SimDisk, BoundLog) {
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(store), &mut |_| ()).unwrap();
    let bound = open(&elsewhere, store, number).unwrap();
    bound.log.append(&[record(9000 + u64::from(number), 50)], at(70)).unwrap();
    (elsewhere, bound)
}

/// A bound ledger that is closed, with its store.
fn bound_ledger(count: u64) -> (SimDisk, SimStore) {
    let (disk, store) = (ledger(count), SimStore::new());
    open(&disk, &store.handle(), 0x70).unwrap().log.close().unwrap();
    disk.lose_power(Loss::Nothing);
    (disk, store)
}

/// Goal: a ledger that is bound to a store is not opened for writing without it. The error names the store
/// and says what to do. Reading needs no store, and a person can leave the store.
#[test]
fn bound_ledger_is_not_written_without_its_store() {
    let (disk, store) = bound_ledger(3);
    let digest = log_digest(&disk);
    let error = Log::open(&dir(), small(&disk), at(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(URL), "{error}");
    assert!(error.hint().unwrap().contains("STORE.json"), "{error}");
    assert_eq!(log_digest(&disk), digest);
    assert_eq!(whole(&reader(&disk)).len(), 4);
    // A power cut does not unbind it.
    let cut = Restart::Power(Loss::Everything).of(&disk);
    assert_eq!(Log::open(&dir(), small(&cut), at(60)).unwrap_err().kind(), ErrorKind::Rejected);
    unbind(&disk);
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    log.append(&[record(5, 100)], at(60)).unwrap();
    log.close().unwrap();
    // It joins again, with what it wrote.
    let bound = open(&disk, &store.handle(), 2).unwrap();
    assert_eq!(bound.progress.shipped, 1);
}

/// Goal: the same through the ledger, on a real disk, for a restored folder too.
#[test]
fn bound_ledger_is_refused_on_a_real_disk() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    let objects = DirectoryObjects::open(&place.path().join("store")).unwrap();
    let client = StoreClient::new("file:///store", Arc::new(objects), |unclear| unclear < PATIENCE);
    let environment = Environment::system();
    Ledger::create(&first, &environment).unwrap().close().unwrap();
    let opening = Clock::default().opening(1, AckMode::Store);
    let bound = open_bound(&first, environment.log_options(), &client, &opening).unwrap();
    bound.log.close().unwrap();
    restore(&second, environment.log_options(), &client, &mut |_| ()).unwrap();
    for folder in [&first, &second] {
        let error = Ledger::open(folder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains("file:///store"), "{error}");
        plan_ledger::LedgerView::open(folder, &environment).unwrap();
        std::fs::remove_file(folder.join("STORE.json")).unwrap();
        Ledger::open(folder).unwrap().close().unwrap();
    }
}

/// Goal: a folder that is bound to one store is not opened with another one, nor is one whose STORE.json is of
/// another ledger or cannot be read.
#[test]
fn folder_of_another_store_is_refused() {
    let (disk, store) = bound_ledger(1);
    let elsewhere = StoreClient::new("sim://other", Arc::new(SimStore::new()), |_| false);
    let opening = Clock::default().opening(2, AckMode::Store);
    let error = open_bound(&dir(), small(&disk), &elsewhere, &opening).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(URL), "{error}");
    assert!(error.to_string().contains("sim://other"), "{error}");
    let path = dir().join("STORE.json");
    let text = String::from_utf8(disk.read(&path).unwrap()).unwrap();
    let uid = text.split('"').nth(11).unwrap().to_owned();
    let other = text.replace(&uid, &uid.chars().rev().collect::<String>());
    assert_ne!(other, text);
    for (bytes, kind) in [(other.as_str(), ErrorKind::Rejected), ("{}", ErrorKind::Corrupt)] {
        disk.set_length(&path, 0).unwrap();
        disk.overwrite(&path, 0, bytes.as_bytes()).unwrap();
        assert_eq!(open(&disk, &store.handle(), 2).unwrap_err().kind(), kind);
        let error = Log::open(&dir(), small(&disk), at(60)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// Goal: in the mode `local` a commit makes no call to the store; the lag counts what the store lacks, and
/// one step of the shipper brings it there, in few slots.
#[test]
fn local_commits_are_shipped_later() {
    let (disk, store) = bound_ledger(1);
    let (clock, process) = (Clock::default(), store.handle());
    let bound = clock.open(&disk, &process, 1, AckMode::Local).unwrap();
    let calls = process.calls();
    for number in 0..20 {
        clock.pass(100);
        let ack = bound.log.append(&[record(number, 900)], at(60)).unwrap();
        assert_eq!(bound.keeper.acked_by(ack.seq), AckedBy::Local);
    }
    assert_eq!(process.calls(), calls);
    let lag = bound.keeper.lag();
    assert_eq!((lag.records, lag.age), (20, Duration::from_millis(1900)));
    assert!((20 * 900..20 * 1100).contains(&lag.bytes), "{lag:?}");
    assert_eq!(bound.keeper.ship().unwrap(), StoreLag::default());
    assert_eq!(bound.keeper.acked_by(bound.log.last_durable().seq), AckedBy::Store);
    // One slot for each segment.
    let segments = u64::try_from(reader(&disk).segments().len()).unwrap();
    assert!(process.calls() - calls <= segments, "{} calls", process.calls() - calls);
    let own = whole(&bound.log.reader().unwrap());
    assert_eq!(summary(&restored(&store).unwrap().1), summary(&own));
    assert_eq!(bound.keeper.ship().unwrap(), StoreLag::default());
}

/// Goal: in the mode `bounded` a commit waits for the store only while an older one is unshipped for longer
/// than the bound, at the limit and one beyond it.
#[test]
fn bounded_commit_ships_what_is_older_than_the_bound() {
    let (disk, store) = bound_ledger(1);
    let (clock, process) = (Clock::default(), store.handle());
    let bound = clock.open(&disk, &process, 1, BOUNDED).unwrap();
    let calls = process.calls();
    let append = |number| bound.log.append(&[record(number, 90)], at(60)).map(|ack| ack.seq);
    let first = append(1).unwrap();
    clock.pass(5000);
    append(2).unwrap();
    assert_eq!((process.calls(), bound.keeper.lag().records), (calls, 2));
    clock.pass(1);
    let third = append(3).unwrap();
    assert!(process.calls() > calls);
    assert_eq!(bound.keeper.acked_by(third - 1), AckedBy::Store);
    assert_eq!(bound.keeper.acked_by(third), AckedBy::Local);
    assert_eq!((first, bound.keeper.lag().records), (third - 2, 1));
    // The store does not answer: no commit is acknowledged any more.
    clock.pass(5001);
    for call in 1..=PATIENCE {
        process.set_fate(process.calls() + u64::from(call), StoreFate::Refused);
    }
    let error = append(4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(append(5).unwrap_err().kind(), ErrorKind::Poisoned);
    kill(&disk, bound.log);
    // The next opening ships the rest.
    let bound = clock.open(&disk, &store.handle(), 2, BOUNDED).unwrap();
    assert_eq!(bound.progress.shipped, 2);
}

/// Goal: a machine that died with acknowledged records which the store lacks ships them when it comes back,
/// whatever the power cut left of HEAD.
#[test]
fn folder_that_is_ahead_ships_the_rest() {
    for restart in
        [Restart::Process, Restart::Power(Loss::Everything), Restart::Power(Loss::Nothing)]
    {
        let (disk, store) = bound_ledger(1);
        let clock = Clock::default();
        let bound = clock.open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
        for number in 0..9 {
            bound.log.append(&[record(number, 3000)], at(60)).unwrap();
        }
        let last = bound.log.last_durable();
        disk.kill_process();
        let disk = restart.of(&disk);
        let again = clock.open(&disk, &store.handle(), 2, AckMode::Store).unwrap();
        assert_eq!((again.progress.shipped, again.progress.dropped), (9, None));
        assert_eq!(again.log.last_durable().seq, last.seq + 1);
        let found = again.log.reader().unwrap().record(last.seq).unwrap().unwrap();
        assert_eq!(found.chain, last.chain);
        let own = summary(&whole(&again.log.reader().unwrap()));
        assert_eq!(summary(&restored(&store).unwrap().1), own);
    }
}

/// Goal: a folder whose machine acknowledged records alone, while another one took over, is refused: the
/// error names the last common record, the first lost one, and how many. Joining again exports them, keeps
/// the folder, and restores the store under its name.
#[test]
fn diverged_folder_joins_again() {
    let (disk, store) = bound_ledger(2);
    let clock = Clock::default();
    let bound = clock.open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
    bound.log.append(&[record(1, 100)], at(60)).unwrap();
    bound.keeper.ship().unwrap();
    let batch = [record(2, 100), record(3, 20)];
    bound.log.append(&batch, at(61)).unwrap();
    bound.log.append(&[record(4, 3000)], at(62)).unwrap();
    let lost: Vec<String> = whole(&bound.log.reader().unwrap()).iter().skip(5).map(line).collect();
    kill(&disk, bound.log);
    assert_eq!(join_again(&disk, &store.handle()).unwrap_err().kind(), ErrorKind::Conflict);
    let (_, new) = take_over(&store.handle(), 2);
    let (before, names) = (log_digest(&disk), store.names());
    for _ in 0..2 {
        let error = clock.open(&disk, &store.handle(), 3, AckMode::Store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
        for part in ["records 6 to 8", "(3,", "after record 5, the last common one"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!((log_digest(&disk), store.names()), (before, names.clone()));
    }
    let joined = join_again(&disk, &store.handle()).unwrap();
    assert_eq!((joined.common_seq, joined.lost), (5, 3));
    assert_eq!(joined.end, new.log.last_durable());
    let exported =
        String::from_utf8(disk.read(joined.exported.as_ref().unwrap()).unwrap()).unwrap();
    assert_eq!(exported.lines().collect::<Vec<_>>(), lost);
    assert!(joined.exported.unwrap().ends_with("lost-6-8.jsonl"));
    // The folder that diverged has everything that it had, and is an ordinary folder that can be read.
    assert_eq!(joined.kept, PathBuf::from("/ledger.diverged-3"));
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let kept = LogReader::open(&storage, &joined.kept).unwrap();
    assert!(kept.records(1).count() >= 5);
    let found = summary(&whole(&reader(&disk)));
    assert_eq!(found, summary(&whole(&new.log.reader().unwrap())));
    kill(&SimDisk::new(), new.log);
    let bound = clock.open(&disk, &store.handle(), 3, AckMode::Store).unwrap();
    assert_eq!(bound.progress.dropped, None);
    bound.log.close().unwrap();
    // It may diverge again.
    let bound = clock.open(&disk, &store.handle(), 4, AckMode::Local).unwrap();
    bound.log.append(&[record(77, 10)], at(80)).unwrap();
    kill(&disk, bound.log);
    take_over(&store.handle(), 5).1.log.close().unwrap();
    let joined = join_again(&disk, &store.handle()).unwrap();
    assert_eq!(joined.lost, 1);
}

/// Goal: records that were acknowledged alone are not dropped, although a power cut lost the HEAD that covered
/// them: in these modes every complete record may be acknowledged.
#[test]
fn record_whose_head_was_lost_is_not_dropped() {
    for mode in [AckMode::Local, BOUNDED] {
        let (disk, store) = bound_ledger(2);
        let bound = Clock::default().open(&disk, &store.handle(), 1, mode).unwrap();
        // HEAD is written and not synced: the time is that of the opening.
        bound.log.append(&[record(5, 100)], at(1000)).unwrap();
        disk.kill_process();
        let disk = Restart::Power(Loss::Everything).of(&disk);
        assert!(reader(&disk).head().unwrap().durable_seq < 5, "HEAD was synced");
        take_over(&store.handle(), 2).1.log.close().unwrap();
        let error = open(&disk, &store.handle(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
        assert_eq!(join_again(&disk, &store.handle()).unwrap().lost, 1);
    }
}

/// Goal: a process that finds that another one took over acknowledges nothing any more, although its disk
/// would take it.
#[test]
fn fenced_shipper_ends_acknowledgements() {
    for mode in [AckMode::Local, BOUNDED] {
        let (disk, store) = bound_ledger(2);
        let bound = Clock::default().open(&disk, &store.handle(), 1, mode).unwrap();
        bound.log.append(&[record(1, 100)], at(60)).unwrap();
        bound.keeper.ship().unwrap();
        take_over(&store.handle(), 2).1.log.close().unwrap();
        bound.log.append(&[record(2, 100)], at(61)).unwrap();
        assert_eq!(bound.keeper.ship().unwrap_err().kind(), ErrorKind::Fenced);
        for _ in 0..2 {
            let error = bound.log.append(&[record(3, 100)], at(62)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        }
        assert_eq!(bound.keeper.ship().unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(bound.keeper.lag().records, 1);
    }
}

/// Regression: a create that another process won counted as an answer that the store did not give. A process
/// without patience gave up its takeover, and a fenced one did not say that it was fenced.
#[test]
fn lost_race_is_no_unclear_answer() {
    let impatient = |store: &SimStore| StoreClient::new(URL, Arc::new(store.clone()), |_| false);
    let opening = |number| Clock::default().opening(number, AckMode::Store);
    let (disk, store) = bound_ledger(2);
    let calls = {
        let process = store.fork();
        let bound = open_bound(&dir(), small(&disk.fork()), &impatient(&process), &opening(1));
        drop(bound.unwrap());
        process.calls()
    };
    let mut races = 0;
    for call in 1..=calls {
        let (disk, store) = (disk.fork(), store.fork());
        let process = store.handle();
        let other = store.clone();
        process.before_call(call, move || drop(take_over(&other.handle(), 2)));
        let bound = open_bound(&dir(), small(&disk), &impatient(&process), &opening(1)).unwrap();
        races += usize::from(process.creates().len() > 1);
        // The other way round: fenced, and it says so.
        take_over(&store.handle(), 3);
        let error = bound.log.append(&[record(9, 9)], at(90)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    }
    assert!(races > 0, "no create lost");
    // The same when two processes bind the prefix at once, and for a blob that is there already.
    let (disk, store) = (ledger(1), SimStore::new());
    for call in 1..=3 {
        let (disk, store) = (disk.fork(), store.fork());
        let (process, other, twin) = (store.handle(), store.clone(), disk.fork());
        process.before_call(call, move || {
            let bound = open_bound(&dir(), small(&twin), &impatient(&other.handle()), &opening(2));
            let _ = bound.unwrap().log.blobs().put(b"a blob").unwrap();
        });
        let bound = open_bound(&dir(), small(&disk), &impatient(&process), &opening(1)).unwrap();
        bound.log.blobs().put(b"a blob").unwrap();
    }
}

/// Goal: a record in the store never refers to a blob that the store lacks, wherever the shipper dies.
#[test]
fn blob_is_shipped_before_its_record() {
    let (disk, store) = bound_ledger(1);
    for call in 0..5 {
        let (disk, store) = (disk.fork(), store.fork());
        let process = store.handle();
        let bound = Clock::default().open(&disk, &process, 1, AckMode::Local).unwrap();
        let blobs = bound.log.blobs();
        let id = blobs.put(&[7; 5000]).unwrap();
        bound.log.append(&[record(1, 100)], at(60)).unwrap();
        process.set_fate(process.calls() + 1 + call, StoreFate::Dies);
        let shipped = bound.keeper.ship();
        let (copy, records) = restored(&store).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(copy);
        let has_blob = LogReader::open(&storage, &dir()).unwrap().blobs().get(&id).is_ok();
        assert!(has_blob || records.len() == 3, "call {call}: a record without its blob");
        assert_eq!(shipped.is_ok(), has_blob && records.len() == 4, "call {call}: {shipped:?}");
    }
}

/// Goal: a prune does not remove records that the store does not have.
#[test]
fn unshipped_segment_is_not_pruned() {
    let (disk, store) = bound_ledger(1);
    let bound = Clock::default().open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
    for number in 0..9 {
        bound.log.append(&[record(number, 3000)], at(60)).unwrap();
    }
    let reader = bound.log.reader().unwrap();
    let last = reader.segments().last().unwrap().header.clone().unwrap();
    let note = RetentionNote {
        first_seq: 1,
        last_seq: last.prev_last_seq,
        last_ordinal: last.ordinal - 1,
        chain: last.prev_chain.to_string(),
        anchors: Vec::new(),
        archive: None,
        by: "a test".to_owned(),
    };
    assert!(note.last_seq > 3, "{note:?}");
    let files = disk.files(&dir().join("log"));
    let note = LoggedRetentionNote { seq: bound.log.last_durable().seq, note };
    let error = bound.log.remove_pruned(&note).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(disk.files(&dir().join("log")), files);
    bound.keeper.ship().unwrap();
    let anchors = bound.log.remove_pruned(&note).unwrap().segments.len();
    assert_eq!(anchors, usize::try_from(last.ordinal).unwrap());
    // What the shipper needs later is still there.
    bound.log.append(&[record(50, 50)], at(70)).unwrap();
    assert_eq!(bound.keeper.ship().unwrap(), StoreLag::default());
}

/// Goal: complete segments are uploaded once the store has their records and the first one after them. A restore
/// then needs a request for each segment, and gives the same folder.
#[test]
fn restore_from_segments_needs_few_requests() {
    let (disk, store) = bound_ledger(1);
    let bound = Clock::default().open(&disk, &store.handle(), 1, AckMode::Store).unwrap();
    for number in 0..60 {
        bound.log.append(&[record(number, 900)], at(60)).unwrap();
    }
    let requests = |store: &SimStore| {
        let (process, disk) = (store.handle(), SimDisk::new());
        restore(&dir(), small(&disk), &client(&process), &mut |_| ()).unwrap();
        (process.calls(), summary(&whole(&reader(&disk))), disk.files(&dir()))
    };
    let before = requests(&store);
    let names = store.names();
    let segments = u64::try_from(reader(&disk).segments().len()).unwrap();
    assert_eq!(bound.keeper.upload_segments().unwrap(), segments - 1);
    assert_eq!(bound.keeper.upload_segments().unwrap(), 0);
    // Each has a segment object and an index object.
    let new = store.names().len() - names.len();
    assert_eq!(u64::try_from(new).unwrap(), 2 * (segments - 1));
    let after = requests(&store);
    assert_eq!((&after.1, &after.2), (&before.1, &before.2));
    assert!(before.0 > 60 && after.0 < segments + 30, "{} then {}", before.0, after.0);
    // Slots that segment objects cover can be collected.
    let identity = plan_ledger::internals::store::bound_ledger(&store, &|_| false).unwrap();
    let process = client(&store);
    store.advance(3 * 24 * 60 * 60 * 1_000_000);
    let session = process.session(identity.unwrap());
    let collected = CollectPlan::of(&session, store.now()).unwrap().objects;
    assert!(collected.len() > 40, "{}", collected.len());
    remove(&session, &collected, &mut |_| ()).unwrap();
    assert_eq!(requests(&store).1, before.1);
    bound.log.append(&[record(99, 9)], at(80)).unwrap();
    assert_eq!(requests(&store).1.len(), before.1.len() + 1);
    bound.log.close().unwrap();
    open(&disk, &store.handle(), 2).unwrap().log.close().unwrap();
}

/// Goal: a segment is not uploaded before the store has its records and the first one after them.
#[test]
fn unshipped_segment_is_not_uploaded() {
    let (disk, store) = bound_ledger(1);
    let bound = Clock::default().open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
    bound.keeper.upload_segments().unwrap();
    let segment_objects = || store.names().into_iter().filter(|name| name.contains(".seg")).count();
    let before = segment_objects();
    for number in 0..9 {
        bound.log.append(&[record(number, 3000)], at(60)).unwrap();
    }
    assert_eq!((bound.keeper.upload_segments().unwrap(), segment_objects()), (0, before));
    bound.keeper.ship().unwrap();
    assert!(bound.keeper.upload_segments().unwrap() >= 2);
    assert_eq!(summary(&restored(&store).unwrap().1), summary(&whole(&reader(&disk))));
}

/// The last writer note in a store.
fn last_note(store: &SimStore) -> serde_json::Value {
    let (_, records) = restored(store).unwrap();
    let note = records.iter().rfind(|record| record.kind == 0x8008).unwrap();
    serde_json::from_slice(&note.payload).unwrap()
}

/// Goal: after a folder joined its store again, the first opening slot of the machine says why, with the first, the last
/// and the last chain value of the lost records; the next one does not. A crash before it changes nothing.
#[test]
fn opening_after_a_rejoin_names_the_lost_records() {
    let (disk, store) = bound_ledger(2);
    let bound = Clock::default().open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
    let common = bound.log.last_durable().seq;
    for number in 0..3 {
        bound.log.append(&[record(100 + number, 50)], at(60)).unwrap();
    }
    let last = bound.log.last_durable();
    bound.log.close().unwrap();
    take_over(&store, 2).1.log.close().unwrap();
    assert_eq!(
        (last_note(&store)["why"].clone(), last_note(&store)["lost"].clone()),
        ("takeover".into(), serde_json::Value::Null)
    );
    join_again(&disk, &store.handle()).unwrap();
    let lost = serde_json::json!({
        "chain": last.chain.to_string(), "first": common + 1, "last": last.seq,
    });
    // A process that only follows says nothing, and forgets nothing.
    replicate(&dir(), small(&disk), &client(&store), &mut |_| false).unwrap();
    for (number, why, lost) in [(3, "rejoin", lost), (4, "open", serde_json::Value::Null)] {
        open(&disk, &store.handle(), number).unwrap().log.close().unwrap();
        let note = last_note(&store);
        assert_eq!((&note["why"], &note["lost"]), (&why.into(), &lost), "{note}");
    }
    let bound: Arc<dyn Storage> = Arc::new(disk);
    assert_eq!(bound_store(&*bound, &dir()).unwrap().unwrap().lost, None);
}

/// A ledger whose first segment has no record: a power cut tore the first write, and the next opening continued in a new
/// segment.
pub(crate) fn torn_ledger() -> SimDisk {
    let torn = (0..1000).find_map(|seed| {
        let disk = ledger(0);
        let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
        disk.crash_at(disk.calls() + LOOKS + 2);
        log.append(&[record(1, 3500)], at(60)).unwrap_err();
        drop(log);
        let disk = Restart::Power(Loss::Some(seed)).of(&disk);
        let log = Log::open(&dir(), small(&disk), at(61)).unwrap().0;
        let ack = log.append(&[record(2, 100)], at(62)).unwrap();
        log.close().unwrap();
        (ack.seq == 2 && reader(&disk).segments().len() == 2).then_some(disk)
    });
    torn.expect("a seed tears the write")
}

/// Goal: a log with an empty segment in its middle is refused before a slot says so that no reader accepts.
#[test]
fn log_with_an_empty_segment_is_not_bound() {
    let disk = torn_ledger();
    let store = SimStore::new();
    let error = open(&disk, &store.handle(), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.hint().unwrap().contains("import"), "{error}");
    assert_eq!(store.names(), ["LEDGER.json"]);
    // It stays an ordinary ledger.
    Log::open(&dir(), small(&disk), at(61)).unwrap().0.close().unwrap();
}

/// Goal: a thread that waits to ship is woken when much has gathered, and when it is to end; otherwise it
/// waits its time. No assertion depends on how long that takes.
#[test]
fn waiting_shipper_is_woken() {
    let (disk, store) = bound_ledger(1);
    let options = LogOptions { segments: SegmentSizes::DEFAULT, ..options(&disk) };
    let opening = Clock::default().opening(1, AckMode::Local);
    let bound = open_bound(&dir(), options, &client(&store), &opening).unwrap();
    let forever = Duration::from_secs(3600);
    std::thread::scope(|scope| {
        let shipper = scope.spawn(|| {
            bound.keeper.wait(forever);
            bound.keeper.ship().unwrap();
            bound.keeper.wait(forever);
        });
        for number in 0..5 {
            bound.log.append(&[record(number, 1 << 20)], at(60)).unwrap();
        }
        while bound.keeper.end().position.next_seq < 7 {
            std::thread::yield_now();
        }
        bound.keeper.wake();
        shipper.join().unwrap();
    });
    bound.keeper.wait(Duration::ZERO);
}

/// Goal: a side-car ships what an ordinary process writes, without binding the folder; two of them do not
/// disturb each other; after a takeover they stop.
#[test]
fn side_car_ships_an_ordinary_ledger() {
    let (disk, store) = (ledger(3), SimStore::new());
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let clock = Clock::default();
    let side_car = |number| {
        let opening = clock.opening(number, AckMode::Local);
        SideCar::open(&dir(), &storage, &client(&store.handle()), &opening)
    };
    let (mut one, mut two) = (side_car(1).unwrap(), side_car(2).unwrap());
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    assert_eq!(one.ship().unwrap(), StoreLag::default());
    for number in 10..30 {
        log.append(&[record(number, 900)], at(60)).unwrap();
        if number % 3 == 0 {
            one.ship().unwrap();
        }
        if number % 5 == 0 {
            assert_eq!(two.ship().unwrap(), StoreLag::default());
        }
    }
    log.blobs().put(&[5; 3000]).unwrap();
    log.append(&[record(31, 10)], at(61)).unwrap();
    assert_eq!(one.ship().unwrap(), StoreLag::default());
    let segments = u64::try_from(reader(&disk).segments().len()).unwrap();
    assert_eq!(one.upload_segments().unwrap(), segments - 1);
    assert_eq!((one.upload_segments().unwrap(), two.upload_segments().unwrap()), (0, 0));
    let (copy, records) = restored(&store).unwrap();
    assert_eq!(summary(&records), summary(&whole(&log.reader().unwrap())));
    let copied: Arc<dyn Storage> = Arc::new(copy);
    assert_eq!(LogReader::open(&copied, &dir()).unwrap().blobs().list().unwrap().blobs.len(), 1);
    // One that is started again finds the end with few calls.
    let process = store.handle();
    let opening = clock.opening(3, AckMode::Local);
    SideCar::open(&dir(), &storage, &client(&process), &opening).unwrap();
    assert!(process.calls() < 10, "{} calls", process.calls());
    // Another machine takes over: nothing more is shipped.
    take_over(&store.handle(), 4).1.log.close().unwrap();
    log.append(&[record(40, 10)], at(61)).unwrap();
    let names = store.names();
    for _ in 0..2 {
        let error = one.ship().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    }
    assert_eq!(side_car(5).unwrap_err().kind(), ErrorKind::Diverged);
    assert_eq!(store.names(), names);
    log.close().unwrap();
    // The folder that the side-car shipped diverged: joining again names what only it has.
    let joined = join_again(&disk, &store.handle()).unwrap();
    assert_eq!(joined.lost, 1);
    // The restored folder is bound, so a side-car leaves it to the process that writes it.
    assert_eq!(side_car(6).unwrap_err().kind(), ErrorKind::Rejected);
}

/// Goal: after a power cut that lost the HEAD of shipped records, a recovery of the ordinary ledger writes them
/// again in another segment. The side-car stops with an error that says so; joining again names only what
/// the store lacks.
#[test]
fn side_car_stops_where_a_recovery_wrote_records_again() {
    let (disk, store) = (ledger(2), SimStore::new());
    let opening = Clock::default().opening(1, AckMode::Local);
    let side_car = |disk: &SimDisk| {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        SideCar::open(&dir(), &storage, &client(&store.handle()), &opening)
    };
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    for number in 10..13 {
        // HEAD is written and not synced.
        log.append(&[record(number, 100)], at(1)).unwrap();
    }
    side_car(&disk).unwrap().ship().unwrap();
    disk.kill_process();
    let disk = Restart::Power(Loss::Everything).of(&disk);
    let (log, report) = Log::open(&dir(), small(&disk), at(70)).unwrap();
    assert!(report.survivors.is_some(), "nothing was written again");
    log.append(&[record(20, 100)], at(71)).unwrap();
    log.close().unwrap();
    let error = side_car(&disk).and_then(|mut side_car| side_car.ship()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    assert!(error.to_string().contains("different segments"), "{error}");
    let own = whole(&reader(&disk));
    let common = restored(&store).unwrap().1.len();
    let joined = join_again(&disk, &store.handle()).unwrap();
    assert_eq!(usize::try_from(joined.common_seq).unwrap(), common);
    assert_eq!(usize::try_from(joined.lost).unwrap(), own.len() - common);
}

/// Goal: every fate of every call of a side-car, with a second one that ships in between.
#[test]
fn side_car_survives_every_fate() {
    let disk = ledger(9);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let ship = |process: &SimStore, number| -> Result<(), Error> {
        let opening = Clock::default().opening(number, AckMode::Local);
        SideCar::open(&dir(), &storage, &client(process), &opening)?.ship().map(drop)
    };
    let own = summary(&whole(&reader(&disk)));
    let calm = SimStore::new();
    ship(&calm, 1).unwrap();
    for (call, fate) in (1..=calm.calls()).flat_map(|call| StoreFate::ALL.map(|fate| (call, fate)))
    {
        for other in [None, Some(call), Some(call + 1)] {
            let store = SimStore::new();
            let process = store.handle();
            process.set_fate(call, fate);
            if let Some(other) = other {
                let (twin, storage) = (store.clone(), storage.clone());
                process.before_call(other, move || {
                    let opening = Clock::default().opening(2, AckMode::Local);
                    let process = client(&twin.handle());
                    let mut twin = SideCar::open(&dir(), &storage, &process, &opening).unwrap();
                    twin.ship().unwrap();
                });
            }
            let _ = ship(&process, 1);
            store.carry_out_all();
            ship(&store.handle(), 3).unwrap_or_else(|error| panic!("{fate:?} of {call}: {error}"));
            assert_eq!(summary(&restored(&store).unwrap().1), own, "{fate:?} of {call}");
        }
    }
}

/// What was acknowledged, and how.
#[derive(Debug, Clone, Copy)]
struct Acked {
    seq: u64,
    /// The reading of the machine's clock.
    at: u64,
    life: u8,
    mode: AckMode,
    machine: usize,
}

/// What all machines requested, and what became of it.
#[derive(Debug, Clone, Default)]
struct Journal {
    requested: BTreeSet<Vec<u8>>,
    acknowledged: BTreeMap<Vec<u8>, Acked>,
    refused: BTreeSet<Vec<u8>>,
    /// Lives whose folder was lost with their machine.
    lost_lives: BTreeSet<u8>,
    /// What folders that diverged exported, by machine.
    exported: BTreeSet<(usize, String)>,
}

#[derive(Debug, Clone)]
struct Machine {
    number: usize,
    disk: SimDisk,
    clock: Clock,
}

impl Machine {
    fn new(number: usize, disk: SimDisk) -> Self {
        Self { number, disk, clock: Clock::default() }
    }

    /// A process opens the ledger and commits, until it is refused.
    fn live(
        &self,
        store: &SimStore,
        life: u8,
        mode: AckMode,
        seed: &mut u64,
        journal: &Mutex<Journal>,
    ) -> Result<(), Error> {
        let bound = self.clock.open(&self.disk, store, life, mode)?;
        for commit in 0..3 {
            self.clock.pass(random(seed, 4000));
            let first = 1000 * u64::from(life) + 10 * commit;
            self.append(&bound, &[record(first, 300), record(first + 1, 1700)], life, journal)?;
            if random(seed, 3) == 0 {
                let _ = bound.keeper.ship();
            }
            if random(seed, 3) == 0 {
                let _ = bound.keeper.upload_segments();
            }
        }
        if random(seed, 2) == 0 {
            bound.keeper.ship()?;
        }
        bound.log.close()
    }

    fn append(
        &self,
        bound: &BoundLog,
        batch: &[NewRecord],
        life: u8,
        journal: &Mutex<Journal>,
    ) -> Result<(), Error> {
        let payloads = || batch.iter().map(|record| record.payload.clone());
        journal.lock().unwrap().requested.extend(payloads());
        let at_clock = self.clock.now();
        let appended = bound.log.append(batch, at(20));
        let mut journal = journal.lock().unwrap();
        match appended {
            Ok(ack) => {
                let first = ack.seq + 1 - u64::try_from(batch.len()).unwrap();
                for (seq, payload) in (first..).zip(payloads()) {
                    // Where the answer says that the store has it, no mode may lose it.
                    let mode = match bound.keeper.acked_by(seq) {
                        AckedBy::Store => AckMode::Store,
                        AckedBy::Local => bound.keeper.ack(),
                    };
                    let machine = self.number;
                    let acked = Acked { seq, at: at_clock, life, mode, machine };
                    let before = journal.acknowledged.insert(payload, acked);
                    assert!(before.is_none(), "record {seq} is acknowledged twice");
                }
                Ok(())
            }
            Err(error) => {
                if error.kind() == ErrorKind::Fenced {
                    journal.refused.extend(payloads());
                }
                Err(error)
            }
        }
    }

    /// The folder diverged: join again, and note what it exported.
    fn join_again(&self, store: &SimStore, journal: &Mutex<Journal>) -> Result<(), Error> {
        let joined = join_again(&self.disk, store)?;
        self.note_exported(&joined.kept, journal);
        Ok(())
    }

    fn note_exported(&self, kept: &Path, journal: &Mutex<Journal>) {
        for path in self.disk.files(kept) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("lost-") && path.extension().is_some_and(|it| it == "jsonl") {
                let text = String::from_utf8(self.disk.read(&path).unwrap()).unwrap();
                let lines = text.lines().map(|line| (self.number, line.to_owned()));
                journal.lock().unwrap().exported.extend(lines);
            }
        }
    }
}

impl Journal {
    /// The log has everything that was acknowledged, except what a mode allows to be lost with a machine, or
    /// what a folder that diverged exported; and nothing that was not requested, once.
    fn check(&self, records: &[LoggedRecord], story: &str) {
        let mut lost: BTreeMap<u8, Vec<Acked>> = BTreeMap::new();
        for (payload, acked) in &self.acknowledged {
            let place = usize::try_from(acked.seq).unwrap() - 1;
            if records.get(place).is_some_and(|found| found.payload == *payload) {
                continue;
            }
            assert_ne!(acked.mode, AckMode::Store, "{story}: record {} is lost", acked.seq);
            let is_named = self.exported.iter().any(|(machine, line)| {
                let is_own = line.starts_with(&format!("{} ", acked.seq));
                *machine == acked.machine && is_own && line.ends_with(&format!(" {payload:?}"))
            });
            let is_gone = self.lost_lives.contains(&acked.life);
            assert!(is_named || is_gone, "{story}: {acked:?} is lost without a word");
            if !is_named {
                lost.entry(acked.life).or_default().push(*acked);
            }
        }
        for (life, lost) in lost {
            let times = || lost.iter().map(|acked| acked.at);
            let spread = times().max().unwrap() - times().min().unwrap();
            if let AckMode::Bounded(bound) = lost[0].mode {
                let bound = u64::try_from(bound.as_millis()).unwrap();
                assert!(spread <= bound, "{story}: life {life} lost the acks of {spread} ms");
            }
        }
        let own: Vec<_> = records.iter().filter(|record| record.kind == 1).collect();
        let mut seen = BTreeSet::new();
        for record in own {
            assert!(self.requested.contains(&record.payload), "{story}: a record is invented");
            assert!(!self.refused.contains(&record.payload), "{story}: a record was refused");
            assert!(seen.insert(&record.payload), "{story}: record {} is there twice", record.seq);
        }
    }
}

/// Another machine restores the store, takes over and commits.
fn stand_in(store: &SimStore, life: u8, journal: &Mutex<Journal>) {
    let machine = Machine::new(100 + usize::from(life), SimDisk::new());
    let restored = restore(&dir(), small(&machine.disk), &client(store), &mut |_| ());
    let lived = restored
        .and_then(|_| machine.live(store, life, AckMode::Store, &mut u64::from(life), journal));
    if let Err(error) = lived {
        let nothing = [ErrorKind::NotALedger, ErrorKind::OutOfRange, ErrorKind::Io];
        let may_fail = [ErrorKind::OutcomeUnknown, ErrorKind::Fenced];
        let is_expected = [&nothing[..], &may_fail].concat().contains(&error.kind());
        assert!(is_expected, "stand-in {life}: {error}");
    }
}

/// Everything settles: each folder opens, or joins again, and agrees with the store; the journal holds.
fn settle(machines: &[&Machine], store: &SimStore, journal: &Mutex<Journal>, story: &str) {
    store.carry_out_all();
    for machine in machines {
        if disk_is_free(&machine.disk) {
            // It was set aside, and the restore did not finish.
            for kept in kept_folders(&machine.disk) {
                machine.note_exported(&kept, journal);
            }
            restore(&dir(), small(&machine.disk), &client(&store.handle()), &mut |_| ())
                .unwrap_or_else(|error| panic!("{story}: {error}"));
        }
        let life = 0x60 + u8::try_from(machine.number % 8).unwrap();
        let bound = match machine.clock.open(&machine.disk, &store.handle(), life, AckMode::Store) {
            Err(error) if error.kind() == ErrorKind::Diverged => {
                machine
                    .join_again(&store.handle(), journal)
                    .unwrap_or_else(|error| panic!("{story}: {error}"));
                machine.clock.open(&machine.disk, &store.handle(), life, AckMode::Store)
            }
            opened => opened,
        };
        let bound = bound.unwrap_or_else(|error| panic!("{story}: {error}"));
        let own = [record(60_000 + u64::from(life), 900)];
        machine.append(&bound, &own, life, journal).unwrap();
        let found = whole(&bound.log.reader().unwrap());
        let (copy, records) = restored(store).unwrap_or_else(|error| panic!("{story}: {error}"));
        assert_eq!(summary(&found), summary(&records), "{story}: folder and store differ");
        bound.log.close().unwrap();
        for disk in [&copy, &machine.disk] {
            let storage: Arc<dyn Storage> = Arc::new(disk.clone());
            let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
            assert!(!verified.is_damaged(), "{story}: {:?}", verified.findings);
        }
    }
    let (_, records) = restored(store).unwrap_or_else(|error| panic!("{story}: {error}"));
    journal.lock().unwrap().check(&records, story);
}

fn disk_is_free(disk: &SimDisk) -> bool {
    disk.files(&dir()).is_empty()
}

fn kept_folders(disk: &SimDisk) -> BTreeSet<PathBuf> {
    let files = disk.files(Path::new("/"));
    let folders = files.iter().filter_map(|path| path.ancestors().nth(1));
    folders
        .filter(|path| path.to_string_lossy().contains(".diverged-"))
        .map(Path::to_owned)
        .collect()
}

/// A bound ledger with two records of its own, and what was acknowledged so far.
fn start() -> (SimDisk, SimStore, Journal) {
    let (disk, store) = bound_ledger(2);
    let mut journal = Journal::default();
    for (seq, number) in [(1, 0), (2, 1)] {
        let payload = record(number, 1500).payload;
        journal.requested.insert(payload.clone());
        let acked = Acked { seq, at: 0, life: 0, mode: AckMode::Store, machine: 0 };
        journal.acknowledged.insert(payload, acked);
    }
    (disk, store, journal)
}

/// The number of calls to the disk and the store of a life without faults.
fn calls_of_a_life(disk: &SimDisk, store: &SimStore, mode: AckMode) -> (u64, u64) {
    let (calm, process) = (Machine::new(0, disk.fork()), store.fork());
    let before = calm.disk.calls();
    calm.live(&process, 1, mode, &mut 5, &Mutex::default()).unwrap();
    (calm.disk.calls() - before, process.calls())
}

/// Goal: in the modes `local` and `bounded` the machine stops before every call of the disk, and restarts in
/// several ways, or is lost, or another one has taken over meanwhile.
#[test]
fn crash_at_every_call_of_the_disk_keeps_what_the_mode_promises() {
    let (disk, store, journal) = start();
    for mode in [AckMode::Local, BOUNDED] {
        let (calls, _) = calls_of_a_life(&disk, &store, mode);
        let (mut count, mut last) = (0, u64::MAX);
        for call in (1..=calls).step_by(sweep(7, 2, 1)) {
            let (machine, store) = (Machine::new(0, disk.fork()), store.fork());
            let journal = Mutex::new(journal.clone());
            machine.disk.crash_at(machine.disk.calls() + call);
            let _ = machine.live(&store.handle(), 1, mode, &mut 5, &journal);
            if machine.disk.changes() == last {
                continue;
            }
            last = machine.disk.changes();
            let losses = [Loss::Everything, Loss::Nothing, Loss::Some(call)];
            let restarts = losses.map(Restart::Power).into_iter().chain([Restart::Process]);
            for restart in restarts {
                for is_taken in [false, true] {
                    let story = format!("{mode} crash at {call}, {restart:?}, taken {is_taken}");
                    let (disk, store) = (restart.of(&machine.disk), store.fork());
                    let journal = Mutex::new(journal.lock().unwrap().clone());
                    if is_taken {
                        stand_in(&store.handle(), 2, &journal);
                    }
                    settle(&[&Machine { disk, ..machine.clone() }], &store, &journal, &story);
                    count += 1;
                }
            }
            let journal = Mutex::new(journal.lock().unwrap().clone());
            journal.lock().unwrap().lost_lives.insert(1);
            let other = Machine::new(1, SimDisk::new());
            settle(&[&other], &store.fork(), &journal, &format!("{mode} lost at {call}"));
        }
        assert!(count >= 40, "{count}");
    }
}

/// Goal: every call of the disk fails once, in the modes `local` and `bounded`.
#[test]
fn sweep_failed_call_of_the_disk_keeps_what_the_mode_promises() {
    let (disk, store, journal) = start();
    for mode in [AckMode::Local, BOUNDED] {
        let (calls, _) = calls_of_a_life(&disk, &store, mode);
        for call in (1..=calls).step_by(sweep(13, 3, 1)) {
            for effect in [FaultEffect::Nothing, FaultEffect::Everything, FaultEffect::Revert] {
                let (machine, store) = (Machine::new(0, disk.fork()), store.fork());
                let journal = Mutex::new(journal.clone());
                let failed = FaultAction::Error(OsError::Io, effect);
                machine.disk.inject(FaultRule::next(failed).nth(call));
                let _ = machine.live(&store.handle(), 1, mode, &mut 5, &journal);
                let story = format!("{mode}: call {call} fails with {effect:?}");
                for loss in [Loss::Everything, Loss::Nothing] {
                    let journal = Mutex::new(journal.lock().unwrap().clone());
                    machine.disk.clear_faults();
                    let disk = Restart::Power(loss).of(&machine.disk);
                    settle(
                        &[&Machine { disk, ..machine.clone() }],
                        &store.fork(),
                        &journal,
                        &story,
                    );
                }
            }
        }
    }
}

/// Goal: every fate of every call to the store in the modes `local` and `bounded`, with and without a machine
/// that takes over at that call or at the next.
#[test]
fn every_fate_of_every_call_keeps_what_the_mode_promises() {
    let (disk, store, journal) = start();
    for mode in [AckMode::Local, BOUNDED] {
        let (_, calls) = calls_of_a_life(&disk, &store, mode);
        assert!((8..60).contains(&calls), "{calls}");
        for call in (1..=calls).step_by(sweep(2, 1, 1)) {
            let fates = StoreFate::ALL.map(Some).into_iter().chain([None]);
            for (fate, later) in fates.flat_map(|fate| (0..=2).map(move |later| (fate, later))) {
                let (machine, store) = (Machine::new(0, disk.fork()), store.fork());
                let journal = Arc::new(Mutex::new(journal.clone()));
                let process = store.handle();
                if let Some(fate) = fate {
                    process.set_fate(call, fate);
                }
                if later > 0 {
                    let (other, journal) = (store.clone(), journal.clone());
                    process.before_call(call + later - 1, move || {
                        stand_in(&other.handle(), 2, &journal);
                    });
                }
                let lived = machine.live(&process, 1, mode, &mut 5, &journal);
                let story = format!("{mode}: {fate:?} of call {call}, takeover {later}: {lived:?}");
                machine.disk.kill_process();
                settle(&[&machine], &store, &journal, &story);
            }
        }
    }
}

/// Goal: joining again is interrupted at every call of the disk: nothing of the folder is lost.
#[test]
fn interrupted_rejoin_loses_nothing() {
    let (disk, store, journal) = start();
    let (machine, journal) = (Machine::new(0, disk.fork()), Mutex::new(journal));
    let bound = machine.clock.open(&machine.disk, &store.handle(), 1, AckMode::Local).unwrap();
    for number in [500, 510] {
        machine.append(&bound, &[record(number, 800)], 1, &journal).unwrap();
    }
    kill(&machine.disk, bound.log);
    stand_in(&store.handle(), 2, &journal);
    let calm = machine.disk.fork();
    let before = calm.calls();
    join_again(&calm, &store.handle()).unwrap();
    for call in (before + 1..=calm.calls()).step_by(sweep(3, 1, 1)) {
        let crashed = machine.disk.fork();
        crashed.crash_at(call);
        let _ = join_again(&crashed, &store.handle());
        let losses = [Loss::Everything, Loss::Nothing, Loss::Some(call)];
        for restart in losses.map(Restart::Power).into_iter().chain([Restart::Process]) {
            let journal = Mutex::new(journal.lock().unwrap().clone());
            let disk = restart.of(&crashed);
            for kept in kept_folders(&disk) {
                Machine { disk: disk.clone(), ..machine.clone() }.note_exported(&kept, &journal);
            }
            let story = format!("rejoin crashes at call {call}, {restart:?}");
            settle(&[&Machine { disk, ..machine.clone() }], &store.fork(), &journal, &story);
        }
    }
}

/// A seeded random number below a bound.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = mix(*seed);
    *seed % below
}

fn random_mode(seed: &mut u64) -> AckMode {
    match random(seed, 3) {
        0 => AckMode::Local,
        1 => BOUNDED,
        _ => AckMode::Store,
    }
}

/// One story of a fleet: three machines with random modes, crashes, losses and fates take the ledger from each
/// other. Returns the number of fates.
fn fleet(seed: u64, (disk, store, journal): &(SimDisk, SimStore, Journal)) -> u64 {
    let store = store.fork();
    let journal = Arc::new(Mutex::new(journal.clone()));
    let mut machines = [disk.fork(), SimDisk::new(), SimDisk::new()].into_iter().enumerate();
    let mut machines: [Machine; 3] =
        std::array::from_fn(|_| machines.next().map(|(at, disk)| Machine::new(at, disk)).unwrap());
    let (mut state, mut story) = (mix(seed), format!("seed {seed}"));
    for life in 1..=5 {
        let number = usize::try_from(random(&mut state, 3)).unwrap();
        let (process, mode) = (store.handle(), random_mode(&mut state));
        for _ in 0..random(&mut state, 6) {
            let fate = StoreFate::ALL[usize::try_from(random(&mut state, 8)).unwrap()];
            process.set_fate(1 + random(&mut state, 40), fate);
        }
        let machine = &mut machines[number];
        if random(&mut state, 3) == 0 {
            machine.disk.crash_at(machine.disk.calls() + 1 + random(&mut state, 300));
        }
        if random(&mut state, 3) == 0 {
            let (other, journal) = (store.clone(), journal.clone());
            process.before_call(1 + random(&mut state, 40), move || {
                stand_in(&other.handle(), 0x40 + life, &journal);
            });
        }
        let followed = if disk_is_free(&machine.disk) {
            restore(&dir(), small(&machine.disk), &client(&process), &mut |_| ()).map(drop)
        } else {
            Ok(())
        };
        let lived = followed
            .and_then(|()| machine.live(&process, life, mode, &mut state, &journal))
            .or_else(|error| match error.kind() {
                ErrorKind::Diverged => machine
                    .join_again(&process, &journal)
                    .and_then(|()| machine.live(&process, life, mode, &mut state, &journal)),
                _ => Err(error),
            });
        let _ = write!(story, "; {number} {mode}: {lived:?}");
        machine.disk = match random(&mut state, 6) {
            0 => Restart::Process.of(&machine.disk),
            1 => Restart::Power(Loss::Everything).of(&machine.disk),
            2 | 3 => Restart::Power(Loss::Nothing).of(&machine.disk),
            4 => Restart::Power(Loss::Some(state)).of(&machine.disk),
            _ => {
                // The machine is lost, and all lives that it had.
                let mut journal = journal.lock().unwrap();
                let own = |acked: &&Acked| acked.machine == number;
                let lives = journal.acknowledged.values().filter(own).map(|acked| acked.life);
                let lives: Vec<u8> = lives.filter(|life| *life > 0).collect();
                journal.lost_lives.extend(lives);
                let _ = write!(story, "; {number} is lost");
                SimDisk::new()
            }
        };
        for kept in kept_folders(&machine.disk) {
            machine.note_exported(&kept, &journal);
        }
    }
    let others: Vec<&Machine> = machines.iter().collect();
    settle(&others, &store, &journal, &story);
    store.fates()
}

/// Goal: a fleet with random modes loses nothing beyond what the modes say, and names what it loses. With
/// `PLAN_LEDGER_FATES=1000000` it continues on all cores until so many calls to the store had a fate.
#[test]
fn sweep_random_fleet_in_all_modes_keeps_what_they_promise() {
    let start = start();
    let Ok(wanted) = std::env::var("PLAN_LEDGER_FATES") else {
        let count: u64 = (0..sweep(40, 1000, 100_000)).map(|seed| fleet(seed, &start)).sum();
        assert!(count > 40, "{count}");
        return;
    };
    let wanted: u64 = wanted.parse().expect("PLAN_LEDGER_FATES is a number");
    let (next, fates, began) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while fates.load(Ordering::Relaxed) < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    fates.fetch_add(fleet(seed, &start), Ordering::Relaxed);
                }
            });
        }
    });
    println!(
        "store: {} fates in {} stories of a fleet: 0 lost, 0 invented; {} s on {threads} threads",
        fates.into_inner(),
        next.into_inner(),
        began.elapsed().as_secs()
    );
}

/// Regression: a crash between the temporary STORE.json and its rename made every later opening fail, since the
/// temporary file was there already.
#[test]
fn leftover_of_an_interrupted_binding_is_replaced() {
    let (disk, store) = bound_ledger(1);
    disk.create(&dir().join("STORE.json.tmp")).unwrap().write_at(b"{", 0).unwrap();
    let bound = Clock::default().open(&disk, &store.handle(), 1, AckMode::Local).unwrap();
    assert_eq!(bound_store(&disk, &dir()).unwrap().unwrap().ack, BoundAck::Local);
    kill(&disk, bound.log);
    assert!(disk.read(&dir().join("STORE.json.tmp")).is_err());
}

/// Goal: STORE.json says in which mode the last writer acknowledged, before the first record.
#[test]
fn binding_states_the_mode() {
    let (disk, store) = (ledger(1), SimStore::new());
    let found = |disk: &SimDisk| bound_store(disk, &dir()).unwrap();
    assert_eq!(found(&disk), None);
    for (number, mode, word) in [
        (1, BOUNDED, BoundAck::Bounded),
        (2, AckMode::Local, BoundAck::Local),
        (3, AckMode::Store, BoundAck::Store),
    ] {
        let bound = Clock::default().open(&disk, &store.handle(), number, mode).unwrap();
        let cut = Restart::Power(Loss::Everything).of(&disk);
        let StoreBinding { url, ack, .. } = found(&cut).unwrap();
        assert_eq!((url.as_str(), ack), (URL, word));
        bound.log.close().unwrap();
    }
    // A folder that follows the store is bound as well, before it takes in the first record.
    let standby = SimDisk::new();
    replicate(&dir(), small(&standby), &client(&store.handle()), &mut |_| false).unwrap();
    assert_eq!(found(&standby).unwrap().ack, BoundAck::Store);
    unbind(&standby);
    open(&disk, &store.handle(), 4).unwrap().log.close().unwrap();
    replicate(&dir(), small(&standby), &client(&store.handle()), &mut |_| false).unwrap();
    assert_eq!(found(&standby).unwrap().ack, BoundAck::Local);
    let copy = LogCopy::open(&dir(), small(&standby)).unwrap();
    assert_eq!(copy.binding().unwrap().url, URL);
    // Nothing of the temporary file is left.
    assert!(disk.files(&dir()).iter().all(|path| !path.to_string_lossy().ends_with(".tmp")));
}
