//! Turns at the disk, one after the other: whom a sync answers, who goes next, and who is told of a
//! turn that fails.
//!
//! Method: a gate in front of every sync of a segment, so that it is known who waits for what.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::format::HeadSync;
use plan_ledger::log::{Ack, Log, LogOptions};
use plan_ledger::sim::{Effect, Failure, Loss, Operation, OsError, Rule, SimDisk};

use super::command::wait_until;
use super::lab::{at, dir, open, options_with, record, whole};
use super::trace::{Call, Traced};

/// Lets syncs of segments through, one by one.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Debug, Default)]
struct Passing {
    arrived: u64,
    /// So many may pass; all if nothing is said.
    allowed: Option<u64>,
}

impl Gate {
    fn pass(&self) {
        let (passing, opened) = &*self.0;
        let mut passing = passing.lock().unwrap();
        passing.arrived += 1;
        let number = passing.arrived;
        let is_closed = |passing: &mut Passing| passing.allowed.is_some_and(|max| number > max);
        drop(opened.wait_while(passing, is_closed).unwrap());
    }

    /// From here on nobody passes unless [`Gate::open_for_one`] says so.
    fn close(&self) {
        let mut passing = self.0.0.lock().unwrap();
        passing.allowed = Some(passing.arrived);
    }

    fn open_for_one(&self) {
        let mut passing = self.0.0.lock().unwrap();
        passing.allowed = passing.allowed.map(|allowed| allowed + 1);
        self.0.1.notify_all();
    }

    fn arrived(&self) -> u64 {
        self.0.0.lock().unwrap().arrived
    }
}

/// A log, its disk, and the gate; closed behind its first segment.
fn gated() -> (Arc<Log>, SimDisk, Gate) {
    let gate = Gate::default();
    let watch = gate.clone();
    let traced = Traced::watched(move |call| {
        if let Call::Sync(path) = call
            && path.extension().is_some_and(|it| it == "seg")
        {
            watch.pass();
        }
    });
    let disk = traced.disk.clone();
    let options: LogOptions = options_with(Arc::new(traced), 1, HeadSync::Interval);
    let log = Log::create(&dir(), options, at(0)).unwrap();
    gate.close();
    (Arc::new(log), disk, gate)
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
        wait_until("it has its place", submitted);
        wait_until("the first is at the gate", || gate.arrived() == before + 1);
    }
    // Those who have their place are as good as asleep. If one is not, the story is another one, and
    // ends the same.
    std::thread::sleep(Duration::from_millis(20));
    answers
}

fn some(answers: &Answers, count: usize, what: &str) -> Vec<(u64, Result<Ack, Error>)> {
    let mut found = Vec::new();
    wait_until(what, || {
        found.extend(answers.try_iter());
        found.len() >= count
    });
    found
}

/// Goal: a sync answers those whose records were written before it, and nobody else (H41, H58); the
/// next one goes to the disk without being asked by anybody new, and answers all the others.
#[test]
fn a_sync_answers_whom_it_covers_and_the_next_turn_is_handed_on() {
    let (log, disk, gate) = gated();
    let before = gate.arrived();
    let answers = crowd(&log, &gate, 3);
    gate.open_for_one();
    let first = some(&answers, 1, "the first is answered");
    assert_eq!(log.ack().seq, 1, "more is durable than was synced");
    assert!(matches!(first.as_slice(), [(1, Ok(ack))] if ack.seq == 1), "{first:?}");
    wait_until("another one is at the gate", || gate.arrived() == before + 2);
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
    assert_eq!(whole(&log.reader().unwrap()).len(), 4);
}

/// Goal: everybody who waits behind a sync that fails is told (H34), and nobody tries again (H33).
#[test]
fn all_who_wait_are_told_of_a_turn_that_failed() {
    for error in [OsError::Io, OsError::NoSpace] {
        let (log, disk, gate) = gated();
        let before = gate.arrived();
        let answers = crowd(&log, &gate, 3);
        disk.inject(Rule::next(Failure::Error(error, Effect::Nothing)).of(Operation::Sync));
        gate.open_for_one();
        let mut told = Vec::new();
        wait_until("all are told", || {
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
