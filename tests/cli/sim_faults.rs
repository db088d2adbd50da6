//! Every fault that the simulated disk can inject, and what is said of it.

use std::io;
use std::path::Path;
use std::time::Duration;

use plan_ledger::log::Log;
use plan_ledger::sim::{
    Effect, Failure, Injected, Loss, Operation, OsError, Profile, Rule, SimDisk,
};
use plan_ledger::storage::{Access, Storage, StorageFile};

use super::lab::{at, dir, log_digest, mix, open, options, record};

const FILE: &str = "/file";

/// A disk with a file of 4096 `o`, all of it safe.
fn disk() -> (SimDisk, Box<dyn StorageFile>) {
    let disk = SimDisk::new();
    let file = disk.create(Path::new(FILE)).unwrap();
    file.write_at(&[b'o'; 4096], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

fn bytes(disk: &SimDisk) -> Vec<u8> {
    disk.read(Path::new(FILE)).unwrap()
}

/// What is on the medium for certain, as a letter for each sector in front.
fn durable(disk: &SimDisk) -> String {
    let disk = disk.fork();
    disk.lose_power(Loss::Everything);
    seen(&disk)
}

/// The first two sectors as they look.
fn seen(disk: &SimDisk) -> String {
    let bytes = bytes(disk);
    [bytes[0], bytes[512]].map(char::from).iter().collect()
}

/// The story so far, one line for each thing.
fn story(disk: &SimDisk) -> Vec<String> {
    disk.injected().iter().map(Injected::to_string).collect()
}

fn failed(result: io::Result<()>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

const EIO: OsError = OsError::Io;

/// Goal: the errors of an operating system look as it gives them.
#[test]
fn errors_are_those_of_the_system() {
    assert_eq!(OsError::NoSpace.error().kind(), io::ErrorKind::StorageFull);
    assert_eq!(OsError::Quota.error().kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(OsError::Interrupted.error().kind(), io::ErrorKind::Interrupted);
    assert_eq!(OsError::Other(io::ErrorKind::TimedOut).error().kind(), io::ErrorKind::TimedOut);
    if cfg!(unix) {
        assert_eq!(EIO.error().raw_os_error(), Some(5));
    }
}

/// Goal: a rule strikes the n-th call of its kind on its path, once or for ever, and no other.
#[test]
fn a_rule_strikes_the_calls_that_it_names() {
    let (disk, file) = disk();
    let other = disk.create(Path::new("/other")).unwrap();
    let error = |error| Failure::Error(error, Effect::Nothing);
    disk.inject(Rule::next(error(OsError::Quota)).of(Operation::Write).on(FILE).nth(2));
    disk.inject(Rule::next(error(EIO)).of(Operation::Read).nth(3).for_ever());
    let write = |file: &dyn StorageFile| file.write_at(b"n", 0).err().map(|error| error.kind());
    let read = |file: &dyn StorageFile| file.read_at(&mut [0], 0).is_ok();
    assert_eq!(write(&*other), None);
    assert_eq!(write(&*file), None);
    assert_eq!(write(&*other), None);
    assert_eq!(write(&*file), Some(io::ErrorKind::QuotaExceeded));
    assert_eq!(write(&*file), None, "once");
    assert_eq!(
        [&file, &other, &other, &file].map(|file| read(&**file)),
        [true, true, false, false]
    );

    // A file keeps its rules under a new name, and a name its rules for a new file.
    disk.inject(Rule::next(error(EIO)).on("/new").nth(2).for_ever());
    disk.rename(Path::new(FILE), Path::new("/new")).unwrap();
    assert!(write(&*file).is_some());
    disk.remove(Path::new("/new")).unwrap_err();
    assert!(disk.create(Path::new("/free")).is_ok());
    assert!(write(&*other).is_none());
}

/// Goal: the n-th call of all, as counted by the disk, fails for every kind of call.
#[test]
fn every_kind_of_call_can_fail() {
    let call = |disk: &SimDisk, file: &dyn StorageFile, operation| {
        let path = Path::new(FILE);
        match operation {
            Operation::CreateDir => disk.create_dir(Path::new("/folder")),
            Operation::List => disk.list(Path::new("/")).map(|_| ()),
            Operation::Create => disk.create(Path::new("/new")).map(|_| ()),
            Operation::Open => disk.open(path, Access::Read).map(|_| ()),
            Operation::Rename => disk.rename(path, Path::new("/other")),
            Operation::Remove => disk.remove(path),
            Operation::RemoveDir => {
                disk.create_dir(Path::new("/d")).unwrap();
                disk.remove_dir(Path::new("/d"))
            }
            Operation::SyncDir => disk.sync_dir(Path::new("/")),
            Operation::Medium => disk.medium(path).map(|_| ()),
            Operation::Length => file.length().map(|_| ()),
            Operation::Read => file.read_at(&mut [0], 0).map(|_| ()),
            Operation::Write => file.write_at(b"n", 0),
            Operation::Sync => file.sync(),
            Operation::SetLength => file.set_length(7),
            Operation::MakeReadOnly => file.make_read_only(),
            Operation::Map => file.map().map(|_| ()),
            Operation::Lock | Operation::LockCheck => match disk.lock(Path::new("/LOCK"), "me")? {
                plan_ledger::storage::Locking::Ours(guard) => {
                    guard.is_in_place(Path::new("/LOCK")).map(|_| ())
                }
                plan_ledger::storage::Locking::HeldBy(_) => Ok(()),
            },
        }
    };
    for operation in [
        Operation::CreateDir,
        Operation::List,
        Operation::Create,
        Operation::Open,
        Operation::Rename,
        Operation::Remove,
        Operation::RemoveDir,
        Operation::SyncDir,
        Operation::Lock,
        Operation::LockCheck,
        Operation::Medium,
        Operation::Length,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::SetLength,
        Operation::MakeReadOnly,
        Operation::Map,
    ] {
        for effect in [Effect::Nothing, Effect::Everything] {
            let (disk, file) = disk();
            let before = (bytes(&disk), disk.files(Path::new("/")).len());
            disk.inject(Rule::next(Failure::Error(OsError::Interrupted, effect)).of(operation));
            let kind = failed(call(&disk, &*file, operation));
            assert_eq!(kind, io::ErrorKind::Interrupted, "{operation}");
            let story = story(&disk);
            assert!(story.len() == 1 && story[0].contains("EINTR"), "{story:?}");
            if effect == Effect::Nothing && operation != Operation::LockCheck {
                let now = (bytes(&disk), disk.files(Path::new("/")).len());
                assert!(now == before, "{operation} did something");
            }
            let _ = call(&disk, &*file, operation);
            assert_eq!(disk.injected().len(), 1, "{operation}: it fails once");
        }
    }
}

/// Goal: the three ways in which a sync fails: bytes that stay in the cache and that no later
/// sync writes, a cache that goes back, and bytes that stay dirty on a machine that soon stops.
#[test]
fn a_sync_fails_in_three_ways() {
    let fail = |effect| {
        let (disk, file) = disk();
        file.write_at(b"n", 0).unwrap();
        disk.inject(Rule::next(Failure::Error(EIO, effect)).of(Operation::Sync));
        file.sync().unwrap_err();
        (disk, file)
    };

    let (cached, file) = fail(Effect::Nothing);
    file.sync().unwrap();
    assert_eq!((seen(&cached), durable(&cached)), ("no".to_owned(), "oo".to_owned()));
    cached.kill_process();
    let file = cached.open(Path::new(FILE), Access::ReadWrite).unwrap();
    file.write_at(b"x", 4095).unwrap();
    assert_eq!(seen(&cached), "no", "the next process sees it");
    file.sync().unwrap();
    assert_eq!(durable(&cached), "no", "a page that is written to again is written whole");

    let (reverted, file) = fail(Effect::Revert);
    assert_eq!(seen(&reverted), "oo");
    file.sync().unwrap();
    assert_eq!((reverted.unsynced(), durable(&reverted)), (0, "oo".to_owned()));

    let (stopping, file) = fail(Effect::CrashIn(2));
    assert_eq!((seen(&stopping), durable(&stopping)), ("no".to_owned(), "oo".to_owned()));
    assert_eq!(file.length().unwrap(), 4096);
    file.sync().unwrap_err();
    assert!(stopping.is_down());

    let (done, _) = fail(Effect::Everything);
    assert_eq!(durable(&done), "no");
    let story = story(&reverted);
    assert_eq!(story.len(), 1, "{story:?}");
    assert_eq!(
        story[0],
        "call 6: sync /file: failed with EIO, the cache went back to what is on the medium"
    );
}

/// Goal: after a sync that failed any part of the bytes may be on the medium.
#[test]
fn after_a_failed_sync_anything_may_be_there() {
    let (disk, file) = disk();
    file.write_at(&[b'n'; 1024], 0).unwrap();
    disk.inject(Rule::next(Failure::Error(EIO, Effect::Nothing)).of(Operation::Sync));
    file.sync().unwrap_err();
    file.sync().unwrap();
    let outcomes = (0..4).map(|mask| {
        let disk = disk.fork();
        disk.lose_power(Loss::AllBut(mask));
        seen(&disk)
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), ["oo", "no", "on", "nn"]);
}

/// Goal: short writes and reads do a part.
#[test]
fn short_writes_and_reads_do_a_part() {
    let (disk, file) = disk();
    let short = Failure::Error(OsError::NoSpace, Effect::Prefix(513));
    disk.inject(Rule::next(short).of(Operation::Write));
    assert_eq!(failed(file.write_at(&[b'n'; 1024], 0)), io::ErrorKind::StorageFull);
    assert_eq!(bytes(&disk), [vec![b'n'; 513], vec![b'o'; 4096 - 513]].concat());

    disk.inject(Rule::next(Failure::ShortRead(9)).of(Operation::Read));
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 9);
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 100);
    let last = disk.injected().pop().unwrap();
    assert!(last.is_violation(), "a read gives all there is");
    assert!(last.to_string().contains("gave 9 bytes of 100"), "{last}");
}

/// Goal: writes that are lost, writes that go astray and syncs that lie are seen as they should
/// be until the cache is gone, and are marked.
#[test]
fn devices_that_lie_are_found_out_when_the_cache_is_gone() {
    let (disk, file) = disk();
    disk.inject(Rule::next(Failure::LostWrite).of(Operation::Write));
    file.write_at(&[b'n'; 512], 0).unwrap();
    file.write_at(&[b'm'; 512], 512).unwrap();
    file.sync().unwrap();
    assert_eq!((seen(&disk), durable(&disk), disk.unsynced()), ("nm".into(), "om".into(), 0));
    let cold = disk.fork();
    cold.drop_cache();
    assert_eq!(seen(&cold), "om");

    let astray = Failure::MisdirectedWrite { path: None, offset: 512 };
    disk.inject(Rule::next(astray).of(Operation::Write));
    file.write_at(&[b'x'; 512], 0).unwrap();
    file.sync().unwrap();
    assert_eq!((seen(&disk), durable(&disk)), ("xm".into(), "ox".into()));

    disk.inject(Rule::next(Failure::LyingSync).of(Operation::Sync));
    file.write_at(&[b'y'; 512], 2048).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), 1, "it is as if there had been no sync");
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), 0);

    disk.inject(Rule::next(Failure::LyingSync).of(Operation::SyncDir));
    disk.create(Path::new("/new")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(disk.unsynced(), 1);
    let story = story(&disk);
    assert_eq!(
        story,
        [
            "call 5: write /file: bytes 0..512 never get to the medium (breaks the contract)",
            "call 8: write /file: bytes 0..512 went to 512..1024 of /file (breaks the contract)",
            "call 11: sync /file: returned ok and did nothing (breaks the contract)",
            "call 14: sync folder /: returned ok and did nothing (breaks the contract)",
        ]
    );
    assert!(disk.injected().iter().all(Injected::is_violation));
}

