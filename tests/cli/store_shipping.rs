//! Every way by which records go to a store and come back makes progress with a batch of any legal size, as the first one
//! of a ledger, too.

use std::sync::Arc;
use std::time::Duration;

use plan_ledger::ErrorKind;
use plan_ledger::internals::format::NewRecord;
use plan_ledger::internals::sim::{SimDisk, SimStore};
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, BoundLog, MonotonicClock, SideCar, StandbyFolder, StoreLag, StoreOpening, open_bound,
    restore,
};
use plan_ledger::log::{Log, LogOptions, VerifyOptions, verify};

use super::lab::{at, dir, options, reader, record, whole};
use super::store_folder::{client, node, summary};
use super::store_modes::torn_ledger;

/// The bytes of a segment before its frames, and of a frame beside its payload.
const SEGMENT_HEADER: usize = 4096;
const FRAME: usize = 80;

/// What a writer ships at once, unless one batch is larger.
const SHIPPED: usize = 4 << 20;

/// Batches around each limit: the first segment, which has 1 MiB, and what is shipped at once.
fn batches() -> Vec<Vec<NewRecord>> {
    let fits = (1 << 20) - SEGMENT_HEADER - FRAME;
    let sizes: [&[usize]; 6] = [
        &[100],
        &[fits],
        &[fits + 1],
        &[SHIPPED - FRAME, 10],
        &[SHIPPED + 1],
        &[2 << 20, 2 << 20, 2 << 20],
    ];
    let batch = |sizes: &[usize]| -> Vec<NewRecord> {
        (1..).zip(sizes).map(|(number, size)| record(number, *size)).collect()
    };
    sizes.map(batch).into()
}

/// A closed ledger with a batch, a small one, and the first one again.
fn ledger_of(batch: &[NewRecord]) -> SimDisk {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    append(&log, batch);
    log.close().unwrap();
    disk
}

fn append(log: &Log, batch: &[NewRecord]) {
    for batch in [batch, &[record(50, 50)], batch] {
        log.append(batch, at(1)).unwrap();
    }
}

fn opening(number: u8, ack: AckMode) -> StoreOpening {
    let clock = MonotonicClock::new(|| Duration::ZERO);
    StoreOpening { ack, node: node(number), time: at(1000), clock }
}

fn open(disk: &SimDisk, store: &SimStore, number: u8, ack: AckMode) -> BoundLog {
    let options: LogOptions = options(disk);
    open_bound(&dir(), options, &client(&store.handle()), &opening(number, ack)).unwrap()
}

fn side_car(disk: &SimDisk, store: &SimStore) -> SideCar {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let opening = opening(9, AckMode::Local);
    SideCar::open(&dir(), &storage, &client(&store.handle()), &opening).unwrap()
}

/// A restored folder has the records of a folder, and nothing is wrong with it.
fn expect_equal(disk: &SimDisk, store: &SimStore, story: &str) {
    let copy = SimDisk::new();
    restore(&dir(), options(&copy), &client(&store.handle()), &mut |_| ()).unwrap();
    let (own, found) = (summary(&whole(&reader(disk))), summary(&whole(&reader(&copy))));
    assert!(own == found, "{story}: {} of {} records", found.len(), own.len());
    let storage: Arc<dyn Storage> = Arc::new(copy);
    assert!(!verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap().is_damaged(), "{story}");
}

/// Story: the first plan of a ledger had 12,000 steps. Its batch was larger than the first segment, which stayed without a
/// record. A side-car took that for the end of the log, and never ended; a store could not have the ledger.
#[test]
fn batch_of_any_size_goes_to_the_store_on_every_way() {
    for batch in batches() {
        let size: usize = batch.iter().map(|record| record.payload.len()).sum();
        let disk = ledger_of(&batch);
        let segments = reader(&disk).segments();
        let starts: Vec<u64> =
            segments.iter().map(|segment| segment.header.as_ref().unwrap().base_seq).collect();
        assert!(starts.is_sorted_by(|one, two| one < two), "{size}: {starts:?}");

        let story = format!("a side-car, {size} bytes");
        let store = SimStore::new();
        let mut car = side_car(&disk, &store);
        assert_eq!(car.ship().unwrap(), StoreLag::default(), "{story}");
        assert_eq!(side_car(&disk, &store).ship().unwrap(), StoreLag::default(), "{story}");
        car.upload_segments().unwrap();
        expect_equal(&disk, &store, &story);

        let story = format!("a folder that is bound, {size} bytes");
        let store = SimStore::new();
        let bound = open(&disk, &store, 1, AckMode::Store);
        assert_eq!(bound.progress.shipped, bound.log.last_durable().seq - 1, "{story}");
        expect_equal(&disk, &store, &story);

        for ack in [AckMode::Store, AckMode::Bounded(Duration::from_secs(5)), AckMode::Local] {
            let story = format!("{ack}, {size} bytes");
            let (disk, store) = (SimDisk::new(), SimStore::new());
            Log::create(&dir(), options(&disk), at(0)).unwrap().close().unwrap();
            let bound = open(&disk, &store, 1, ack);
            let standby = SimDisk::new();
            let process = client(&store.handle());
            let mut folder = StandbyFolder::open(&dir(), options(&standby), &process).unwrap();
            append(&bound.log, &batch);
            if ack != AckMode::Store {
                assert!(bound.keeper.lag().records > 0, "{story}");
                assert_eq!(bound.keeper.ship().unwrap(), StoreLag::default(), "{story}");
            }
            let last = bound.log.last_durable().seq;
            folder.follow().unwrap();
            assert_eq!(folder.progress().last_seq, last, "{story}");
            bound.keeper.upload_segments().unwrap();
            expect_equal(&disk, &store, &story);
            // What is ahead at the end of a process is added by the next one.
            append(&bound.log, &batch);
            let unshipped = bound.keeper.lag().records;
            drop(bound);
            disk.kill_process();
            let bound = open(&disk, &store, 2, ack);
            assert_eq!(bound.progress.shipped, unshipped, "{story}");
            expect_equal(&disk, &store, &story);
            folder.follow_to_end().unwrap();
            assert_eq!(folder.progress().last_seq, bound.log.last_durable().seq, "{story}");
        }
    }
}

/// Goal: a segment that a crash left without a record ends shipping with an error that says what to do, instead of a
/// process that waits forever.
#[test]
fn segment_without_a_record_is_refused_by_the_side_car() {
    let (disk, store) = (torn_ledger(), SimStore::new());
    let error = side_car(&disk, &store).ship().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("has no record"), "{error}");
    assert!(error.hint().unwrap().contains("import"), "{error}");
    assert_eq!(store.names(), ["LEDGER.json"]);
}

/// Goal: a batch that fits into no slot is refused by the side-car and when the folder is bound, with the limit.
#[test]
fn batch_that_fits_into_no_slot_is_refused() {
    let batch: Vec<NewRecord> = (1..=4).map(|number| record(number, 16 << 20)).collect();
    let disk = ledger_of(&batch);
    let store = SimStore::new();
    let error = side_car(&disk, &store).ship().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("67108864"), "{error}");
    let process = client(&store.handle());
    let opened = open_bound(&dir(), options(&disk), &process, &opening(1, AckMode::Store));
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(store.names(), ["LEDGER.json"]);
}
