//! `ledger drill --every-crash`: the runner's own loop on a simulated disk, stopped at every change
//! that it makes to the disk, and resumed each time.
//!
//! Invariants:
//! - The loop is the one of `ledger run`. Simulated are the disk, the clock and the agents.
//! - Executions are counted by the agents; a receipt counts from when the loop was told that it is
//!   durable. The ledger is not asked to testify for itself.
//! - The first run is run once; what a crash leaves is taken from its film.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::runner::{
    Check, Observer, Options, Progress, Report, RunOutcome, StartFailure, StopRequest, StubOptions,
    StubWorkers, WorkerKind, Workers, drive,
};
use plan_ledger::files;
use plan_ledger::lab::{self, Crash};
use plan_ledger::ledger::{Clock, Environment, Ledger, SegmentSizes, Task, state_hash};
use plan_ledger::plan::{
    AttemptToken, Cost, Disposition, FailureClass, Finding, Micros, Outcome, Plan, Receipt, Run,
    RunPolicy, RunStatus, State, StepNumber, StepStatus, TextPolicy,
};
use plan_ledger::sim::SimDisk;

use super::args::{Agents, DrillArgs};
use super::drill::RUN;
use super::every_crash_report::{Verdict, report};
use super::exit::{Code, Failure};

/// Where the ledger is on the simulated disk.
const DIR: &str = "/drill.ledger";
/// What is left of attempts that a flaky agent may use up: one fails, one may be lost.
const ATTEMPTS_NEEDED: u32 = 3;

/// `ledger drill --every-crash`.
pub(super) fn every_crash(args: &DrillArgs) -> Result<Code, Failure> {
    let plan = files::read(&args.plan).map_err(|error| Failure::of_plan_file(&error))?.plan;
    let drill = Drill { plan, args };
    let failed = |what: String| Failure::Refused(format!("the run without a crash: {what}"));
    let (first, film) = lab::film_of(|disk| drill.live(disk)).map_err(failed)?;
    let bar = super::progress::bar(film.len());
    let twice = AtomicU64::new(0);
    let second = |crash: &Crash, disk: &SimDisk| {
        let life = drill.live(disk)?;
        twice.fetch_add(Drill::judge(&first, crash, &life)?, Ordering::Relaxed);
        Ok(())
    };
    let tried = if let Some(at) = args.at {
        let Some(picture) = film.get(at) else {
            let message = format!("--at {at}: expected less than {}, found more", film.len());
            return Err(Failure::Usage(message));
        };
        one_crash(picture, at, args.seed, second)
    } else {
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        lab::each_crash(&film, args.seed, jobs, second, |done| {
            bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
            ControlFlow::Continue(())
        })
    };
    bar.finish_and_clear();
    let verdict = Verdict {
        steps: first.executed.iter().collect::<BTreeSet<_>>().len(),
        calls: film.len(),
        twice: twice.into_inner(),
        state_hash: first.hash.clone(),
        tried,
    };
    report(&verdict, args)
}

fn one_crash(
    picture: &SimDisk,
    at: usize,
    seed: u64,
    second: impl Fn(&Crash, &SimDisk) -> Result<(), String>,
) -> Result<lab::Crashes, lab::Failed> {
    let ways = lab::usual_ways(at, seed);
    for restart in ways {
        let crash = Crash { at, restart, mark: picture.mark() };
        second(&crash, &restart.of(picture))
            .map_err(|what| lab::Failed { crash: Some(crash), what })?;
    }
    Ok(lab::Crashes { points: 1, lives: ways.len() })
}

struct Drill<'a> {
    plan: Plan,
    args: &'a DrillArgs,
}

/// One life of the run, from wherever it stood to its end.
struct Life {
    run: Run,
    /// Steps as the agents executed them, in order.
    executed: Vec<StepNumber>,
    /// Steps as their receipts became durable, and were accepted, in order.
    receipts: Vec<StepNumber>,
    /// Hash of what the run came to.
    hash: String,
}

