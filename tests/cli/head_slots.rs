//! HEAD at rest: both slots name the end of the log, so that the loss of one of them loses nothing.

use plan_ledger::ErrorKind;
use plan_ledger::internals::format::{Head, HeadState};
use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{FindingClass, Log, TailVerdict, VerifyOptions, verify};

use crate::lab::{
    Model, at, dir, kill, log_files, open, options, payloads, reader, record, survey, whole,
};

const SLOT: u64 = 4096;

fn slots(disk: &SimDisk) -> [Head; 2] {
    reader(disk).head_slots().slots.clone().map(Option::unwrap)
}

/// Flip a bit of one copy in a slot of HEAD.
fn flip_copy(disk: &SimDisk, slot: u64, copy: u64) {
    let head = dir().join("HEAD");
    let at = slot * SLOT + copy * 512 + 60;
    let byte = disk.read(&head).unwrap()[usize::try_from(at).unwrap()];
    disk.overwrite(&head, at, &[byte ^ 1]).unwrap();
}

/// Flip a bit of every copy in a slot of HEAD.
fn flip(disk: &SimDisk, slot: u64) {
    (0..8).for_each(|copy| flip_copy(disk, slot, copy));
}

/// Opened, one session of forty records, and closed or killed.
fn session(is_closed: bool) -> (SimDisk, Model) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    Log::create(&dir(), options(&disk), at(0)).unwrap().close().unwrap();
    model.is_created = true;
    let (log, _) = open(&disk).unwrap();
    for number in 0..40 {
        model.append(&log, &[record(number, 100)], 1).unwrap();
    }
    if is_closed {
        log.close().unwrap();
    } else {
        kill(&disk, log);
    }
    disk.lose_power(Loss::Nothing);
    (disk, model)
}

fn is_damaged(disk: &SimDisk) -> bool {
    let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
    verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap().is_damaged()
}

/// Story: a clean close wrote one slot, so that the other one was of before the session.
#[test]
fn both_slots_are_written_at_open_and_at_a_clean_close() {
    let (disk, _) = session(true);
    let [one, other] = slots(&disk);
    for head in [&one, &other] {
        assert_eq!((head.durable_seq, head.state), (40, HeadState::Clean));
    }
    assert_eq!(one.generation.abs_diff(other.generation), 1);
    let (log, _) = open(&disk).unwrap();
    let [one, other] = slots(&disk);
    for head in [&one, &other] {
        assert_eq!((head.durable_seq, head.state), (40, HeadState::Open));
    }
    assert_eq!(one.writer_epoch, other.writer_epoch);
    kill(&disk, log);
}

/// Story: a flipped bit in the newer slot of HEAD and a zeroed end lost a whole session, which was
/// closed cleanly: `verify` said whole, and the writer continued.
/// Method: each slot is damaged, alone and with the end of the log zeroed from each record on, after a
/// clean close and after a crash.
#[test]
fn sweep_damaged_slot_and_zeroed_end_are_never_silent() {
    for is_closed in [true, false] {
        let (pristine, model) = session(is_closed);
        let all = model.batches.concat();
        let (path, _) = log_files(&pristine).remove(0);
        let records = survey(&pristine).records;
        let end = records.values().last().map(|record| record.offset + record.size).unwrap();
        for slot in [0, 1] {
            let starts = records.values().map(|record| record.offset).chain([end]);
            for start in starts.step_by(plan_ledger::internals::sim::sweep(7, 1, 1)) {
                let story = format!("closed: {is_closed}, slot {slot}, zeros from {start}");
                let disk = pristine.fork();
                flip(&disk, slot);
                disk.overwrite(&path, start, &vec![0; usize::try_from(end - start).unwrap()])
                    .unwrap();
                assert!(is_damaged(&disk), "{story}");
                match open(&disk) {
                    Ok((log, report)) => {
                        let found = payloads(&whole(&log.reader().unwrap()));
                        assert_eq!(found, all, "{story}: lost silently: {report:?}");
                        log.close().unwrap();
                        // The slot was written again.
                        assert!(!is_damaged(&disk), "{story}");
                    }
                    Err(error) => {
                        assert!(error.is_corrupt(), "{story}: {error}");
                        let is_kept = is_closed && start == end;
                        assert!(!is_kept, "{story}: {error}");
                    }
                }
            }
        }
    }
}

