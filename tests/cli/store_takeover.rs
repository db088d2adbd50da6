//! Taking over, restarting and restoring: how much a process asks of the store does not depend on the length of the
//! history, and what it skips is proved by what it has.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_ledger::internals::ledger::FollowedState;
use plan_ledger::internals::sim::{SimDisk, SimStore, sweep};
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, BoundLog, CreatedObject, DirectoryObjects, ListedObject, MonotonicClock, Objects,
    StandbyFolder, StoreClient, StoreOpening, StoredObject, Unclear, open_bound, restore,
};
use plan_ledger::log::{Log, LogOptions, LogReader, VerifyOptions, verify};
use plan_ledger::{Claim, Environment, ErrorKind, Ledger, Plan, state_hash};

use super::lab::{at, dir, options, reader, record, whole};
use super::store_folder::{
    PATIENCE, URL, client, ledger, node, open, restored, small, summary, unbind,
};

/// What a process asked of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Requests {
    /// The requests, by their name. A listing of more than a thousand names is several.
    log: Vec<String>,
    /// The names in listings.
    listed: usize,
    /// The bytes that were read.
    bytes: usize,
}

impl Requests {
    fn count(&self, what: &str) -> usize {
        self.log.iter().filter(|request| request.starts_with(what)).count()
    }
}

/// A store that counts requests.
#[derive(Debug, Clone)]
struct Counted {
    store: SimStore,
    seen: Arc<Mutex<Requests>>,
}

/// The most names that a store lists at once.
const PAGE: usize = 1000;

impl Counted {
    fn new(store: &SimStore) -> Self {
        Self { store: store.handle(), seen: Arc::default() }
    }

    fn client(&self) -> StoreClient {
        StoreClient::new(URL, Arc::new(self.clone()), |unclear| unclear < PATIENCE)
    }

    /// What was asked since the last call.
    fn take(&self) -> Requests {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn note(&self, what: &str, name: &str) {
        self.seen.lock().unwrap().log.push(format!("{what} {name}"));
    }

    fn note_listing(&self, what: &str, listing: &[ListedObject]) {
        for _ in 0..listing.len().div_ceil(PAGE).max(1) {
            self.note("list", what);
        }
        self.seen.lock().unwrap().listed += listing.len();
    }
}

impl Objects for Counted {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        self.note("create", name);
        self.store.create(name, bytes)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        self.note("get", name);
        let found = self.store.get(name, range)?;
        self.seen.lock().unwrap().bytes += found.as_ref().map_or(0, |found| found.bytes.len());
        Ok(found)
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        let listing = self.store.list_after(folder, after)?;
        self.note_listing(after, &listing);
        Ok(listing)
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        self.note("put", name);
        self.store.put_hint(name, bytes)
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        self.store.delete(name)
    }
}

fn opening(number: u8) -> StoreOpening {
    let clock = MonotonicClock::new(|| Duration::ZERO);
    StoreOpening { ack: AckMode::Store, node: node(number), time: at(1000), clock }
}

/// How many slots are committed between two looks of the owner's thread at what is covered.
const LOOK_EVERY: u64 = 100;

/// A ledger in a store, with so many commits. Its owner uploads segments and parts of them if that is asked for.
fn history(count: u64, uploads: bool) -> (SimDisk, SimStore, BoundLog) {
    let (disk, store) = (SimDisk::new(), SimStore::new());
    Log::create(&dir(), options(&disk), at(0)).unwrap().close().unwrap();
    let owner = open_bound(&dir(), options(&disk), &client(&store.handle()), &opening(1)).unwrap();
    for number in 0..count {
        commit(&owner, number);
        if uploads && number % LOOK_EVERY == 0 {
            owner.keeper.upload_segments().unwrap();
        }
    }
    (disk, store, owner)
}

fn commit(owner: &BoundLog, number: u64) {
    owner.log.append(&[record(number, 50)], at(60)).unwrap();
}

/// The lengths of a history. The longest takes a while.
fn lengths() -> Vec<u64> {
    sweep(vec![100, 1000], vec![100, 1000, 10_000], vec![100, 1000, 10_000])
}

fn slot(seq: u64) -> String {
    format!("tail/{seq:020}.slot")
}

