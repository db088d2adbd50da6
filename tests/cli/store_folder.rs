//! A folder that is bound to a store: whatever call of the disk or the store fails, an acknowledged record
//! is in the store, nothing is invented, and folder and store agree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_ledger::internals::format::{NewRecord, Uid};
use plan_ledger::internals::sim::{
    Fault, FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk, SimStore,
    StoreFate, sweep,
};
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::internals::store::{
    AckMode, BoundLog, DirectoryObjects, MonotonicClock, Objects, StandbyFolder, StoreClient,
    StoreOpening, open_bound, replicate, restore,
};
use plan_ledger::log::{
    Batch, Durability, Keeper, KeptGroup, Log, LogOptions, LogReader, LoggedRecord, NotKept,
    SegmentSizes, VerifyOptions, verify,
};
use plan_ledger::{Claim, Environment, Error, ErrorKind, HeadSync, Ledger, Plan, state_hash};

use super::lab::{
    Restart, at, dir, kill, log_digest, mix, options, options_with, reader, record, whole,
};

/// How often a process asks the store again before it gives up.
pub(crate) const PATIENCE: u32 = 12;

/// Small segments, so that a few records need several.
const SIZES: SegmentSizes = SegmentSizes { first: 8192, largest: 16384 };

pub(crate) fn small(disk: &SimDisk) -> LogOptions {
    LogOptions { segments: SIZES, ..options(disk) }
}

pub(crate) fn client(store: &SimStore) -> StoreClient {
    StoreClient::new(URL, Arc::new(store.clone()), |unclear| unclear < PATIENCE)
}

/// Where the simulated store is.
pub(crate) const URL: &str = "sim://store/ledger";

/// A process that waits for the store before it acknowledges.
fn opening(number: u8, time: u64) -> StoreOpening {
    let clock = MonotonicClock::new(|| Duration::ZERO);
    StoreOpening { ack: AckMode::Store, node: node(number), time, clock }
}

pub(crate) fn node(number: u8) -> Uid {
    [number; 16]
}

pub(crate) fn open(disk: &SimDisk, store: &SimStore, number: u8) -> Result<BoundLog, Error> {
    open_bound(&dir(), small(disk), &client(store), &opening(number, at(1000)))
}

/// A ledger that was closed before it has a store, with some records.
pub(crate) fn ledger(count: u64) -> SimDisk {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), small(&disk), at(0)).unwrap();
    for number in 0..count {
        log.append(&[record(number, 1500)], at(number)).unwrap();
    }
    log.close().unwrap();
    disk
}

/// Leave the store, as a person does.
pub(crate) fn unbind(disk: &SimDisk) {
    disk.remove(&dir().join("STORE.json")).unwrap();
    disk.sync_dir(&dir()).unwrap();
}

/// A new folder with the log of a store.
pub(crate) fn restored(store: &SimStore) -> Result<(SimDisk, Vec<LoggedRecord>), Error> {
    let disk = SimDisk::new();
    restore(&dir(), small(&disk), &client(&store.handle()), &mut |_| ())?;
    let records = whole(&reader(&disk));
    Ok((disk, records))
}

pub(crate) fn summary(records: &[LoggedRecord]) -> Vec<(u64, String)> {
    records.iter().map(|record| (record.seq, record.chain.to_string())).collect()
}

/// What all processes requested and what became of it.
#[derive(Debug, Clone, Default)]
struct Journal {
    requested: Vec<Vec<u8>>,
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// They are not in the log, and never will be.
    refused: Vec<Vec<u8>>,
}

