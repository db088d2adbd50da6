//! Fault injection of the simulated disk: every fault, and its log entry.

use std::io;
use std::path::Path;
use std::time::Duration;

use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, InjectedFault, Loss, Operation, OsError, Profile, SimDisk,
};
use plan_ledger::internals::storage::{Access, Storage, StorageFile};
use plan_ledger::log::Log;

use super::lab::{at, dir, log_digest, mix, open, options, record};

const FILE: &str = "/file";

/// A disk with a synced file of 4096 `o`.
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

/// The first byte of each of the first two sectors that survives every power loss.
fn durable(disk: &SimDisk) -> String {
    let disk = disk.fork();
    disk.lose_power(Loss::Everything);
    visible(&disk)
}

/// The first byte of each of the first two sectors, as reads return them.
fn visible(disk: &SimDisk) -> String {
    let bytes = bytes(disk);
    [bytes[0], bytes[512]].map(char::from).iter().collect()
}

/// The log of injected faults, a line each.
fn fault_log(disk: &SimDisk) -> Vec<String> {
    disk.injected().iter().map(InjectedFault::to_string).collect()
}

fn failed(result: io::Result<()>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

const EIO: OsError = OsError::Io;

/// Goal: injected errors equal those of the operating system.
#[test]
fn injected_errors_equal_system_errors() {
    assert_eq!(OsError::NoSpace.error().kind(), io::ErrorKind::StorageFull);
    assert_eq!(OsError::Quota.error().kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(OsError::Interrupted.error().kind(), io::ErrorKind::Interrupted);
    assert_eq!(OsError::Other(io::ErrorKind::TimedOut).error().kind(), io::ErrorKind::TimedOut);
    if cfg!(unix) {
        assert_eq!(EIO.error().raw_os_error(), Some(5));
    }
}

/// Goal: a rule applies to the n-th matching call, once or always, and to no other call.
#[test]
fn rule_applies_to_matching_calls_only() {
    let (disk, file) = disk();
    let other = disk.create(Path::new("/other")).unwrap();
    let error = |error| FaultAction::Error(error, FaultEffect::Nothing);
    disk.inject(FaultRule::next(error(OsError::Quota)).of(Operation::Write).on(FILE).nth(2));
    disk.inject(FaultRule::next(error(EIO)).of(Operation::Read).nth(3).always());
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

    // Rules on a path apply to the file that has the path at the time of the call.
    disk.inject(FaultRule::next(error(EIO)).on("/new").nth(2).always());
    disk.rename(Path::new(FILE), Path::new("/new")).unwrap();
    assert!(write(&*file).is_some());
    disk.remove(Path::new("/new")).unwrap_err();
    assert!(disk.create(Path::new("/free")).is_ok());
    assert!(write(&*other).is_none());
}

/// Goal: every operation of the storage port can fail, with and without its effect.
#[test]
fn every_operation_can_fail() {
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
            Operation::FilesystemKind => disk.filesystem_kind(path).map(|_| ()),
            Operation::Length => file.length().map(|_| ()),
            Operation::Read => file.read_at(&mut [0], 0).map(|_| ()),
            Operation::Write => file.write_at(b"n", 0),
            Operation::Sync => file.sync(),
            Operation::SetLength => file.set_length(7),
            Operation::MakeReadOnly => file.make_read_only(),
            Operation::Map => file.map().map(|_| ()),
            Operation::Lock | Operation::LockCheck => match disk.lock(Path::new("/LOCK"), "me")? {
                plan_ledger::internals::storage::LockOutcome::Acquired(guard) => {
                    guard.is_at(Path::new("/LOCK")).map(|_| ())
                }
                plan_ledger::internals::storage::LockOutcome::HeldBy(_) => Ok(()),
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
        Operation::FilesystemKind,
        Operation::Length,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::SetLength,
        Operation::MakeReadOnly,
        Operation::Map,
    ] {
        for effect in [FaultEffect::Nothing, FaultEffect::Everything] {
            let (disk, file) = disk();
            let before = (bytes(&disk), disk.files(Path::new("/")).len());
            disk.inject(
                FaultRule::next(FaultAction::Error(OsError::Interrupted, effect)).of(operation),
            );
            let kind = failed(call(&disk, &*file, operation));
            assert_eq!(kind, io::ErrorKind::Interrupted, "{operation}");
            let log = fault_log(&disk);
            assert!(log.len() == 1 && log[0].contains("EINTR"), "{log:?}");
            if effect == FaultEffect::Nothing && operation != Operation::LockCheck {
                let now = (bytes(&disk), disk.files(Path::new("/")).len());
                assert!(now == before, "{operation} had an effect");
            }
            let _ = call(&disk, &*file, operation);
            assert_eq!(disk.injected().len(), 1, "{operation}: it fails once");
        }
    }
}

/// Goal: the three results of a failed sync: bytes that stay in the cache and that no later sync
/// writes, a cache that reverts, and bytes that stay dirty on a machine that soon stops.
#[test]
fn failed_sync_has_three_outcomes() {
    let fail = |effect| {
        let (disk, file) = disk();
        file.write_at(b"n", 0).unwrap();
        disk.inject(FaultRule::next(FaultAction::Error(EIO, effect)).of(Operation::Sync));
        file.sync().unwrap_err();
        (disk, file)
    };

    let (cached, file) = fail(FaultEffect::Nothing);
    file.sync().unwrap();
    assert_eq!((visible(&cached), durable(&cached)), ("no".to_owned(), "oo".to_owned()));
    cached.kill_process();
    let file = cached.open(Path::new(FILE), Access::ReadWrite).unwrap();
    file.write_at(b"x", 4095).unwrap();
    assert_eq!(visible(&cached), "no", "the next process sees it");
    file.sync().unwrap();
    assert_eq!(durable(&cached), "no", "a page that is written to again is written completely");

    let (reverted, file) = fail(FaultEffect::Revert);
    assert_eq!(visible(&reverted), "oo");
    file.sync().unwrap();
    assert_eq!((reverted.unsynced(), durable(&reverted)), (0, "oo".to_owned()));

    let (stopping, file) = fail(FaultEffect::CrashIn(2));
    assert_eq!((visible(&stopping), durable(&stopping)), ("no".to_owned(), "oo".to_owned()));
    assert_eq!(file.length().unwrap(), 4096);
    file.sync().unwrap_err();
    assert!(stopping.is_down());

    let (done, _) = fail(FaultEffect::Everything);
    assert_eq!(durable(&done), "no");
    let log = fault_log(&reverted);
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(
        log[0],
        "call 6: sync /file: failed with EIO, the cache was reverted to the durable bytes"
    );
}

/// Goal: after a failed sync, any part of the bytes may survive.
#[test]
fn any_part_of_a_failed_sync_may_survive() {
    let (disk, file) = disk();
    file.write_at(&[b'n'; 1024], 0).unwrap();
    disk.inject(FaultRule::next(FaultAction::Error(EIO, FaultEffect::Nothing)).of(Operation::Sync));
    file.sync().unwrap_err();
    file.sync().unwrap();
    let outcomes = (0..4).map(|mask| {
        let disk = disk.fork();
        disk.lose_power(Loss::AllBut(mask));
        visible(&disk)
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), ["oo", "no", "on", "nn"]);
}

/// Goal: short writes and reads have a partial effect.
#[test]
fn short_writes_and_reads_are_partial() {
    let (disk, file) = disk();
    let short = FaultAction::Error(OsError::NoSpace, FaultEffect::Prefix(513));
    disk.inject(FaultRule::next(short).of(Operation::Write));
    assert_eq!(failed(file.write_at(&[b'n'; 1024], 0)), io::ErrorKind::StorageFull);
    assert_eq!(bytes(&disk), [vec![b'n'; 513], vec![b'o'; 4096 - 513]].concat());

    disk.inject(FaultRule::next(FaultAction::ShortRead(9)).of(Operation::Read));
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 9);
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 100);
    let last = disk.injected().pop().unwrap();
    assert!(last.is_violation(), "a read must return all available bytes");
    assert!(last.to_string().contains("returned 9 of 100 bytes"), "{last}");
}