/// Goal: a standby that looks at a store without news makes one request. Taking over makes four, and one more for each
/// slot that came meanwhile and for their blobs, however long the history is.
#[test]
fn sweep_takeover_of_a_standby_needs_few_requests() {
    for count in lengths() {
        let (_, store, owner) = history(count, true);
        let (disk, counted) = (SimDisk::new(), Counted::new(&store));
        let mut folder = StandbyFolder::open(&dir(), options(&disk), &counted.client()).unwrap();
        counted.take();
        let mut next = count + 2;
        folder.follow().unwrap();
        assert_eq!(counted.take().log, [format!("get {}", slot(next))]);
        for number in 0..3 {
            commit(&owner, number);
        }
        folder.follow().unwrap();
        let asked: Vec<String> =
            (next..=next + 3).map(|seq| format!("get {}", slot(seq))).collect();
        assert_eq!(counted.take().log, asked);
        next += 3;
        folder.take_in_blobs().unwrap();
        counted.take();

        // Two more commits, which the standby has not seen.
        let late = count != 1000;
        for number in 0..2 * u64::from(late) {
            commit(&owner, number);
            next += 1;
        }
        owner.log.close().unwrap();
        let before = disk.calls();
        let taken = folder.take_over(&opening(2), None).unwrap();
        let asked = counted.take();
        println!(
            "takeover after {count} slots: {asked:?}, {} calls of the disk",
            disk.calls() - before
        );
        assert_eq!(asked.count(&format!("create {}", slot(next))), 1);
        assert!(asked.log.len() <= if late { 10 } else { 4 }, "{count}: {asked:?}");
        assert!(asked.listed <= 40 && asked.bytes < 10_000, "{count}: {asked:?}");
        assert_eq!(taken.log.last_durable().seq, next);
        commit(&taken, 7);
        let (_, records) = restored(&store).unwrap();
        assert_eq!(summary(&whole(&taken.log.reader().unwrap())), summary(&records));
    }
}

/// Goal: a standby that is equal to the store takes over with four requests: what follows, what is covered, the
/// opening slot, and the floor check.
#[test]
fn standby_that_is_equal_takes_over_with_four_requests() {
    let (_, store, owner) = history(5, false);
    let (disk, counted) = (SimDisk::new(), Counted::new(&store));
    let folder = StandbyFolder::open(&dir(), options(&disk), &counted.client()).unwrap();
    owner.log.close().unwrap();
    counted.take();
    folder.take_over(&opening(2), None).unwrap();
    let names = ["list tail/00000000000000000007", "list seg/00000000000000000001"];
    let expected = [names[0], names[1], "create tail/00000000000000000007.slot", names[1]];
    assert_eq!(counted.take().log, expected);
}

/// Goal: an owner that starts again reads none of the history that segment objects cover.
#[test]
fn sweep_restart_reads_no_history() {
    for count in lengths() {
        let (disk, store, owner) = history(count, true);
        owner.log.close().unwrap();
        let counted = Counted::new(&store);
        let bound = open_bound(&dir(), options(&disk), &counted.client(), &opening(2)).unwrap();
        let asked = counted.take();
        println!("restart after {count} slots: {} requests, {asked:?}", asked.log.len());
        assert!(asked.log.len() <= 14, "{count}: {asked:?}");
        let objects = store.names().iter().filter(|name| name.starts_with("seg/")).count();
        let uncovered = uncovered_max(&bound);
        assert!(asked.listed <= 4 * objects + 2 * uncovered, "{count}: {asked:?}");
        assert!(asked.bytes < 10_000, "{count}: {asked:?}");
        assert_eq!((bound.progress.taken_in, bound.progress.shipped), (0, 0));
        commit(&bound, 1);
    }
}

/// The number of slots that no segment object covers is at most this.
fn uncovered_max(bound: &BoundLog) -> usize {
    let reader = bound.log.reader().unwrap();
    let lengths = reader.segments().into_iter().map(|segment| segment.header.unwrap().prealloc_len);
    let slot = 50 + 128;
    let third = usize::try_from(lengths.max().unwrap()).unwrap() / 3 / slot;
    third.max(256) + 2 * usize::try_from(LOOK_EVERY).unwrap()
}

