//! One flipped bit at a time: is it noticed, and what is still served?
//!
//! A process writes records, each in a durable commit of its own, and is killed. For every flip the
//! files that it left are laid out anew with one bit flipped, among the blocks of 64 bytes that are
//! not all zero, and a fresh process opens and reads them, so that nothing that an engine does to
//! itself harms the next one.

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

/// How long an engine may take to open and read, before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

const PEERS: [Peer; 7] = [
    Peer::PlanLedger,
    Peer::SqliteWal,
    Peer::Redb,
    Peer::Fjall,
    Peer::Okaywal,
    Peer::RaftEngine,
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
    /// Decides which bits are flipped
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What became of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Noticed, and all other records served.
    Served,
    /// Noticed, and some of the other records served.
    Partly,
    /// Noticed, and nothing served.
    Refused,
    /// Everything is served, and nothing was said.
    Harmless,
    /// Records are missing or wrong, and nothing was said.
    Silent,
    /// A panic, an abort, or no end.
    Crashed,
}

#[derive(Default)]
struct Tally {
    fates: BTreeMap<Fate, u64>,
    /// The most records that one flip took without a word.
    worst: u64,
}

/// What an engine said while it served what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Nothing: all is well.
    Nothing,
    /// That something is wrong, on the way that a user takes to open and read.
    Trouble,
}

/// What a reading process printed.
struct Heard {
    said: Said,
    good: u64,
    wrong: u64,
}

pub fn run(options: &Options) -> Result<()> {
    println!(
        "{} records of {LENGTH} bytes, each in a durable commit of its own; the process is killed; \
         then {} times one random bit is flipped (seed {}), among the blocks of 64 bytes that are \
         not all zero, and a fresh process opens the files and reads everything.\n",
        options.records, options.flips, options.seed
    );
    println!(
        "| engine | noticed, the rest served | noticed, part served | noticed, nothing served | harmless | **silent** | crashed | most records lost by one silent flip |"
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
        return Err(format!("{} does not serve what it wrote", peer.name()).into());
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

/// What a process leaves that was killed after its last commit.
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
    let Some(heard) = heard(&text).filter(|_| ended) else { return Ok((Fate::Crashed, 0)) };
    let missing = records.saturating_sub(heard.good);
    Ok(match heard.said {
        Said::Nothing if missing == 0 && heard.wrong == 0 => (Fate::Harmless, 0),
        Said::Nothing => (Fate::Silent, missing),
        Said::Trouble if missing <= 1 => (Fate::Served, 0),
        Said::Trouble if heard.good > 0 => (Fate::Partly, 0),
        Said::Trouble => (Fate::Refused, 0),
    })
}

fn heard(text: &str) -> Option<Heard> {
    let mut words = text.split_whitespace();
    let said = match words.next()? {
        "nothing" => Said::Nothing,
        "trouble" => Said::Trouble,
        _ => return None,
    };
    let mut number = || words.next()?.parse().ok();
    Some(Heard { said, good: number()?, wrong: number()? })
}

/// Writes records one by one, says so, and waits for its end.
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

/// Says what is served: whether there was trouble, how many records are as they were written, and
/// how many were never written so.
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
    let said = if outcome.is_ok() { "nothing" } else { "trouble" };
    println!("{said} {} {wrong}", good.len());
    Ok(())
}
