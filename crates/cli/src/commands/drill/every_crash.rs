//! `ledger drill --every-crash`: crashes the runner's loop at every change that it makes to a
//! simulated disk, and resumes it each time.
//!
//! The loop is the one of `ledger run`; the disk, the clock and the agents are simulated. The
//! agents count their executions, and count a receipt when the loop learns that it is durable, so
//! that the check does not rely on the ledger alone. The first run is executed once, and its disk
//! is recorded; each crash starts from a recorded image.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plan_ledger::internals::ledger::SegmentSizes;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::{OnStale, ResolvedOutcome, Route};
use plan_ledger::{
    AttemptToken, Clock, Cost, Disposition, Ending, Environment, FailureClass, Json, Ledger,
    Outcome, Plan, Receipt, Run, RunPolicy, RunStatus, State, StepNumber, StepStatus, Task,
    TextPolicy, Timestamp, state_hash,
};
use plan_ledger_lab::{self as lab, Crash};

use crate::output::{Code, Failure, cost_text, phrase, progress_bar};
use crate::protocol::WorkerKind;
use crate::runner::{
    Check, CommandChecks, Guards, LeftWorkers, Observer, Options, Progress, Report, RunOutcome,
    StartFailure, StopRequest, StubWorkers, Workers, drive,
};

use super::args::{AgentBehavior, DrillArgs, RUN};
use super::every_crash_report::{CrashReport, report};
use super::keep::keep;
use super::kill::reply_to;

/// The ledger's folder on the simulated disk.
const DIR: &str = "/drill.ledger";
/// A flaky agent fails only steps with this many attempts: one fails, one may be lost, one succeeds.
const ATTEMPTS_NEEDED: u32 = 3;

/// Runs the drill with every crash.
pub(super) fn every_crash(args: &DrillArgs) -> Result<Code, Failure> {
    let plan = args.read.read(&args.plan)?.plan;
    let inputs = args.input_values(&plan)?;
    let inputs = inputs.iter().map(|(name, value)| (name.clone(), Json::new(value))).collect();
    let drill = Drill { plan, inputs, args };
    let failed = |what: String| Failure::Rejected(format!("the run without a crash: {what}"));
    let (first, images) =
        lab::record_crash_points(|disk| drill.run_to_end(disk)).map_err(failed)?;
    let bar = progress_bar(images.len());
    let twice = AtomicU64::new(0);
    let second = |crash: &Crash, disk: &SimDisk| {
        let result = drill.run_to_end(disk)?;
        twice.fetch_add(Drill::check(&first, crash, &result)?, Ordering::Relaxed);
        Ok(())
    };
    let tried = if let Some(at) = args.at {
        let Some(image) = images.get(at) else {
            let message =
                format!("--at {at}: the run has only {} changes, counted from 0", images.len());
            return Err(Failure::Usage(message));
        };
        one_crash(image, at, args.seed, second)
    } else {
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        lab::for_each_crash(&images, args.seed, jobs, second, |done| {
            bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
            ControlFlow::Continue(())
        })
    };
    bar.finish_and_clear();
    let crashes = CrashReport {
        steps: distinct(&first.executed),
        ending: ending(&first.run),
        calls: images.len(),
        twice: twice.into_inner(),
        state_hash: first.hash.clone(),
        tried,
    };
    let code = report(&crashes, args)?;
    // A single crash is not a drill.
    if args.at.is_none() {
        let what = format!("crashed at each of {} changes of the disk, and resumed", crashes.calls);
        keep(&first.run, (code == Code::Success, what));
    }
    Ok(code)
}

/// Whether a run is done, and how it ended otherwise.
fn ending(run: &Run) -> Result<(), String> {
    match run.status {
        RunStatus::Ended(Ending::Done) => Ok(()),
        RunStatus::Ended(ending) => Err(format!("ended as {}", phrase(&ending))),
        _ => Err("waits for something that a drill cannot do".to_owned()),
    }
}

fn distinct(steps: &[StepNumber]) -> u64 {
    u64::try_from(steps.iter().collect::<BTreeSet<_>>().len()).unwrap_or(u64::MAX)
}

fn one_crash(
    image: &SimDisk,
    at: usize,
    seed: u64,
    second: impl Fn(&Crash, &SimDisk) -> Result<(), String>,
) -> Result<lab::CrashCounts, lab::CrashFailure> {
    let ways = lab::standard_restarts(at, seed);
    for restart in ways {
        let crash = Crash { at, restart, mark: image.mark() };
        second(&crash, &restart.of(image))
            .map_err(|what| lab::CrashFailure { crash: Some(crash), what })?;
    }
    Ok(lab::CrashCounts { points: 1, runs: ways.len() })
}

struct Drill<'a> {
    plan: Plan,
    inputs: BTreeMap<String, Json>,
    args: &'a DrillArgs,
}

