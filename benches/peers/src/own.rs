//! Verification of the chain, durable steps of a plan, the CPU cost of a dispatch, and the latency
//! of steps while snapshots are built. Each part runs in its own process, round by round.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use plan_ledger::log::{VerifyOptions, verify};
use plan_ledger::plan::Proof;
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::{Command, Environment, Ledger, Plan, RunId, RunPolicy, State};

use crate::Result;
use crate::engine::Peer;
use crate::measure::{BATCH, as_float, per_second};
use crate::plans::{ask, dispatch, dispatched_token, plan, receipt, start};
use crate::record::payload;
use crate::speed::median;

#[derive(Args)]
pub struct Options {
    /// The folder of the ledgers, on the device to measure
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// Rounds; a figure is the median over them
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Write all figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure one part, once
    #[arg(long, hide = true)]
    part: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Verify,
    Step,
    Cpu,
    Tail,
}

/// Names and figures.
type Figures = Vec<(&'static str, f64)>;

/// Steps of the large plan.
const LARGE: u64 = 100_000;
/// Records of the verified log.
const VERIFIED: u64 = 400_000;

pub fn run(options: &Options) -> Result<()> {
    if let Some(part) = options.part {
        for (name, figure) in measure(part, options)? {
            println!("{name}\t{figure}");
        }
        return Ok(());
    }
    std::fs::create_dir_all(&options.folder)?;
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..options.rounds {
        for part in Part::value_variants() {
            for (name, figure) in apart(*part, options)? {
                figures.entry(name).or_default().push(figure);
            }
        }
    }
    println!("| figure | median |\n|---|---|");
    for (name, figures) in &figures {
        println!("| {name} | {:.2} |", median(figures.clone()));
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&figures)?)?;
    }
    Ok(())
}

