//! Goal: on a real ledger with scripted workers, the loop dispatches, records, judges, resumes and
//! stops without losing or repeating work.

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::protocol::WorkerKind;
use crate::runner::check::Check;
use crate::runner::process::output;
use crate::runner::{Checked, Report, StubWorkers};
use crate::runner::{CommandChecks, Guards, LeftWorkers};
use plan_ledger::plan::{Barrier, Criterion, Gate, Idempotence, OnTimeout, ResolvedOutcome, Route};
use plan_ledger::{
    AttemptToken, Environment, ErrorKind, FailureClass, Plan, Receipt, RunPolicy, Step, StepNumber,
    TextPolicy,
};
use plan_ledger_views::WaitingItem;

#[path = "concurrency_tests.rs"]
mod meanwhile;

struct Quiet {
    seen: Vec<Progress>,
    /// Send this request once so many steps were dispatched.
    stop: Option<(usize, StopRequest)>,
}

impl Observer for Quiet {
    fn progress(&mut self, progress: &Progress) {
        self.seen.push(progress.clone());
    }

    fn stop_request(&mut self) -> StopRequest {
        let dispatched = self.dispatched().len();
        match self.stop {
            Some((after, request)) if dispatched >= after => request,
            _ => StopRequest::None,
        }
    }
}

impl Quiet {
    fn new() -> Self {
        Self { seen: Vec::new(), stop: None }
    }

    fn dispatched(&self) -> Vec<u32> {
        let number = |progress: &Progress| match progress {
            Progress::Dispatched { step, .. } => Some(step.number.0),
            _ => None,
        };
        self.seen.iter().filter_map(number).collect()
    }
}

/// Workers that fail the listed steps, once each.
struct Scripted {
    stub: StubWorkers,
    fail: VecDeque<u32>,
    checks_fail: bool,
    cannot_start: Option<fn(Error) -> StartFailure>,
    at_once_max: usize,
    at_once: usize,
}

impl Scripted {
    fn new() -> Self {
        Self {
            stub: StubWorkers::default(),
            fail: VecDeque::new(),
            checks_fail: false,
            cannot_start: None,
            at_once_max: 0,
            at_once: 0,
        }
    }
}

impl Workers for Scripted {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Process
    }

    fn confirm_dead(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        if let Some(failure) = self.cannot_start {
            return Err(failure(Error::new(ErrorKind::DiskFull, "no room")));
        }
        self.at_once += 1;
        self.at_once_max = self.at_once_max.max(self.at_once);
        self.stub.start(task)?;
        Ok(())
    }

    fn check(&mut self, check: &Check) -> Result<()> {
        self.at_once += 1;
        self.at_once_max = self.at_once_max.max(self.at_once);
        self.stub.check(check)
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        let report = self.stub.next(wait)?;
        self.at_once -= 1;
        Some(match report {
            Report::Finished(token, receipt) => {
                let id = receipt.output.inline().unwrap().value()["stub"]
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                let number: u32 = id.trim_start_matches('s').parse().unwrap_or(0);
                let outcome = match self.fail.iter().position(|each| *each == number) {
                    Some(place) => {
                        self.fail.remove(place);
                        let class = FailureClass::Transient;
                        output::failed(class, "it broke".to_owned())
                    }
                    None => receipt.outcome.clone(),
                };
                Report::Finished(token, Box::new(Receipt { outcome, ..*receipt }))
            }
            Report::Checked(checked) if self.checks_fail && checked.ruling.is_some() => {
                Report::Checked(Checked { ruling: Some(plan_ledger::Ruling::Fail), ..checked })
            }
            other => other,
        })
    }

    fn settled(&mut self, token: AttemptToken) {
        self.stub.settled(token);
    }

    fn stop_all(&mut self) {
        self.stub.stop_all();
    }

    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        None
    }
}

struct Bench {
    _folder: tempfile::TempDir,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    run: RunId,
}

impl Bench {
    fn new(plan: &Plan, text: TextPolicy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::system();
        let (ledger, _) = Ledger::open_or_create(&folder.path().join("l"), &environment).unwrap();
        let run =
            ledger.start_run("test", plan, RunPolicy { text, ..RunPolicy::default() }).unwrap();
        Self { _folder: folder, ledger, clock: environment.clock, run }
    }

