//! Calls of the disk that fail, and full disks.

use std::io;

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::format::{Head, NewRecord};
use plan_ledger::log::{Genesis, Log, LogBuilder, Verdict};
use plan_ledger::sim::{Effect, Failure, Fault, Loss, Operation, OsError, Rule, SimDisk};
use plan_ledger::storage::Storage as _;

use super::lab::{
    LOOKS, Model, Restart, at, dir, kill, open, options, payloads, record, settle, whole,
};

fn batches() -> Vec<Vec<NewRecord>> {
    vec![
        vec![record(1, 10)],
        vec![record(2, 600), record(3, 1500), record(4, 0)],
        vec![record(5, 100), record(6, 1 << 20)],
        vec![record(7, 300)],
    ]
}

/// Use a log as a program does that looks at errors: what was refused is tried again once, after
/// a poisoned handle the log is opened again.
fn use_it(disk: &SimDisk, model: &mut Model, story: &str) -> Option<Log> {
    let log = match Log::create(&dir(), options(disk), at(0)) {
        Ok(log) => log,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull),
                "{story}: {error}"
            );
            // Either the name is there, then so is the ledger; or it can be made again.
            match open(disk) {
                Ok((log, _)) => log,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotALedger, "{story}: {error}");
                    Log::create(&dir(), options(disk), at(0)).unwrap()
                }
            }
        }
    };
    model.is_created = true;
    for (step, batch) in (1..).zip(batches()) {
        let Err(error) = model.append(&log, &batch, step * 4) else { continue };
        match error.kind() {
            ErrorKind::OutcomeUnknown => {
                // `Fenced` where it could not be seen, after the sync, whether it is still the writer.
                let again = log.append(&batch, at(step)).unwrap_err();
                let is_over = matches!(again.kind(), ErrorKind::Poisoned | ErrorKind::Fenced);
                assert!(is_over, "{story}: {again}");
                return None;
            }
            // Whether it is still the writer could not be seen.
            ErrorKind::Fenced => {
                let again = log.append(&batch, at(step)).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Fenced, "{story}: {again}");
                return None;
            }
            ErrorKind::Io | ErrorKind::DiskFull => {
                model.append(&log, &batch, step).unwrap_or_else(|again| {
                    panic!("{story}: refused, not poisoned, and refused again: {again}")
                });
            }
            other => panic!("{story}: {other:?}: {error}"),
        }
    }
    Some(log)
}

/// Goal: whatever call fails, with or without effect, nothing acknowledged is lost, half a batch
/// is never seen, and the handle either refuses cleanly or is poisoned.
/// Method: the n-th call fails, for every n, with no, some and all of its effect; then the
/// process ends, or the power goes, with all or some of what was not synced.
#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    let calm = SimDisk::new();
    drop(use_it(&calm, &mut Model::default(), "calm"));
    let mut poisoned = 0;
    for call in 1..=calm.calls() {
        for (effect, kind) in [
            (Effect::Nothing, io::ErrorKind::Other),
            (Effect::Part(call), io::ErrorKind::StorageFull),
            (Effect::Everything, io::ErrorKind::Other),
        ] {
            let disk = SimDisk::new();
            disk.fail_at(Fault { call, kind, effect });
            let mut model = Model::default();
            let story = format!("call {call} fails with {effect:?}");
            let log = use_it(&disk, &mut model, &story);
            poisoned += usize::from(log.is_none());
            drop(log);
            let power = if call % 2 == 0 { Loss::Everything } else { Loss::Some(call) };
            for restart in [Restart::Process, Restart::Power(power)] {
                settle(&restart.of(&disk), &model, &format!("{story}, {restart:?}"));
            }
        }
    }
    println!("{} calls, {poisoned} poisoned handles", calm.calls());
}