/// A run that was driven to its end.
struct FinishedDrill {
    run: Run,
    /// The steps that the agents executed, in order.
    executed: Vec<StepNumber>,
    /// The steps with durable, accepted receipts, in order.
    receipts: Vec<StepNumber>,
    /// The hash of the final state.
    hash: String,
}

impl Drill<'_> {
    /// Starts or resumes the run and drives it to its end.
    fn run_to_end(&self, disk: &SimDisk) -> Result<FinishedDrill, String> {
        let clock = Arc::new(SimClock(AtomicU64::new(disk.calls().saturating_mul(1000))));
        let environment = Environment {
            clock: Arc::<SimClock>::clone(&clock),
            segments: SegmentSizes::DEFAULT,
            ..lab::environment(disk)
        };
        let message = |error: plan_ledger::Error| error.to_string();
        let (ledger, _) = Ledger::open_or_create(Path::new(DIR), &environment).map_err(message)?;
        let known = ledger.state().map_err(message)?.run_named(RUN).map(|run| run.id);
        let policy = RunPolicy { text: TextPolicy::Trust, ..RunPolicy::default() };
        let run = match known {
            Some(run) => run,
            None => {
                let inputs = self.inputs.clone();
                ledger.start_run_with(RUN, &self.plan, policy, inputs).map_err(message)?
            }
        };
        let counter = Counter { disk: disk.clone(), counts: Mutex::default() };
        let mut agents = SimAgents {
            stub: StubWorkers::default(),
            failing: VecDeque::new(),
            clock: &clock,
            counter: &counter,
            flaky: (self.args.agents == AgentBehavior::Flaky).then_some(self.args.seed),
        };
        let is_over = |state: &State| {
            state.runs.get(&run).is_some_and(|run| matches!(run.status, RunStatus::Ended(_)))
        };
        if !is_over(&*ledger.state().map_err(message)?) {
            let options = Options {
                max_parallel: usize::from(self.args.max_parallel),
                marks: None,
                checks: CommandChecks::Simulated,
                route: &Route { is_stub: true, ..Route::default() },
                guards: Guards::NONE,
                on_stale: Some(OnStale::Warn),
                left_workers: LeftWorkers::Adopt,
                take_over: None,
            };
            let mut observer = ReceiptCounter(&counter);
            loop {
                let summary = drive(&ledger, &*clock, run, &mut agents, &mut observer, options)
                    .map_err(message)?;
                if let RunOutcome::Stopped { error, .. } = summary.outcome {
                    return Err(format!("the run stopped: {error}"));
                }
                if answer_all(&ledger).map_err(message)? == 0 {
                    break;
                }
            }
        }
        let state = ledger.state().map_err(message)?;
        let replayed = ledger.state_at(state.seq).map_err(message)?;
        if state_hash(&replayed) != ledger.state_hash().map_err(message)? {
            return Err("the replayed state differs from the live one".to_owned());
        }
        let run = state.run_named(RUN).cloned().ok_or("the run is missing")?;
        ledger.close().map_err(message)?;
        let counts = counter.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hash = state_hash(&replayed).to_string();
        Ok(FinishedDrill { run, executed: counts.executed, receipts: counts.receipts, hash })
    }

    /// Checks the run that was resumed after a crash. Returns how many steps in flight were executed
    /// twice, which is allowed.
    fn check(first: &FinishedDrill, crash: &Crash, second: &FinishedDrill) -> Result<u64, String> {
        let (executed, kept) = unpack(crash.mark);
        let before = first.executed.get(..executed).unwrap_or(&first.executed);
        let kept = first.receipts.get(..kept).unwrap_or(&first.receipts);
        let again: BTreeSet<&StepNumber> = second.executed.iter().collect();
        for number in kept {
            if again.contains(number) {
                return Err(format!("receipt lost: step {number} was executed again"));
            }
            let status = second.run.step(*number).map(|step| step.status);
            if status != first.run.step(*number).map(|step| step.status) {
                return Err(format!("receipt lost: step {number} is {status:?}"));
            }
        }
        let twice = before.iter().filter(|number| again.contains(number)).count();
        same_result(&first.run, &second.run)?;
        if second.run.spent() != Cost::default() {
            return Err(format!("it cost {}", cost_text(second.run.spent())));
        }
        Ok(u64::try_from(twice).unwrap_or(u64::MAX))
    }
}

/// Answers all open questions. Returns how many there were.
fn answer_all(ledger: &Ledger) -> plan_ledger::Result<usize> {
    let state = ledger.state()?;
    let mut answered = 0;
    for open in ledger.questions()? {
        if let Some(reply) = reply_to(&state, &open) {
            ledger.answer(open.id, reply)?;
            answered += 1;
        }
    }
    Ok(answered)
}

