//! Many threads on one log: shared syncs, tickets, buffered records, conflicts, and a result for
//! every waiter.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use plan_ledger::internals::format::Chain;
use plan_ledger::internals::sim::{Fault, FaultEffect, Loss, SimDisk, sweep};
use plan_ledger::internals::storage::DiskStorage;
use plan_ledger::log::{Batch, Durability, Log, LogOptions, LogReader, SegmentSizes, TailVerdict};
use plan_ledger::{Ack, BackgroundWork, Error, ErrorKind, HeadSync};

use super::lab::{
    LOOKS, Model, Restart, at, dir, kill, open, options, options_with, payloads, record, settle,
    whole,
};

const THREADS: u64 = 32;
const APPENDS: u64 = 200;

/// Batches of 1 to 3 records; the acknowledgements, by the number of the batch's first record.
fn hammer(log: &Log) -> BTreeMap<u64, (Ack, Vec<Vec<u8>>)> {
    let acks = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let acks = &acks;
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let unique = (thread * APPENDS + number) * 4;
                    let size = usize::try_from(unique % 700).unwrap();
                    let batch: Vec<_> =
                        (0..=number % 3).map(|part| record(unique + part, size)).collect();
                    let ack = log.append(&batch, at(number)).unwrap();
                    let first = ack.seq - number % 3;
                    let payloads = batch.into_iter().map(|record| record.payload).collect();
                    let before = acks.lock().unwrap().insert(first, (ack, payloads));
                    assert!(before.is_none(), "{first} acknowledged twice");
                }
            });
        }
    });
    acks.into_inner().unwrap()
}

/// The acknowledgements have no gap, and the log contains exactly their records.
fn check(reader: &LogReader, acks: &BTreeMap<u64, (Ack, Vec<Vec<u8>>)>) {
    let records = whole(reader);
    let chains: BTreeMap<u64, Chain> = records.iter().map(|each| (each.seq, each.chain)).collect();
    let mut next = 1;
    for (first, (ack, _)) in acks {
        assert_eq!(*first, next, "a gap or an overlap");
        assert_eq!(chains[&ack.seq], ack.chain);
        next = ack.seq + 1;
    }
    let acked: Vec<_> = acks.values().flat_map(|(_, payloads)| payloads.clone()).collect();
    assert!(payloads(&records) == acked);
}

/// With many threads every acknowledgement is unique, there is no gap, the log contains exactly the
/// acknowledged records, and syncs are shared. On the simulated disk, where a flush is short, and
/// on a real one with the background thread.
#[test]
fn concurrent_appends_share_syncs_and_lose_nothing() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let acks = hammer(&log);
    check(&log.reader().unwrap(), &acks);
    log.close().unwrap();
    disk.lose_power(Loss::Everything);
    let (log, report) = open(&disk).unwrap();
    assert_eq!(report.verdict, TailVerdict::Clean);
    check(&log.reader().unwrap(), &acks);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let options = LogOptions {
        background_work: BackgroundWork::Thread,
        ..options_with(Arc::new(DiskStorage), 1, HeadSync::Interval)
    };
    let log = Log::create(&path, options.clone(), at(0)).unwrap();
    let acks = hammer(&log);
    check(&log.reader().unwrap(), &acks);
    let syncs = log.reader().unwrap().head().unwrap().generation;
    assert!(syncs < THREADS * APPENDS, "{syncs} writes of HEAD: no group was ever shared");
    log.close().unwrap();
    let (log, report) = Log::open(&path, options, at(0)).unwrap();
    assert_eq!(report.verdict, TailVerdict::Clean);
    check(&log.reader().unwrap(), &acks);
}

/// No thread waits forever, whatever each of many threads waits for: a sync, a write, space for a
/// large batch, a new segment. Small segments make flushes and rotations alternate.
#[test]
fn mixed_waiters_all_get_a_result() {
    let disk = SimDisk::new();
    let segments = SegmentSizes { first: 8 << 10, largest: 64 << 10 };
    let log = Log::create(&dir(), LogOptions { segments, ..options(&disk) }, at(0)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let unique = thread * APPENDS + number;
                    let batch = Batch::new(vec![record(unique, 300)], at(0));
                    match (thread + number) % 4 {
                        0 => {
                            log.append(&batch.records, at(0)).unwrap();
                        }
                        1 => {
                            let early = log.submit(&batch).unwrap();
                            // The later one first: the earlier one is durable with it.
                            let late = log.submit(&Batch::new(Vec::new(), at(0))).unwrap();
                            log.wait(late).unwrap();
                            log.wait(early).unwrap();
                        }
                        2 => {
                            let durability = Durability::Buffered;
                            let _ = log.submit(&Batch { durability, ..batch }).unwrap();
                        }
                        _ => {
                            let _ = log.submit(&batch).unwrap();
                            log.flush().unwrap();
                        }
                    }
                }
            });
        }
    });
    let ack = log.flush().unwrap();
    assert_eq!(ack.seq, THREADS * APPENDS);
    assert_eq!(whole(&log.reader().unwrap()).len(), usize::try_from(ack.seq).unwrap());
}