/// Goal: a call that fails while a log is opened fails the opening, changes nothing that matters,
/// and the next opening succeeds.
/// Method: the log has a torn tail and one that only needs a fence; every call of the opening
/// fails once.
#[test]
fn an_opening_that_fails_can_be_repeated() {
    for loss in [Loss::Nothing, Loss::Some(1), Loss::Some(2), Loss::Some(5)] {
        let (disk, model) = unfinished(loss);
        let calm = disk.fork();
        let before = calm.calls();
        let (log, _) = open(&calm).unwrap();
        kill(&calm, log);
        for call in before + 1..=calm.calls() {
            for effect in [Effect::Nothing, Effect::Part(call), Effect::Everything] {
                let disk = disk.fork();
                let story = format!("{loss:?}: call {call} of the opening fails with {effect:?}");
                disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect });
                match open(&disk) {
                    // Some failures do not matter, such as that of removing a leftover.
                    Ok((log, _)) => kill(&disk, log),
                    Err(error) => {
                        let kind = error.kind();
                        let is_plain = matches!(kind, ErrorKind::Io | ErrorKind::NotALedger);
                        assert!(is_plain, "{story}: {error}");
                    }
                }
                settle(&disk.fork(), &model, &story);
                disk.lose_power(Loss::Everything);
                settle(&disk, &model, &format!("{story}, then the power"));
            }
        }
    }
}

/// A log in which the last batch was written, and neither synced nor acknowledged.
fn unfinished(loss: Loss) -> (SimDisk, Model) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 100)], 1).unwrap();
    // Writing is one call, syncing the next.
    disk.crash_at(disk.calls() + LOOKS + 2);
    model.append(&log, &[record(2, 900), record(3, 2000)], 1).unwrap_err();
    drop(log);
    disk.lose_power(loss);
    (disk, model)
}

/// Goal: a sync that failed once proves nothing when it succeeds later (H33): a record that is
/// only in the page cache is not adopted as it is, but written again elsewhere.
#[test]
fn h33_a_record_that_only_the_cache_holds_is_written_again() {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 100)], 1).unwrap();
    let call = disk.calls() + LOOKS + 2;
    disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect: Effect::Nothing });
    let error = model.append(&log, &[record(2, 100)], 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    kill(&disk, log);

    let (log, report) = open(&disk).unwrap();
    let seen = whole(&log.reader().unwrap());
    assert_eq!(payloads(&seen).len(), 2, "the cache still shows it: {report:?}");
    assert!(report.survivors.is_some(), "{report:?}");
    kill(&disk, log);
    disk.lose_power(Loss::Everything);
    let (log, _) = open(&disk).unwrap();
    assert_eq!(whole(&log.reader().unwrap()), seen);
}

/// Goal: a full disk is noticed before anything of a batch is written; the handle stays good,
/// and goes on when there is room again.
/// Method: every limit, in steps of 64 KiB, from nothing to more than is needed.
#[test]
fn a_full_disk_refuses_cleanly() {
    let mut refusals = 0;
    for limit in (0..4_000_000).step_by(64 * 1024) {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        disk.limit(limit);
        let log = match Log::create(&dir(), options(&disk), at(0)) {
            Ok(log) => log,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                disk.limit(u64::MAX);
                Log::create(&dir(), options(&disk), at(0)).unwrap()
            }
        };
        model.is_created = true;
        for (step, batch) in (1..).zip(batches()) {
            if let Err(error) = model.append(&log, &batch, step) {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refusals += 1;
                // What still fits is taken.
                model.append(&log, &[record(90, 50)], step).unwrap();
                disk.limit(u64::MAX);
                model.append(&log, &batch, step).unwrap();
            }
        }
        kill(&disk, log);
        disk.lose_power(Loss::Everything);
        disk.limit(u64::MAX);
        settle(&disk, &model, &format!("limit {limit}"));
    }
    assert!(refusals > 10, "{refusals}");
}

/// Story: a ledger that could not be made, for want of room, left the folder in which it had been begun.
/// Method: each call of making one fails, once; then nothing is left, or the ledger itself.
#[test]
fn a_ledger_that_cannot_be_made_leaves_nothing_behind() {
    type Way = fn(&SimDisk) -> Result<(), Error>;
    let built: Way = |disk| {
        let mut builder = LogBuilder::create(&dir(), options(disk), Genesis::Own, at(0))?;
        builder.push(&record(1, 40), at(0), 0)?;
        builder.finish().map(drop)
    };
    let created: Way = |disk| Log::create(&dir(), options(disk), at(0)).map(drop);
    let (root, mut failed) = (dir().parent().unwrap().to_owned(), 0);
    for way in [created, built] {
        let calm = SimDisk::new();
        way(&calm).unwrap();
        for call in 1..=calm.calls() {
            let disk = SimDisk::new();
            let (kind, effect) = (io::ErrorKind::StorageFull, Effect::Nothing);
            disk.fail_at(Fault { call, kind, effect });
            if way(&disk).is_ok() {
                continue;
            }
            failed += 1;
            let left = disk.list(&root).unwrap();
            if left.is_empty() {
                way(&disk).unwrap();
            } else {
                assert!(left.iter().all(|entry| entry.name == "ledger"), "call {call}: {left:?}");
            }
            assert_eq!(open(&disk).unwrap().1.verdict, Verdict::Clean, "call {call}");
        }
    }
    assert!(failed > 30, "{failed}");
}