    fn drive(&self, workers: &mut dyn Workers, observer: &mut Quiet) -> RunSummary {
        let route = Route { is_stub: true, ..Route::default() };
        let (guards, on_stale) = (Guards::NONE, None);
        let options = Options {
            max_parallel: 3,
            marks: None,
            checks: CommandChecks::Simulated,
            route: &route,
            guards,
            on_stale,
            left_workers: LeftWorkers::Adopt,
            take_over: None,
        };
        drive(&self.ledger, &*self.clock, self.run, workers, observer, options).unwrap()
    }
}

/// Steps s1 to sN without dependencies.
fn plan(count: u32) -> Plan {
    let step = |number: u32| Step { id: format!("s{number}"), ..Step::default() };
    Plan { title: "a plan".to_owned(), steps: (1..=count).map(step).collect(), ..Plan::default() }
}

#[test]
fn stubs_finish_a_plan_within_the_cap() {
    let bench = Bench::new(&plan(20), TextPolicy::Judge);
    let (mut workers, mut observer) = (Scripted::new(), Quiet::new());
    let summary = bench.drive(&mut workers, &mut observer);
    assert!(matches!(summary.outcome, RunOutcome::Done), "{:?}", summary.outcome);
    assert_eq!((summary.counts.accepted, summary.counts.attempts), (20, 20));
    assert_eq!(workers.at_once_max, 3);
    assert_eq!(observer.dispatched(), (1..=20).collect::<Vec<u32>>());
}

#[test]
fn transient_failure_is_redispatched() {
    let bench = Bench::new(&plan(3), TextPolicy::Judge);
    let mut workers = Scripted { fail: [2, 2].into(), ..Scripted::new() };
    let summary = bench.drive(&mut workers, &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Done));
    assert_eq!((summary.session.retries, summary.counts.attempts), (2, 5));
    let mut workers = Scripted { fail: [2, 2, 2].into(), ..Scripted::new() };
    let summary = Bench::new(&plan(3), TextPolicy::Judge).drive(&mut workers, &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Failed));
    assert_eq!(summary.failures.len(), 1);
    assert_eq!(summary.failures[0].2, "it broke");
}

#[test]
fn worker_does_not_judge_its_own_criteria() {
    let mut plan = plan(2);
    plan.steps[0].acceptance =
        vec![Criterion::Command("true".into()), Criterion::Text("looks good".into())];
    plan.steps[1].acceptance = vec![Criterion::Command("true".into())];
    plan.test_criteria = vec![Criterion::Command("true".into())];
    let bench = Bench::new(&plan, TextPolicy::Judge);
    let summary = bench.drive(&mut Scripted::new(), &mut Quiet::new());
    let RunOutcome::Waiting(items) = &summary.outcome else { panic!("{:?}", summary.outcome) };
    assert!(matches!(
        items.as_slice(),
        [WaitingItem::Verdicts { step, criteria }] if step.id == "s1" && criteria == &["looks good"]
    ));
    let trusting = Bench::new(&plan, TextPolicy::Trust);
    let summary = trusting.drive(&mut Scripted::new(), &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Done), "{:?}", summary.outcome);
    assert_eq!(summary.counts.trusted, 1);
}

#[test]
fn failed_plan_criterion_fails_the_run() {
    let mut plan = plan(1);
    plan.test_criteria = vec![Criterion::Command("false".into())];
    let bench = Bench::new(&plan, TextPolicy::Judge);
    let mut workers = Scripted { checks_fail: true, ..Scripted::new() };
    let summary = bench.drive(&mut workers, &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Failed), "{:?}", summary.outcome);
    assert_eq!(summary.failed_criteria.len(), 1);
}