/// Batches submitted together are written and synced together: a hundred tickets and one wait give
/// one write, one sync and one write of HEAD.
#[test]
fn tickets_of_one_thread_share_one_sync() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(0, 10)], at(0)).unwrap();
    let (changes, calls) = (disk.changes(), disk.calls());
    let tickets: Vec<_> =
        (1..=100).map(|n| log.submit(&Batch::new(vec![record(n, 50)], at(0))).unwrap()).collect();
    assert_eq!(disk.calls(), calls, "submitting goes to the disk");
    assert_eq!((log.last_durable().seq, log.last_submitted().seq), (1, 101));
    for (seq, ticket) in (2..).zip(tickets.into_iter().rev()) {
        let seqs = (ticket.first_seq(), ticket.last_seq());
        assert_eq!(seqs, (103 - seq, 103 - seq));
        assert_eq!(log.wait(ticket).unwrap().seq, 103 - seq);
    }
    assert_eq!(disk.changes(), changes + 3);
    // The right to write is checked before the records and before HEAD.
    assert_eq!(disk.calls(), calls + 2 * LOOKS + 3);
    assert_eq!(whole(&log.reader().unwrap()).len(), 101);
}

/// A batch with an expected sequence number gets it or is refused; of several exactly one wins.
#[test]
fn conflicting_expected_seq_has_one_winner() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let barrier = Barrier::new(8);
    let wins = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (log, barrier, wins) = (&log, &barrier, &wins);
            scope.spawn(move || {
                for round in 0..50 {
                    barrier.wait();
                    let batch = Batch {
                        expected_seq: Some(round * 2 + 1),
                        ..Batch::new(vec![record(thread, 20), record(thread, 30)], at(0))
                    };
                    match log.submit(&batch).and_then(|ticket| log.wait(ticket)) {
                        Ok(ack) => {
                            assert_eq!(ack.seq, round * 2 + 2);
                            wins.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 50);
    assert_eq!(whole(&log.reader().unwrap()).len(), 100);
}

/// Whatever operation fails while many threads wait, every thread gets a result, and every
/// acknowledgement stays valid. The n-th operation fails, for every n, with none and all of its
/// effect.
#[test]
fn any_failed_operation_gives_every_waiter_a_result() {
    const WAITERS: u64 = 16;
    let mut unknown = 0;
    for call in 1..=40 {
        for effect in [FaultEffect::Nothing, FaultEffect::Everything] {
            let disk = SimDisk::new();
            let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
            let call = disk.calls() + call;
            disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect });
            let answers: Vec<_> = std::thread::scope(|scope| {
                let wait = |number| {
                    let log = &log;
                    scope.spawn(move || {
                        let answer = log.append(&[record(number, 40)], at(0));
                        // After a failure nothing more is accepted.
                        if let Err(error) = &answer {
                            let again = log.append(&[record(99, 4)], at(0)).unwrap_err();
                            let may_be = match error.kind() {
                                ErrorKind::Fenced => &[ErrorKind::Fenced][..],
                                _ => &[ErrorKind::Poisoned, ErrorKind::Fenced],
                            };
                            assert!(may_be.contains(&again.kind()), "{error}, then {again}");
                        }
                        (number, answer)
                    })
                };
                let threads: Vec<_> = (0..WAITERS).map(wait).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            drop(log);
            if disk.calls() < call {
                // Shared syncs made the workload shorter.
                continue;
            }
            disk.lose_power(Loss::Everything);
            let (log, _) = open(&disk).unwrap();
            let found = whole(&log.reader().unwrap());
            for (number, answer) in answers {
                let payload = record(number, 40).payload;
                match answer {
                    Ok(ack) => {
                        let found = &found[usize::try_from(ack.seq).unwrap() - 1];
                        assert_eq!((&found.payload, found.chain), (&payload, ack.chain));
                    }
                    Err(error) => {
                        let kinds =
                            [ErrorKind::OutcomeUnknown, ErrorKind::Poisoned, ErrorKind::Fenced];
                        assert!(kinds.contains(&error.kind()), "call {call}: {error}");
                        unknown += usize::from(error.kind() == ErrorKind::OutcomeUnknown);
                    }
                }
            }
        }
    }
    // At least the write, the sync and HEAD of the first group, each with and without effect.
    assert!(unknown >= 6, "{unknown}");
}

/// Buffered and durable batches alternate; after each flush all of them count as acknowledged.
fn mixed(disk: &SimDisk, model: &mut Model) -> Result<(), Error> {
    let log = Log::create(&dir(), options(disk), at(0))?;
    model.is_created = true;
    let buffered = |model: &mut Model, number: u64, size: usize| {
        let batch = vec![record(number, size), record(number + 1, 30)];
        model.batches.push(batch.iter().map(|record| record.payload.clone()).collect());
        let batch = Batch { durability: Durability::Buffered, ..Batch::new(batch, at(number)) };
        log.submit(&batch).map(|_| ())
    };
    buffered(model, 10, 100)?;
    buffered(model, 20, 900)?;
    log.append(&[record(30, 50)], at(30))?;
    model.batches.push(vec![record(30, 50).payload]);
    model.acked = model.batches.len();
    buffered(model, 40, 2000)?;
    log.flush()?;
    model.acked = model.batches.len();
    buffered(model, 50, 10)?;
    buffered(model, 60, 1 << 20)?;
    model.acked = model.batches.len() - 1;
    buffered(model, 70, 10)?;
    log.close()?;
    model.acked = model.batches.len();
    Ok(())
}

/// Buffered records survive the end of the process; after a power failure they are complete or
/// gone, in order; what a flush, a later commit, a rotation or a close covered is never lost. A
/// crash before every operation.
#[test]
fn sweep_crash_before_any_operation_keeps_flushed_records() {
    let calm = SimDisk::new();
    mixed(&calm, &mut Model::default()).unwrap();
    for call in (1..=calm.calls()).step_by(sweep(5, 1, 1)) {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        disk.crash_at(call);
        let error = mixed(&disk, &mut model).err();
        let asked = model.batches.len();
        // The last one may have been inside an append.
        if error.is_some() && model.acked < 3 && asked == 2 {
            model.batches.push(vec![record(30, 50).payload]);
        }
        for restart in [
            Restart::Process,
            Restart::Power(Loss::Everything),
            Restart::Power(Loss::Nothing),
            Restart::Power(Loss::Some(call)),
        ] {
            settle(&restart.of(&disk), &model, &format!("crash at call {call}, {restart:?}"));
        }
    }
}

/// A buffered record is in the file when submit returns, but not proven; after a kill it is row 8
/// and survives.
#[test]
fn buffered_record_survives_kill_and_is_proven_by_later_sync() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let batch =
        Batch { durability: Durability::Buffered, ..Batch::new(vec![record(1, 50)], at(0)) };
    let ticket = log.submit(&batch).unwrap();
    assert_eq!((ticket.last_seq(), log.last_durable().seq), (1, 0));
    assert_eq!(log.reader().unwrap().head().unwrap().durable_seq, 0);

    let killed = disk.fork();
    killed.kill_process();
    let (again, report) = open(&killed).unwrap();
    assert_eq!(report.verdict, TailVerdict::Unacknowledged);
    assert_eq!(payloads(&whole(&again.reader().unwrap())), [record(1, 50).payload]);

    assert_eq!(log.append(&[record(2, 50)], at(0)).unwrap().seq, 2);
    let calls = disk.calls();
    assert_eq!(log.wait(ticket).unwrap().seq, 1);
    assert_eq!(disk.calls(), calls, "it is proved already");
    kill(&disk, log);
    assert_eq!(open(&disk).unwrap().1.verdict, TailVerdict::Clean);
}

/// Unsynced bytes never exceed the range that recovery examines: 4 MiB, or one batch.
#[test]
fn unsynced_bytes_are_bounded() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let mut pending = 0;
    for number in 0..60 {
        let size = 300_000;
        let durability = if number % 2 == 0 { Durability::Sync } else { Durability::Buffered };
        let batch = Batch { durability, ..Batch::new(vec![record(number, size)], at(0)) };
        drop(log.submit(&batch));
        let behind = log.last_submitted().seq - log.last_durable().seq;
        assert!(behind * 300_000 <= 4 << 20, "{behind} records wait");
        pending = pending.max(behind);
    }
    assert!(pending >= 10, "{pending}");
    let acked = log.close().map(|()| whole(&open(&disk).unwrap().0.reader().unwrap()).len());
    assert_eq!(acked.unwrap(), 60);
}
