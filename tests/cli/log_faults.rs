//! Failing disk operations, and full disks.

use std::io;

use plan_ledger::internals::format::{Head, NewRecord};
use plan_ledger::internals::sim::{
    Fault, FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk, sweep,
};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{ChainOrigin, Log, LogBuilder, TailVerdict};
use plan_ledger::{Error, ErrorKind};

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

/// Use a log like a careful program: refused batches are tried once more, and after poisoning the
/// log is opened again.
fn use_it(disk: &SimDisk, model: &mut Model, story: &str) -> Option<Log> {
    let log = match Log::create(&dir(), options(disk), at(0)) {
        Ok(log) => log,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull),
                "{story}: {error}"
            );
            // Either the name exists, and with it the ledger; or it can be created again.
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
                // `Fenced` if the ownership check after the sync failed.
                let again = log.append(&batch, at(step)).unwrap_err();
                let is_over = matches!(again.kind(), ErrorKind::Poisoned | ErrorKind::Fenced);
                assert!(is_over, "{story}: {again}");
                return None;
            }
            // The ownership check failed.
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

/// Whatever operation fails, with or without effect, no acknowledged record is lost, no partial
/// batch is visible, and the handle either refuses cleanly or is poisoned. The n-th operation
/// fails, for every n, with none, some and all of its effect; then the process ends, or the power
/// fails and all or some unsynced data is lost.
#[test]
fn sweep_any_failed_operation_loses_no_acknowledged_record() {
    let calm = SimDisk::new();
    drop(use_it(&calm, &mut Model::default(), "calm"));
    let mut poisoned = 0;
    for call in (1..=calm.calls()).step_by(sweep(3, 1, 1)) {
        for (effect, kind) in [
            (FaultEffect::Nothing, io::ErrorKind::Other),
            (FaultEffect::Part(call), io::ErrorKind::StorageFull),
            (FaultEffect::Everything, io::ErrorKind::Other),
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

/// An operation that fails while a log is opened fails the opening and changes nothing that
/// matters; the next opening succeeds. With a torn tail, and with a tail that only needs a fence;
/// every operation of the opening fails once.
#[test]
fn sweep_failed_open_can_be_repeated() {
    for loss in [Loss::Nothing, Loss::Some(1), Loss::Some(2), Loss::Some(5)] {
        let (disk, model) = unfinished(loss);
        let calm = disk.fork();
        let before = calm.calls();
        let (log, _) = open(&calm).unwrap();
        kill(&calm, log);
        for call in (before + 1..=calm.calls()).step_by(sweep(3, 1, 1)) {
            for effect in [FaultEffect::Nothing, FaultEffect::Part(call), FaultEffect::Everything] {
                let disk = disk.fork();
                let story = format!("{loss:?}: call {call} of the opening fails with {effect:?}");
                disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect });
                match open(&disk) {
                    // Some failures do not matter, such as a leftover that cannot be removed.
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

/// A log whose last batch was written, but neither synced nor acknowledged.
fn unfinished(loss: Loss) -> (SimDisk, Model) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 100)], 1).unwrap();
    // The write is one operation, the sync the next.
    disk.crash_at(disk.calls() + LOOKS + 2);
    model.append(&log, &[record(2, 900), record(3, 2000)], 1).unwrap_err();
    drop(log);
    disk.lose_power(loss);
    (disk, model)
}

/// A successful sync after a failed one proves nothing (H33): a record that is only in the page
/// cache is written again elsewhere.
#[test]
fn h33_record_only_in_page_cache_is_rewritten() {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 100)], 1).unwrap();
    let call = disk.calls() + LOOKS + 2;
    disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect: FaultEffect::Nothing });
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