#[test]
fn in_flight_attempts_are_redispatched_or_need_an_answer() {
    let mut plan = plan(3);
    plan.steps[1].idempotent = Some(Idempotence::No);
    let bench = Bench::new(&plan, TextPolicy::Judge);
    // One attempt belongs to an external worker, which may still report.
    for worker in ["process/1", "stub/2", "elsewhere"] {
        bench.ledger.dispatch(bench.run, worker).unwrap().unwrap();
    }
    let mut observer = Quiet::new();
    let summary = bench.drive(&mut Scripted::new(), &mut observer);
    assert_eq!(summary.session.lost, 2);
    assert_eq!(observer.dispatched(), [1]);
    let RunOutcome::Waiting(items) = &summary.outcome else { panic!("{:?}", summary.outcome) };
    assert!(
        matches!(&items[0], WaitingItem::OutcomeUnknown { step } if step.number == StepNumber(2))
    );
    assert!(matches!(&items[1], WaitingItem::Held { worker, .. } if worker == "elsewhere"));
    // A stub knows that it had no effect.
    let mut stub = StubWorkers::default();
    let mut observer = Quiet::new();
    bench.drive(&mut stub, &mut observer);
    assert_eq!(observer.dispatched(), [2]);
}

#[test]
fn stop_waits_for_workers_and_kill_does_not() {
    for (request, accepted, lost) in [(StopRequest::Drain, 2, 0), (StopRequest::Kill, 0, 2)] {
        let bench = Bench::new(&plan(9), TextPolicy::Judge);
        let mut observer = Quiet { seen: Vec::new(), stop: Some((2, request)) };
        let summary = bench.drive(&mut Scripted::new(), &mut observer);
        assert!(matches!(summary.outcome, RunOutcome::Interrupted), "{:?}", summary.outcome);
        assert_eq!((summary.counts.accepted, summary.session.lost), (accepted, lost));
        let summary = bench.drive(&mut Scripted::new(), &mut Quiet::new());
        assert!(matches!(summary.outcome, RunOutcome::Done), "{:?}", summary.outcome);
    }
}

#[test]
fn failure_to_start_workers_stops_the_loop_without_loss() {
    let bench = Bench::new(&plan(3), TextPolicy::Judge);
    let mut workers = Scripted { cannot_start: Some(StartFailure::BeforeStart), ..Scripted::new() };
    let summary = bench.drive(&mut workers, &mut Quiet::new());
    let RunOutcome::Stopped { error, unrecorded } = &summary.outcome else { panic!() };
    assert_eq!((error.kind(), unrecorded.len()), (ErrorKind::DiskFull, 0));
    let summary = bench.drive(&mut Scripted::new(), &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Done));
    assert_eq!(summary.counts.attempts, 4);
}

/// Regression: a started worker was ended because a full disk had no room for its process id, and
/// its attempt was released as if it had not started: a non-idempotent step was dispatched again.
#[test]
fn started_attempt_is_outcome_unknown_after_a_machine_failure() {
    let mut plan = plan(1);
    plan.steps[0].idempotent = Some(Idempotence::No);
    let not_begun: fn(Error) -> StartFailure = StartFailure::BeforeStart;
    let cases =
        [(not_begun, StepStatus::Ready), (StartFailure::AfterStart, StepStatus::OutcomeUnknown)];
    for (failure, expected) in cases {
        let bench = Bench::new(&plan, TextPolicy::Judge);
        let mut workers = Scripted { cannot_start: Some(failure), ..Scripted::new() };
        let summary = bench.drive(&mut workers, &mut Quiet::new());
        assert!(matches!(summary.outcome, RunOutcome::Stopped { .. }), "{:?}", summary.outcome);
        let state = bench.ledger.state().unwrap();
        assert_eq!(state.runs[&bench.run].step(StepNumber(1)).unwrap().status, expected);
    }
}

/// Goal: a loop returns when only an answer or its deadline can continue the run; after the
/// deadline, the next loop applies the default answer.
#[test]
fn answer_deadline_is_applied_without_waiting() {
    let mut plan = plan(2);
    let on_timeout = Some(OnTimeout::Answer("skip".to_owned()));
    let gate = Gate { deadline_seconds: Some(1), on_timeout, ..Gate::default() };
    plan.steps[0].gate = Some(Box::new(Gate { question: "May it?".to_owned(), ..gate }));
    let bench = Bench::new(&plan, TextPolicy::Judge);
    loop {
        let mut observer = Quiet::new();
        let outcome = bench.drive(&mut Scripted::new(), &mut observer).outcome;
        let waits = |progress: &Progress| matches!(progress, Progress::Waiting { .. });
        assert!(!observer.seen.iter().any(waits), "{:?}", observer.seen);
        match outcome {
            RunOutcome::Done => return,
            RunOutcome::Waiting(_) => std::thread::sleep(WAIT_MAX),
            other => panic!("{other:?}"),
        }
    }
}