/// Goal: a restore reads segment objects, and only so many slots as no object covers. It writes them with few syncs.
#[test]
fn sweep_restore_reads_few_slots() {
    for count in lengths() {
        let (_, store, owner) = history(count, true);
        let (disk, counted) = (SimDisk::new(), Counted::new(&store));
        restore(&dir(), options(&disk), &counted.client(), &mut |_| ()).unwrap();
        let asked = counted.take();
        let (slots, segments) = (asked.count("get tail/"), asked.count("get seg/"));
        println!(
            "restore of {count} slots: {slots} slots, {segments} segment objects, {} requests",
            asked.log.len()
        );
        assert!(slots <= uncovered_max(&owner) + 1, "{count}: {slots} slots");
        assert!(
            count < 1000 || slots < usize::try_from(count).unwrap() / 2,
            "{count}: {slots} slots"
        );
        assert!(asked.log.len() - slots <= segments + 12, "{count}: {asked:?}");
        assert!(disk.calls() < 300, "{count}: {} calls of the disk", disk.calls());
        let own = summary(&whole(&owner.log.reader().unwrap()));
        assert_eq!(summary(&whole(&reader(&disk))), own);
        // Without segment objects, every slot is read.
        let bare = store.fork();
        for name in store.names().iter().filter(|name| name.starts_with("seg/")) {
            bare.tamper(name, None);
        }
        let (disk, counted) = (SimDisk::new(), Counted::new(&bare));
        restore(&dir(), options(&disk), &counted.client(), &mut |_| ()).unwrap();
        assert!(counted.take().count("get tail/") > usize::try_from(count).unwrap());
        assert_eq!(summary(&whole(&reader(&disk))), own);
    }
}

/// Goal: parts of a segment are uploaded when more than 256 slots are not covered, each at least half as long again as
/// the one before, and only then; their bytes are bounded.
#[test]
fn parts_cover_slots_and_grow() {
    let (_, store, owner) = history(0, false);
    let mut parts = Vec::new();
    for number in 0..3000 {
        commit(&owner, number);
        let before = store.names().len();
        let uploaded = owner.keeper.upload_segments().unwrap();
        assert_eq!(u64::try_from(store.names().len() - before).unwrap(), uploaded);
        if uploaded > 0 {
            parts.push(number);
        }
    }
    // The opening slot counts, too.
    assert_eq!(parts[..2], [255, 512], "{parts:?}");
    assert!(parts.windows(2).all(|two| two[1] - two[0] > 256), "{parts:?}");
    assert!(parts.windows(3).skip(2).all(|two| two[2] >= two[1] * 4 / 3), "{parts:?}");
    let (_, records) = restored(&store).unwrap();
    assert_eq!(summary(&whole(&owner.log.reader().unwrap())), summary(&records));
    let names: Vec<String> =
        store.names().into_iter().filter(|name| name.starts_with("seg/")).collect();
    let bytes: usize = names.iter().map(|name| store.peek(name).unwrap().len()).sum();
    let last = store.peek(names.last().unwrap()).unwrap().len();
    assert!(bytes <= 3 * last + 256 * 1024, "{bytes} bytes, {last} in the last");
}

/// Goal: a folder that ends where a first part does is up to date by the part's header and its last chain value. The
/// history is not read again.
#[test]
fn folder_at_the_end_of_a_part_reads_no_segment() {
    let (disk, store, owner) = history(257, false);
    assert_eq!(owner.keeper.upload_segments().unwrap(), 1);
    owner.log.close().unwrap();
    let counted = Counted::new(&store);
    let bound = open_bound(&dir(), options(&disk), &counted.client(), &opening(2)).unwrap();
    let asked = counted.take();
    assert!(asked.bytes < 6_000 && asked.log.len() <= 16, "{asked:?}");
    assert_eq!((bound.progress.taken_in, bound.progress.shipped, bound.epoch), (0, 0, 3));
    commit(&bound, 1);
    let (_, records) = restored(&store).unwrap();
    assert_eq!(summary(&whole(&bound.log.reader().unwrap())), summary(&records));
}