/// Goal: a write can go astray into another file, not beyond its end.
#[test]
fn a_write_can_harm_another_file() {
    let (disk, _) = disk();
    let other = disk.create(Path::new("/other")).unwrap();
    let astray = Failure::MisdirectedWrite { path: Some(FILE.into()), offset: 4000 };
    disk.inject(Rule::next(astray).of(Operation::Write).on("/other"));
    other.write_at(&[b'n'; 512], 0).unwrap();
    assert_eq!(bytes(&disk), vec![b'o'; 4096]);
    disk.drop_cache();
    let (whole, harmed) = (vec![b'o'; 4000], vec![b'n'; 96]);
    assert_eq!(bytes(&disk), [whole, harmed].concat());
}

/// Goal: rot turns one bit of what is on the medium, which the seed chooses, in any sector.
#[test]
fn rot_turns_one_bit() {
    let mut sectors = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk();
        if seed % 2 == 0 {
            disk.rot(Path::new(FILE), seed).unwrap();
        } else {
            disk.inject(Rule::next(Failure::Rot(seed)).of(Operation::Length));
            file.length().unwrap();
        }
        assert_eq!(bytes(&disk), vec![b'o'; 4096], "the cache hides it");
        disk.lose_power(Loss::Everything);
        let found = bytes(&disk);
        let harmed: Vec<usize> = (0..4096).filter(|at| found[*at] != b'o').collect();
        assert_eq!(harmed.len(), 1, "seed {seed}");
        assert_eq!((found[harmed[0]] ^ b'o').count_ones(), 1);
        sectors.insert(harmed[0] / 512);
        let first = &disk.injected()[0];
        assert!(first.is_violation(), "{first}");
        assert!(first.to_string().contains(&format!("of byte {} turned", harmed[0])), "{first}");
    }
    assert_eq!(sectors.len(), 8);
}