impl Drill<'_> {
    /// Start the run or go on with it, to its end.
    fn live(&self, disk: &SimDisk) -> Result<Life, String> {
        let clock = Arc::new(SimClock(AtomicU64::new(disk.calls().saturating_mul(1000))));
        let environment = Environment {
            clock: Arc::<SimClock>::clone(&clock),
            segments: SegmentSizes::USUAL,
            ..lab::environment(disk)
        };
        let words = |error: plan_ledger::error::Error| error.to_string();
        let (ledger, _) = Ledger::open_or_create(Path::new(DIR), &environment).map_err(words)?;
        let known = ledger.state().map_err(words)?.run_named(RUN).map(|run| run.id);
        let policy = RunPolicy { text: TextPolicy::Trust, ..RunPolicy::default() };
        let run = match known {
            Some(run) => run,
            None => ledger.start_run(RUN, &self.plan, policy).map_err(words)?,
        };
        let counted = Counted { disk: disk.clone(), book: Mutex::default() };
        let mut agents = SimAgents {
            stub: StubWorkers::new(StubOptions::default()),
            failing: VecDeque::new(),
            clock: &clock,
            counted: &counted,
            flaky: (self.args.agents == Agents::Flaky).then_some(self.args.seed),
        };
        let is_over = |state: &State| {
            state.runs.get(&run).is_some_and(|run| matches!(run.status, RunStatus::Ended(_)))
        };
        if !is_over(&*ledger.state().map_err(words)?) {
            let options =
                Options { max_parallel: usize::from(self.args.max_parallel), marks: None };
            let mut watcher = Watcher(&counted);
            let summary =
                drive(&ledger, &*clock, run, &mut agents, &mut watcher, options).map_err(words)?;
            if let RunOutcome::Stopped { error, .. } = summary.outcome {
                return Err(format!("the run stopped: {error}"));
            }
        }
        let state = ledger.state().map_err(words)?;
        let replayed = ledger.state_at(state.seq).map_err(words)?;
        if state_hash(&replayed) != ledger.state_hash().map_err(words)? {
            return Err("the replayed state is not the live one".to_owned());
        }
        let run = state.run_named(RUN).cloned().ok_or("the run is gone")?;
        ledger.close().map_err(words)?;
        let book = counted.book.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hash = state_hash(&replayed).to_string();
        Ok(Life { run, executed: book.executed, receipts: book.receipts, hash })
    }

    /// What must hold of a second life; how many steps were executed twice, as they may be.
    fn judge(first: &Life, crash: &Crash, second: &Life) -> Result<u64, String> {
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
        same_end(&first.run, &second.run)?;
        if second.run.spent() != Cost::default() {
            return Err(format!("it cost {:?}", second.run.spent()));
        }
        Ok(u64::try_from(twice).unwrap_or(u64::MAX))
    }
}

/// Both runs came to the same end: status, steps, variables.
fn same_end(first: &Run, second: &Run) -> Result<(), String> {
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
    let variables = |run: &Run| -> BTreeMap<String, plan_ledger::plan::Json> {
        run.variables.iter().map(|(name, it)| (name.clone(), it.value.clone())).collect()
    };
    if one.len() != other.len() || variables(first) != variables(second) {
        return Err("the variables differ".to_owned());
    }
    Ok(())
}

/// A clock that goes on by a millisecond whenever it is read, and by as long as is waited.
#[derive(Debug)]
struct SimClock(AtomicU64);

impl Clock for SimClock {
    fn now(&self) -> Micros {
        1_700_000_000_000_000 + self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

/// What is counted outside the ledger.
#[derive(Debug)]
struct Counted {
    disk: SimDisk,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    executed: Vec<StepNumber>,
    receipts: Vec<StepNumber>,
}

impl Counted {
    /// Count, and let the disk know how far things had got.
    fn note(&self, note: impl FnOnce(&mut Book)) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut book);
        self.disk.set_mark(pack(book.executed.len(), book.receipts.len()));
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

/// Agents that answer at once and wait without sleeping; flaky ones fail at some first attempts.
#[derive(Debug)]
struct SimAgents<'a> {
    stub: StubWorkers,
    failing: VecDeque<Report>,
    clock: &'a SimClock,
    counted: &'a Counted,
    /// The seed, if they are flaky.
    flaky: Option<u64>,
}

impl SimAgents<'_> {
    /// Whether the agent fails at it: some steps that have attempts enough, the first time.
    fn fails(&self, task: &Task) -> bool {
        let attempts = task.step.retry.as_ref().map_or(ATTEMPTS_NEEDED, |it| it.max_attempts);
        let dice = |seed: u64| {
            (seed ^ u64::from(task.number.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 == 0
        };
        task.attempt == 1 && attempts >= ATTEMPTS_NEEDED && self.flaky.is_some_and(dice)
    }
}

impl Workers for SimAgents<'_> {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Stub
    }

    fn confirm_dead(&mut self) -> plan_ledger::error::Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> Result<(), StartFailure> {
        self.counted.note(|book| book.executed.push(task.number));
        if !self.fails(task) {
            return self.stub.start(task);
        }
        let outcome = Outcome::Failed {
            class: FailureClass::Transient,
            message: "a flaky agent".to_owned(),
            payload: plan_ledger::plan::Json::new(&serde_json::Value::Null),
        };
        let disposition = Some(Disposition::DidNotHappen);
        let receipt = Receipt { outcome, disposition, ..Receipt::default() };
        self.failing.push_back(Report::Finished(task.token, Box::new(receipt)));
        Ok(())
    }

    fn check(&mut self, check: &Check) -> plan_ledger::error::Result<()> {
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

    fn resolve_doubt(&self) -> Option<Finding> {
        self.stub.resolve_doubt()
    }
}

struct Watcher<'a>(&'a Counted);

impl Observer for Watcher<'_> {
    fn progress(&mut self, progress: &Progress) {
        if let Progress::Receipt { step, outcome: "succeeded", .. } = progress {
            self.0.note(|book| book.receipts.push(step.number));
        }
    }

    fn stop_request(&mut self) -> StopRequest {
        StopRequest::None
    }
}
