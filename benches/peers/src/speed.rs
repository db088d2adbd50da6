//! Records of 256 bytes, appended durably by one thread, by many and in batches, and read back.
//!
//! The engines take turns in every round, each on a fresh store, so that what else the machine does
//! falls on all of them alike. A figure is the median over the rounds; only the ratios within one
//! run mean anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use plan_ledger::log::Batch;

use crate::Result;
use crate::engine::{Engine, Ours, Peer, record};
use crate::record::payload;

const PEERS: [Peer; 8] = [
    Peer::PlanLedger,
    Peer::Bare,
    Peer::SqliteWal,
    Peer::Redb,
    Peer::Fjall,
    Peer::Okaywal,
    Peer::RaftEngine,
    Peer::Sled,
];

/// Appends before the clock starts.
const WARM_UP: u64 = 50;
/// Records of a batch.
const BATCH: u64 = 1000;
/// Tickets that are open at once.
const WINDOW: u64 = 512;

#[derive(Args)]
pub struct Options {
    /// Rounds; a figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Where the stores are made: the device that is measured
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Each thread commits one record after another.
    Threads(usize),
    /// One thread commits batches of [`BATCH`].
    Batches,
    /// One thread, which waits for what it wrote [`WINDOW`] records ago.
    Tickets,
    /// A store of [`Work::Batches`] is opened and read.
    ReadBack,
}

impl Work {
    const ALL: [Self; 6] = [
        Self::Threads(1),
        Self::Threads(32),
        Self::Threads(256),
        Self::Batches,
        Self::Tickets,
        Self::ReadBack,
    ];

    fn name(self) -> String {
        match self {
            Self::Threads(1) => "durable appends, 1 thread".to_owned(),
            Self::Threads(count) => format!("durable appends, {count} threads"),
            Self::Batches => format!("durable batches of {BATCH}"),
            Self::Tickets => format!("pipelined, {WINDOW} tickets open, 1 thread"),
            Self::ReadBack => "opened and read back".to_owned(),
        }
    }

    fn is_for(self, peer: Peer) -> bool {
        match self {
            Self::Threads(_) | Self::Batches => true,
            Self::Tickets => peer == Peer::PlanLedger,
            Self::ReadBack => peer != Peer::Bare,
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.folder)?;
    for work in Work::ALL.into_iter().filter(|work| work.name().contains(&options.only)) {
        println!(
            "\n{}\n\n| engine | records/s | ratio to plan-ledger |\n|---|---|---|",
            work.name()
        );
        let peers: Vec<Peer> = PEERS.into_iter().filter(|peer| work.is_for(*peer)).collect();
        let mut rates = vec![Vec::new(); peers.len()];
        for _ in 0..options.rounds {
            for (peer, rates) in peers.iter().zip(&mut rates) {
                rates.push(rate(*peer, work, options)?);
            }
        }
        let medians: Vec<f64> = rates.into_iter().map(median).collect();
        let ours = medians.first().copied().unwrap_or(1.0);
        for (peer, rate) in peers.iter().zip(&medians) {
            println!("| {} | {rate:.0} | {:.2} |", peer.name(), rate / ours);
        }
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// Records a second.
fn rate(peer: Peer, work: Work, options: &Options) -> Result<f64> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let time = Duration::from_secs_f64(options.seconds);
    match work {
        Work::Threads(count) => threads(peer.open(folder.path())?.into(), count, time),
        Work::Batches => batches(peer.open(folder.path())?.as_ref(), time),
        Work::Tickets => tickets(folder.path(), time),
        Work::ReadBack => read_back(peer, folder.path()),
    }
}

fn threads(engine: Arc<dyn Engine>, count: usize, time: Duration) -> Result<f64> {
    let (next, done, is_over) = (AtomicU64::new(1), AtomicU64::new(0), AtomicBool::new(false));
    let append = || engine.append(next.fetch_add(1, Ordering::Relaxed), vec![payload(1)]);
    (0..WARM_UP).try_for_each(|_| append())?;
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                append()?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        std::thread::sleep(time / 10);
        let (before, started) = (done.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(time);
        let rate = per_second(done.load(Ordering::Relaxed) - before, started);
        is_over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok(rate)
    })
}

fn batches(engine: &dyn Engine, time: Duration) -> Result<f64> {
    let batch: Vec<Vec<u8>> = (0..BATCH).map(payload).collect();
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < time {
        engine.append(1 + count, batch.clone())?;
        count += BATCH;
    }
    Ok(per_second(count, started))
}

fn tickets(dir: &Path, time: Duration) -> Result<f64> {
    let engine = Ours::open(dir)?;
    let mut open = std::collections::VecDeque::new();
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < time {
        open.push_back(engine.log().submit(&Batch::new(vec![record(payload(1))], 2))?);
        if open.len() > usize::try_from(WINDOW)?
            && let Some(ticket) = open.pop_front()
        {
            engine.log().wait(ticket)?;
            count += 1;
        }
    }
    Ok(per_second(count, started))
}

/// A store of a hundred thousand records.
fn read_back(peer: Peer, dir: &Path) -> Result<f64> {
    let count = 100 * BATCH;
    let engine = peer.open(dir)?;
    for batch in 0..100 {
        let first = 1 + batch * BATCH;
        engine.append(first, (first..first + BATCH).map(payload).collect())?;
    }
    drop(engine);
    let started = Instant::now();
    let served = u64::try_from(peer.serve(dir).records.len())?;
    let rate = per_second(served, started);
    // Some let go of what they have checkpointed.
    if served < count { Ok(f64::NAN) } else { Ok(rate) }
}

fn per_second(count: u64, started: Instant) -> f64 {
    let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
    count / started.elapsed().as_secs_f64()
}
