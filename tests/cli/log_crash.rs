//! Crashes before every disk operation, and again during recovery.

use plan_ledger::internals::format::NewRecord;
use plan_ledger::internals::sim::{Loss, SimDisk, sweep};
use plan_ledger::log::{Log, LogOptions};
use plan_ledger::{Error, ErrorKind, HeadSync};

use super::lab::{LOOKS, Model, Restart, at, dir, kill, log_files, open, options, record, settle};

type Workload = fn(&SimDisk, &mut Model) -> Result<(), Error>;

/// A workload in one segment: create, write, close, open, kill, and open again.
fn small(disk: &SimDisk, model: &mut Model) -> Result<(), Error> {
    let log = Log::create(&dir(), options(disk), at(0))?;
    model.is_created = true;
    model.append(&log, &[record(1, 10)], 1)?;
    model.append(&log, &[record(2, 600), record(3, 1000), record(4, 0)], 2)?;
    model.append(&log, &[record(5, 3000)], 9)?;
    log.close()?;
    let (log, _) = open(disk)?;
    model.append(&log, &[record(6, 2000), record(7, 700)], 10)?;
    if !disk.is_down() {
        kill(disk, log);
    }
    let (log, _) = open(disk)?;
    model.append(&log, &[record(8, 20)], 11)?;
    log.close()
}

/// The same with rotations: to a segment of the default size, and to one of the size of a batch.
fn rotating(disk: &SimDisk, model: &mut Model) -> Result<(), Error> {
    let log = Log::create(&dir(), options(disk), at(0))?;
    model.is_created = true;
    model.append(&log, &[record(1, 10), record(2, 10)], 1)?;
    model.append(&log, &[record(3, 300), record(4, 1 << 20)], 2)?;
    model.append(&log, &[record(5, 300)], 3)?;
    Ok(())
}

/// A few commits that each sync HEAD.
fn every_commit(disk: &SimDisk, model: &mut Model) -> Result<(), Error> {
    let options = || LogOptions { head_sync: HeadSync::EveryCommit, ..options(disk) };
    let log = Log::create(&dir(), options(), at(0))?;
    model.is_created = true;
    model.append(&log, &[record(1, 10)], 1)?;
    model.append(&log, &[record(2, 600), zeros(3000), record(4, 0)], 2)?;
    model.append(&log, &[zeros(2000)], 2)?;
    log.close()
}

/// A payload with a run of zeros that is longer than a sector.
fn zeros(size: usize) -> NewRecord {
    let mut record = record(77, size);
    record.payload[100..size.min(800)].fill(0);
    record
}

/// Stop the workload before every mutating operation from the `first` one on, in steps of `step`:
/// the disk at that point, and how far the model got.
fn stops(workload: Workload, step: usize) -> Vec<(u64, SimDisk, Model)> {
    let calm = SimDisk::new();
    workload(&calm, &mut Model::default()).unwrap();
    let mut stops: Vec<(u64, SimDisk, Model)> = Vec::new();
    for call in (1..=calm.calls() + 1).step_by(step) {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        disk.crash_at(call);
        let _ = workload(&disk, &mut model);
        let is_new = stops.last().is_none_or(|(_, last, _)| last.changes() != disk.changes());
        if is_new {
            stops.push((call, disk, model));
        }
    }
    stops
}

fn power(seeds: std::ops::Range<u64>) -> Vec<Restart> {
    let fixed = [Restart::Process, Restart::Power(Loss::Everything), Restart::Power(Loss::Nothing)];
    fixed.into_iter().chain(seeds.map(|seed| Restart::Power(Loss::Some(seed)))).collect()
}

/// All ways in which the machine may restart if there are few; otherwise a sample.
fn restarts(disk: &SimDisk, seeds: u64) -> Vec<Restart> {
    match disk.unsynced() {
        count @ 0..=3 => {
            let ways = (0..1 << count).map(|mask| Restart::Power(Loss::AllBut(mask)));
            std::iter::once(Restart::Process).chain(ways).collect()
        }
        _ => power(0..seeds),
    }
}

