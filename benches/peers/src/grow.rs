//! How costs grow with the records of the log, the steps of a plan, the runs of a ledger and its open
//! questions. A ledger is extended to several lengths, or numbers of runs, and opened, folded and used
//! at each of them; each size of a plan has its own ledger.
//!
//! The library judges the commands of real runs, and their records are appended in bulk. At each
//! snapshot interval the ledger is opened and makes the due snapshot, as in normal use.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::ledger::{
    LedgerCondition, RUN_STREAMS, VerifyLevel, VerifyRequest, encode,
};
use plan_ledger::log::{Batch, Log, LogOptions};
use plan_ledger::plan::Proof;
use plan_ledger::{
    BackgroundWork, Command, Environment, Json, Ledger, LedgerView, Plan, Reply, RunId, RunPolicy,
    State,
};

use crate::Result;
use crate::engine::options as log_options;
use crate::measure::{as_float, bytes_below};
use crate::own::at_share;
use crate::plans::{ask, dispatch, dispatched_token, memory, now, plan, receipt, start};
use crate::record::mix;

#[derive(Args)]
pub struct Options {
    /// The folder of the ledgers, on the device to measure
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// What grows
    #[arg(long, value_delimiter = ',', default_value = "lengths,plans,runs,questions")]
    of: Vec<Of>,
    /// Lengths in records, ascending
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000,10000000")]
    records: Vec<u64>,
    /// Plan sizes in steps
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    steps: Vec<u64>,
    /// Numbers of runs, ascending
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    runs: Vec<u64>,
    /// Numbers of open questions
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    questions: Vec<u64>,
    /// Opens at each size
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Write all figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Run one part in this process
    #[arg(long, hide = true, requires = "ledger")]
    part: Option<Part>,
    /// The ledger of the part
    #[arg(long, hide = true)]
    ledger: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// Records of the log.
    Lengths,
    /// Steps of one plan.
    Plans,
    /// Runs of the ledger; each tenth has not ended.
    Runs,
    /// Open questions of one run.
    Questions,
}

impl Of {
    /// The part that makes a ledger of a size.
    fn maker(self) -> Part {
        match self {
            Self::Lengths => Part::Extend,
            Self::Plans => Part::Begin,
            Self::Runs => Part::ExtendRuns,
            Self::Questions => Part::Ask,
        }
    }