/// Goal: a read that fails once while a log is opened is an error, and never the end of the log (H48,
/// H66): also where only the records themselves say that they were acknowledged.
/// Method: the power took back what HEAD said of the last second; each read of the opening fails.
#[test]
fn h48_h66_a_read_that_fails_once_is_never_the_end() {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    for number in 0..6 {
        model.append(&log, &[record(number, 70_000)], 0).unwrap();
    }
    kill(&disk, log);
    disk.lose_power(Loss::Everything);
    let calm = disk.fork();
    let before = calm.injected().len();
    let slow = Failure::Slow(std::time::Duration::from_nanos(1));
    calm.inject(Rule::next(slow).of(Operation::Read).for_ever());
    let (log, _) = open(&calm).unwrap();
    let reads = u64::try_from(calm.injected().len() - before).unwrap();
    kill(&calm, log);
    let mut failed = 0;
    for nth in 1..=reads {
        let disk = disk.fork();
        let failure = Failure::Error(OsError::Io, Effect::Nothing);
        disk.inject(Rule::next(failure).of(Operation::Read).nth(nth));
        match open(&disk) {
            Ok((log, report)) => {
                let found = payloads(&whole(&log.reader().unwrap()));
                model.check(&found, &format!("read {nth}: {report:?}"));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "read {nth}: {error}");
                failed += 1;
            }
        }
        disk.kill_process();
        settle(&disk, &model, &format!("read {nth} failed before"));
    }
    assert!(failed > 5, "{failed} of {reads}");
}

/// Goal: the region of a failed write is never used again (H37), even when nothing of the write
/// is to be seen.
#[test]
fn h37_the_region_of_a_failed_write_is_left_alone() {
    for (after, effect) in [(1, Effect::Nothing), (2, Effect::Nothing), (2, Effect::Everything)] {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
        model.is_created = true;
        model.append(&log, &[record(1, 100)], 1).unwrap();
        disk.fail_at(Fault {
            call: disk.calls() + LOOKS + after,
            kind: io::ErrorKind::Other,
            effect,
        });
        let error = model.append(&log, &[record(2, 900), record(3, 70)], 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        kill(&disk, log);
        let before = super::lab::log_files(&disk).len();
        let (log, report) = open(&disk).unwrap();
        assert_eq!(report.verdict, Verdict::Unproven, "{effect:?}: {report:?}");
        assert_eq!(super::lab::log_files(&disk).len(), before + 1, "{effect:?}");
        kill(&disk, log);
        settle(&disk, &model, &format!("{effect:?}"));
    }
}

/// Goal: one slot of HEAD always keeps what was synced last: commits in between go to the other.
#[test]
fn one_slot_of_head_is_left_alone_until_the_other_is_durable() {
    let slots = |disk: &SimDisk| {
        let bytes = disk.read(&dir().join("HEAD")).unwrap();
        [bytes[..4096].to_vec(), bytes[4096..].to_vec()]
    };
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for round in 0..6 {
        for number in 0..4 {
            // No second passes, so HEAD is written each time, and synced by the first at most.
            log.append(&[record(number, 10)], at(round * 20)).unwrap();
            if number == 0 {
                continue;
            }
            let now = slots(&disk);
            let lost = disk.fork();
            lost.lose_power(Loss::Everything);
            let durable = slots(&lost);
            let kept: Vec<_> = (0..2).filter(|slot| durable[*slot] == now[*slot]).collect();
            assert_eq!(kept.len(), 1, "round {round}, commit {number}");
            // It is what was synced last: if the other is torn, no more than this second is lost.
            let head = Head::decode(&durable[kept[0]]).unwrap();
            let synced = if round == 0 { 0 } else { round * 4 + 1 };
            assert_eq!(head.durable_seq, synced, "round {round}, commit {number}");
        }
    }
}