fn crash_once(workload: Workload, seeds: u64) {
    let mut count = 0;
    let stops = stops(workload, 1);
    for (call, disk, model) in &stops {
        for restart in restarts(disk, seeds) {
            settle(&restart.of(disk), model, &format!("crash at call {call}, {restart:?}"));
            count += 1;
        }
    }
    assert!(count > 300, "only {count} states from {} crashes", stops.len());
}

fn count_segments(disk: &SimDisk) -> usize {
    log_files(disk).iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "seg")).count()
}

fn crash_twice(workload: Workload, step: usize, seeds: u64) {
    let mut count = 0;
    for (call, disk, model) in stops(workload, step) {
        for restart in restarts(&disk, seeds) {
            let after = restart.of(&disk);
            let segments = count_segments(&after);
            let probe = after.fork();
            match open(&probe) {
                Ok((log, _)) => kill(&probe, log),
                Err(error) if error.kind() == ErrorKind::NotALedger => continue,
                Err(error) => panic!("crash at call {call}, {restart:?}: refused: {error}"),
            }
            let mut last = u64::MAX;
            for second in after.calls() + 1..=probe.calls() {
                let disk = after.fork();
                disk.crash_at(second);
                drop(open(&disk));
                if std::mem::replace(&mut last, disk.changes()) == disk.changes() {
                    continue;
                }
                for again in restarts(&disk, seeds - 1) {
                    let story =
                        format!("crash at call {call}, {restart:?}, again at {second}, {again:?}");
                    let disk = again.of(&disk);
                    settle(&disk, &model, &story);
                    let made = count_segments(&disk) - segments;
                    assert!(made <= 1, "{story}: {made} fences for one crash");
                    count += 1;
                }
            }
        }
    }
    assert!(count > sweep(100, 500, 500), "only {count} states");
}

/// Wherever the machine stops and however it restarts, no acknowledged record is lost, no partial
/// batch is visible, and the log can be appended to. The workload is stopped before every mutating
/// operation. Then the process ends, or the power fails: with at most 8 ways to lose unsynced data
/// all are tried, otherwise everything, nothing and 6 random parts.
#[test]
fn crash_before_any_operation_loses_nothing() {
    crash_once(small, 6);
}

/// As above, with HEAD synced at every commit: then even a torn record full of zeros, which looks
/// like damage, is recognized as torn.
#[test]
fn crash_before_any_operation_with_synced_head_loses_nothing() {
    crash_once(every_commit, 6);
}

/// Without that, a torn record with long runs of zeros is fenced off or the writer asks; it is
/// never taken for anything else, and no acknowledged record is lost.
#[test]
fn torn_record_of_zeros_is_fenced_or_refused() {
    let (mut asked, mut fenced) = (0, 0);
    for seed in 0..200 {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
        model.append(&log, &[record(1, 10)], 1).unwrap();
        disk.crash_at(disk.calls() + LOOKS + 2);
        model.append(&log, &[record(2, 100), zeros(3000)], 1).unwrap_err();
        drop(log);
        disk.lose_power(Loss::Some(seed));
        let seen = super::lab::survey(&disk);
        assert!(seen.damages.is_empty() && !seen.records.is_empty(), "{seed}: {seen:?}");
        match open(&disk) {
            Ok(_) => {
                fenced += 1;
                disk.kill_process();
                settle(&disk, &model, &format!("seed {seed}"));
            }
            Err(error) => {
                asked += 1;
                assert_eq!(error.kind(), ErrorKind::Ambiguous, "seed {seed}: {error}");
            }
        }
    }
    println!("{asked} times asked, {fenced} times fenced or clean");
}

/// As above, over a rotation, with 3 random parts.
#[test]
fn crash_before_any_operation_of_rotation_loses_nothing() {
    crash_once(rotating, 3);
}

/// A crash during recovery loses nothing either: as above with one random part, at a stride of the
/// operations of the workload and every mutating operation of the recovery.
#[test]
fn sweep_crash_during_recovery_loses_nothing() {
    crash_twice(small, sweep(11, 3, 1), 2);
}

/// As above, over a rotation.
#[test]
fn sweep_crash_during_recovery_after_rotation_loses_nothing() {
    crash_twice(rotating, sweep(37, 11, 1), 1);
}