/// Checks that both runs have the same status, steps and variables.
fn same_result(first: &Run, second: &Run) -> Result<(), String> {
    if first.status != second.status {
        return Err(format!("the run is {:?}, expected {:?}", second.status, first.status));
    }
    let steps = |run: &Run| -> Vec<(String, StepStatus)> {
        run.steps.iter().map(|step| (step.id().to_owned(), step.status)).collect()
    };
    let (one, other) = (steps(first), steps(second));
    if let Some((expected, found)) = one.iter().zip(&other).find(|(one, other)| one != other) {
        return Err(format!("step {} is {}, expected {}", found.0, found.1, expected.1));
    }
    let variables = |run: &Run| -> BTreeMap<String, Json> {
        run.variables.iter().map(|(name, it)| (name.clone(), it.value.clone())).collect()
    };
    if one.len() != other.len() || variables(first) != variables(second) {
        return Err("the variables differ".to_owned());
    }
    Ok(())
}

/// A clock that advances by a millisecond at each read, and by the length of each wait.
#[derive(Debug)]
struct SimClock(AtomicU64);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        1_700_000_000_000_000 + self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

/// Counts executions and receipts outside the ledger.
#[derive(Debug)]
struct Counter {
    disk: SimDisk,
    counts: Mutex<AgentCounts>,
}

#[derive(Debug, Default)]
struct AgentCounts {
    executed: Vec<StepNumber>,
    receipts: Vec<StepNumber>,
}

impl Counter {
    /// Counts, and marks the disk image with the counts.
    fn count(&self, count: impl FnOnce(&mut AgentCounts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        count(&mut counts);
        self.disk.set_mark(pack(counts.executed.len(), counts.receipts.len()));
    }
}

fn pack(executed: usize, kept: usize) -> u64 {
    let half = |count: usize| u64::from(u32::try_from(count).unwrap_or(u32::MAX));
    half(executed) << 32 | half(kept)
}

fn unpack(mark: u64) -> (usize, usize) {
    let half = |half: u64| usize::try_from(half & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    (half(mark >> 32), half(mark))
}

/// Agents that report immediately. Flaky agents fail some first attempts.
#[derive(Debug)]
struct SimAgents<'a> {
    stub: StubWorkers,
    failing: VecDeque<Report>,
    clock: &'a SimClock,
    counter: &'a Counter,
    /// The seed, if they are flaky.
    flaky: Option<u64>,
}

impl SimAgents<'_> {
    /// Whether the agent fails: the first attempt of some steps that have enough attempts.
    fn fails(&self, task: &Task) -> bool {
        let attempts = task.step.retry.as_ref().map_or(ATTEMPTS_NEEDED, |it| it.max_attempts);
        let is_chosen = |seed: u64| {
            (seed ^ u64::from(task.number.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 == 0
        };
        task.attempt == 1 && attempts >= ATTEMPTS_NEEDED && self.flaky.is_some_and(is_chosen)
    }
}

impl Workers for SimAgents<'_> {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Stub
    }

    fn confirm_dead(&mut self) -> plan_ledger::Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> Result<(), StartFailure> {
        self.counter.count(|counts| counts.executed.push(task.number));
        if !self.fails(task) {
            return self.stub.start(task);
        }
        let outcome = Outcome::Failed {
            class: FailureClass::Transient,
            message: "flaky agent".to_owned(),
            payload: Json::new(&serde_json::Value::Null),
        };
        let disposition = Some(Disposition::DidNotHappen);
        let receipt = Receipt { outcome, disposition, ..Receipt::default() };
        self.failing.push_back(Report::Finished(task.token.seq, Box::new(receipt)));
        Ok(())
    }

    fn check(&mut self, check: &Check) -> plan_ledger::Result<()> {
        self.stub.check(check)
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        let report = self.failing.pop_front().or_else(|| self.stub.next(Duration::ZERO));
        if report.is_none() {
            let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            self.clock.0.fetch_add(wait, Ordering::Relaxed);
        }
        report
    }

    fn settled(&mut self, token: AttemptToken) {
        self.stub.settled(token);
    }

    fn stop_all(&mut self) {
        self.stub.stop_all();
    }

    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        self.stub.resolve_outcome()
    }
}

/// Counts durable receipts.
struct ReceiptCounter<'a>(&'a Counter);

impl Observer for ReceiptCounter<'_> {
    fn progress(&mut self, progress: &Progress) {
        // A step that a criterion rejected is executed again, which loses nothing.
        let accepted = Some(StepStatus::Accepted);
        let done = match progress {
            Progress::Receipt { step, status, .. } if Some(*status) == accepted => Some(step),
            Progress::Verdict { step, status, .. } if *status == accepted => step.as_ref(),
            _ => None,
        };
        if let Some(step) = done {
            self.0.count(|counts| counts.receipts.push(step.number));
        }
    }

    fn stop_request(&mut self) -> StopRequest {
        StopRequest::None
    }
}
