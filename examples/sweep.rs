//! Flips random bits of a ledger, one at a time, and counts which of them `verify` finds.
//!
//! `cargo run --release --example sweep -- --flips 100000 --seed 1 [--records N]`
//!
//! The ledger is on a disk in memory and has several segments, one of them a fence. Each flip is
//! undone before the next one. A flip is *located* if a finding names the file and a range that
//! contains the byte, and *dead* if nothing depends on the byte, by the rule in the table. Any other
//! flip is *silent*, and the exit code is 1: a record was served that was never written, or a missing
//! record was not reported, or nothing was detected.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{
    Log, LogItem, LogOptions, LogReader, LoggedRecord, UidSource, Verification, VerifyOptions,
    verify,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    SegmentHeader,
    Frames,
    Index,
    Footer,
    FreeSpace,
    AfterLogicalEnd,
    HeadSlot,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::SegmentHeader,
        Self::Frames,
        Self::Index,
        Self::Footer,
        Self::FreeSpace,
        Self::AfterLogicalEnd,
        Self::HeadSlot,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SegmentHeader => "segment headers",
            Self::Frames => "record frames",
            Self::Index => "indexes",
            Self::Footer => "footers",
            Self::FreeSpace => "free space of the newest segment",
            Self::AfterLogicalEnd => "after a logical end (dead)",
            Self::HeadSlot => "slots of HEAD",
        }
    }

    /// No reader reads there: the header of the successor names the end of the segment.
    fn is_dead(self) -> bool {
        self == Self::AfterLogicalEnd
    }
}

/// The results of the flips in a part.
#[derive(Debug, Clone, Copy, Default)]
struct FlipCounts {
    located: u64,
    dead: u64,
    silent: u64,
}

struct Options {
    flips: u64,
    seed: u64,
    records: u64,
}

fn options() -> Result<Options> {
    let mut options = Options { flips: 10_000, seed: 1, records: 1000 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word}: expected a number after it"))?;
        let value = value.parse().map_err(|error| format!("{word}: {error}"))?;
        match word.as_str() {
            "--flips" => options.flips = value,
            "--seed" => options.seed = value,
            "--records" => options.records = value,
            _ => return Err(format!("{word}: expected --flips, --seed or --records").into()),
        }
    }
    Ok(options)
}

/// A seeded random number (splitmix64).
fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn dir() -> PathBuf {
    PathBuf::from("/ledger")
}

fn log_options(disk: &SimDisk) -> LogOptions {
    let next = AtomicU64::new(disk.calls() << 20);
    let uids = UidSource::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (low, high) = (mix(number).to_le_bytes(), mix(!number).to_le_bytes());
        std::array::from_fn(|at| *low.iter().chain(&high).nth(at).unwrap_or(&0))
    });
    LogOptions::new(Arc::new(disk.clone()), uids)
}

fn record(number: u64) -> NewRecord {
    let size = usize::try_from(20 + mix(number) % 600).unwrap_or(20);
    let payload = (0..).flat_map(|at| mix(number ^ (at << 32)).to_le_bytes()).take(size).collect();
    NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload }
}

/// A log with a large record in the middle, which does not fit into the first segment; the last tenth
/// of the records comes after a crash and its fence.
fn make(records: u64) -> Result<SimDisk> {
    let disk = SimDisk::new();
    let mut log = Log::create(&dir(), log_options(&disk), 1)?;
    let fence = records - records / 10;
    for number in 1..=records {
        log.append(&[record(number)], number)?;
        if number == records / 2 {
            let payload = vec![0; 1_045_000];
            log.append(&[NewRecord { payload, ..record(number) }], number)?;
        }
        if number == fence {
            // HEAD is stale, as after a power loss: a fence adopts the records, and their old frames
            // are dead.
            let head = disk.read(&dir().join("HEAD"))?;
            log.append(&[record(records + 1), record(records + 2)], number)?;
            disk.kill_process();
            drop(log);
            disk.overwrite(&dir().join("HEAD"), 0, &head)?;
            log = Log::open(&dir(), log_options(&disk), number)?.0;
        }
    }
    log.close()?;
    Ok(disk)
}

/// The parts of all files.
fn parts(disk: &SimDisk, reader: &LogReader) -> Result<Vec<(PathBuf, Range<u64>, Part)>> {
    let segments = reader.segments();
    let mut parts = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let length = u64::try_from(disk.read(&segment.path)?.len())?;
        let (end, rest) = match segments.get(index + 1) {
            Some(next) => {
                let header = next.header.as_ref().map_err(ToString::to_string)?;
                (header.prev_data_end, Part::AfterLogicalEnd)
            }
            None => (reader.head().ok_or("no HEAD")?.data_end, Part::FreeSpace),
        };
        parts.push((segment.path.clone(), 0..4096, Part::SegmentHeader));
        parts.push((segment.path.clone(), 4096..end, Part::Frames));
        // The length of a sealed segment is not a multiple of 4096.
        if length.is_multiple_of(4096) {
            parts.push((segment.path.clone(), end..length, rest));
        } else {
            parts.push((segment.path.clone(), end..length - 4096, Part::Index));
            parts.push((segment.path.clone(), length - 4096..length, Part::Footer));
        }
    }
    parts.push((dir().join("HEAD"), 0..8192, Part::HeadSlot));
    Ok(parts)
}

struct Sweep {
    disk: SimDisk,
    records: Vec<LoggedRecord>,
    parts: Vec<(PathBuf, Range<u64>, Part)>,
    seed: u64,
}

