//! Consecutive flushes: which waiters a sync covers, which one leads next, and what waiters of a
//! failed flush get; and the background thread that syncs HEAD while the log is idle.
//!
//! A gate in front of every sync of a segment makes it known which thread waits for what.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk,
};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{Batch, Log, LogOptions, TailVerdict};
use plan_ledger::{Ack, BackgroundWork, Error, ErrorKind, HeadSync};

use super::disk_trace::{Call, Traced};
use super::lab::{at, dir, open, options_with, payloads, record, whole};
use super::log_fencing::eventually;

/// Lets syncs of segments pass one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Debug, Default)]
struct Passing {
    arrived: u64,
    /// Number of calls that may pass; unlimited if `None`.
    allowed: Option<u64>,
}

impl Gate {
    pub(crate) fn pass(&self) {
        let (passing, opened) = &*self.0;
        let mut passing = passing.lock().unwrap();
        passing.arrived += 1;
        let number = passing.arrived;
        let is_closed = |passing: &mut Passing| passing.allowed.is_some_and(|max| number > max);
        drop(opened.wait_while(passing, is_closed).unwrap());
    }

    /// From here on no call passes except through [`Gate::open_for_one`].
    pub(crate) fn close(&self) {
        let mut passing = self.0.0.lock().unwrap();
        passing.allowed = Some(passing.arrived);
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().allowed = None;
        self.0.1.notify_all();
    }

    fn open_for_one(&self) {
        let mut passing = self.0.0.lock().unwrap();
        passing.allowed = passing.allowed.map(|allowed| allowed + 1);
        self.0.1.notify_all();
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.0.0.lock().unwrap().arrived
    }
}

/// Opens a gate when it is dropped, so that no thread waits at it forever.
#[derive(Debug, Default)]
pub(crate) struct Opened(pub(crate) Gate);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A log, its disk, and a closed gate for the syncs of certain files, after the log was created.
fn gated(
    is_gated: fn(&Path) -> bool,
    background_work: BackgroundWork,
) -> (Arc<Log>, SimDisk, Gate) {
    let gate = Gate::default();
    let watch = gate.clone();
    let traced = Traced::watched(move |call| match call {
        Call::Sync(path) if is_gated(path) => watch.pass(),
        _ => {}
    });
    let disk = traced.disk.clone();
    let options = options_with(Arc::new(traced), 1, HeadSync::Interval);
    let log = Log::create(&dir(), LogOptions { background_work, ..options }, at(0)).unwrap();
    gate.close();
    (Arc::new(log), disk, gate)
}

pub(crate) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "seg")
}

fn is_head(path: &Path) -> bool {
    path == dir().join("HEAD")
}

type Answers = Receiver<(u64, Result<Ack, Error>)>;

/// One thread at the gate for record 1, and several parked waiters. The threads are detached, so
/// that one that never gets a result does not hang the test.
fn crowd(log: &Arc<Log>, gate: &Gate, sleepers: u64) -> Answers {
    let (sender, answers) = channel();
    let before = gate.arrived();
    for number in 1..=sleepers + 1 {
        let (own, sender) = (log.clone(), sender.clone());
        std::thread::spawn(move || {
            let _ = sender.send((number, own.append(&[record(number, 40)], at(0))));
        });
        let submitted = || log.last_submitted().seq == number;
        eventually("it has its place", submitted);
        eventually("the first is at the gate", || gate.arrived() == before + 1);
    }
    // Threads with a ticket will park soon. If one has not, the sequence differs but ends the same
    // way.
    std::thread::sleep(Duration::from_millis(20));
    answers
}

fn some(answers: &Answers, count: usize, what: &str) -> Vec<(u64, Result<Ack, Error>)> {
    let mut found = Vec::new();
    eventually(what, || {
        found.extend(answers.try_iter());
        found.len() >= count
    });
    found
}

/// A sync wakes the waiters whose records were written before it and no others (H41, H58); the next
/// leader flushes without a new arrival, and its flush wakes the others.
#[test]
fn sync_wakes_covered_waiters_and_elects_next_leader() {
    let (log, disk, gate) = gated(is_segment, BackgroundWork::Inline);
    let before = gate.arrived();
    let answers = crowd(&log, &gate, 3);
    gate.open_for_one();
    let first = some(&answers, 1, "the first is answered");
    assert_eq!(log.last_durable().seq, 1, "more is durable than was synced");
    assert!(matches!(first.as_slice(), [(1, Ok(ack))] if ack.seq == 1), "{first:?}");
    eventually("another one is at the gate", || gate.arrived() == before + 2);
    assert_eq!(log.last_durable().seq, 1, "more is durable than was synced");
    assert!(answers.try_recv().is_err(), "a waiter was woken before its sync");
    gate.open_for_one();
    for (number, answer) in some(&answers, 3, "all are answered") {
        assert_eq!(answer.unwrap().seq, number);
    }
    assert_eq!(gate.arrived(), before + 2, "they could have shared one sync");
    disk.lose_power(Loss::Everything);
    drop(log);
    let (log, _) = open(&disk).unwrap();
    let expected: Vec<_> = (1..=4).map(|number| record(number, 40).payload).collect();
    assert_eq!(payloads(&whole(&log.reader().unwrap())), expected);
}