/// Measure a part in its own process.
fn apart(part: Part, options: &Options) -> Result<Vec<(String, f64)>> {
    let mut process = Process::new(std::env::current_exe()?);
    process.args(["own", "--part", part.to_possible_value().ok_or("no name")?.get_name()]);
    process.arg("--folder").arg(&options.folder);
    process.arg("--seconds").arg(options.seconds.to_string());
    let output = process.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{part:?} was not measured").into());
    }
    let text = String::from_utf8(output.stdout)?;
    let figure = |line: &str| {
        let (name, figure) = line.split_once('\t')?;
        Some((name.to_owned(), figure.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

fn measure(part: Part, options: &Options) -> Result<Figures> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let time = Duration::from_secs_f64(options.seconds);
    match part {
        Part::Verify => verified(folder.path()),
        Part::Step => steps(folder.path(), time),
        Part::Cpu => cpu(),
        Part::Tail => tail(folder.path(), time),
    }
}

fn verified(dir: &Path) -> Result<Figures> {
    let engine = Peer::PlanLedger.open(dir)?;
    let batch: Vec<_> = (1..=BATCH).map(payload).collect();
    for first in (1..=VERIFIED).step_by(usize::try_from(BATCH)?) {
        engine.append(first, &batch)?;
    }
    drop(engine);
    let mut figures = Vec::new();
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    for (name, jobs) in [("verify, 1 job, records/s", 1), ("verify, 2 jobs, records/s", 2)] {
        let jobs = NonZeroUsize::new(jobs).unwrap_or(NonZeroUsize::MIN);
        let started = Instant::now();
        let options = VerifyOptions { jobs, ..VerifyOptions::DEFAULT };
        let verified = verify(&storage, &dir.join("peer.ledger"), options)?;
        if verified.is_damaged() || verified.counts.records < VERIFIED {
            return Err("the log is incomplete".into());
        }
        figures.push((name, per_second(verified.counts.records, started)));
    }
    Ok(figures)
}

fn begun(dir: &Path, plan: &Plan) -> Result<(Ledger, RunId)> {
    let ledger = Ledger::create(dir, &Environment::system())?;
    let run = ledger.start_run("bench", plan, RunPolicy::default())?;
    Ok((ledger, run))
}

/// Execute steps until the deadline, with a receipt and the next dispatch in one commit. Returns
/// the latencies.
fn work(ledger: &Ledger, run: RunId, is_over: &dyn Fn() -> bool) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    let mut task = ledger.dispatch(run, "worker")?;
    while let Some(current) = task.take_if(|_| !is_over()) {
        let started = Instant::now();
        (_, task) = ledger.record_receipt_and_dispatch(current.token, receipt(), "worker")?;
        took.push(started.elapsed());
    }
    Ok(took)
}

/// Durable steps, in turn with commits of the bare loop.
fn steps(dir: &Path, time: Duration) -> Result<Figures> {
    let (ledger, run) = begun(&dir.join("step.ledger"), &plan(LARGE / 4)?)?;
    let bare = Peer::Bare.open(dir)?;
    let one = [payload(1)];
    let (mut done, mut stepping) = (0, Duration::ZERO);
    let (mut synced, mut syncing) = (0, Duration::ZERO);
    // Both take turns, so that the other load of the machine affects both.
    for _ in 0..5 {
        let started = Instant::now();
        done += work(&ledger, run, &|| started.elapsed() > time / 5)?.len();
        stepping += started.elapsed();
        let started = Instant::now();
        while started.elapsed() < time / 5 {
            bare.append(1, &one)?;
            synced += 1;
        }
        syncing += started.elapsed();
    }
    let rate = |count: u64, time: Duration| as_float(count) / time.as_secs_f64();
    let (steps, syncs) = (rate(u64::try_from(done)?, stepping), rate(synced, syncing));
    Ok(vec![
        ("durable steps/s", steps),
        ("bare write + fdatasync/s, in turn", syncs),
        ("durable steps, share of the bare loop", steps / syncs),
    ])
}

/// The CPU cost of a command in a large plan.
fn cpu() -> Result<Figures> {
    let mut state = State::default();
    ask(&mut state, 1, &start("large".to_owned(), &plan(LARGE)?)?)?;
    let (mut dispatching, mut receiving) = (Vec::new(), Vec::new());
    for now in 2..10_000 {
        let first = state.seq + 1;
        let command = dispatch(RunId(1));
        let started = Instant::now();
        let events = ask(&mut state, now, &command)?;
        dispatching.push(started.elapsed().as_secs_f64() * 1e6);
        let token = dispatched_token(first, &events).ok_or("nothing was dispatched")?;
        let command =
            Command::RecordReceipt { proof: Proof::LockHolder, token, receipt: receipt() };
        let started = Instant::now();
        ask(&mut state, now, &command)?;
        receiving.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(vec![
        ("dispatch, plan of 100,000 steps, us", median(dispatching)),
        ("receipt and ready set, plan of 100,000 steps, us", median(receiving)),
    ])
}

/// The latency of a durable step with and without snapshots being built.
fn tail(dir: &Path, time: Duration) -> Result<Figures> {
    let (ledger, run) = begun(&dir.join("tail.ledger"), &plan(LARGE)?)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut snapshots = 0;
    for _ in 0..3 {
        let started = Instant::now();
        without.extend(work(&ledger, run, &|| started.elapsed() > time)?);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            let building = scope.spawn(|| -> Result<u64> {
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    ledger.snapshot::<State>()?;
                    count += 1;
                }
                Ok(count)
            });
            let started = Instant::now();
            let took = work(&ledger, run, &|| started.elapsed() > time);
            is_over.store(true, Ordering::Relaxed);
            snapshots += building.join().map_err(|_| "a thread panicked")??;
            with.extend(took?);
            Ok(())
        })?;
    }
    let (before, during) = (at_share(without, 999), at_share(with, 999));
    Ok(vec![
        ("step, p99.9 without snapshots, us", before),
        ("step, p99.9 while snapshots are built, us", during),
        ("step, p99.9, ratio", during / before),
        ("snapshots built meanwhile", as_float(snapshots)),
    ])
}

/// The latency in microseconds that so many thousandths do not exceed.
pub fn at_share(mut took: Vec<Duration>, share: usize) -> f64 {
    took.sort_unstable();
    let last = took.len().saturating_sub(1);
    took.get((took.len() * share / 1000).min(last)).map_or(f64::NAN, |t| t.as_secs_f64() * 1e6)
}