/// Goal: a folder that was away while segments were completed reads those that it lacks, and not those before.
#[test]
fn folder_that_was_away_reads_what_it_lacks() {
    let (disk, store) = (ledger(0), SimStore::new());
    let owner = open(&disk, &store.handle(), 1).unwrap();
    let append = |from: u64, to: u64| {
        for number in from..to {
            owner.log.append(&[record(number, 900)], at(60)).unwrap();
            owner.keeper.upload_segments().unwrap();
        }
    };
    append(0, 100);
    let standby = SimDisk::new();
    StandbyFolder::open(&dir(), small(&standby), &client(&store.handle()))
        .unwrap()
        .finish()
        .unwrap();
    append(100, 200);
    let counted = Counted::new(&store);
    let folder = StandbyFolder::open(&dir(), small(&standby), &counted.client()).unwrap();
    let asked = counted.take();
    assert_eq!(folder.progress().taken_in, 100);
    let segments = asked.count("get seg/");
    let all = reader(&disk).segments().len();
    assert!(segments > 4 && segments < all * 3 / 4, "{segments} of {all}: {asked:?}");
    let last = folder.finish().unwrap();
    assert_eq!(last, owner.log.last_durable());
    assert_eq!(summary(&whole(&reader(&standby))), summary(&whole(&reader(&disk))));
}

/// Goal: where segment objects cover what a folder has, it has still diverged if it acknowledged other records, and
/// what only it has is named.
#[test]
fn divergence_before_the_floor_is_found() {
    let (disk, store) = (ledger(0), SimStore::new());
    let owner = open(&disk, &store.handle(), 1).unwrap();
    for number in 0..40 {
        owner.log.append(&[record(number, 900)], at(60)).unwrap();
    }
    owner.log.close().unwrap();
    let elsewhere = SimDisk::new();
    restore(&dir(), small(&elsewhere), &client(&store.handle()), &mut |_| ()).unwrap();
    // A person leaves the store, and the ledger acknowledges two records.
    unbind(&disk);
    let log = Log::open(&dir(), small(&disk), at(60)).unwrap().0;
    log.append(&[record(50, 100)], at(60)).unwrap();
    log.append(&[record(51, 100)], at(61)).unwrap();
    log.close().unwrap();
    let other = open(&elsewhere, &store.handle(), 2).unwrap();
    for number in 100..140 {
        other.log.append(&[record(number, 900)], at(70)).unwrap();
    }
    assert!(other.keeper.upload_segments().unwrap() > 4);
    other.log.close().unwrap();
    let error = open(&disk, &store.handle(), 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    assert!(error.to_string().contains("records 42 to 43"), "{error}");
    assert!(error.to_string().contains("after record 41, the last common one"), "{error}");
}

/// Goal: a folder that takes over has the blobs of the records that it took in last.
#[test]
fn takeover_takes_in_the_last_blobs() {
    let (_, store, owner) = history(3, false);
    let disk = SimDisk::new();
    let mut folder = StandbyFolder::open(&dir(), options(&disk), &client(&store.handle())).unwrap();
    let mut blobs = Vec::new();
    for (number, is_followed) in [(1_u8, true), (2, false)] {
        blobs.push(owner.log.blobs().put(&[number; 5000]).unwrap());
        commit(&owner, u64::from(number));
        if is_followed {
            folder.follow().unwrap();
        }
    }
    owner.log.close().unwrap();
    let taken = folder.take_over(&opening(2), None).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk);
    let own = LogReader::open(&storage, &dir()).unwrap();
    for id in &blobs {
        assert!(own.blobs().get(id).is_ok());
    }
    assert_eq!(taken.progress.taken_in, 2);
}

/// Goal: slots that a standby finds at once are read several at a time and written together; a standby that the owner
/// outpaces returns to look at it.
#[test]
fn standby_catches_up() {
    let (_, store, owner) = history(3, false);
    let (disk, counted) = (SimDisk::new(), Counted::new(&store));
    let mut folder = StandbyFolder::open(&dir(), options(&disk), &counted.client()).unwrap();
    for number in 0..200 {
        commit(&owner, number);
    }
    let before = disk.calls();
    counted.take();
    folder.follow().unwrap();
    assert_eq!(folder.progress().last_seq, 204);
    let asked = counted.take();
    assert_eq!((asked.count("list"), asked.count("get tail/")), (1, 201), "{asked:?}");
    assert!(disk.calls() - before < 60, "{} calls of the disk", disk.calls() - before);
    owner.log.close().unwrap();
    assert_eq!(folder.take_over(&opening(2), None).unwrap().log.last_durable().seq, 205);
}

