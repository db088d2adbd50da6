//! The same records on every engine, with one table for each task.
//!
//! In every round the engines take turns, each on a new store and in its own process, so that the
//! other load of the machine affects all of them, and no engine affects another. Every round has
//! another order. A figure is the median over the rounds. Compare only figures of the same run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};

use crate::Result;
use crate::engine::Peer;
use crate::measure::{BATCH, Work};
use crate::record::mix;

const PEERS: [Peer; 11] = [
    Peer::PlanLedger,
    Peer::PlanLedgerTrusting,
    Peer::Bare,
    Peer::SqliteWal,
    Peer::Redb,
    Peer::Fjall,
    Peer::Okaywal,
    Peer::RaftEngine,
    Peer::OpenWal,
    Peer::WalDb,
    Peer::Sled,
];

/// The program of an engine whose dependencies conflict with those of the others.
const EXTRA_PROGRAM: &str = "peers-batpak";

#[derive(Args)]
pub struct Options {
    /// Rounds; a figure is the median over them
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The number of records in a store that is opened and read
    #[arg(long, default_value_t = 200_000)]
    records: u64,
    /// The folder of the stores, on the device to measure
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// Only tasks with this text in their names
    #[arg(long, default_value = "")]
    only: String,
    /// Write all figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A program that measures one engine.
#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    program: PathBuf,
    /// The arguments before the options of a measurement.
    words: Vec<String>,
    peer: Option<Peer>,
}

/// One table: a task, its name and its unit.
#[derive(Debug, Clone, Copy)]
struct Row {
    work: Work,
    name: &'static str,
    unit: &'static str,
}

const ROWS: [Row; 8] = [
    Row { work: Work::One, name: "durable appends, 1 thread", unit: "records/s" },
    Row { work: Work::Threads32, name: "durable appends, 32 threads", unit: "records/s" },
    Row { work: Work::Threads256, name: "durable appends, 256 threads", unit: "records/s" },
    Row { work: Work::Batches, name: "durable batches of 1,000", unit: "records/s" },
    Row { work: Work::Pipeline, name: "pipelined, 512 in flight, 1 thread", unit: "records/s" },
    Row { work: Work::Reopen, name: "open after a kill, until the first append", unit: "ms" },
    Row { work: Work::Replay, name: "open, decode and fold", unit: "records/s" },
    Row { work: Work::Bytes, name: "bytes on disk, dispatch and receipt", unit: "bytes" },
];

impl Row {
    fn is_for(&self, candidate: &Candidate) -> bool {
        match self.work {
            // It differs only in reading.
            _ if candidate.peer == Some(Peer::PlanLedgerTrusting) => self.work == Work::Replay,
            Work::Pipeline => candidate.peer == Some(Peer::PlanLedger),
            // It does not sync, so it is no peer, and it takes longest.
            Work::Bytes if candidate.peer == Some(Peer::Sled) => false,
            Work::Reopen | Work::Replay | Work::Bytes => candidate.peer != Some(Peer::Bare),
            _ => true,
        }
    }
}

fn candidates() -> Result<Vec<Candidate>> {
    let program = std::env::current_exe()?;
    let mut all = Vec::new();
    for peer in PEERS {
        let word = peer.to_possible_value().ok_or("no name")?.get_name().to_owned();
        let words = vec!["measure".to_owned(), word];
        let name = peer.name().to_owned();
        all.push(Candidate { name, program: program.clone(), words, peer: Some(peer) });
    }
    let extra = program.with_file_name(EXTRA_PROGRAM);
    if extra.exists() {
        let (name, words) = ("batpak 0.10, synced".to_owned(), Vec::new());
        all.push(Candidate { name, program: extra, words, peer: None });
    } else {
        eprintln!("{EXTRA_PROGRAM} was not built: its rows are missing");
    }
    Ok(all)
}

pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.folder)?;
    let candidates = candidates()?;
    let mut report = Vec::new();
    for row in ROWS.iter().filter(|row| row.name.contains(&options.only)) {
        let taking_part: Vec<_> = candidates.iter().filter(|each| row.is_for(each)).collect();
        let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        // The bytes on disk are the same in every round.
        let rounds = if row.work == Work::Bytes { 1 } else { options.rounds };
        for round in 0..rounds {
            for candidate in shuffled(&taking_part, round)? {
                match figure(candidate, row.work, options) {
                    Ok(figure) => figures.entry(&candidate.name).or_default().push(figure),
                    Err(error) => eprintln!("{}, {}: {error}", candidate.name, row.name),
                }
            }
        }
        print(row, &taking_part, &figures);
        report.push(serde_json::json!({ "work": row.name, "unit": row.unit, "figures": figures }));
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// The order of a round: different in each round, the same in every run.
fn shuffled<'a>(candidates: &[&'a Candidate], round: usize) -> Result<Vec<&'a Candidate>> {
    let round = u64::try_from(round)?;
    let mut places: Vec<_> = (round << 32..).zip(candidates).collect();
    places.sort_by_key(|(place, _)| mix(*place));
    Ok(places.into_iter().map(|(_, candidate)| *candidate).collect())
}