/// Every waiter of a failed sync gets the error (H34), and none retries (H33).
#[test]
fn all_waiters_get_the_error_of_a_failed_flush() {
    for error in [OsError::Io, OsError::NoSpace] {
        let (log, disk, gate) = gated(is_segment, BackgroundWork::Inline);
        let before = gate.arrived();
        let answers = crowd(&log, &gate, 3);
        disk.inject(
            FaultRule::next(FaultAction::Error(error, FaultEffect::Nothing)).of(Operation::Sync),
        );
        gate.open_for_one();
        let mut told = Vec::new();
        eventually("all are told", || {
            assert_eq!(gate.arrived(), before + 1, "a waiter tries again");
            told.extend(answers.try_iter());
            told.len() == 4
        });
        for (number, answer) in told {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{number}: {error}");
        }
        let error = log.append(&[record(9, 4)], at(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert_eq!(gate.arrived(), before + 1, "a waiter tries again");
    }
}

/// HEAD is synced while the log is idle. If that fails, the log accepts no more records, and
/// acknowledged ones are there after reopening.
#[test]
fn failed_head_sync_while_idle_stops_the_log() {
    let (log, disk, gate) = gated(is_head, BackgroundWork::Thread);
    let before = gate.arrived();
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("HEAD is to be synced", || gate.arrived() == before + 1);
    let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
    disk.inject(FaultRule::next(failure).of(Operation::Sync).on(dir().join("HEAD")));
    gate.open();
    eventually("the log takes no more", || log.check_status().is_err());
    // HEAD is marked too, and synced.
    eventually("HEAD is synced again", || gate.arrived() == before + 2);
    let error = log.append(&[record(2, 40)], at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    drop(log);
    disk.lose_power(Loss::Everything);
    let (log, _) = open(&disk).unwrap();
    assert_eq!(payloads(&whole(&log.reader().unwrap())), [record(1, 40).payload]);
}

/// A flush in progress when that happens is not acknowledged: its records may be there, but HEAD
/// does not cover them.
#[test]
fn failed_head_sync_during_flush_is_commit_unknown() {
    let (log, disk, gate) = gated(is_head, BackgroundWork::Thread);
    let before = gate.arrived();
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("HEAD is to be synced", || gate.arrived() == before + 1);
    let changes = disk.changes();
    let (sender, answers) = channel();
    let own = log.clone();
    std::thread::spawn(move || sender.send((2, own.append(&[record(2, 40)], at(0)))));
    // The records and their sync: HEAD is next, and the background thread has it.
    eventually("its records are written", || disk.changes() == changes + 2);
    assert!(answers.try_recv().is_err(), "acknowledged without HEAD");
    let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
    disk.inject(FaultRule::next(failure).of(Operation::Sync).on(dir().join("HEAD")));
    gate.open();
    let (_, answer) = some(&answers, 1, "it is answered").remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(log.last_durable().seq, 1);
}

/// An idle log notices that its lock is gone, and writes nothing more. The lock is removed in the
/// flush that acknowledges the last record.
#[test]
fn lock_lost_while_idle_stops_the_log() {
    let armed: Arc<Mutex<Option<SimDisk>>> = Arc::default();
    let own = armed.clone();
    let traced = Traced::watched(move |call| {
        if matches!(call, Call::Write(path, ..) if is_head(path))
            && let Some(disk) = own.lock().unwrap().take()
        {
            disk.remove(&dir().join("LOCK")).unwrap();
        }
    });
    let disk = traced.disk.clone();
    let options = options_with(Arc::new(traced), 1, HeadSync::Interval);
    let options = LogOptions { background_work: BackgroundWork::Thread, ..options };
    let log = Log::create(&dir(), options, at(0)).unwrap();
    *armed.lock().unwrap() = Some(disk.clone());
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("the log takes no more", || log.check_status().is_err());
    let changes = disk.changes();
    let error = log.append(&[record(2, 40)], at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    drop(log);
    assert_eq!(disk.changes(), changes, "it still wrote something");
    let (log, report) = open(&disk).unwrap();
    assert_eq!(report.verdict, TailVerdict::Clean);
    assert_eq!(payloads(&whole(&log.reader().unwrap())), [record(1, 40).payload]);
}

/// A log whose background thread waits at a gate before it reads HEAD to check the right to write.
/// Other reads of HEAD, and writes of records, each pass a gate.
struct Fencing {
    log: Arc<Log>,
    disk: SimDisk,
    looked: Opened,
    others: Opened,
    writes: Opened,
}

impl Fencing {
    fn new() -> Self {
        let [looked, others, writes] = [(); 3].map(|()| Opened::default());
        let (own, rest, records) = (looked.0.clone(), others.0.clone(), writes.0.clone());
        let is_own = || std::thread::current().name() == Some("ledger-background");
        let traced = Traced::watched(move |call| match call {
            Call::Read(path) if is_head(path) && is_own() => own.pass(),
            Call::Read(path) if is_head(path) => rest.pass(),
            Call::Write(path, ..) if is_segment(path) && !is_own() => records.pass(),
            _ => {}
        });
        let disk = traced.disk.clone();
        let options = options_with(Arc::new(traced), 1, HeadSync::Interval);
        let options = LogOptions { background_work: BackgroundWork::Thread, ..options };
        let log = Arc::new(Log::create(&dir(), options, at(0)).unwrap());
        looked.0.close();
        let before = looked.0.arrived();
        log.append(&[record(1, 40)], at(0)).unwrap();
        eventually("its own thread looks", || looked.0.arrived() == before + 1);
        Self { log, disk, looked, others, writes }
    }

    /// The background thread can no longer check the right to write.
    fn fence(&self) {
        let refused = OsError::Other(std::io::ErrorKind::PermissionDenied);
        let failure = FaultAction::Error(refused, FaultEffect::Nothing);
        // A read that fails once is tried again.
        let rule = FaultRule::next(failure).of(Operation::Read).on(dir().join("HEAD"));
        self.disk.inject(rule.always());
        self.looked.0.open();
        eventually("the log takes no more", || self.log.check_status().is_err());
        self.disk.clear_faults();
    }

    /// Run a call in a thread of its own and send its result.
    fn ask(
        &self,
        number: u64,
        answers: &Sender<(u64, Result<Ack, Error>)>,
        ask: impl FnOnce(&Log) -> Result<Ack, Error> + Send + 'static,
    ) {
        let (own, answers) = (self.log.clone(), answers.clone());
        std::thread::spawn(move || {
            let answer = ask(&own);
            drop(own);
            let _ = answers.send((number, answer));
        });
    }

    /// The records after reopening.
    fn reopened(self) -> Vec<Vec<u8>> {
        let Self { log, disk, .. } = self;
        drop(log);
        let (log, _) = open(&disk).unwrap();
        payloads(&whole(&log.reader().unwrap()))
    }
}

/// Regression: the background thread found that the right to write was lost while a leader was
/// writing records. Their waiters were told that nothing had been written, so they could have
/// written the same to another ledger, but the records were in this one.
#[test]
fn group_being_written_when_fenced_is_commit_unknown() {
    let fencing = Fencing::new();
    let (sender, answers) = channel();
    fencing.writes.0.close();
    let before = fencing.writes.0.arrived();
    // Two records are flushed together, and a third one waits for the next flush.
    let ticket = fencing.log.submit(&Batch::new(vec![record(2, 40)], at(0))).unwrap();
    fencing.ask(3, &sender, |log| log.append(&[record(3, 40)], at(0)));
    eventually("two are being written", || fencing.writes.0.arrived() == before + 1);
    fencing.ask(2, &sender, move |log| log.wait(ticket));
    fencing.ask(4, &sender, |log| log.append(&[record(4, 40)], at(0)));
    eventually("it has its place", || fencing.log.last_submitted().seq == 4);
    fencing.fence();
    // The waiters that are not in the flush get a result at once.
    let mut told = some(&answers, 2, "those who wait are told");
    fencing.writes.0.open();
    told.extend(some(&answers, 1, "who writes is told"));
    told.sort_by_key(|(number, _)| *number);
    let kinds = told.into_iter().map(|(number, answer)| (number, answer.unwrap_err().kind()));
    let unknown = ErrorKind::OutcomeUnknown;
    assert_eq!(kinds.collect::<Vec<_>>(), [(2, unknown), (3, unknown), (4, ErrorKind::Fenced)]);
    assert_eq!(fencing.reopened(), [1, 2, 3].map(|number| record(number, 40).payload));
}

/// A group that is fenced before its write begins is not written, although its leader has passed
/// the check; its waiters are told that nothing was written.
#[test]
fn fenced_group_is_never_written() {
    let fencing = Fencing::new();
    let (sender, answers) = channel();
    fencing.others.0.close();
    let before = fencing.others.0.arrived();
    fencing.ask(2, &sender, |log| log.append(&[record(2, 40)], at(0)));
    eventually("it looks at HEAD", || fencing.others.0.arrived() == before + 1);
    let changes = fencing.disk.changes();
    fencing.fence();
    fencing.others.0.open();
    let (_, answer) = some(&answers, 1, "it is told").remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(fencing.disk.changes(), changes, "something was written");
    assert_eq!(fencing.reopened(), [record(1, 40).payload]);
}
