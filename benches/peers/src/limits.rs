//! The limits of this machine: the disk, the hash, the checksum, the memory. They are measured in
//! the same run as everything else, so that each figure can be compared with its limit.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::Result;
use crate::measure::{as_float, per_second};
use crate::record::{LENGTH, Sum, payload};
use crate::speed::median;

#[derive(Args)]
pub struct Options {
    /// The folder of the files, on the device to measure
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    /// Rounds; a figure is the median over them
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Write all figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The frame size of a record of 256 bytes.
const FRAME: usize = 384;
/// Records in memory.
const RECORDS: u64 = 100_000;
/// The size of the file that is filled with zeros before, in bytes.
const PREPARED: usize = 64 << 20;

type Limit = (&'static str, &'static str, fn(&Options) -> Result<f64>);

const LIMITS: [Limit; 7] = [
    ("write + fdatasync of a frame", "a second", |options| syncs(options, FRAME)),
    ("write + fdatasync of 1,000 frames", "records/s", |options| {
        Ok(syncs(options, FRAME * 1000)? * 1000.0)
    }),
    ("chain: two blake3 hashes a record, one core", "records/s", |_| Ok(chain())),
    ("checksums: crc32 of header and body, one core", "records/s", |_| Ok(checksums())),
    ("decode and fold records in memory, one core", "records/s", |_| decoding()),
    ("read memory, one core", "GB/s", |_| Ok(reading())),
    ("copy memory, one core", "GB/s", |_| Ok(copying())),
];

pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.folder)?;
    println!("| limit | unit | median |\n|---|---|---|");
    let mut report = Vec::new();
    for (name, unit, measure) in LIMITS {
        let figures = (0..options.rounds).map(|_| measure(options)).collect::<Result<Vec<_>>>()?;
        println!("| {name} | {unit} | {:.1} |", median(figures.clone()));
        report.push(serde_json::json!({ "limit": name, "unit": unit, "figures": figures }));
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// Synced writes a second of `length` bytes to a file that was filled with zeros.
fn syncs(options: &Options, length: usize) -> Result<f64> {
    let file = tempfile::tempfile_in(&options.folder)?;
    prepare(&file)?;
    let (bytes, mut offset) = (vec![0x5A; length], 0);
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed().as_secs_f64() < 0.5 {
        if offset + length > PREPARED {
            offset = 0;
        }
        file.write_all_at(&bytes, u64::try_from(offset)?)?;
        file.sync_data()?;
        (offset, count) = (offset + length, count + 1);
    }
    Ok(per_second(count, started))
}

fn prepare(file: &File) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    for place in 0..PREPARED >> 20 {
        file.write_all_at(&zeros, u64::try_from(place << 20)?)?;
    }
    Ok(file.sync_all()?)
}

/// Hashes of payloads, and the chain over them.
fn chain() -> f64 {
    let (payload, mut link) = (payload(1), [0x11; 32 + 27 + 32]);
    let started = Instant::now();
    for _ in 0..RECORDS {
        let hash = blake3::hash(black_box(&payload));
        let next = blake3::keyed_hash(&[7; 32], black_box(&link));
        let (head, tail) = link.split_at_mut(32 + 27);
        if let (Some(head), Some(tail)) = (head.first_chunk_mut(), tail.first_chunk_mut()) {
            (*head, *tail) = (*next.as_bytes(), *hash.as_bytes());
        }
    }
    per_second(RECORDS, started)
}

fn checksums() -> f64 {
    let frame = vec![0x5A; FRAME];
    let started = Instant::now();
    for _ in 0..RECORDS {
        let (header, body) = frame.split_at(48);
        black_box(crc32fast::hash(black_box(header)));
        black_box(crc32fast::hash(black_box(body)));
    }
    per_second(RECORDS, started)
}

fn decoding() -> Result<f64> {
    let records: Vec<u8> = (1..=RECORDS).flat_map(payload).collect();
    let mut sum = Sum::new();
    let started = Instant::now();
    records.chunks(LENGTH).try_for_each(|record| sum.add(record))?;
    let rate = per_second(sum.records, started);
    black_box(sum.cost);
    Ok(rate)
}

fn reading() -> f64 {
    let words = vec![1_u64; 16 << 20];
    let started = Instant::now();
    black_box(black_box(&words).iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
    gigabytes(128 << 20, started)
}

fn copying() -> f64 {
    let (from, mut to) = (vec![1_u8; 64 << 20], vec![0_u8; 64 << 20]);
    let started = Instant::now();
    black_box(&mut to).copy_from_slice(black_box(&from));
    gigabytes(64 << 20, started)
}

fn gigabytes(bytes: u64, started: Instant) -> f64 {
    as_float(bytes) / 1e9 / started.elapsed().as_secs_f64()
}