    fn sizes(self, options: &Options) -> &[u64] {
        match self {
            Self::Lengths => &options.records,
            Self::Plans => &options.steps,
            Self::Runs => &options.runs,
            Self::Questions => &options.questions,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Append until the ledger has the first length.
    Extend,
    /// Start a run of a plan with the first size.
    Begin,
    /// Append until the ledger has so many runs.
    ExtendRuns,
    /// Start a run of a plan with so many questions.
    Ask,
    /// Execute steps, print a line, and wait to be killed.
    Hold,
    Open,
    Replay,
    /// Fold the log with an allocator that returns free memory at once.
    Memory,
    StateAt,
    Verify,
    Use,
    /// Answer open questions.
    Answer,
}

/// Names and figures.
type Figures = Vec<(&'static str, f64)>;

/// Records between two snapshots of a small state.
const STEP: u64 = 4096;
/// Steps of each run.
const STEPS: u64 = 400;
/// Steps of each of many runs.
const STEPS_OF_MANY: u64 = 4;
/// One of so many runs is left open.
const LEFT_OPEN: usize = 10;
/// Records in a bulk append.
const BULK: usize = 2_000;
/// A command leads to fewer events than this. The rest up to a snapshot interval is filled with
/// skippable records.
const EVENTS_MAX: u64 = 32;
/// A kind that readers may skip.
const FILLER: u16 = 0x9000;
/// Reads of random past states at each length, as many as fit into the time.
const LOOKS: u64 = 300;
const LOOKING: Duration = Duration::from_secs(10);
/// Commands of each type at each length.
const USES: u64 = 60;
/// Questions that are answered at each size.
const ANSWERS: usize = 60;

pub fn run(options: &Options) -> Result<()> {
    if let (Some(part), Some(ledger)) = (options.part, &options.ledger) {
        let first = |list: &[u64]| list.first().copied().unwrap_or(0);
        let figures = match part {
            Part::Extend => extend(ledger, first(&options.records))?,
            Part::Begin => begin(ledger, first(&options.steps))?,
            Part::ExtendRuns => extend_runs(ledger, first(&options.records))?,
            Part::Ask => questions(ledger, first(&options.records))?,
            Part::Hold => hold(ledger)?,
            Part::Open => open(ledger)?,
            Part::Replay => replay(ledger)?,
            Part::Memory => in_use(ledger)?,
            Part::StateAt => state_at(ledger)?,
            Part::Verify => verified(ledger)?,
            Part::Use => uses(ledger)?,
            Part::Answer => answers(ledger)?,
        };
        for (name, figure) in figures {
            println!("{name}\t{figure}");
        }
        return Ok(());
    }
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let mut report: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for of in &options.of {
        let name = of.to_possible_value().ok_or("no name")?.get_name().to_owned();
        let points = report.entry(name).or_default();
        let ledger = folder.path().join("growing.ledger");
        for size in of.sizes(options) {
            // A plan does not grow.
            if matches!(of, Of::Plans | Of::Questions) && ledger.exists() {
                std::fs::remove_dir_all(&ledger)?;
            }
            points.push(measured(*of, &ledger, *size, options)?);
        }
        if ledger.exists() {
            std::fs::remove_dir_all(&ledger)?;
        }
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// Create or extend a ledger, and measure it.
fn measured(
    of: Of,
    ledger: &Path,
    size: u64,
    options: &Options,
) -> Result<BTreeMap<String, Vec<f64>>> {
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let take = |part, figures: &mut BTreeMap<String, Vec<f64>>| -> Result<()> {
        for (name, figure) in apart(part, ledger, size)? {
            figures.entry(name).or_default().push(figure);
        }
        Ok(())
    };
    figures.insert("size".to_owned(), vec![as_float(size)]);
    take(of.maker(), &mut figures)?;
    figures.insert("bytes on disk".to_owned(), vec![as_float(bytes_below(ledger)?)]);
    for _ in 0..options.rounds {
        killed(ledger)?;
        take(Part::Open, &mut figures)?;
    }
    // A long log is folded once, because that takes long enough.
    let folds = if size > 1_000_000 { 1 } else { options.rounds };
    (0..folds).try_for_each(|_| take(Part::Replay, &mut figures))?;
    if of == Of::Plans {
        take(Part::Memory, &mut figures)?;
    }
    take(Part::StateAt, &mut figures)?;
    take(Part::Verify, &mut figures)?;
    (0..options.rounds).try_for_each(|_| take(Part::Use, &mut figures))?;
    if of == Of::Questions {
        take(Part::Answer, &mut figures)?;
    }
    println!("{of:?} {size}: {}", serde_json::to_string(&figures)?);
    Ok(figures)
}

fn process(part: Part, ledger: &Path, size: u64) -> Result<Process> {
    let mut process = Process::new(std::env::current_exe()?);
    process.args(["grow", "--part", part.to_possible_value().ok_or("no name")?.get_name()]);
    process.arg("--ledger").arg(ledger);
    process.arg("--records").arg(size.to_string()).arg("--steps").arg(size.to_string());
    process.stdin(Stdio::null()).stderr(Stdio::inherit());
    if part == Part::Memory {
        // By default the C library keeps up to twice the largest freed buffer.
        let at_once = "glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=131072";
        process.env("GLIBC_TUNABLES", at_once);
    }
    Ok(process)
}

fn apart(part: Part, ledger: &Path, size: u64) -> Result<Vec<(String, f64)>> {
    let output = process(part, ledger, size)?.output()?;
    if !output.status.success() {
        return Err(format!("{part:?} at {size} was not measured").into());
    }
    let text = String::from_utf8(output.stdout)?;
    let figure = |line: &str| {
        let (name, figure) = line.split_once('\t')?;
        Some((name.to_owned(), figure.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

/// Start a process that uses the ledger, and kill it.
fn killed(ledger: &Path) -> Result<()> {
    let mut child = process(Part::Hold, ledger, 0)?.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    if line.trim() == "working" { Ok(()) } else { Err("the process did not start to work".into()) }
}

fn hold(dir: &Path) -> Result<Figures> {
    let (ledger, _) = Ledger::open_with(dir, &Environment::system())?;
    let run = newest(&ledger)?;
    for _ in 0..10 {
        work(&ledger, run)?;
    }
    println!("working");
    std::io::stdout().flush()?;
    loop {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

/// A running run; a new one if there is none.
fn newest(ledger: &Ledger) -> Result<RunId> {
    let state = ledger.state()?;
    let has_enough = |id: &RunId| state.runs.get(id).is_some_and(|run| run.ready_count() > 100);
    if let Some(run) = state.runs.open().rev().find(has_enough) {
        return Ok(run);
    }
    let name = format!("run-{}", state.seq + 1);
    Ok(ledger.start_run(&name, &plan(STEPS)?, RunPolicy::default())?)
}

/// Execute one step.
fn work(ledger: &Ledger, run: RunId) -> Result<()> {
    if let Some(task) = ledger.dispatch(run, "worker")? {
        ledger.record_receipt(task.token, receipt())?;
    }
    Ok(())
}

fn open(dir: &Path) -> Result<Figures> {
    let started = Instant::now();
    let (ledger, _) = Ledger::open_with(dir, &Environment::system())?;
    let took = started.elapsed();
    drop(ledger);
    Ok(vec![
        ("open after a kill, ms", took.as_secs_f64() * 1e3),
        ("peak memory of an open, MiB", mebibytes(memory("VmHWM")?)),
    ])
}

fn replay(dir: &Path) -> Result<Figures> {
    let before = memory("VmRSS")?;
    let started = Instant::now();
    let fold = LedgerView::open(dir, &Environment::system())?.fold(u64::MAX)?;
    let took = started.elapsed().as_secs_f64();
    let (most, after) = (memory("VmHWM")?, memory("VmRSS")?);
    if !fold.damage.is_empty() || fold.state.seq == 0 {
        return Err("the ledger is incomplete".into());
    }
    Ok(vec![
        ("replay from the start, ms", took * 1e3),
        ("replay, records/s", as_float(fold.records) / took),
        ("memory of the state, MiB", mebibytes(after.saturating_sub(before))),
        ("memory of the replay beyond the state, MiB", mebibytes(most.saturating_sub(after))),
    ])
}

fn mebibytes(bytes: u64) -> f64 {
    as_float(bytes) / f64::from(1 << 20)
}

/// The growth of the process by the state.
fn in_use(dir: &Path) -> Result<Figures> {
    let before = memory("VmRSS")?;
    let fold = LedgerView::open(dir, &Environment::system())?.fold(u64::MAX)?;
    let grown = memory("VmRSS")?.saturating_sub(before);
    if !fold.damage.is_empty() || fold.state.seq == 0 {
        return Err("the ledger is incomplete".into());
    }
    Ok(vec![("memory in use, MiB", mebibytes(grown))])
}

fn state_at(dir: &Path) -> Result<Figures> {
    let view = LedgerView::open(dir, &Environment::system())?;
    let last = view.log().head().map_or(0, |head| head.durable_seq);
    let mut took = Vec::new();
    let begun = Instant::now();
    for sample in (0..LOOKS).take_while(|_| begun.elapsed() < LOOKING) {
        let seq = 1 + mix(sample) % last;
        let started = Instant::now();
        let state = view.state_at(seq)?;
        took.push(started.elapsed());
        if state.seq != seq {
            return Err("the state is of another record".into());
        }
    }
    let looks = as_float(u64::try_from(took.len())?);
    let (half, most) = (at_share(took.clone(), 500), at_share(took, 990));
    Ok(vec![
        ("reads of past states", looks),
        ("state at a record, p50, ms", half / 1e3),
        ("state at a record, p99, ms", most / 1e3),
    ])
}

/// The most thorough verification, with one thread for each processor.
fn verified(dir: &Path) -> Result<Figures> {
    let jobs = std::thread::available_parallelism()?;
    let watch = &|_| ControlFlow::Continue(());
    let request = VerifyRequest { level: VerifyLevel::Replay, jobs, expected: None, watch };
    let started = Instant::now();
    let report = request.run(dir, &Environment::system())?;
    let took = started.elapsed().as_secs_f64();
    if report.condition() != LedgerCondition::Valid {
        return Err("the ledger is incomplete".into());
    }
    Ok(vec![("verify with every state, ms", took * 1e3)])
}

/// Durable dispatches, receipts and variable updates.
fn uses(dir: &Path) -> Result<Figures> {
    let (ledger, _) = Ledger::open_with(dir, &Environment::system())?;
    let run = newest(&ledger)?;
    let (mut dispatching, mut receiving, mut appending) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..USES {
        let started = Instant::now();
        let task = ledger.dispatch(run, "worker")?.ok_or("nothing was dispatched")?;
        dispatching.push(started.elapsed());
        let started = Instant::now();
        ledger.record_receipt(task.token, receipt())?;
        receiving.push(started.elapsed());
        let value = Json::new(&serde_json::json!(number));
        let started = Instant::now();
        ledger.set_variable(run, "seen", value, None, "bench")?;
        appending.push(started.elapsed());
    }
    ledger.close()?;
    Ok(vec![
        ("durable dispatch, p50, us", at_share(dispatching, 500)),
        ("durable receipt, p50, us", at_share(receiving, 500)),
        ("durable append (a variable), p50, us", at_share(appending, 500)),
        ("peak memory in use, MiB", mebibytes(memory("VmHWM")?)),
    ])
}

/// Listing the open questions, and durable answers.
fn answers(dir: &Path) -> Result<Figures> {
    let (ledger, _) = Ledger::open_with(dir, &Environment::system())?;
    let started = Instant::now();
    let open = ledger.questions()?;
    let listing = started.elapsed();
    let mut answering = Vec::new();
    for question in open.into_iter().take(ANSWERS) {
        let reply = Reply::to(&question, "yes", "bench");
        let started = Instant::now();
        ledger.answer(question.id, reply)?;
        answering.push(started.elapsed());
    }
    ledger.close()?;
    Ok(vec![
        ("list of the questions, ms", listing.as_secs_f64() * 1e3),
        ("durable answer, p50, us", at_share(answering, 500)),
    ])
}

fn begin(dir: &Path, steps: u64) -> Result<Figures> {
    let ledger = Ledger::create(dir, &Environment::system())?;
    let plan = plan(steps.max(STEPS))?;
    let started = Instant::now();
    let run = ledger.start_run("large", &plan, RunPolicy::default())?;
    let took = started.elapsed();
    work(&ledger, run)?;
    ledger.snapshot::<State>()?;
    ledger.close()?;
    Ok(vec![("start of the run, ms", took.as_secs_f64() * 1e3)])
}

/// Start a run in which that many questions are open, and steps are ready.
fn questions(dir: &Path, count: u64) -> Result<Figures> {
    let ledger = Ledger::create(dir, &Environment::system())?;
    let gate = |number: u64| serde_json::json!({ "id": format!("q{number}"), "gate": { "question": "Continue?" } });
    let gates = serde_json::json!({ "steps": (0..count).map(gate).collect::<Vec<_>>() });
    let mut plan = plan(STEPS)?;
    plan.steps.extend(serde_json::from_value::<Plan>(gates)?.steps);
    let started = Instant::now();
    let run = ledger.start_run("questions", &plan, RunPolicy::default())?;
    let took = started.elapsed();
    if u64::try_from(ledger.questions()?.len())? != count {
        return Err("not every question is open".into());
    }
    work(&ledger, run)?;
    ledger.snapshot::<State>()?;
    ledger.close()?;
    Ok(vec![("start of the run, ms", took.as_secs_f64() * 1e3)])
}

/// Judged and folded events that are not yet in the log.
struct Grower {
    state: State,
    log: Log,
    bulk: Vec<NewRecord>,
    run: Option<RunId>,
    open: Option<plan_ledger::AttemptToken>,
    /// Of many small runs: how many there are to be.
    runs: Option<usize>,
}

fn extend(dir: &Path, to: u64) -> Result<Figures> {
    let started = Instant::now();
    let mut state = opened_at_interval(dir)?;
    while state.seq < to {
        let next = (state.seq + 1).next_multiple_of(STEP).min(to);
        Grower::new(dir, state, None)?.grow(next)?;
        state = opened_at_interval(dir)?;
    }
    Ok(vec![("time to write, s", started.elapsed().as_secs_f64())])
}

/// The number of runs, of which a state keeps summaries after many more ended.
fn runs(state: &State) -> usize {
    state.runs.len() + state.summaries.len()
}

fn extend_runs(dir: &Path, to: u64) -> Result<Figures> {
    let (started, to) = (Instant::now(), usize::try_from(to)?);
    let mut state = opened_at_interval(dir)?;
    while runs(&state) < to {
        let next = (state.seq + 1).next_multiple_of(STEP);
        Grower::new(dir, state, Some(to))?.grow(next)?;
        state = opened_at_interval(dir)?;
    }
    Ok(vec![("time to write, s", started.elapsed().as_secs_f64())])
}

/// Open the ledger and append a record, which makes the due snapshot.
fn opened_at_interval(dir: &Path) -> Result<State> {
    let environment =
        Environment { background_work: BackgroundWork::Inline, ..Environment::system() };
    let (ledger, _) = Ledger::open_or_create(dir, &environment)?;
    let open = ledger.state()?.runs.open().next_back();
    if let Some(run) = open {
        let value = Json::new(&serde_json::json!(ledger.head().seq));
        ledger.set_variable(run, "passed", value, None, "bench")?;
    }
    let state = (*ledger.state()?).clone();
    ledger.close()?;
    Ok(state)
}

impl Grower {
    fn new(dir: &Path, state: State, runs: Option<usize>) -> Result<Self> {
        let options = LogOptions { stream_rule: RUN_STREAMS, ..log_options() };
        let (log, _) = Log::open(dir, options, now())?;
        let (run, open) = (state.runs.open().next_back(), state.in_flight.keys().next().copied());
        Ok(Self { state, log, bulk: Vec::new(), run, open, runs })
    }

    fn grow(mut self, to: u64) -> Result<()> {
        let wanted = self.runs;
        let has_enough = |state: &State| wanted.is_some_and(|wanted| runs(state) >= wanted);
        while self.state.seq + EVENTS_MAX < to && !has_enough(&self.state) {
            self.step()?;
        }
        while self.state.seq < to && !has_enough(&self.state) {
            let payload = vec![0; 64];
            self.bulk.push(NewRecord { kind: FILLER, codec: Codec::Raw, schema: 1, payload });
            self.state.skip_record(self.state.seq + 1, self.state.time);
        }
        self.submit()?;
        self.log.flush()?;
        if self.log.last_durable().seq != self.state.seq {
            return Err("the log and the state differ".into());
        }
        Ok(self.log.close()?)
    }

    /// The next command of successive runs.
    fn step(&mut self) -> Result<()> {
        let time = now().max(self.state.time);
        let command = match (self.run, self.open.take()) {
            (_, Some(token)) => {
                Command::RecordReceipt { proof: Proof::LockHolder, token, receipt: receipt() }
            }
            (Some(run), None) => dispatch(run),
            (None, None) => {
                let number = self.state.seq + 1;
                let steps = if self.runs.is_some() { STEPS_OF_MANY } else { STEPS };
                start(format!("run-{number}"), &plan(steps)?)?
            }
        };
        let first = self.state.seq + 1;
        let events = ask(&mut self.state, time, &command)?;
        self.open = dispatched_token(first, &events);
        self.run = events.iter().find_map(plan_ledger::Event::run).or(self.run);
        let is_open = |run: &RunId| {
            self.state
                .runs
                .get(run)
                .is_some_and(|run| run.status == plan_ledger::RunStatus::Running)
        };
        let is_left = self.runs.is_some()
            && matches!(command, Command::StartRun { .. })
            && runs(&self.state).is_multiple_of(LEFT_OPEN);
        self.run = self.run.filter(|run| is_open(run) && !is_left);
        self.bulk.extend(events.iter().map(encode));
        if self.bulk.len() >= BULK { self.submit() } else { Ok(()) }
    }

    fn submit(&mut self) -> Result<()> {
        let bulk = std::mem::take(&mut self.bulk);
        if !bulk.is_empty() {
            let _ = self.log.submit(&Batch::new(bulk, self.state.time))?;
        }
        Ok(())
    }
}
