//! Goal: records of other processes and a disk that is full for a moment cost a loop nothing.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::*;
use crate::runner::check::Check;
use crate::runner::{CommandChecks, Guards, LeftWorkers};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::{Origin, ResolvedOutcome, Route};
use plan_ledger::{AttemptToken, Command, Timestamp};

/// A clock that runs an action just before its n-th reading.
struct Acting<'a> {
    clock: &'a dyn Clock,
    reads: AtomicU32,
    nth: u32,
    act: &'a (dyn Fn() + Sync),
}

impl std::fmt::Debug for Acting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acting")
    }
}

impl Clock for Acting<'_> {
    fn now(&self) -> Timestamp {
        if self.reads.fetch_add(1, Ordering::Relaxed) + 1 == self.nth {
            (self.act)();
        }
        self.clock.now()
    }
}

/// Regression: an actor resumed a paused run between the loop's last look for work and its end.
/// `ledger run --wait` waited for a record after that one, forever.
#[test]
fn record_during_loop_end_is_after_the_seen_position() {
    let route = Route { is_stub: true, ..Route::default() };
    let options = Options {
        max_parallel: 3,
        marks: None,
        checks: CommandChecks::Simulated,
        route: &route,
        guards: Guards::NONE,
        on_stale: None,
        left_workers: LeftWorkers::Adopt,
        take_over: None,
    };
    let by = "ana";
    let paused = || {
        let bench = Bench::new(&plan(2), TextPolicy::Judge);
        bench.ledger.pause(bench.run, by, "lunch").unwrap();
        bench
    };
    // The last thing for which the loop reads the clock is its summary.
    let counted = paused();
    let clock = Acting { clock: &*counted.clock, reads: AtomicU32::new(0), nth: 0, act: &|| () };
    let (mut workers, mut observer) = (Scripted::new(), Quiet::new());
    drive(&counted.ledger, &clock, counted.run, &mut workers, &mut observer, options).unwrap();
    let nth = clock.reads.into_inner();

    let bench = paused();
    let run = bench.run;
    let resume = || drop(bench.ledger.unpause(run, by).unwrap());
    let clock = Acting { clock: &*bench.clock, reads: AtomicU32::new(0), nth, act: &resume };
    let (mut workers, mut observer) = (Scripted::new(), Quiet::new());
    let summary = drive(&bench.ledger, &clock, run, &mut workers, &mut observer, options).unwrap();
    assert_eq!((observer.dispatched().len(), summary.session.dispatched), (0, 0), "it paused");
    assert!(summary.seen < bench.ledger.head().seq, "the record of the yes is among what it saw");
    let summary = bench.drive(&mut workers, &mut observer);
    assert!(matches!(summary.outcome, RunOutcome::Done), "{:?}", summary.outcome);
    assert_eq!(summary.seen, bench.ledger.head().seq);
}

/// A manual clock, in microseconds.
#[derive(Debug)]
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker that takes 30 seconds. From second 2 to second 6 the disk has no room for a record, and
/// at the end another process records due events.
struct Slow<'a> {
    inner: Scripted,
    ledger: &'a Ledger,
    clock: &'a Moved,
    disk: &'a SimDisk,
    run: RunId,
    second: u32,
}

impl Slow<'_> {
    /// Fill the disk.
    fn fill(&self) {
        self.disk.set_capacity(0);
        for length in [1 << 20, 1 << 10, 0] {
            let filling = || Command::SetVariable {
                run: self.run,
                name: "filling".to_owned(),
                value: plan_ledger::Json::new(&"x".repeat(length).into()),
                expected_version: None,
                origin: Origin::person("ana"),
            };
            let error = loop {
                if let Err(error) = self.ledger.execute(&filling()) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        }
    }
}

impl Workers for Slow<'_> {
    fn kind(&self) -> WorkerKind {
        self.inner.kind()
    }

    fn confirm_dead(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        self.inner.start(task)
    }

    fn check(&mut self, check: &Check) -> Result<()> {
        self.inner.check(check)
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        self.second += 1;
        self.clock.0.fetch_add(1_000_000, Ordering::Relaxed);
        match self.second {
            2 => {
                self.fill();
                None
            }
            6 => {
                self.disk.set_capacity(u64::MAX);
                None
            }
            30 => {
                self.ledger.tick().unwrap();
                self.inner.next(wait)
            }
            _ => None,
        }
    }

    fn settled(&mut self, token: AttemptToken) {
        self.inner.settled(token);
    }

    fn stop_all(&mut self) {
        self.inner.stop_all();
    }

    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        None
    }
}

/// Regression: a lease renewal failed on a full disk and was not repeated. Although space was free
/// again a moment later, the lease expired, the worker was ended, and its work was paid for twice.
#[test]
fn lease_survives_a_briefly_full_disk() {
    let disk = SimDisk::new();
    let clock = Arc::new(Moved(AtomicU64::new(1)));
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        clock: clock.clone(),
        ..Environment::system()
    };
    let (ledger, _) = Ledger::open_or_create(Path::new("l"), &environment).unwrap();
    let mut plan = plan(1);
    plan.steps[0].lease_seconds = Some(6);
    let run = ledger.start_run("test", &plan, RunPolicy::default()).unwrap();
    let (inner, second) = (Scripted::new(), 0);
    let mut workers = Slow { inner, ledger: &ledger, clock: &clock, disk: &disk, run, second };
    let route = Route { is_stub: true, ..Route::default() };
    let on_stale = None;
    let guards = Guards::NONE;
    let options = Options {
        max_parallel: 1,
        marks: None,
        checks: CommandChecks::Simulated,
        route: &route,
        guards,
        on_stale,
        left_workers: LeftWorkers::Adopt,
        take_over: None,
    };
    let mut observer = Quiet::new();
    let summary = drive(&ledger, &*clock, run, &mut workers, &mut observer, options).unwrap();
    let RunOutcome::Stopped { error, unrecorded } = &summary.outcome else { panic!() };
    assert_eq!((error.kind(), unrecorded.len()), (ErrorKind::DiskFull, 0));
    let state = ledger.state().unwrap();
    let step = state.runs[&run].step(StepNumber(1)).unwrap();
    assert_eq!((step.status, step.attempts), (StepStatus::Accepted, 1));
}