/// A full disk shows before any part of a batch is written; the handle stays usable and continues
/// when there is space. Every limit in steps of 64 KiB, from nothing to more than enough.
#[test]
fn full_disk_is_reported_before_writing() {
    let mut refusals = 0;
    for limit in (0..4_000_000).step_by(64 * 1024) {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        disk.set_capacity(limit);
        let log = match Log::create(&dir(), options(&disk), at(0)) {
            Ok(log) => log,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                disk.set_capacity(u64::MAX);
                Log::create(&dir(), options(&disk), at(0)).unwrap()
            }
        };
        model.is_created = true;
        for (step, batch) in (1..).zip(batches()) {
            if let Err(error) = model.append(&log, &batch, step) {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refusals += 1;
                // A batch that still fits is accepted.
                model.append(&log, &[record(90, 50)], step).unwrap();
                disk.set_capacity(u64::MAX);
                model.append(&log, &batch, step).unwrap();
            }
        }
        kill(&disk, log);
        disk.lose_power(Loss::Everything);
        disk.set_capacity(u64::MAX);
        settle(&disk, &model, &format!("limit {limit}"));
    }
    assert!(refusals > 10, "{refusals}");
}

/// Regression: a failed creation on a full disk left its staging folder. Each operation of a
/// creation fails once; then nothing is left, or the ledger itself.
#[test]
fn failed_creation_leaves_nothing_behind() {
    type Way = fn(&SimDisk) -> Result<(), Error>;
    let built: Way = |disk| {
        let mut builder = LogBuilder::create(&dir(), options(disk), ChainOrigin::New, at(0))?;
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
            let (kind, effect) = (io::ErrorKind::StorageFull, FaultEffect::Nothing);
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
            assert_eq!(open(&disk).unwrap().1.verdict, TailVerdict::Clean, "call {call}");
        }
    }
    assert!(failed > 30, "{failed}");
}

/// A read that fails once during opening is read again, or is an error, but never the end of the log
/// (H48, H66), even if only the records themselves prove that they were acknowledged: the power failure reverted the
/// last second of HEAD, and each read of the opening fails.
#[test]
fn h48_h66_transient_read_error_is_not_the_end() {
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
    let slow = FaultAction::Slow(std::time::Duration::from_nanos(1));
    calm.inject(FaultRule::next(slow).of(Operation::Read).always());
    let (log, _) = open(&calm).unwrap();
    let reads = u64::try_from(calm.injected().len() - before).unwrap();
    kill(&calm, log);
    let mut failed = 0;
    let errors = [OsError::Io, OsError::Other(io::ErrorKind::PermissionDenied)];
    for (nth, error) in (1..=reads).flat_map(|nth| errors.map(|error| (nth, error))) {
        let disk = disk.fork();
        let failure = FaultAction::Error(error, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure).of(Operation::Read).nth(nth));
        match open(&disk) {
            Ok((log, report)) => {
                let found = payloads(&whole(&log.reader().unwrap()));
                model.check(&found, &format!("read {nth}: {report:?}"));
            }
            Err(refusal) => {
                assert_ne!(error, OsError::Io, "read {nth}: an error of one place that passed");
                assert_eq!(refusal.kind(), ErrorKind::Io, "read {nth}: {refusal}");
                failed += 1;
            }
        }
        disk.kill_process();
        settle(&disk, &model, &format!("read {nth} failed before"));
    }
    assert!(failed > 5, "{failed} of {reads}");
}

/// The region of a failed write is never reused (H37), even if nothing of the write is visible.
#[test]
fn h37_region_of_failed_write_is_never_reused() {
    for (after, effect) in
        [(1, FaultEffect::Nothing), (2, FaultEffect::Nothing), (2, FaultEffect::Everything)]
    {
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
        assert_eq!(report.verdict, TailVerdict::Unacknowledged, "{effect:?}: {report:?}");
        assert_eq!(super::lab::log_files(&disk).len(), before + 1, "{effect:?}");
        kill(&disk, log);
        settle(&disk, &model, &format!("{effect:?}"));
    }
}

/// One slot of HEAD always keeps the last synced content: commits in between go to the other slot.
#[test]
fn head_slot_is_kept_until_other_is_durable() {
    let slots = |disk: &SimDisk| {
        let bytes = disk.read(&dir().join("HEAD")).unwrap();
        [bytes[..4096].to_vec(), bytes[4096..].to_vec()]
    };
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for round in 0..6 {
        for number in 0..4 {
            // Less than a second passes, so HEAD is written each time but synced by the first write
            // at most.
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
            // It is the last synced content: if the other slot is torn, only this second is lost.
            let head = Head::decode(&durable[kept[0]]).unwrap();
            let synced = if round == 0 { 0 } else { round * 4 + 1 };
            assert_eq!(head.durable_seq, synced, "round {round}, commit {number}");
        }
    }
}