/// Goal: sectors that cannot be read stay so, across reboots, and those beside them are fine.
#[test]
fn a_bad_sector_stays_bad() {
    let (disk, _) = disk();
    disk.spoil(Path::new(FILE), 1000..1025).unwrap();
    disk.lose_power(Loss::Everything);
    let file = disk.open(Path::new(FILE), Access::ReadWrite).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    let read = |offset, count: usize| file.read_at(&mut vec![0; count], offset).is_ok();
    assert!(read(0, 512) && read(1536, 512) && read(0, 0));
    assert!(!read(0, 513) && !read(1024, 1) && !read(1535, 9) && !read(0, 4096));
    assert!(file.map().is_err());
    let last = disk.injected().pop().unwrap();
    assert_eq!(
        last.to_string(),
        format!("call {}: map /file: byte 512 cannot be read", disk.calls())
    );
}

/// Goal: slow calls are counted, not slept.
#[test]
fn slow_calls_add_up() {
    let (disk, file) = disk();
    let slow = Failure::Slow(Duration::from_secs(3600));
    disk.inject(Rule::next(slow).of(Operation::Sync).for_ever());
    disk.inject(Rule::next(Failure::Error(EIO, Effect::Nothing)).of(Operation::Sync).nth(2));
    file.sync().unwrap();
    file.sync().unwrap_err();
    file.length().unwrap();
    assert_eq!(disk.delay(), Duration::from_secs(7200));
    assert_eq!(disk.injected().len(), 3);
}