/// One valid copy is enough for readers and writers; `verify` reports the other ones as damage. The next opening makes the
/// slots whole.
#[test]
fn one_copy_of_a_slot_is_enough() {
    for is_closed in [true, false] {
        let (pristine, model) = session(is_closed);
        for (slot, kept) in (0..2).flat_map(|slot| (0..8).map(move |kept| (slot, kept))) {
            let story = format!("closed: {is_closed}, slot {slot}, copy {kept}");
            let disk = pristine.fork();
            (0..8).filter(|copy| *copy != kept).for_each(|copy| flip_copy(&disk, slot, copy));
            let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
            let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
            let class = FindingClass::Damage;
            let found = verified.findings.iter().find(|it| it.path.ends_with("HEAD")).unwrap();
            assert_eq!((found.class, found.offset), (class, slot * SLOT), "{story}");
            assert!(
                found.what.contains("a copy in the slot is damaged"),
                "{story}: {}",
                found.what
            );
            let (log, _) = open(&disk).unwrap();
            let found = payloads(&whole(&log.reader().unwrap()));
            assert_eq!(found, model.batches.concat(), "{story}");
            assert!(log.reader().unwrap().head_slots().are_whole(), "{story}");
            kill(&disk, log);
        }
    }
}

/// A write of HEAD that arrives in part names the new end or the old one, and no person is asked. Each byte that it may
/// end at, and every set of lost sectors.
#[test]
fn torn_write_of_a_slot_needs_no_person() {
    let (disk, mut model) = session(true);
    let head = dir().join("HEAD");
    let (log, _) = open(&disk).unwrap();
    let before = disk.read(&head).unwrap();
    model.append(&log, &[record(90, 100)], 1).unwrap();
    kill(&disk, log);
    let after = disk.read(&head).unwrap();
    let changed = before.chunks(512).zip(after.chunks(512)).enumerate();
    let changed: Vec<usize> =
        changed.filter(|(_, (old, new))| old != new).map(|(at, _)| at).collect();
    assert_eq!(changed.len(), 8, "one slot was written: {changed:?}");
    let start = changed[0] * 512;
    let cuts = (0..=4096_usize).step_by(plan_ledger::internals::sim::sweep(97, 1, 1));
    let cut = cuts.map(|end| [&after[..start + end], &before[start + end..]].concat());
    let lost = (0..256_usize).map(|mask| {
        let mut bytes = after.clone();
        for (bit, sector) in changed.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1) {
            let range = sector * 512..sector * 512 + 512;
            assert!(bit < 8);
            bytes[range.clone()].copy_from_slice(&before[range]);
        }
        bytes
    });
    for (number, bytes) in cut.chain(lost).enumerate() {
        let disk = disk.fork();
        disk.overwrite(&head, 0, &bytes).unwrap();
        let (log, report) = open(&disk).unwrap_or_else(|error| panic!("{number}: {error}"));
        let found = payloads(&whole(&log.reader().unwrap()));
        assert_eq!(found, model.batches.concat(), "{number}: {report:?}");
        kill(&disk, log);
    }
}

