//! Turns at the disk, one after the other: whom a sync answers, who goes next, and who is told of a
//! turn that fails; and the thread that syncs HEAD while nobody writes.
//!
//! Method: a gate in front of every sync of a segment, so that it is known who waits for what.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::format::HeadSync;
use plan_ledger::log::{Ack, Batch, Housekeeping, Log, LogOptions, Verdict};
use plan_ledger::sim::{Effect, Failure, Loss, Operation, OsError, Rule, SimDisk};
use plan_ledger::storage::Storage as _;

use super::lab::{at, dir, open, options_with, payloads, record, whole};
use super::log_stop::eventually;
use super::trace::{Call, Traced};

/// Lets syncs of segments through, one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Debug, Default)]
struct Passing {
    arrived: u64,
    /// So many may pass; all if nothing is said.
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

    /// From here on nobody passes unless [`Gate::open_for_one`] says so.
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

/// A gate that is open when this is gone: whatever happens, nobody waits in front of it for ever.
#[derive(Debug, Default)]
pub(crate) struct Opened(pub(crate) Gate);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A log, its disk, and the gate in front of the syncs of such files; closed behind what making the
/// log takes.
fn gated(is_gated: fn(&Path) -> bool, housekeeping: Housekeeping) -> (Arc<Log>, SimDisk, Gate) {
    let gate = Gate::default();
    let watch = gate.clone();
    let traced = Traced::watched(move |call| match call {
        Call::Sync(path) if is_gated(path) => watch.pass(),
        _ => {}
    });
    let disk = traced.disk.clone();
    let options = options_with(Arc::new(traced), 1, HeadSync::Interval);
    let log = Log::create(&dir(), LogOptions { housekeeping, ..options }, at(0)).unwrap();
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

/// One thread at the gate for record 1, and so many asleep behind it. They are nobody's threads:
/// one that is never answered must not keep the test from failing.
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
    // Those who have their place are as good as asleep. If one is not, the story is another one, and
    // ends the same.
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

/// Goal: a sync answers those whose records were written before it, and nobody else (H41, H58); the
/// next one goes to the disk without being asked by anybody new, and answers all the others.
#[test]
fn a_sync_answers_whom_it_covers_and_the_next_turn_is_handed_on() {
    let (log, disk, gate) = gated(is_segment, Housekeeping::Inline);
    let before = gate.arrived();
    let answers = crowd(&log, &gate, 3);
    gate.open_for_one();
    let first = some(&answers, 1, "the first is answered");
    assert_eq!(log.ack().seq, 1, "more is durable than was synced");
    assert!(matches!(first.as_slice(), [(1, Ok(ack))] if ack.seq == 1), "{first:?}");
    eventually("another one is at the gate", || gate.arrived() == before + 2);
    assert_eq!(log.ack().seq, 1, "more is durable than was synced");
    assert!(answers.try_recv().is_err(), "somebody is answered who was not synced");
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

/// Goal: everybody who waits behind a sync that fails is told (H34), and nobody tries again (H33).
#[test]
fn all_who_wait_are_told_of_a_turn_that_failed() {
    for error in [OsError::Io, OsError::NoSpace] {
        let (log, disk, gate) = gated(is_segment, Housekeeping::Inline);
        let before = gate.arrived();
        let answers = crowd(&log, &gate, 3);
        disk.inject(Rule::next(Failure::Error(error, Effect::Nothing)).of(Operation::Sync));
        gate.open_for_one();
        let mut told = Vec::new();
        eventually("all are told", || {
            assert_eq!(gate.arrived(), before + 1, "somebody tries again");
            told.extend(answers.try_iter());
            told.len() == 4
        });
        for (number, answer) in told {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{number}: {error}");
        }
        let error = log.append(&[record(9, 4)], at(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert_eq!(gate.arrived(), before + 1, "somebody tries again");
    }
}

/// Goal: while nobody writes, HEAD is synced; when that fails the log takes no more records, and what
/// was acknowledged is there when it is opened again.
#[test]
fn a_sync_of_head_that_fails_while_nobody_writes_ends_the_log() {
    let (log, disk, gate) = gated(is_head, Housekeeping::Thread);
    let before = gate.arrived();
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("HEAD is to be synced", || gate.arrived() == before + 1);
    let failure = Failure::Error(OsError::Io, Effect::Nothing);
    disk.inject(Rule::next(failure).of(Operation::Sync).on(dir().join("HEAD")));
    gate.open();
    eventually("the log takes no more", || log.expect_good().is_err());
    // It says so in HEAD, too, and syncs that.
    eventually("HEAD is synced again", || gate.arrived() == before + 2);
    let error = log.append(&[record(2, 40)], at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    drop(log);
    disk.lose_power(Loss::Everything);
    let (log, _) = open(&disk).unwrap();
    assert_eq!(payloads(&whole(&log.reader().unwrap())), [record(1, 40).payload]);
}

/// Goal: who is at the disk when that happens is not acknowledged: its records may be there, and HEAD
/// does not say so.
#[test]
fn a_sync_of_head_that_fails_beside_a_turn_leaves_its_outcome_unknown() {
    let (log, disk, gate) = gated(is_head, Housekeeping::Thread);
    let before = gate.arrived();
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("HEAD is to be synced", || gate.arrived() == before + 1);
    let changes = disk.changes();
    let (sender, answers) = channel();
    let own = log.clone();
    std::thread::spawn(move || sender.send((2, own.append(&[record(2, 40)], at(0)))));
    // The records, and their sync: HEAD comes next, and is somebody else's.
    eventually("its records are written", || disk.changes() == changes + 2);
    assert!(answers.try_recv().is_err(), "acknowledged without HEAD");
    let failure = Failure::Error(OsError::Io, Effect::Nothing);
    disk.inject(Rule::next(failure).of(Operation::Sync).on(dir().join("HEAD")));
    gate.open();
    let (_, answer) = some(&answers, 1, "it is answered").remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(log.ack().seq, 1);
}

/// Goal: a log whose lock is gone notices while nobody writes, and writes nothing more.
/// Method: the lock goes within the turn that acknowledges the last record.
#[test]
fn a_lock_that_is_lost_while_nobody_writes_ends_the_log() {
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
    let options = LogOptions { housekeeping: Housekeeping::Thread, ..options };
    let log = Log::create(&dir(), options, at(0)).unwrap();
    *armed.lock().unwrap() = Some(disk.clone());
    log.append(&[record(1, 40)], at(0)).unwrap();
    eventually("the log takes no more", || log.expect_good().is_err());
    let changes = disk.changes();
    let error = log.append(&[record(2, 40)], at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    drop(log);
    assert_eq!(disk.changes(), changes, "it still wrote something");
    let (log, report) = open(&disk).unwrap();
    assert_eq!(report.verdict, Verdict::Clean);
    assert_eq!(payloads(&whole(&log.reader().unwrap())), [record(1, 40).payload]);
}

/// A log whose own thread is about to look at HEAD, to see whether it may still write, and waits
/// there. Others who look at HEAD, and those who write records, pass a gate each.
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
        let is_own = || std::thread::current().name() == Some("ledger-housekeeping");
        let traced = Traced::watched(move |call| match call {
            Call::Read(path) if is_head(path) && is_own() => own.pass(),
            Call::Read(path) if is_head(path) => rest.pass(),
            Call::Write(path, ..) if is_segment(path) && !is_own() => records.pass(),
            _ => {}
        });
        let disk = traced.disk.clone();
        let options = options_with(Arc::new(traced), 1, HeadSync::Interval);
        let options = LogOptions { housekeeping: Housekeeping::Thread, ..options };
        let log = Arc::new(Log::create(&dir(), options, at(0)).unwrap());
        looked.0.close();
        let before = looked.0.arrived();
        log.append(&[record(1, 40)], at(0)).unwrap();
        eventually("its own thread looks", || looked.0.arrived() == before + 1);
        Self { log, disk, looked, others, writes }
    }

    /// The log's own thread cannot tell any more whether it may write.
    fn fence(&self) {
        let failure = Failure::Error(OsError::Io, Effect::Nothing);
        self.disk.inject(Rule::next(failure).of(Operation::Read).on(dir().join("HEAD")));
        self.looked.0.open();
        eventually("the log takes no more", || self.log.expect_good().is_err());
    }

    /// Have a thread of its own give an answer.
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

    /// What is there when the log is opened again.
    fn reopened(self) -> Vec<Vec<u8>> {
        let Self { log, disk, .. } = self;
        drop(log);
        let (log, _) = open(&disk).unwrap();
        payloads(&whole(&log.reader().unwrap()))
    }
}

/// Story: the log's own thread found that the right to write was lost while somebody was writing
/// records. Whoever waited for these was told that nothing had been written, and might have written
/// the same into another ledger; and then the records were found in this one.
#[test]
fn what_is_being_written_when_the_right_is_lost_may_be_there() {
    let fencing = Fencing::new();
    let (sender, answers) = channel();
    fencing.writes.0.close();
    let before = fencing.writes.0.arrived();
    // Two records go to the disk together, and a third one waits for the next turn.
    let ticket = fencing.log.submit(&Batch::new(vec![record(2, 40)], at(0))).unwrap();
    fencing.ask(3, &sender, |log| log.append(&[record(3, 40)], at(0)));
    eventually("two are being written", || fencing.writes.0.arrived() == before + 1);
    fencing.ask(2, &sender, move |log| log.wait(ticket));
    fencing.ask(4, &sender, |log| log.append(&[record(4, 40)], at(0)));
    eventually("it has its place", || fencing.log.last_submitted().seq == 4);
    fencing.fence();
    // Who is not at the disk is told at once.
    let mut told = some(&answers, 2, "those who wait are told");
    fencing.writes.0.open();
    told.extend(some(&answers, 1, "who writes is told"));
    told.sort_by_key(|(number, _)| *number);
    let kinds = told.into_iter().map(|(number, answer)| (number, answer.unwrap_err().kind()));
    let unknown = ErrorKind::OutcomeUnknown;
    assert_eq!(kinds.collect::<Vec<_>>(), [(2, unknown), (3, unknown), (4, ErrorKind::Fenced)]);
    assert_eq!(fencing.reopened(), [1, 2, 3].map(|number| record(number, 40).payload));
}

/// Goal: what is fenced before its write begins is not written, though whoever is about to write it
/// has looked before and found nothing wrong; and that is what it is told.
#[test]
fn nothing_is_written_once_the_right_is_known_to_be_lost() {
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
