//! The ledger's time: elapsed time decides, whatever the wall clock does, within a process and across
//! processes of one boot.

use std::path::Path;
use std::sync::{Arc, Mutex};

use plan_ledger::internals::format::BootTime;
use plan_ledger::internals::ledger::{LedgerTime, VerifyLevel, VerifyRequest};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::log::FindingClass;
use plan_ledger::plan::*;
use plan_ledger::{Clock, Environment, Ledger, LedgerView, OpenReport};
use serde_json::{Value, json};

use crate::golden::deterministic;
use crate::scenario::plan;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 24 * 3600 * SECOND;
const START: u64 = 1_700_000_000 * SECOND;
/// Every wait of these tests.
const WAIT: u64 = 60 * SECOND;

/// Jumps of minutes, days and decades.
const JUMPS: [u64; 3] = [5 * 60 * SECOND, 3 * DAY, 64 * 365 * DAY];

/// The clocks of a machine.
#[derive(Debug, Clone)]
struct Machine(Arc<Mutex<(u64, BootTime)>>);

impl Machine {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((START, BootTime { boot: [1; 16], micros: 1000 * SECOND }))))
    }

    fn jump(&self, by: i64) {
        let mut clocks = self.0.lock().unwrap();
        clocks.0 = clocks.0.saturating_add_signed(by);
    }

    /// Time passes.
    fn pass(&self, micros: u64) {
        let mut clocks = self.0.lock().unwrap();
        clocks.0 += micros;
        clocks.1.micros += micros;
    }

    /// The machine is booted again; its boot clock shows more than before.
    fn boot(&self) {
        let mut clocks = self.0.lock().unwrap();
        let BootTime { boot: [number, ..], micros } = clocks.1;
        clocks.1 = BootTime { boot: [number + 1; 16], micros: micros + 3 * DAY };
    }
}

impl Clock for Machine {
    fn now(&self) -> u64 {
        self.0.lock().unwrap().0
    }

    fn boot_time(&self) -> Option<BootTime> {
        Some(self.0.lock().unwrap().1)
    }
}

/// A ledger on a machine with such clocks.
struct Bench {
    machine: Machine,
    environment: Environment,
    ledger: Option<Ledger>,
}