/// Goal: a standby seals complete segments while it follows, so that a takeover has nothing to do for them.
#[test]
fn standby_seals_segments_before_it_takes_over() {
    let (disk, store) = (ledger(0), SimStore::new());
    let owner = open(&disk, &store.handle(), 1).unwrap();
    let standby = SimDisk::new();
    let mut folder =
        StandbyFolder::open(&dir(), small(&standby), &client(&store.handle())).unwrap();
    for number in 0..100 {
        owner.log.append(&[record(number, 900)], at(60)).unwrap();
        folder.follow().unwrap();
    }
    owner.log.close().unwrap();
    let before = standby.changes();
    let taken = folder.take_over(&opening(2), None).unwrap();
    // The opening slot, HEAD, and the segment before it, which is complete now.
    assert!(standby.changes() - before < 30, "{} changes", standby.changes() - before);
    taken.log.close().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(standby);
    assert!(!verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap().is_damaged());
}

const PLAN: &str = r#"{"steps": [{"id": "one"}, {"id": "two"}, {"id": "three"}, {"id": "four"}]}"#;

/// Goal: a standby with a folded state opens the same ledger as a fold from the start, with claims and blobs. A state
/// of another history is not used.
#[test]
fn followed_state_is_the_state_of_the_ledger() {
    let place = tempfile::tempdir().unwrap();
    let environment = Environment::system();
    let bound = |name: &str, number| {
        let dir = place.path().join(name);
        let objects = DirectoryObjects::open(&place.path().join(format!("{name}.store"))).unwrap();
        let client = StoreClient::new(URL, Arc::new(objects), |unclear| unclear < PATIENCE);
        Ledger::create(&dir, &environment).unwrap().close().unwrap();
        let opening = StoreOpening { time: environment.clock.now(), ..opening(number) };
        let bound = open_bound(&dir, environment.log_options(), &client, &opening).unwrap();
        let ledger = Ledger::of_log(bound.log, &bound.recovery, &environment).unwrap().0;
        (client, ledger)
    };
    let claim = |ledger: &Ledger, run, worker: &str| {
        let Claim::Task(task) = ledger.claim(run, worker).unwrap() else { panic!("no task") };
        let token = task.token;
        std::mem::forget(task);
        token
    };
    let plan: Plan = serde_json::from_str(PLAN).unwrap();
    let (client, owner) = bound("owner", 1);
    let run = owner.start_or_resume("demo", &plan).unwrap();
    let first = claim(&owner, run, "worker-1");

    let standby = place.path().join("standby");
    let mut folder = StandbyFolder::open(&standby, environment.log_options(), &client).unwrap();
    let state = FollowedState::of(&folder.reader().unwrap()).unwrap();
    assert_eq!(state.seq(), owner.head().seq);
    let second = claim(&owner, run, "worker-2");
    folder.follow().unwrap();
    let state = state.follow(&folder.reader().unwrap()).unwrap();
    assert_eq!(state.seq(), owner.head().seq);
    // One more claim, which the state does not have.
    claim(&owner, run, "worker-3");
    let (last, hash) = (owner.head(), owner.state_hash().unwrap());
    owner.close().unwrap();

    // The state of another ledger with as many records is ignored.
    let (other_client, other) = bound("other", 3);
    let run = other.start_or_resume("other", &plan).unwrap();
    claim(&other, run, "worker-9");
    let elsewhere = place.path().join("elsewhere");
    let options = environment.log_options();
    let foreign = StandbyFolder::open(&elsewhere, options, &other_client).unwrap();
    let foreign = FollowedState::of(&foreign.reader().unwrap()).unwrap();

    let takeover = |state| {
        let opening = StoreOpening { time: environment.clock.now(), ..opening(2) };
        let options: LogOptions = environment.log_options();
        let folder = StandbyFolder::open(&standby, options.clone(), &client).unwrap();
        let bound = folder.take_over(&opening, options.boot_time).unwrap();
        Ledger::of_followed_log(bound.log, &bound.recovery, &environment, state).unwrap().0
    };
    folder.finish().unwrap();
    for state in [state, foreign] {
        let ledger = takeover(state);
        assert_eq!(state_hash(&ledger.state_at(last.seq).unwrap()), hash);
        assert_eq!(ledger.state().unwrap().runs.len(), 1);
        let folded = ledger.state_at(ledger.head().seq).unwrap();
        assert_eq!(ledger.state_hash().unwrap(), state_hash(&folded));
        ledger.renew(first).unwrap();
        ledger.renew(second).unwrap();
        ledger.close().unwrap();
    }
}