impl Sweep {
    /// The flip with a number: a part with equal probability, then a bit of it.
    fn flip(&self, number: u64) -> Option<(&Path, u64, u8, Part)> {
        let random =
            |salt: u64, below: u64| mix(mix(self.seed) ^ mix(number) ^ salt) % below.max(1);
        let kinds: Vec<_> = Part::ALL
            .into_iter()
            .filter(|part| self.parts.iter().any(|each| each.2 == *part))
            .collect();
        let kind = kinds.get(usize::try_from(random(1, kinds.len().try_into().ok()?)).ok()?)?;
        let ranges: Vec<_> = self.parts.iter().filter(|each| each.2 == *kind).collect();
        let total: u64 = ranges.iter().map(|(_, range, _)| range.end - range.start).sum();
        let mut byte = random(2, total);
        for (path, range, part) in ranges {
            let size = range.end - range.start;
            if byte < size {
                let bit = u8::try_from(random(3, 8)).ok()?;
                return Some((path, range.start + byte, bit, *part));
            }
            byte -= size;
        }
        None
    }

    /// Whether the flip with a number is located; for a dead byte, whether nothing changed.
    fn try_one(&self, disk: &SimDisk, number: u64) -> Result<(Part, bool)> {
        let (path, byte, bit, part) = self.flip(number).ok_or("there is nothing to flip")?;
        let flip = || -> Result<()> {
            let file = disk.open(path, plan_ledger::internals::storage::Access::Read)?;
            let mut one = [0];
            file.read_at(&mut one, byte)?;
            Ok(disk.overwrite(path, byte, &one.map(|old| old ^ (1 << bit)))?)
        };
        flip()?;
        let (found, served, is_correct) = self.verify(disk)?;
        flip()?;
        let lost = self.records.iter().map(|record| record.seq).filter(|seq| !served.contains(seq));
        let is_reported = |seq: &u64| {
            found.findings.iter().any(|each| each.missing.as_ref().is_some_and(|m| m.contains(seq)))
        };
        let nothing_silent = is_correct && lost.collect::<Vec<_>>().iter().all(is_reported);
        let is_located = found
            .findings
            .iter()
            .any(|each| each.path == path && (each.offset..each.end).contains(&byte));
        let as_expected = if part.is_dead() { found.findings.is_empty() } else { is_located };
        Ok((part, nothing_silent && as_expected))
    }

    /// Verify. Returns the findings, the served records, and whether all of these were correct.
    fn verify(
        &self,
        disk: &SimDisk,
    ) -> Result<(Verification, std::collections::BTreeSet<u64>, bool)> {
        let served = Mutex::new(std::collections::BTreeSet::new());
        let is_correct = AtomicBool::new(true);
        let examine = |record: &LoggedRecord<&[u8]>| {
            let index = usize::try_from(record.seq.saturating_sub(1)).ok();
            if index.and_then(|index| self.records.get(index)) != Some(&record.clone().into_owned())
            {
                is_correct.store(false, Ordering::Relaxed);
            }
            served.lock().unwrap_or_else(PoisonError::into_inner).insert(record.seq);
            None
        };
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let options = VerifyOptions { check_record: &examine, ..VerifyOptions::DEFAULT };
        let found = verify(&storage, &dir(), options)?;
        let served = served.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((found, served, is_correct.into_inner()))
    }

    /// Try all flips, with one thread for each processor.
    fn run(&self, flips: u64) -> Result<BTreeMap<Part, FlipCounts>> {
        let (counts_by_part, next) =
            (Mutex::new(BTreeMap::<Part, FlipCounts>::new()), AtomicU64::new(0));
        let work = || -> Result<()> {
            let disk = self.disk.fork();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= flips {
                    return Ok(());
                }
                let (part, is_good) = self.try_one(&disk, number)?;
                let mut counts_by_part =
                    counts_by_part.lock().unwrap_or_else(PoisonError::into_inner);
                let counts = counts_by_part.entry(part).or_default();
                match (is_good, part.is_dead()) {
                    (false, _) => counts.silent += 1,
                    (true, true) => counts.dead += 1,
                    (true, false) => counts.located += 1,
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
        })?;
        Ok(counts_by_part.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

#[expect(clippy::print_stdout, reason = "an example prints what it found")]
fn main() -> Result<ExitCode> {
    let options = options()?;
    let start = Instant::now();
    let disk = make(options.records)?;
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = LogReader::open(&storage, &dir())?;
    let mut records = Vec::new();
    for item in reader.walk(1) {
        match item? {
            LogItem::Record(record, _) => records.push(record),
            other => return Err(format!("the ledger is damaged: {other:?}").into()),
        }
    }
    let parts = parts(&disk, &reader)?;
    let bytes: u64 = parts.iter().map(|(_, range, _)| range.end - range.start).sum();
    println!(
        "a ledger of {} records in {} segments, {bytes} bytes; {} flips, seed {}",
        records.len(),
        reader.segments().len(),
        options.flips,
        options.seed
    );
    let sweep = Sweep { disk, records, parts, seed: options.seed };
    let counts_by_part = sweep.run(options.flips)?;
    println!("{:<34} {:>9} {:>9} {:>9}", "flipped bits of", "located", "dead", "silent");
    let mut all = FlipCounts::default();
    for (part, counts) in &counts_by_part {
        println!(
            "{:<34} {:>9} {:>9} {:>9}",
            part.name(),
            counts.located,
            counts.dead,
            counts.silent
        );
        all.located += counts.located;
        all.dead += counts.dead;
        all.silent += counts.silent;
    }
    println!("{:<34} {:>9} {:>9} {:>9}", "all", all.located, all.dead, all.silent);
    println!("in {:.0} s", start.elapsed().as_secs_f64());
    Ok(if all.silent == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