impl Bench {
    /// A run of that plan, which waits for a minute.
    fn waiting(wait: &(&str, Value)) -> Self {
        let machine = Machine::new();
        let storage = Arc::new(SimDisk::new());
        let environment =
            Environment { storage, clock: Arc::new(machine.clone()), ..deterministic() };
        let ledger = Ledger::create(Path::new("a.ledger"), &environment).unwrap();
        let run = ledger.start_run("waits", &plan(&wait.1), RunPolicy::default()).unwrap();
        if matches!(wait.0, "lease" | "delay") {
            let task = ledger.dispatch(run, "worker").unwrap().unwrap();
            if wait.0 == "delay" {
                let (message, payload) = ("no".to_owned(), Json::default());
                let class = FailureClass::Transient;
                let outcome = Outcome::Failed { class, message, payload };
                let receipt = Receipt { outcome, ..Receipt::default() };
                ledger.record_receipt(task.token, receipt).unwrap();
            }
        }
        assert_eq!(ledger.state().unwrap().next_due(), Some(START + WAIT), "{}", wait.0);
        Self { machine, environment, ledger: Some(ledger) }
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    /// Another process opens the ledger.
    fn reopen(&mut self) -> OpenReport {
        self.ledger.take().unwrap().close().unwrap();
        let (ledger, report) = Ledger::open_with(Path::new("a.ledger"), &self.environment).unwrap();
        self.ledger = Some(ledger);
        report
    }

    /// Whether a tick records something.
    fn fires(&self) -> bool {
        let before = self.ledger().head().seq;
        self.ledger().tick().unwrap();
        self.ledger().head().seq > before
    }

    /// The wait ends when `left` has passed, and not a second before.
    fn expect_end_after(&self, left: u64, what: &str) {
        assert!(!self.fires(), "{what}: it ended early");
        self.machine.pass(left - SECOND);
        assert!(!self.fires(), "{what}: it ended a second early");
        self.machine.pass(SECOND);
        assert!(self.fires(), "{what}: it did not end");
    }

    /// What a reader and a verification report about the clocks.
    fn reported(&self) -> Option<String> {
        let dir = Path::new("a.ledger");
        let view = LedgerView::open(dir, &self.environment).unwrap();
        let read = LedgerTime::of(view.log(), &self.environment).difference();
        let watch = |_| std::ops::ControlFlow::Continue(());
        let (level, jobs) = (VerifyLevel::Chain, std::num::NonZeroUsize::MIN);
        let request = VerifyRequest { level, jobs, expected: None, watch: &watch };
        let verified = request.run(dir, &self.environment).unwrap();
        let findings = verified.log.findings.iter();
        let mut warnings = findings.filter(|each| each.class == FindingClass::Warning);
        assert_eq!(warnings.next().map(|each| each.what.clone()), read);
        assert!(!verified.log.is_damaged());
        read
    }
}

/// A plan for each kind of timer, with a wait of a minute.
fn waits() -> [(&'static str, Value); 5] {
    [
        ("lease", json!({ "steps": [{ "id": "a", "goal": "a", "lease_seconds": 60 }] })),
        (
            "delay",
            json!({ "steps": [{ "id": "a", "goal": "a", "lease_seconds": 3600,
            "retry": { "max_attempts": 3, "backoff_seconds": 60 } }] }),
        ),
        (
            "gate",
            json!({ "steps": [{ "id": "a", "goal": "a",
            "gate": { "question": "Now?", "deadline_seconds": 60, "on_timeout": "abort" } }] }),
        ),
        (
            "barrier",
            json!({ "steps": [{ "id": "a", "goal": "a" }],
            "barriers": [{ "id": "b", "members": ["a"], "deadline_seconds": 60 }] }),
        ),
        (
            "wall budget",
            json!({ "steps": [{ "id": "a", "goal": "a" }],
            "budget": { "wall_seconds": 60 } }),
        ),
    ]
}

/// A lease, a delay, the deadlines of a gate and of a barrier and a wall-time budget end when their
/// time has passed: not by a jump of the wall clock forward, and in spite of one backward; within a
/// process, between two, and with a record that has the time of the jump.
#[test]
fn jumps_change_no_lease_delay_gate_deadline_or_budget() {
    let mut tried = 0;
    for wait in &waits() {
        for by in JUMPS {
            for by in [by.cast_signed(), -by.cast_signed()] {
                let what = format!("{}, by {} s", wait.0, by / SECOND.cast_signed());
                tried += 2;
                let bench = Bench::waiting(wait);
                bench.machine.jump(by);
                bench.expect_end_after(WAIT, &format!("{what}, within"));

                let mut bench = Bench::waiting(wait);
                bench.machine.pass(20 * SECOND);
                bench.machine.jump(by);
                let report = bench.reopen();
                assert!(report.notes.is_empty(), "{report}");
                bench.machine.pass(20 * SECOND);
                drop(bench.reopen());
                bench.expect_end_after(20 * SECOND, &format!("{what}, between"));
            }
        }
    }
    println!("measured: clocks: {tried} jumps within a process and between two");
}

/// A clock that was ahead when the ledger was made, and is right again, freezes nothing.
#[test]
fn record_from_the_future_does_not_freeze_a_wait() {
    println!("measured: clocks: {} records from the future", JUMPS.len() * waits().len());
    for by in JUMPS {
        for wait in &waits() {
            let mut bench = Bench::waiting(wait);
            // As if everything so far had been recorded by a clock that was ahead.
            bench.machine.jump(-by.cast_signed());
            drop(bench.reopen());
            bench.machine.pass(10 * SECOND);
            drop(bench.reopen());
            bench.expect_end_after(WAIT - 10 * SECOND, wait.0);
        }
    }
}

/// After a boot with a clock behind the last record nothing is known about the time since then: the
/// wait continues from that record, and the opening reports it. With a clock ahead, the wait is over.
#[test]
fn clock_behind_after_a_boot_restarts_the_wait_and_is_reported() {
    println!("measured: clocks: {} jumps between two boots", 2 * JUMPS.len() * waits().len());
    for by in JUMPS {
        for wait in &waits() {
            let mut bench = Bench::waiting(wait);
            bench.machine.boot();
            bench.machine.jump(-by.cast_signed());
            let report = bench.reopen();
            assert!(
                report.notes.iter().any(|note| note.contains("behind the last record")),
                "{report}"
            );
            assert!(bench.reported().unwrap().contains("behind"));
            // The next process of this boot continues.
            bench.machine.pass(10 * SECOND);
            assert!(bench.reopen().notes.is_empty());
            bench.expect_end_after(WAIT - 10 * SECOND, wait.0);

            let mut bench = Bench::waiting(wait);
            bench.machine.boot();
            bench.machine.jump(by.cast_signed());
            assert!(bench.reopen().notes.is_empty());
            assert!(bench.fires(), "{}", wait.0);
        }
    }
}

/// A difference of a minute or more between wall clock and ledger's time is reported to readers and by
/// a verification, in both directions, and no other one.
#[test]
fn difference_of_the_clocks_is_reported() {
    let wait = &waits()[0];
    for (by, side) in [(-400 * DAY.cast_signed(), "behind"), (400 * DAY.cast_signed(), "ahead of")]
    {
        let bench = Bench::waiting(wait);
        assert_eq!(bench.reported(), None);
        bench.machine.pass(3 * DAY);
        assert_eq!(bench.reported(), None, "time that passes is no jump");
        bench.machine.jump(by);
        let reported = bench.reported().unwrap();
        assert!(reported.contains(&format!("is 400 days {side} the ledger's time")), "{reported}");
        bench.machine.jump(-by);
        bench.machine.jump(59 * SECOND.cast_signed());
        assert_eq!(bench.reported(), None);
    }
}