/// Goal: the cache hides lost writes, misdirected writes and lying syncs, and each is logged as a
/// violation of the contract.
#[test]
fn lying_devices_are_hidden_by_the_cache_and_logged() {
    let (disk, file) = disk();
    disk.inject(FaultRule::next(FaultAction::LostWrite).of(Operation::Write));
    file.write_at(&[b'n'; 512], 0).unwrap();
    file.write_at(&[b'm'; 512], 512).unwrap();
    file.sync().unwrap();
    assert_eq!((visible(&disk), durable(&disk), disk.unsynced()), ("nm".into(), "om".into(), 0));
    let cold = disk.fork();
    cold.drop_cache();
    assert_eq!(visible(&cold), "om");

    let misdirected = FaultAction::MisdirectedWrite { path: None, offset: 512 };
    disk.inject(FaultRule::next(misdirected).of(Operation::Write));
    file.write_at(&[b'x'; 512], 0).unwrap();
    file.sync().unwrap();
    assert_eq!((visible(&disk), durable(&disk)), ("xm".into(), "ox".into()));

    disk.inject(FaultRule::next(FaultAction::LyingSync).of(Operation::Sync));
    file.write_at(&[b'y'; 512], 2048).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), 1, "it is as if there had been no sync");
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), 0);

    disk.inject(FaultRule::next(FaultAction::LyingSync).of(Operation::SyncDir));
    disk.create(Path::new("/new")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(disk.unsynced(), 1);
    let log = fault_log(&disk);
    assert_eq!(
        log,
        [
            "call 5: write /file: bytes 0..512 were lost (breaks the contract)",
            "call 8: write /file: bytes 0..512 went to 512..1024 of /file (breaks the contract)",
            "call 11: sync /file: returned ok and did nothing (breaks the contract)",
            "call 14: sync folder /: returned ok and did nothing (breaks the contract)",
        ]
    );
    assert!(disk.injected().iter().all(InjectedFault::is_violation));
}