fn print(row: &Row, taking_part: &[&Candidate], figures: &BTreeMap<&str, Vec<f64>>) {
    println!("\n{}\n\n| engine | {} | ratio to plan-ledger |\n|---|---|---|", row.name, row.unit);
    let of = |name: &str| figures.get(name).map_or(f64::NAN, |all| median(all.clone()));
    let ours = of(Peer::PlanLedger.name());
    for candidate in taking_part {
        let figure = of(&candidate.name);
        println!("| {} | {figure:.0} | {:.2} |", candidate.name, figure / ours);
    }
}

pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn figure(candidate: &Candidate, work: Work, options: &Options) -> Result<f64> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let dir = folder.path();
    if matches!(work, Work::Reopen | Work::Replay) {
        filled(candidate, dir, options)?;
    }
    let output = measure(candidate, work, dir, options)?.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn measure(candidate: &Candidate, work: Work, dir: &Path, options: &Options) -> Result<Command> {
    let mut process = Command::new(&candidate.program);
    process.args(&candidate.words);
    process.arg(work.to_possible_value().ok_or("no name")?.get_name()).arg(dir);
    process.arg("--seconds").arg(options.seconds.to_string());
    // Enough records that preallocated space, a part of a segment, hardly counts.
    let times = if work == Work::Bytes { 40 } else { 1 };
    let records = options.records.next_multiple_of(BATCH) * times;
    process.arg("--records").arg(records.to_string());
    process.stdin(Stdio::null());
    Ok(process)
}

/// The store of a process that was killed after its last commit.
fn filled(candidate: &Candidate, dir: &Path, options: &Options) -> Result<()> {
    let mut process = measure(candidate, Work::Fill, dir, options)?;
    let mut child = process.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    if line.trim() == "filled" { Ok(()) } else { Err("the process did not fill the store".into()) }
}

#[derive(Args)]
pub struct Durability {
    /// The folder of the stores
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// Write all counts to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The counted calls, which make data durable.
const CALLS: [&str; 4] = ["fdatasync", "fsync", "sync_file_range", "msync"];

/// Count the sync calls of each engine for 200 durable commits.
pub fn durability(wanted: &Durability) -> Result<()> {
    std::fs::create_dir_all(&wanted.folder)?;
    println!("| engine | {} | files with O_SYNC or O_DSYNC |", CALLS.join(" | "));
    println!("|---|---|---|---|---|---|");
    let mut report = BTreeMap::new();
    let writes = |each: &Candidate| each.peer != Some(Peer::PlanLedgerTrusting);
    for candidate in candidates()?.into_iter().filter(writes) {
        let Some((counts, files)) = traced(&candidate, &wanted.folder)? else {
            println!("| {} | strace is missing, or it failed | | | | |", candidate.name);
            continue;
        };
        let text: Vec<_> = counts.iter().map(ToString::to_string).collect();
        println!("| {} | {} | {files} |", candidate.name, text.join(" | "));
        let named: BTreeMap<_, _> = CALLS.into_iter().zip(counts).collect();
        report.insert(candidate.name, serde_json::json!({ "calls": named, "files": files }));
    }
    if let Some(path) = &wanted.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// The number of each of [`CALLS`] for 200 commits, and of files that are opened with synced
/// writes.
fn traced(candidate: &Candidate, folder: &Path) -> Result<Option<([usize; 4], usize)>> {
    let dir = tempfile::tempdir_in(folder)?;
    let trace = dir.path().join("trace");
    let mut process = Command::new("strace");
    // The process writes lines before the first and after the last commit.
    process.args(["-f", "-e", "trace=fsync,fdatasync,sync_file_range,msync,openat,write", "-o"]);
    process.arg(&trace).arg(&candidate.program).args(&candidate.words);
    process.arg(Work::Commits.to_possible_value().ok_or("no name")?.get_name()).arg(dir.path());
    process.stdout(Stdio::null()).stderr(Stdio::null());
    if !process.status().is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let trace = std::fs::read_to_string(&trace)?;
    let is_synced = |line: &&str| line.contains("O_SYNC") || line.contains("O_DSYNC");
    let files = trace.lines().filter(is_synced).count();
    let lines = trace.lines().skip_while(|line| !line.contains("\"opened"));
    let lines: Vec<_> = lines.take_while(|line| !line.contains("\"committed")).collect();
    // A call that another thread interrupts takes two lines; only the first one has the bracket.
    let count = |call: &str| {
        let begun = format!(" {call}(");
        lines.iter().filter(|line| line.contains(&begun)).count()
    };
    Ok(Some((CALLS.map(count), files)))
}