/// Workers with reports that a test chooses, from the attempts that are at work and those that were
/// ended.
struct Directed<N> {
    working: Vec<AttemptToken>,
    ended: Vec<AttemptToken>,
    next: N,
}

impl<N: FnMut(&mut Vec<AttemptToken>, &[AttemptToken]) -> Option<Report>> Directed<N> {
    fn new(next: N) -> Self {
        Self { working: Vec::new(), ended: Vec::new(), next }
    }
}

impl<N: FnMut(&mut Vec<AttemptToken>, &[AttemptToken]) -> Option<Report>> Workers for Directed<N> {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Process
    }

    fn confirm_dead(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        self.working.push(task.token.seq);
        Ok(())
    }

    fn check(&mut self, _: &Check) -> Result<()> {
        Ok(())
    }

    fn next(&mut self, _: Duration) -> Option<Report> {
        (self.next)(&mut self.working, &self.ended)
    }

    fn settled(&mut self, _: AttemptToken) {}

    fn stop_all(&mut self) {}

    fn stop(&mut self, token: AttemptToken) {
        self.ended.push(token);
    }

    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        None
    }
}

/// Regression: a worker kept running after its attempt was revoked, beside the new worker of its
/// step.
#[test]
fn worker_of_a_revoked_attempt_is_ended() {
    let bench = Bench::new(&plan(1), TextPolicy::Judge);
    let mut workers = Directed::new(|working: &mut Vec<AttemptToken>, ended: &[AttemptToken]| {
        if let Some(token) = ended.last().copied().filter(|it| working.contains(it)) {
            working.retain(|other| *other != token);
            return Some(Report::Stopped(token));
        }
        let token = *working.first()?;
        if ended.is_empty() {
            // While it runs.
            bench.ledger.report_lost(token, LostCause::Revoked, "it is wanted elsewhere").unwrap();
            return None;
        }
        working.remove(0);
        Some(Report::Finished(token, Box::default()))
    });
    let summary = bench.drive(&mut workers, &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Done), "{:?}", summary.outcome);
    assert_eq!((workers.ended.len(), summary.counts.attempts), (1, 2));
}

/// Regression: a barrier had one second left, and longer-running workers took every slot. With a
/// free slot the run failed in time; without one, no deadline was checked, and the barrier was
/// released late.
#[test]
fn deadline_passes_while_every_slot_is_taken() {
    let mut plan = plan(3);
    let members = ["s1", "s2", "s3"].map(str::to_owned).to_vec();
    let join = Barrier { id: "join".to_owned(), members, ..Barrier::default() };
    plan.barriers.push(Barrier { deadline_seconds: Some(1), ..join });
    let bench = Bench::new(&plan, TextPolicy::Trust);
    // They run until the barrier is late, or until they have looked many times without success.
    let mut looks_left = 500_u32;
    let mut workers = Directed::new(|working: &mut Vec<AttemptToken>, _: &[AttemptToken]| {
        let state = bench.ledger.state().unwrap();
        if !state.runs[&bench.run].barriers["join"].is_late && looks_left > 0 {
            looks_left -= 1;
            std::thread::sleep(Duration::from_millis(20));
            return None;
        }
        Some(Report::Finished(working.pop()?, Box::default()))
    });
    let summary = bench.drive(&mut workers, &mut Quiet::new());
    assert!(matches!(summary.outcome, RunOutcome::Failed), "{:?}", summary.outcome);
}

#[test]
fn same_ledger_gives_the_same_sequence() {
    let of = || {
        let bench = Bench::new(&plan(12), TextPolicy::Trust);
        let mut workers = Scripted { fail: [3, 7].into(), ..Scripted::new() };
        let mut observer = Quiet::new();
        bench.drive(&mut workers, &mut observer);
        observer.dispatched()
    };
    assert_eq!(of(), of());
}