/// Goal: a misdirected write can damage another file, but not extend it.
#[test]
fn misdirected_write_can_damage_another_file() {
    let (disk, _) = disk();
    let other = disk.create(Path::new("/other")).unwrap();
    let misdirected = FaultAction::MisdirectedWrite { path: Some(FILE.into()), offset: 4000 };
    disk.inject(FaultRule::next(misdirected).of(Operation::Write).on("/other"));
    other.write_at(&[b'n'; 512], 0).unwrap();
    assert_eq!(bytes(&disk), vec![b'o'; 4096]);
    disk.drop_cache();
    let (intact, damaged) = (vec![b'o'; 4000], vec![b'n'; 96]);
    assert_eq!(bytes(&disk), [intact, damaged].concat());
}

/// Goal: bit rot flips one durable bit, which the seed selects, in any sector.
#[test]
fn bit_rot_flips_one_durable_bit() {
    let mut sectors = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk();
        if seed % 2 == 0 {
            disk.flip_bit(Path::new(FILE), seed).unwrap();
        } else {
            disk.inject(FaultRule::next(FaultAction::BitRot(seed)).of(Operation::Length));
            file.length().unwrap();
        }
        assert_eq!(bytes(&disk), vec![b'o'; 4096], "the cache hides it");
        disk.lose_power(Loss::Everything);
        let found = bytes(&disk);
        let damaged: Vec<usize> = (0..4096).filter(|at| found[*at] != b'o').collect();
        assert_eq!(damaged.len(), 1, "seed {seed}");
        assert_eq!((found[damaged[0]] ^ b'o').count_ones(), 1);
        sectors.insert(damaged[0] / 512);
        let first = &disk.injected()[0];
        assert!(first.is_violation(), "{first}");
        assert!(first.to_string().contains(&format!("of byte {} flipped", damaged[0])), "{first}");
    }
    assert_eq!(sectors.len(), 8);
}

/// Goal: unreadable sectors stay unreadable across restarts, and their neighbours stay readable.
#[test]
fn unreadable_sectors_are_permanent() {
    let (disk, _) = disk();
    disk.make_unreadable(Path::new(FILE), 1000..1025).unwrap();
    disk.lose_power(Loss::Everything);
    let file = disk.open(Path::new(FILE), Access::ReadWrite).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    let read = |offset, count: usize| file.read_at(&mut vec![0; count], offset).is_ok();
    assert!(read(0, 512) && read(1536, 512) && read(0, 0));
    assert!(!read(0, 513) && !read(1024, 1) && !read(1535, 9) && !read(0, 4096));
    let last = disk.injected().pop().unwrap();
    assert_eq!(
        last.to_string(),
        format!("call {}: read /file: byte 512 cannot be read", disk.calls())
    );
    let map = file.map().unwrap();
    map.populate(0..512).unwrap();
    map.populate(511..513).unwrap_err();
    assert_eq!(map.get(1536..1537).len(), 1);
}

