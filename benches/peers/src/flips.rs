//! One flipped bit at a time: whether an engine detects it, and which records it still serves.
//!
//! A process writes records, each in its own durable commit, and is killed. For every flip its
//! files are written again with one bit flipped, in the blocks of 64 bytes that are not all zero,
//! and a new process opens and reads them, so that one flip does not affect the next one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Result;
use crate::engine::Peer;
use crate::image::Image;
use crate::record::{LENGTH, mix, payload};

/// The time limit to open and read. An engine that exceeds it counts as crashed.
const PATIENCE: Duration = Duration::from_secs(20);

const PEERS: [Peer; 9] = [
    Peer::PlanLedger,
    Peer::SqliteWal,
    Peer::Redb,
    Peer::Fjall,
    Peer::Okaywal,
    Peer::RaftEngine,
    Peer::OpenWal,
    Peer::WalDb,
    Peer::Sled,
];

#[derive(Args)]
pub struct Options {
    /// Flips of each engine
    #[arg(long, default_value_t = 1000)]
    flips: u64,
    /// Records, each committed alone
    #[arg(long, default_value_t = 400)]
    records: u64,
    /// The seed of the random bits
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The effect of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Detected, and all other records served.
    Served,
    /// Detected, and some of the other records served.
    Partly,
    /// Detected, and no records served.
    Refused,
    /// All records served, and no error.
    Harmless,
    /// Records missing or wrong, and no error.
    Silent,
    /// A panic, an abort, or a timeout.
    Crashed,
}

#[derive(Default)]
struct Tally {
    fates: BTreeMap<Fate, u64>,
    /// The most records that one silent flip lost.
    worst: u64,
}

/// Whether the engine reported an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    /// No error.
    Nothing,
    /// An error, in the usual way to open and read.
    Error,
}

/// The output of a reading process.
struct Reading {
    reported: Reported,
    good: u64,
    wrong: u64,
}

pub fn run(options: &Options) -> Result<()> {
    println!(
        "A process writes {} records of {LENGTH} bytes, each in its own durable commit, and is killed. \
         Then, {} times, one random bit (seed {}) is flipped in the blocks of 64 bytes that are not all \
         zero, and a new process opens the files and reads everything.\n",
        options.records, options.flips, options.seed
    );
    println!(
        "| engine | detected, all other records served | detected, some served | detected, none served | harmless | **silent** | crashed | most records lost by one silent flip |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for peer in PEERS {
        let started = Instant::now();
        let tally = sweep(peer, options)?;
        let of = |fate| tally.fates.get(&fate).copied().unwrap_or(0);
        println!(
            "| {} | {} | {} | {} | {} | **{}** | {} | {} |",
            peer.name(),
            of(Fate::Served),
            of(Fate::Partly),
            of(Fate::Refused),
            of(Fate::Harmless),
            of(Fate::Silent),
            of(Fate::Crashed),
            tally.worst
        );
        eprintln!("{}: {:.0} s", peer.name(), started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn sweep(peer: Peer, options: &Options) -> Result<Tally> {
    let folder = tempfile::tempdir()?;
    let image = written(peer, &folder.path().join("written"), options.records)?;
    let dir = folder.path().join("flipped");
    image.lay_out(&dir, None)?;
    if fate(peer, &dir, options.records)?.0 != Fate::Harmless {
        return Err(format!("{} does not serve the records that it wrote", peer.name()).into());
    }
    std::fs::remove_dir_all(&dir)?;
    let mut tally = Tally::default();
    for flip in 0..options.flips {
        let bit = mix(mix(options.seed) ^ flip) % image.bits();
        image.lay_out(&dir, Some(bit))?;
        let (fate, lost) = fate(peer, &dir, options.records)?;
        *tally.fates.entry(fate).or_default() += 1;
        tally.worst = tally.worst.max(lost);
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(tally)
}

/// The files of a process that was killed after its last commit.
fn written(peer: Peer, dir: &Path, records: u64) -> Result<Image> {
    let mut child = start("write", peer, dir, records)?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line)?;
    let image = Image::of(dir);
    child.kill()?;
    child.wait()?;
    if line.trim() == "written" {
        image
    } else {
        Err(format!("{} wrote nothing", peer.name()).into())
    }
}

fn start(command: &str, peer: Peer, dir: &Path, records: u64) -> Result<Child> {
    let peer = clap::ValueEnum::to_possible_value(&peer).ok_or("no name")?;
    let mut process = Command::new(std::env::current_exe()?);
    process.arg(command).arg(peer.get_name()).arg(dir).arg(records.to_string());
    Ok(process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

fn fate(peer: Peer, dir: &Path, records: u64) -> Result<(Fate, u64)> {
    let mut child = start("read", peer, dir, records)?;
    let started = Instant::now();
    let ended = loop {
        match child.try_wait()? {
            Some(status) => break status.success(),
            None if started.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                break false;
            }
            None => std::thread::sleep(Duration::from_micros(300)),
        }
    };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().ok_or("no output")?, &mut text)?;
    let Some(reading) = reading(&text).filter(|_| ended) else { return Ok((Fate::Crashed, 0)) };
    let missing = records.saturating_sub(reading.good);
    Ok(match reading.reported {
        Reported::Nothing if missing == 0 && reading.wrong == 0 => (Fate::Harmless, 0),
        Reported::Nothing => (Fate::Silent, missing),
        Reported::Error if missing <= 1 => (Fate::Served, 0),
        Reported::Error if reading.good > 0 => (Fate::Partly, 0),
        Reported::Error => (Fate::Refused, 0),
    })
}

fn reading(text: &str) -> Option<Reading> {
    let mut words = text.split_whitespace();
    let reported = match words.next()? {
        "nothing" => Reported::Nothing,
        "error" => Reported::Error,
        _ => return None,
    };
    let mut number = || words.next()?.parse().ok();
    Some(Reading { reported, good: number()?, wrong: number()? })
}

/// Writes records one at a time, prints a line, and waits to be killed.
pub fn write(peer: Peer, dir: &Path, count: u64) -> Result<()> {
    let engine = peer.open(dir)?;
    for number in 1..=count {
        engine.append(number, &[payload(number)])?;
    }
    println!("written");
    std::io::stdout().flush()?;
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Prints whether there was an error, the number of correct records, and the number of wrong ones.
pub fn read(peer: Peer, dir: &Path, count: u64) -> Result<()> {
    let mut good: Vec<u64> = Vec::new();
    let mut wrong = 0;
    let outcome = peer.read(dir, &mut |number, bytes| {
        if (1..=count).contains(&number) && bytes == payload(number) {
            good.push(number);
        } else {
            wrong += 1;
        }
        Ok(())
    });
    let outcome = outcome.and_then(|()| peer.reopen(dir));
    good.sort_unstable();
    good.dedup();
    let reported = if outcome.is_ok() { "nothing" } else { "error" };
    println!("{reported} {} {wrong}", good.len());
    Ok(())
}