/// A crash while a torn slot is made whole again keeps its newest record: the other slot is written first.
#[test]
fn newest_record_survives_every_crash_while_slots_are_restored() {
    let (pristine, _) = session(false);
    let newest = |disk: &SimDisk| reader(disk).head_slots().newest().unwrap().1.clone();
    let expected = newest(&pristine);
    let slot = u64::try_from(reader(&pristine).head_slots().newest().unwrap().0).unwrap();
    (1..8).for_each(|copy| flip_copy(&pristine, slot, copy));
    let calls = {
        let disk = pristine.fork();
        let before = disk.calls();
        kill(&disk, open(&disk).unwrap().0);
        disk.calls() - before
    };
    let bytes_after = |disk: &SimDisk, loss| {
        let disk = disk.fork();
        disk.lose_power(loss);
        disk.read(&dir().join("HEAD")).unwrap()
    };
    let mut torn = 0;
    for call in 0..calls {
        let disk = pristine.fork();
        disk.crash_at(disk.calls() + call);
        drop(open(&disk));
        let (without, with) =
            (bytes_after(&disk, Loss::Everything), bytes_after(&disk, Loss::Nothing));
        disk.lose_power(Loss::Everything);
        // The worst that a torn write leaves: garbage in its whole range.
        for (at, (without, with)) in (0..).zip(without.chunks(4096).zip(with.chunks(4096))) {
            if without != with {
                disk.overwrite(&dir().join("HEAD"), at * SLOT, &[0xAA; 4096]).unwrap();
                torn += 1;
            }
        }
        let found = newest(&disk);
        assert!(
            (found.durable_seq, found.generation) >= (expected.durable_seq, expected.generation),
            "call {call}: {found:?}"
        );
    }
    assert!(torn > 1, "both slots are written");
}

/// An invalid slot is damage, and one that was overwritten with zeros too; readers use the other one.
#[test]
fn invalid_slot_is_damage() {
    let (pristine, model) = session(true);
    let zeroed = |disk: &SimDisk, slot: u64| {
        disk.overwrite(&dir().join("HEAD"), slot * SLOT, &[0; 4096]).unwrap();
    };
    let harms: [fn(&SimDisk, u64); 2] = [flip, zeroed];
    for (harm, slot) in harms.into_iter().flat_map(|harm| [(harm, 0), (harm, 1)]) {
        let disk = pristine.fork();
        harm(&disk, slot);
        let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
        let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap();
        let found = verified.findings.iter().find(|it| it.class == FindingClass::Damage).unwrap();
        assert_eq!((found.offset, found.path.ends_with("HEAD")), (slot * SLOT, true));
        assert_eq!(survey(&disk).records.len(), model.batches.concat().len());
    }
}

/// Story: after a crash on a full disk no command could open the ledger, so none could make room.
/// Method: an unproven tail, and room for the smallest fence only.
#[test]
fn recovery_on_a_full_disk_needs_little_room() {
    let (pristine, model) = session(false);
    let (log, _) = open(&pristine).unwrap();
    let head = pristine.read(&dir().join("HEAD")).unwrap();
    log.append(&[record(90, 3000)], at(2)).unwrap();
    kill(&pristine, log);
    pristine.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let used: usize =
        pristine.files(&dir()).iter().map(|path| pristine.read(path).unwrap().len()).sum();
    let used = u64::try_from(used).unwrap();
    for (room, is_enough) in [(0, false), (40_000, true)] {
        let disk = pristine.fork();
        disk.set_capacity(used + room);
        match open(&disk) {
            Ok((log, report)) => {
                assert!(is_enough, "{report:?}");
                assert_eq!(report.verdict, TailVerdict::Unacknowledged);
                // What makes room can append its note.
                log.append(&[record(91, 2000)], at(3)).unwrap();
                assert_eq!(payloads(&whole(&log.reader().unwrap())).len(), 42);
                log.close().unwrap();
            }
            Err(error) => {
                assert!(!is_enough, "{error}");
                assert_eq!(error.kind(), ErrorKind::DiskFull);
                disk.set_capacity(u64::MAX);
                assert_eq!(open(&disk).unwrap().1.verdict, TailVerdict::Unacknowledged);
            }
        }
    }
    assert_eq!(model.batches.len(), 40);
}