/// Goal: a disk that is full, a stop and a kill are part of the story.
#[test]
fn the_story_has_everything_that_was_done() {
    let (disk, file) = disk();
    disk.limit(5000);
    assert_eq!(failed(file.write_at(&[1; 1000], 4096)), io::ErrorKind::StorageFull);
    disk.crash_at(disk.calls() + 1);
    file.length().unwrap_err();
    file.length().unwrap_err();
    disk.kill_process();
    assert_eq!(
        story(&disk),
        [
            "call 5: write /file: the disk is full, 904 bytes were written",
            "call 6: ask for the length /file: the machine stopped before it",
            "call 6: the process was killed",
        ]
    );
    assert!(!disk.injected().iter().any(Injected::is_violation));
}

/// A random life of a log with random faults: the disk and its story.
fn life(seed: u64) -> ([u8; 32], Vec<String>) {
    let disk = SimDisk::new();
    let mut number = mix(seed);
    let mut next = |bound: u64| {
        number = mix(number);
        (number >> 11) % bound
    };
    disk.become_device(
        [Profile::Psow512, Profile::AtomicSector][usize::try_from(next(2)).unwrap()],
    );
    let Ok(mut log) = Log::create(&dir(), options(&disk), at(0)) else { unreachable!() };
    for step in 0..30 {
        let failure = match next(5) {
            0 => Failure::Error(OsError::NoSpace, Effect::Part(next(99))),
            1 => Failure::Error(EIO, Effect::Revert),
            2 => Failure::Slow(Duration::from_millis(next(9))),
            3 => Failure::Rot(next(1 << 40)),
            _ => Failure::Error(EIO, Effect::CrashIn(1 + next(3))),
        };
        disk.inject(Rule::next(failure).nth(1 + next(20)));
        if log.append(&[record(step, 100)], at(step)).is_err() {
            drop(log);
            disk.lose_power(Loss::Some(next(1 << 40)));
            match open(&disk) {
                Ok((opened, _)) => log = opened,
                Err(_) => break,
            }
        }
    }
    (log_digest(&disk), story(&disk))
}

/// Goal: the same calls and the same seeds give the same bytes and the same story.
#[test]
fn the_same_seed_gives_the_same_bytes_and_story() {
    let mut all = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (first, second) = (life(seed), life(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(!first.1.is_empty());
        all.insert(first.0);
    }
    assert!(all.len() > 15, "seeds that differ in nothing: {}", all.len());
}

/// Goal: what is done to a fork is not done to the disk that it came from, nor the reverse.
#[test]
fn forks_do_not_touch_each_other() {
    let (disk, file) = disk();
    file.write_at(b"n", 0).unwrap();
    let fork = disk.fork();
    fork.overwrite(Path::new(FILE), 512, b"x").unwrap();
    fork.lose_power(Loss::Everything);
    assert_eq!((seen(&fork), seen(&disk)), ("ox".to_owned(), "no".to_owned()));
    file.write_at(b"y", 512).unwrap();
    file.sync().unwrap();
    assert_eq!((seen(&fork), durable(&disk)), ("ox".to_owned(), "ny".to_owned()));
    assert_eq!((fork.injected().len(), disk.injected().len()), (1, 0));
}