/// Append through the journal. Other machines use it meanwhile.
fn append(
    journal: &Mutex<Journal>,
    log: &Log,
    batch: &[NewRecord],
    step: u64,
) -> Result<(), Error> {
    let payloads = || batch.iter().map(|record| record.payload.clone());
    journal.lock().unwrap().requested.extend(payloads());
    let appended = log.append(batch, at(step));
    let mut journal = journal.lock().unwrap();
    match appended {
        Ok(ack) => {
            let first = ack.seq + 1 - u64::try_from(batch.len()).unwrap();
            for (seq, payload) in (first..).zip(payloads()) {
                let before = journal.acknowledged.insert(seq, payload);
                assert_eq!(before, None, "record {seq} is acknowledged twice");
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

impl Journal {
    /// The log has all that was acknowledged in its place, and nothing that was not requested, once.
    fn check(&self, records: &[LoggedRecord], story: &str) {
        for (seq, payload) in &self.acknowledged {
            let found = records.get(usize::try_from(*seq).unwrap() - 1).map(|found| &found.payload);
            assert!(found == Some(payload), "{story}: record {seq} is lost");
        }
        let own: Vec<_> = records.iter().filter(|record| record.kind == 1).collect();
        for (place, record) in own.iter().enumerate() {
            assert!(self.requested.contains(&record.payload), "{story}: a record is invented");
            assert!(!self.refused.contains(&record.payload), "{story}: a record was refused");
            let again = own[place + 1..].iter().any(|other| other.payload == record.payload);
            assert!(!again, "{story}: record {} is there twice", record.seq);
        }
    }
}

/// A process opens the ledger and commits, until it is refused. The batches are of its number.
fn live(
    disk: &SimDisk,
    store: &SimStore,
    number: u8,
    commits: u64,
    journal: &Mutex<Journal>,
) -> Result<(), Error> {
    let bound = open(disk, store, number)?;
    commit_some(bound, number, commits, journal)
}

/// As [`live`], for a process that follows the store with its folder, and takes over.
fn follow_and_live(
    disk: &SimDisk,
    store: &SimStore,
    number: u8,
    commits: u64,
    journal: &Mutex<Journal>,
) -> Result<(), Error> {
    let mut folder = StandbyFolder::open(&dir(), small(disk), &client(store))?;
    folder.follow()?;
    let bound = folder.take_over(&opening(number, at(1000)), None)?;
    commit_some(bound, number, commits, journal)
}

fn commit_some(
    bound: BoundLog,
    number: u8,
    commits: u64,
    journal: &Mutex<Journal>,
) -> Result<(), Error> {
    for commit in 0..commits {
        let first = 1000 * u64::from(number) + 10 * commit;
        let batch = [record(first, 300), record(first + 1, 1700)];
        append(journal, &bound.log, &batch, 20 + commit)?;
    }
    bound.log.close()
}

/// Another machine follows the store, takes over and commits.
fn stand_in(disk: &SimDisk, store: &SimStore, number: u8, journal: &Mutex<Journal>) {
    let lived = follow_and_live(disk, store, number, 2, journal);
    if let Err(error) = lived {
        let nothing = [ErrorKind::NotALedger, ErrorKind::OutOfRange, ErrorKind::Io];
        let may_fail = [ErrorKind::OutcomeUnknown, ErrorKind::Fenced];
        let is_expected = [&nothing[..], &may_fail].concat().contains(&error.kind());
        assert!(is_expected, "stand-in {number}: {error}");
    }
}

/// Everything settles: the store has what was acknowledged, a restored folder and the folder of the process
/// agree with it, and both can continue.
fn settle(disk: &SimDisk, store: &SimStore, journal: &Mutex<Journal>, story: &str) {
    store.carry_out_all();
    match restored(store) {
        Ok((copy, records)) => {
            journal.lock().unwrap().check(&records, story);
            let storage: Arc<dyn Storage> = Arc::new(copy);
            let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
            assert!(!verified.is_damaged(), "{story}: restored: {:?}", verified.findings);
        }
        Err(error) => {
            let is_empty = [ErrorKind::NotALedger, ErrorKind::OutOfRange].contains(&error.kind());
            assert!(is_empty, "{story}: {error}");
            assert!(journal.lock().unwrap().acknowledged.is_empty(), "{story}: {error}");
        }
    }
    let handle = store.handle();
    let bound = open(disk, &handle, 0x71).unwrap_or_else(|error| panic!("{story}: {error}"));
    append(journal, &bound.log, &[record(77, 900)], 2000).unwrap();
    let own = whole(&bound.log.reader().unwrap());
    let (_, records) = restored(store).unwrap_or_else(|error| panic!("{story}: {error}"));
    assert_eq!(summary(&own), summary(&records), "{story}: folder and store differ");
    journal.lock().unwrap().check(&records, story);
    bound.log.close().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
    assert!(!verified.is_damaged(), "{story}: {:?}", verified.findings);
}

/// A ledger with two records of its own, and what was acknowledged so far.
fn start() -> (SimDisk, Mutex<Journal>) {
    let disk = ledger(2);
    disk.lose_power(Loss::Nothing);
    let mut journal = Journal::default();
    for (seq, number) in [(1, 0), (2, 1)] {
        let payload = record(number, 1500).payload;
        journal.requested.push(payload.clone());
        journal.acknowledged.insert(seq, payload);
    }
    (disk, Mutex::new(journal))
}

/// Until the ledger is bound, the store need not have its records.
fn start_bound() -> (SimDisk, SimStore, Mutex<Journal>) {
    let (disk, journal) = start();
    let store = SimStore::new();
    open(&disk, &store.handle(), 0x70).unwrap().log.close().unwrap();
    disk.lose_power(Loss::Nothing);
    (disk, store, journal)
}

/// The calls of the disk of a process that lives without faults.
fn disk_calls(disk: &SimDisk, store: &SimStore, journal: &Mutex<Journal>) -> RangeInclusive<u64> {
    let calm = disk.fork();
    let before = calm.calls();
    live(&calm, &store.fork(), 1, 3, &Mutex::new(journal.lock().unwrap().clone())).unwrap();
    before + 1..=calm.calls()
}

/// Goal: the machine stops before every call of the disk, and restarts in several ways.
#[test]
fn crash_at_every_call_of_the_disk_loses_and_invents_nothing() {
    let (disk, store, journal) = start_bound();
    let calls = disk_calls(&disk, &store, &journal);
    let step = sweep(7, 2, 1);
    let (mut count, mut last) = (0, u64::MAX);
    for call in calls.step_by(step) {
        let (disk, store) = (disk.fork(), store.fork());
        let journal = Mutex::new(journal.lock().unwrap().clone());
        disk.crash_at(call);
        let _ = live(&disk, &store.handle(), 1, 3, &journal);
        if disk.changes() == last {
            continue;
        }
        last = disk.changes();
        let losses = [Loss::Everything, Loss::Nothing, Loss::Some(call), Loss::Some(!call)];
        let restarts = losses.map(Restart::Power).into_iter().chain([Restart::Process]);
        for restart in restarts {
            let story = format!("crash at call {call}, {restart:?}");
            let (disk, store) = (restart.of(&disk), store.fork());
            settle(&disk, &store, &Mutex::new(journal.lock().unwrap().clone()), &story);
            count += 1;
        }
    }
    assert!(count >= 40, "{count}");
}

/// Goal: every call of the disk fails once, and the process continues as far as it can.
#[test]
fn sweep_failed_call_of_the_disk_loses_and_invents_nothing() {
    let (disk, store, journal) = start_bound();
    let calls = disk_calls(&disk, &store, &journal);
    let step = sweep(11, 3, 1);
    let effects = [FaultEffect::Nothing, FaultEffect::Everything, FaultEffect::Revert];
    for call in calls.step_by(step) {
        for effect in effects {
            let (disk, store) = (disk.fork(), store.fork());
            let journal = Mutex::new(journal.lock().unwrap().clone());
            disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect });
            let _ = live(&disk, &store.handle(), 1, 3, &journal);
            let story = format!("call {call} fails with {effect:?}");
            for loss in [Loss::Everything, Loss::Nothing] {
                let journal = Mutex::new(journal.lock().unwrap().clone());
                settle(&Restart::Power(loss).of(&disk), &store.fork(), &journal, &story);
            }
        }
    }
}

/// The number of calls to the store of a process that lives without faults.
fn store_calls(disk: &SimDisk, store: &SimStore) -> u64 {
    let handle = store.fork();
    live(&disk.fork(), &handle, 1, 3, &Mutex::default()).unwrap();
    handle.calls()
}

/// Goal: every fate of every call to the store, with and without a machine that takes over at that call or
/// at one of the next, first when the ledger is bound and then when it is bound already.
#[test]
fn every_fate_of_every_call_to_the_store_loses_and_invents_nothing() {
    let (unbound, journal) = start();
    let (bound, store, _) = start_bound();
    let takeovers = sweep(2, 4, 8);
    for (disk, store) in [(unbound, SimStore::new()), (bound, store)] {
        let calls = store_calls(&disk, &store);
        assert!((10..60).contains(&calls), "{calls}");
        let is_bound = !store.names().is_empty();
        for call in (1..=calls).step_by(sweep(3, 1, 1)) {
            let fates = StoreFate::ALL.map(Some).into_iter().chain([None]);
            for (fate, later) in fates.flat_map(|fate| (0..=takeovers).map(move |at| (fate, at))) {
                let (disk, store) = (disk.fork(), store.fork());
                let mut known = journal.lock().unwrap().clone();
                if !is_bound {
                    known.acknowledged.clear();
                }
                let journal = Arc::new(Mutex::new(known));
                let process = store.handle();
                if let Some(fate) = fate {
                    process.set_fate(call, fate);
                }
                if later > 0 {
                    let (other, elsewhere) = (store.clone(), SimDisk::new());
                    let journal = journal.clone();
                    process.before_call(call + later - 1, move || {
                        stand_in(&elsewhere, &other.handle(), 2, &journal);
                    });
                }
                let lived = live(&disk, &process, 1, 3, &journal);
                let story = format!("{fate:?} of call {call}, takeover {later}: {lived:?}");
                disk.kill_process();
                settle(&disk, &store, &journal, &story);
            }
        }
    }
}

/// A seeded random number below a bound.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = mix(*seed);
    *seed % below
}

/// Goal: three machines with random crashes, losses and fates take the ledger from each other.
#[test]
fn sweep_random_fleet_of_folders_loses_and_invents_nothing() {
    let (first, store, journal) = start_bound();
    for seed in 0..sweep(60, 1500, 100_000) {
        let store = store.fork();
        let journal = Arc::new(Mutex::new(journal.lock().unwrap().clone()));
        let mut disks = [first.fork(), SimDisk::new(), SimDisk::new()];
        let (mut state, mut story) = (mix(seed), format!("seed {seed}"));
        for round in 0..5 {
            let machine = usize::try_from(random(&mut state, 3)).unwrap();
            let number = 1 + u8::try_from(round).unwrap();
            let (process, disk) = (store.handle(), disks[machine].clone());
            for _ in 0..random(&mut state, 3) {
                let fate = StoreFate::ALL[usize::try_from(random(&mut state, 8)).unwrap()];
                process.set_fate(1 + random(&mut state, 50), fate);
            }
            if random(&mut state, 3) == 0 {
                disk.crash_at(disk.calls() + 1 + random(&mut state, 300));
            }
            if random(&mut state, 3) == 0 {
                let (other, journal, elsewhere) = (store.clone(), journal.clone(), SimDisk::new());
                process.before_call(1 + random(&mut state, 50), move || {
                    stand_in(&elsewhere, &other.handle(), 0x40 + number, &journal);
                });
            }
            let lived = match (machine, random(&mut state, 3)) {
                (0, _) => live(&disk, &process, number, 2, &journal),
                (_, 0) => replicate(&dir(), small(&disk), &client(&process), &mut |_| false)
                    .and_then(|_| live(&disk, &process, number, 2, &journal)),
                _ => follow_and_live(&disk, &process, number, 2, &journal),
            };
            let _ = write!(story, "; {machine}: {lived:?}");
            let restart = match random(&mut state, 4) {
                0 => Restart::Process,
                1 => Restart::Power(Loss::Everything),
                2 => Restart::Power(Loss::Nothing),
                _ => Restart::Power(Loss::Some(state)),
            };
            disks[machine] = restart.of(&disk);
        }
        settle(&disks[0], &store, &journal, &story);
    }
}

/// A keeper that checks what it is told, and refuses on request.
#[derive(Debug)]
struct Spy {
    disk: SimDisk,
    groups: Mutex<Vec<(u64, u64)>>,
    answer: Mutex<Option<NotKept>>,
    size_max: u64,
}

impl Spy {
    fn on(disk: &SimDisk) -> Arc<Self> {
        let (groups, answer) = (Mutex::default(), Mutex::default());
        Arc::new(Self { disk: disk.clone(), groups, answer, size_max: 4096 })
    }

    fn open(self: &Arc<Self>) -> Log {
        let keeper: Arc<dyn Keeper> = self.clone();
        let options = LogOptions { keeper: Some(keeper), ..small(&self.disk) };
        Log::open(&dir(), options, at(50)).unwrap().0
    }
}

impl Keeper for Spy {
    fn keep(&self, group: &KeptGroup<'_>) -> Result<(), NotKept> {
        // What the process loses with the power now is nothing of the group.
        let after = Restart::Power(Loss::Everything).of(&self.disk);
        let name = group.segment.name().to_string();
        let bytes = after.read(&dir().join("log").join(name)).unwrap();
        let offset = usize::try_from(group.offset).unwrap();
        assert_eq!(bytes[offset..offset + group.frames.len()], *group.frames, "not synced");
        let head = reader(&self.disk).head().cloned().unwrap();
        assert_eq!(head.durable_seq, group.last_seq, "HEAD covers what is not kept");
        let length = u64::try_from(group.frames.len()).unwrap();
        self.groups.lock().unwrap().push((group.last_seq, length));
        self.answer.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn keep_blob(&self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn size_max(&self) -> u64 {
        self.size_max
    }

    fn kept_seq(&self) -> u64 {
        u64::MAX
    }
}

/// Goal: the keeper has a group after the sync and before HEAD, whatever wrote it; rotations too.
#[test]
fn keeper_has_each_group_between_sync_and_head() {
    let disk = ledger(1);
    let spy = Spy::on(&disk);
    let log = spy.open();
    for number in 0..8 {
        log.append(&[record(number, 1500)], at(60)).unwrap();
    }
    let buffered = Batch { durability: Durability::Buffered, ..Batch::new(vec![record(8, 90)], 0) };
    let ticket = log.submit(&buffered).unwrap();
    assert_eq!(spy.groups.lock().unwrap().len(), 8);
    // The group that syncs the buffered record has it as well.
    log.append(&[record(9, 10)], at(61)).unwrap();
    log.wait(ticket).unwrap();
    let groups = spy.groups.lock().unwrap().clone();
    assert_eq!(groups.iter().map(|group| group.0).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    assert!(groups[8].1 > 200, "{groups:?}");
    log.close().unwrap();
}

/// Goal: a log whose keeper refuses a group stops, says why, and writes no HEAD for the group.
#[test]
fn log_stops_when_its_keeper_refuses() {
    for (answer, first, then) in [
        (NotKept::Fenced("taken over".to_owned()), ErrorKind::Fenced, ErrorKind::Fenced),
        (NotKept::Unknown("no answer".to_owned()), ErrorKind::OutcomeUnknown, ErrorKind::Poisoned),
    ] {
        let disk = ledger(1);
        let spy = Spy::on(&disk);
        let log = spy.open();
        log.append(&[record(1, 100)], at(60)).unwrap();
        *spy.answer.lock().unwrap() = Some(answer);
        let error = log.append(&[record(2, 100)], at(61)).unwrap_err();
        assert_eq!(error.kind(), first, "{error}");
        let why = if first == ErrorKind::Fenced { "taken over" } else { "no answer" };
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.hint().map(|hint| hint.contains("again")), Some(true), "{error}");
        assert_eq!(log.append(&[record(3, 100)], at(62)).unwrap_err().kind(), then);
        assert_eq!(log.last_durable().seq, 2);
        let head = reader(&disk).head().cloned().unwrap();
        assert_eq!((head.durable_seq, format!("{:?}", head.state)), (2, "Open".to_owned()));
        assert_eq!(log.close().is_err(), first == ErrorKind::Fenced);
    }
}

/// Goal: a batch that the keeper cannot keep is refused before it is written, and the log continues. The
/// limit itself is kept.
#[test]
fn batch_over_the_limit_of_the_keeper_is_refused() {
    let disk = ledger(1);
    let log = Spy::on(&disk).open();
    let sized = |size| [record(1, size)];
    // A frame has 80 bytes beside its payload.
    let error = log.append(&sized(4096 - 79), at(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("4096"), "{error}");
    log.append(&sized(4096 - 80), at(60)).unwrap();
    let two = [record(2, 2000), record(3, 2000)];
    assert_eq!(log.append(&two, at(60)).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(log.append(&sized(8), at(61)).unwrap().seq, 3);
    log.close().unwrap();
}

/// Goal: the limit of a store is that of a slot.
#[test]
fn batch_over_the_limit_of_a_slot_is_refused() {
    let (disk, store) = (ledger(1), SimStore::new());
    let bound = open(&disk, &store, 1).unwrap();
    let calls = store.calls();
    let batch: Vec<NewRecord> = (0..4).map(|number| record(number, 16 << 20)).collect();
    let error = bound.log.append(&batch, at(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(store.calls(), calls);
    bound.log.append(&[record(5, 5)], at(61)).unwrap();
    assert_eq!(restored(&store).unwrap().1.len(), 3);
}

/// Goal: what a ledger had before it was bound is in the store, in several segments, and so is what follows.
#[test]
fn ledger_with_a_history_is_bound() {
    let (disk, store) = (ledger(30), SimStore::new());
    let bound = open(&disk, &store, 1).unwrap();
    assert_eq!((bound.progress.shipped, bound.progress.taken_in, bound.epoch), (30, 0, 2));
    bound.log.append(&[record(100, 100)], at(60)).unwrap();
    let own = whole(&bound.log.reader().unwrap());
    assert_eq!(own.len(), 32);
    let (copy, records) = restored(&store).unwrap();
    assert_eq!(summary(&records), summary(&own));
    bound.log.close().unwrap();
    // All sealed segments have the same bytes.
    for path in disk.files(&dir().join("log")) {
        assert!(copy.files(&dir().join("log")).contains(&path), "{path:?}");
    }
    // Without the store it is an ordinary ledger.
    unbind(&copy);
    let log = Log::open(&dir(), small(&copy), at(70)).unwrap().0;
    assert_eq!(log.append(&[record(101, 10)], at(71)).unwrap().seq, 33);
    // The other folder is opened once more, and nothing is added but the note.
    let again = open(&disk, &store.handle(), 2).unwrap();
    assert_eq!((again.progress.shipped, again.progress.taken_in), (0, 0));
    assert_eq!(again.log.last_durable().seq, 33);
}

/// Goal: a large history goes to the store in few slots, and a folder that is up to date asks for little.
#[test]
fn binding_and_opening_need_few_calls() {
    let (disk, store) = (ledger(300), SimStore::new());
    let process = store.handle();
    let options = || LogOptions { segments: SegmentSizes::DEFAULT, ..options(&disk) };
    open_bound(&dir(), options(), &client(&process), &opening(1, at(1000)))
        .unwrap()
        .log
        .close()
        .unwrap();
    let segments = u64::try_from(reader(&disk).segments().len()).unwrap();
    assert!(process.calls() < 3 * segments + 20, "{} calls", process.calls());
    let process = store.handle();
    open_bound(&dir(), options(), &client(&process), &opening(2, at(1000)))
        .unwrap()
        .log
        .close()
        .unwrap();
    assert!(process.calls() < 20, "{} calls", process.calls());
}

/// Goal: a machine that follows the store takes over with everything; the machine before is fenced at its
/// next commit, says so, and its folder joins again as a follower.
#[test]
fn standby_takes_over_and_the_owner_before_is_fenced() {
    let (disk, store) = (ledger(3), SimStore::new());
    let old = open(&disk, &store.handle(), 1).unwrap();
    let standby = SimDisk::new();
    let mut seen = Vec::new();
    let last = replicate(&dir(), small(&standby), &client(&store.handle()), &mut |progress| {
        seen.push(progress.last_seq);
        // The owner commits while the standby follows.
        if seen.len() < 4 {
            let number = 100 + u64::try_from(seen.len()).unwrap();
            old.log.append(&[record(number, 2000)], at(60)).unwrap();
        }
        seen.len() < 5
    });
    assert_eq!(last.unwrap().seq, 7);
    assert_eq!(seen, [4, 5, 6, 7, 7]);
    let new = open(&standby, &store.handle(), 2).unwrap();
    assert_eq!((new.progress.taken_in, new.progress.shipped, new.epoch), (0, 0, 3));
    new.log.append(&[record(200, 50)], at(70)).unwrap();
    let error = old.log.append(&[record(300, 50)], at(71)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert!(error.to_string().contains("another process took over"), "{error}");
    assert!(old.log.close().is_err());
    // What the old owner wrote and the store never had was not acknowledged.
    let mut last_progress = None;
    replicate(&dir(), small(&disk), &client(&store.handle()), &mut |progress| {
        last_progress = Some(*progress);
        false
    })
    .unwrap();
    let progress = last_progress.unwrap();
    assert_eq!((progress.dropped, progress.taken_in), (Some((8, 8)), 2));
    assert_eq!(summary(&whole(&reader(&disk))), summary(&whole(&new.log.reader().unwrap())));
}

/// Goal: a folder with records that it may have acknowledged, while another machine took over, is refused:
/// nothing is changed, and the error says what to do.
#[test]
fn diverged_folder_is_refused() {
    let (disk, store) = (ledger(3), SimStore::new());
    open(&disk, &store.handle(), 1).unwrap().log.close().unwrap();
    // A person leaves the store, and the ledger acknowledges two records.
    unbind(&disk);
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    log.append(&[record(50, 100)], at(60)).unwrap();
    log.append(&[record(51, 100)], at(61)).unwrap();
    log.close().unwrap();
    let elsewhere = SimDisk::new();
    stand_in(&elsewhere, &store.handle(), 2, &Mutex::default());
    let (before, names) = (log_digest(&disk), store.names());
    for _ in 0..2 {
        let error = open(&disk, &store.handle(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
        assert!(error.to_string().contains("records 5 to 6"), "{error}");
        assert!(error.to_string().contains("2, of which 2 are known"), "{error}");
        assert!(error.to_string().contains("after record 4, the last common one"), "{error}");
        assert!(error.hint().unwrap().contains("restore the store into a new one"), "{error}");
        let error = replicate(&dir(), small(&disk), &client(&store.handle()), &mut |_| false);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Diverged);
        assert_eq!((log_digest(&disk), store.names()), (before, names.clone()));
    }
}

/// Goal: records that a program without the store added are in the store after the next opening, unless
/// another machine took over.
#[test]
fn records_of_a_program_without_the_store_are_added() {
    let (disk, store) = (ledger(3), SimStore::new());
    open(&disk, &store.handle(), 1).unwrap().log.close().unwrap();
    unbind(&disk);
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    for number in 0..9 {
        log.append(&[record(50 + number, 3000)], at(60)).unwrap();
    }
    kill(&disk, log);
    let bound = open(&disk, &store.handle(), 2).unwrap();
    assert_eq!((bound.progress.shipped, bound.log.last_durable().seq), (9, 14));
    assert_eq!(
        summary(&restored(&store).unwrap().1),
        summary(&whole(&bound.log.reader().unwrap()))
    );
}

/// Goal: records whose sync failed are written again before they become durable in the store. The system
/// may have dropped their bytes, and a later sync proves nothing.
#[test]
fn records_whose_sync_failed_are_written_again() {
    let (disk, store) = (ledger(1), SimStore::new());
    let bound = open(&disk, &store.handle(), 1).unwrap();
    let failed = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
    disk.inject(FaultRule::next(failed).of(Operation::Sync));
    let error = bound.log.append(&[record(5, 700)], at(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    kill(&disk, bound.log);
    let bound = open(&disk, &store.handle(), 2).unwrap();
    assert_eq!((bound.progress.shipped, bound.log.last_durable().seq), (1, 4));
    kill(&disk, bound.log);
    disk.lose_power(Loss::Everything);
    let bound = open(&disk, &store.handle(), 3).unwrap();
    let own = whole(&bound.log.reader().unwrap());
    assert_eq!(own.len(), 5);
    assert_eq!(summary(&restored(&store).unwrap().1), summary(&own));
}

/// Goal: where the log continues in the place of an unfinished write, nothing is left of it.
#[test]
fn bytes_of_an_unfinished_write_are_overwritten() {
    let (disk, store) = (ledger(0), SimStore::new());
    let segment = disk.files(&dir().join("log")).remove(0);
    // The first sectors of the write did not arrive.
    disk.overwrite(&segment, 6144, &[7; 100]).unwrap();
    let bound = open(&disk, &store, 1).unwrap();
    assert_eq!(bound.recovery.discarded.len(), 1);
    kill(&disk, bound.log);
    let bytes = disk.read(&segment).unwrap();
    let end = usize::try_from(reader(&disk).head().unwrap().data_end).unwrap();
    assert!(end > 4096 && bytes[end..].iter().all(|byte| *byte == 0));
}

/// Goal: a folder of another ledger, or a store without one, is refused.
#[test]
fn store_of_another_ledger_is_refused() {
    let (disk, store) = (ledger(1), SimStore::new());
    let error = restored(&store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALedger, "{error}");
    open(&disk, &store.handle(), 1).unwrap().log.close().unwrap();
    let other = SimDisk::new();
    // Identifiers of its own.
    let options = options_with(Arc::new(other.clone()), 999, HeadSync::Interval);
    Log::create(&dir(), options, at(0)).unwrap().close().unwrap();
    assert_eq!(open(&other, &store.handle(), 2).unwrap_err().kind(), ErrorKind::Rejected);
    let error = replicate(&dir(), small(&other), &client(&store.handle()), &mut |_| false);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Rejected);
    // A folder that is in use is not replaced.
    let error = restore(&dir(), small(&disk), &client(&store), &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALedger, "{error}");
}

/// Goal: a ledger whose machine is lost continues elsewhere, with the same state and the same claims.
#[test]
fn ledger_with_steps_continues_from_the_store() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    let objects = DirectoryObjects::open(&place.path().join("store")).unwrap();
    let client = StoreClient::new(URL, Arc::new(objects), |unclear| unclear < PATIENCE);
    let environment = Environment::system();
    let storage = environment.storage.clone();
    let time = || environment.clock.now();
    let bound = |dir: &Path, number| {
        let options = environment.log_options();
        let bound = open_bound(dir, options, &client, &opening(number, time())).unwrap();
        Ledger::of_log(bound.log, &bound.recovery, &environment).unwrap().0
    };
    Ledger::create(&first, &environment).unwrap().close().unwrap();
    let ledger = bound(&first, 1);
    let plan: Plan = serde_json::from_str(
        r#"{"steps": [{"id": "one"}, {"id": "two", "after": ["one"]}, {"id": "three"}]}"#,
    )
    .unwrap();
    let run = ledger.start_or_resume("demo", &plan).unwrap();
    let Claim::Task(task) = ledger.claim(run, "worker-1").unwrap() else { panic!("no task") };
    // It becomes a blob.
    let large = serde_json::json!({ "log": "a line of output; ".repeat(10_000) });
    task.succeed(large.to_string()).unwrap();
    let Claim::Task(task) = ledger.claim(run, "worker-2").unwrap() else { panic!("no task") };
    let token = task.token;
    std::mem::forget(task);
    let (last, hash) = (ledger.head(), ledger.state_hash().unwrap());
    std::mem::forget(ledger);
    std::fs::remove_dir_all(&first).unwrap();
    restore(&second, environment.log_options(), &client, &mut |_| ()).unwrap();
    let ledger = bound(&second, 2);
    assert_eq!(ledger.head().seq, last.seq + 1);
    assert_eq!(state_hash(&ledger.state_at(last.seq).unwrap()), hash);
    let files = |dir: &Path| LogReader::open(&storage, dir).unwrap().blobs().list().unwrap().blobs;
    assert_eq!(files(&second).len(), 1);
    // The claim of before still holds.
    ledger.renew(token).unwrap();
    ledger.close().unwrap();
    assert!(!verify(&storage, &second, VerifyOptions::DEFAULT).unwrap().is_damaged());
}

/// Goal: a segment object that another program made, and that ends inside the last slot, is damage: the rest
/// of the slot would be lost without a word. One that ends where a slot does is read.
#[test]
fn segment_object_that_ends_inside_a_slot_is_damage() {
    let (disk, store) = (ledger(0), SimStore::new());
    let bound = open(&disk, &store, 1).unwrap();
    // Two batches in one slot: records 2 and 3.
    let first = Batch { durability: Durability::Buffered, ..Batch::new(vec![record(1, 90)], 0) };
    let ticket = bound.log.submit(&first).unwrap();
    bound.log.append(&[record(2, 90)], at(60)).unwrap();
    bound.log.wait(ticket).unwrap();
    let records = whole(&bound.log.reader().unwrap());
    assert_eq!(records.len(), 3);
    let slots = || store.names().into_iter().filter(|name| name.starts_with("tail/")).count();
    assert_eq!(slots(), 2);
    let segment = reader(&disk).segments()[0].header.clone().unwrap();
    let bytes = disk.read(&dir().join("log").join(segment.name().to_string())).unwrap();
    for (last, is_damage) in [(1, false), (2, true), (3, false)] {
        let store = store.fork();
        let end = records[last - 1].offset + records[last - 1].size;
        let name = format!("seg/{:020}-{last:020}-{:08x}.part", 1, 0);
        store.tamper(&name, Some(bytes[..usize::try_from(end).unwrap()].to_vec()));
        match restored(&store) {
            Ok((_, found)) => assert_eq!((summary(&found), is_damage), (summary(&records), false)),
            Err(error) => {
                assert!(is_damage, "{last}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("ends inside"), "{error}");
                assert!(error.to_string().contains("2.slot"), "{error}");
            }
        }
    }
}

/// Goal: the same on a real disk, with a folder as the store.
#[test]
fn ledger_on_a_real_disk_outlives_its_folder() {
    let place = tempfile::tempdir().unwrap();
    let objects = || -> Arc<dyn Objects> {
        Arc::new(DirectoryObjects::open(&place.path().join("store")).unwrap())
    };
    let client = || StoreClient::new(URL, objects(), |unclear| unclear < PATIENCE);
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let options = |seed| {
        let options = options_with(storage.clone(), seed, HeadSync::Interval);
        LogOptions { segments: SIZES, ..options }
    };
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    Log::create(&first, options(1), at(0)).unwrap().close().unwrap();
    let bound = open_bound(&first, options(2), &client(), &opening(1, at(10))).unwrap();
    for number in 0..20 {
        bound.log.append(&[record(number, 1000)], at(11)).unwrap();
    }
    // The machine is lost without a close.
    let acknowledged = bound.log.last_durable();
    std::mem::forget(bound);
    std::fs::remove_dir_all(&first).unwrap();
    let last = restore(&second, options(3), &client(), &mut |_| ()).unwrap();
    assert_eq!(last, acknowledged);
    let bound = open_bound(&second, options(4), &client(), &opening(2, at(20))).unwrap();
    assert_eq!(bound.log.append(&[record(99, 10)], at(21)).unwrap().seq, acknowledged.seq + 2);
    bound.log.close().unwrap();
    let verified = verify(&storage, &second, VerifyOptions::DEFAULT).unwrap();
    assert!(!verified.is_damaged(), "{:?}", verified.findings);
}
