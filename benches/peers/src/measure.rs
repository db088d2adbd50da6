//! One measurement of one engine in its own process, which prints the figure.
//!
//! This file depends on no engine: any program with a [`Store`] has all measurements.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::Result;
use crate::record::{Sum, payload};

/// Appends before the clock starts.
const WARM_UP: u64 = 50;
/// Records in a batch.
pub const BATCH: u64 = 1000;

/// An open store that appends records; threads share it.
pub trait Engine: Send + Sync {
    /// Append records with consecutive numbers atomically; they are durable on return.
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()>;

    /// Append records for that long, with many of them not yet durable at a time. Returns the
    /// number of durable records; `None` if the engine cannot do this in one thread.
    fn pipeline(&self, _: Duration) -> Option<Result<u64>> {
        None
    }
}

/// Receives the number and the payload of each record.
pub type Visit<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<()>;

/// An engine under measurement.
pub struct Store<'a> {
    /// Open or create a store in a folder.
    pub open: &'a dyn Fn(&Path) -> Result<Box<dyn Engine>>,
    /// Open an existing store and read all of it, in order.
    pub read: &'a dyn Fn(&Path, Visit<'_>) -> Result<()>,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// One thread commits one record at a time.
    One,
    /// 32 threads commit one record at a time.
    Threads32,
    /// 256 threads commit one record at a time.
    Threads256,
    /// One thread commits batches of [`BATCH`].
    Batches,
    /// One thread has many records in flight.
    Pipeline,
    /// No measurement: fill a store, and wait to be killed.
    Fill,
    /// Open the store of a killed process, until the first append.
    Reopen,
    /// Open, read, decode and fold that store.
    Replay,
    /// Fill and close a store.
    Bytes,
    /// No measurement: 200 commits, to count system calls.
    Commits,
}

#[derive(Args)]
pub struct Options {
    work: Work,
    /// The folder of the store
    dir: PathBuf,
    /// The duration in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The number of records in a filled store
    #[arg(long, default_value_t = 200_000)]
    records: u64,
}

/// Measure, and print the figure, if there is one.
pub fn run(store: &Store<'_>, options: &Options) -> Result<()> {
    let time = Duration::from_secs_f64(options.seconds);
    let dir = options.dir.as_path();
    let figure = match options.work {
        Work::One => Some(threads((store.open)(dir)?.into(), 1, time)?),
        Work::Threads32 => Some(threads((store.open)(dir)?.into(), 32, time)?),
        Work::Threads256 => Some(threads((store.open)(dir)?.into(), 256, time)?),
        Work::Batches => Some(batches(&*(store.open)(dir)?, time)?),
        Work::Pipeline => pipeline(&*(store.open)(dir)?, time).transpose()?,
        Work::Fill => {
            let engine = (store.open)(dir)?;
            fill(&*engine, options.records)?;
            println!("filled");
            std::io::stdout().flush()?;
            loop {
                std::thread::sleep(Duration::from_secs(60));
            }
        }
        Work::Reopen => Some(reopen(store, dir, options.records)?),
        Work::Replay => Some(replay(store, dir, options.records)?),
        Work::Bytes => {
            let engine = (store.open)(dir)?;
            fill(&*engine, options.records)?;
            drop(engine);
            Some(as_float(bytes_below(dir)?) / as_float(options.records / 2))
        }
        Work::Commits => {
            let engine = (store.open)(dir)?;
            eprintln!("opened");
            (1..=200).try_for_each(|number| engine.append(number, &[payload(number)]))?;
            eprintln!("committed");
            None
        }
    };
    if let Some(figure) = figure {
        println!("{figure}");
    }
    Ok(())
}

fn threads(engine: Arc<dyn Engine>, count: usize, time: Duration) -> Result<f64> {
    let (next, done, is_over) = (AtomicU64::new(1), AtomicU64::new(0), AtomicBool::new(false));
    let one = [payload(1)];
    let append = || engine.append(next.fetch_add(1, Ordering::Relaxed), &one);
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
    let batch: Vec<Vec<u8>> = (1..=BATCH).map(payload).collect();
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < time {
        engine.append(1 + count, &batch)?;
        count += BATCH;
    }
    Ok(per_second(count, started))
}

fn pipeline(engine: &dyn Engine, time: Duration) -> Option<Result<f64>> {
    let started = Instant::now();
    Some(engine.pipeline(time)?.map(|count| per_second(count, started)))
}

fn fill(engine: &dyn Engine, records: u64) -> Result<()> {
    for first in (1..=records).step_by(usize::try_from(BATCH)?) {
        let batch: Vec<_> = (first..first + BATCH).map(payload).collect();
        engine.append(first, &batch)?;
    }
    Ok(())
}

/// Milliseconds.
fn reopen(store: &Store<'_>, dir: &Path, records: u64) -> Result<f64> {
    let one = [payload(records + 1)];
    let started = Instant::now();
    let engine = (store.open)(dir)?;
    engine.append(records + 1, &one)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Records a second.
fn replay(store: &Store<'_>, dir: &Path, records: u64) -> Result<f64> {
    let started = Instant::now();
    let mut sum = Sum::new();
    (store.read)(dir, &mut |_, payload| sum.add(payload))?;
    let rate = per_second(sum.records, started);
    if sum.records < records {
        return Err(format!("only {} of {records} records were read", sum.records).into());
    }
    Ok(rate)
}

/// The disk usage of the files below a folder.
pub fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() {
            bytes_below(&entry.path())?
        } else {
            std::os::unix::fs::MetadataExt::blocks(&data) * 512
        };
    }
    Ok(bytes)
}

pub fn per_second(count: u64, started: Instant) -> f64 {
    as_float(count) / started.elapsed().as_secs_f64()
}

/// A count as a float; counts here are small enough to be exact.
pub fn as_float(count: u64) -> f64 {
    let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).map_or(0.0, f64::from);
    half(count >> 32) * 4_294_967_296.0 + half(count)
}
