//! Crashes before every call of the disk, and again during recovery.

use plan_ledger::error::Error;
use plan_ledger::log::Log;
use plan_ledger::sim::{Loss, SimDisk};

use super::lab::{Model, Restart, at, dir, kill, open, options, record, settle};

/// Everything that a log does, in few steps: it is made, written to, rotated, closed, opened,
/// killed, and opened again.
fn workload(disk: &SimDisk, model: &mut Model) -> Result<(), Error> {
    let mut log = Log::create(&dir(), options(disk), at(0))?;
    model.is_created = true;
    model.append(&mut log, &[record(1, 10)], 1)?;
    model.append(&mut log, &[record(2, 600), record(3, 1000), record(4, 0)], 2)?;
    model.append(&mut log, &[record(5, 600_000)], 3)?;
    // This one rotates.
    model.append(&mut log, &[record(6, 5000), record(7, 500_000)], 4)?;
    model.append(&mut log, &[record(8, 300)], 5)?;
    log.close()?;
    let (mut log, _) = open(disk)?;
    model.append(&mut log, &[record(9, 3000), record(10, 700)], 6)?;
    Ok(())
}

fn restarts() -> Vec<Restart> {
    let mut all =
        vec![Restart::Process, Restart::Power(Loss::Everything), Restart::Power(Loss::Nothing)];
    all.extend((0..4).map(|seed| Restart::Power(Loss::Some(seed))));
    all
}

/// Goal: wherever the machine stops, and however it comes up again, nothing acknowledged is lost,
/// nothing half done is seen, and the log goes on.
/// Method: the workload is stopped before every call that changes something.
#[test]
fn a_crash_before_any_call_loses_nothing() {
    let calm = SimDisk::new();
    workload(&calm, &mut Model::default()).unwrap();
    let mut last_changes = u64::MAX;
    let mut count = 0;
    for call in 1..=calm.calls() + 1 {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let mut model = Model::default();
        let _ = workload(&disk, &mut model);
        if disk.changes() == last_changes {
            continue;
        }
        last_changes = disk.changes();
        for restart in restarts() {
            let after = restart.of(&disk);
            settle(&after, &model, &format!("crash at call {call}, {restart:?}"));
            count += 1;
        }
    }
    println!("{count} states after {} calls", calm.calls());
}

/// Goal: a crash in the middle of the recovery changes nothing of that.
/// Method: as above, and recovery is stopped before every call that changes something; of the
/// first crashes one in five is taken.
#[test]
fn a_crash_during_recovery_loses_nothing() {
    let calm = SimDisk::new();
    workload(&calm, &mut Model::default()).unwrap();
    let mut count = 0;
    for call in (1..=calm.calls() + 1).step_by(5) {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let mut model = Model::default();
        let _ = workload(&disk, &mut model);
        if !model.is_created {
            continue;
        }
        for restart in
            [Restart::Process, Restart::Power(Loss::Everything), Restart::Power(Loss::Some(call))]
        {
            let after = restart.of(&disk);
            let probe = after.fork();
            if let Ok((log, _)) = open(&probe) {
                kill(&probe, log)
            }
            let mut last_changes = u64::MAX;
            for second in after.calls() + 1..=probe.calls() {
                let disk = after.fork();
                disk.crash_at(second);
                drop(open(&disk));
                if disk.changes() == last_changes {
                    continue;
                }
                last_changes = disk.changes();
                for again in [
                    Restart::Process,
                    Restart::Power(Loss::Everything),
                    Restart::Power(Loss::Some(second)),
                ] {
                    let story =
                        format!("crash at call {call}, {restart:?}, again at {second}, {again:?}");
                    settle(&again.of(&disk), &model, &story);
                    count += 1;
                }
            }
        }
    }
    println!("{count} states");
}