/// Goal: the delays of slow calls add up without sleeping.
#[test]
fn slow_calls_add_up() {
    let (disk, file) = disk();
    let slow = FaultAction::Slow(Duration::from_secs(3600));
    disk.inject(FaultRule::next(slow).of(Operation::Sync).always());
    disk.inject(
        FaultRule::next(FaultAction::Error(EIO, FaultEffect::Nothing)).of(Operation::Sync).nth(2),
    );
    file.sync().unwrap();
    file.sync().unwrap_err();
    file.length().unwrap();
    assert_eq!(disk.delay(), Duration::from_secs(7200));
    assert_eq!(disk.injected().len(), 3);
}

/// Goal: a full disk, a stop and a kill are logged.
#[test]
fn full_disk_stop_and_kill_are_logged() {
    let (disk, file) = disk();
    disk.set_capacity(5000);
    assert_eq!(failed(file.write_at(&[1; 1000], 4096)), io::ErrorKind::StorageFull);
    disk.crash_at(disk.calls() + 1);
    file.length().unwrap_err();
    file.length().unwrap_err();
    disk.kill_process();
    assert_eq!(
        fault_log(&disk),
        [
            "call 5: write /file: the disk is full, 904 bytes were written",
            "call 6: get the length /file: the machine stopped before the call",
            "call 6: the process was killed",
        ]
    );
    assert!(!disk.injected().iter().any(InjectedFault::is_violation));
}

/// A random workload of a log with random faults: the digest of the disk and the fault log.
fn random_workload(seed: u64) -> ([u8; 32], Vec<String>) {
    let disk = SimDisk::new();
    let mut number = mix(seed);
    let mut next = |bound: u64| {
        number = mix(number);
        (number >> 11) % bound
    };
    disk.set_profile([Profile::Psow512, Profile::AtomicSector][usize::try_from(next(2)).unwrap()]);
    let Ok(mut log) = Log::create(&dir(), options(&disk), at(0)) else { unreachable!() };
    for step in 0..30 {
        let action = match next(5) {
            0 => FaultAction::Error(OsError::NoSpace, FaultEffect::Part(next(99))),
            1 => FaultAction::Error(EIO, FaultEffect::Revert),
            2 => FaultAction::Slow(Duration::from_millis(next(9))),
            3 => FaultAction::BitRot(next(1 << 40)),
            _ => FaultAction::Error(EIO, FaultEffect::CrashIn(1 + next(3))),
        };
        disk.inject(FaultRule::next(action).nth(1 + next(20)));
        if log.append(&[record(step, 100)], at(step)).is_err() {
            drop(log);
            disk.lose_power(Loss::Some(next(1 << 40)));
            match open(&disk) {
                Ok((opened, _)) => log = opened,
                Err(_) => break,
            }
        }
    }
    (log_digest(&disk), fault_log(&disk))
}

/// Goal: the same calls and seeds give the same bytes and the same fault log.
#[test]
fn same_seed_gives_same_bytes_and_log() {
    let mut all = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (first, second) = (random_workload(seed), random_workload(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(!first.1.is_empty());
        all.insert(first.0);
    }
    assert!(all.len() > 15, "most seeds give the same bytes: {}", all.len());
}

/// Goal: a fork and its origin are independent.
#[test]
fn forks_are_independent() {
    let (disk, file) = disk();
    file.write_at(b"n", 0).unwrap();
    let fork = disk.fork();
    fork.overwrite(Path::new(FILE), 512, b"x").unwrap();
    fork.lose_power(Loss::Everything);
    assert_eq!((visible(&fork), visible(&disk)), ("ox".to_owned(), "no".to_owned()));
    file.write_at(b"y", 512).unwrap();
    file.sync().unwrap();
    assert_eq!((visible(&fork), durable(&disk)), ("ox".to_owned(), "ny".to_owned()));
    assert_eq!((fork.injected().len(), disk.injected().len()), (1, 0));
}
