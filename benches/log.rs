//! The log without plans, on the disk of the target folder: durable appends by payload, batch and number
//! of threads; reading; verification by number of jobs.
//!
//! Run with `cargo bench --bench log`; the sync method is fdatasync.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use criterion::{criterion_group, criterion_main};
use plan_ledger::BackgroundWork;
use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{
    ChainCheck, Log, LogItem, LogOptions, LogReader, UidSource, VerifyOptions, verify,
};

/// Records of the log for reading and verification.
const RECORDS: u64 = 50_000;

fn folder() -> tempfile::TempDir {
    let target = std::env::var_os("CARGO_TARGET_TMPDIR").unwrap_or_else(|| "target/tmp".into());
    std::fs::create_dir_all(&target).expect("a writable build folder");
    tempfile::tempdir_in(target).expect("a writable build folder")
}

fn record(length: usize) -> NewRecord {
    NewRecord { kind: 0x9002, codec: Codec::Raw, schema: 1, payload: vec![0xA5; length] }
}

fn log(folder: &tempfile::TempDir) -> Log {
    let next = AtomicU64::new(1);
    let uids = UidSource::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        (u128::from(number) << 64).to_le_bytes()
    });
    // The options of a ledger.
    let background_work = BackgroundWork::Thread;
    let options = LogOptions { background_work, ..LogOptions::new(Arc::new(DiskStorage), uids) };
    Log::create(&folder.path().join("bench.ledger"), options, 1).expect("a new log")
}

fn group<'a>(c: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    group.sample_size(20).measurement_time(Duration::from_secs(3));
    group
}

fn append(c: &mut Criterion) {
    let mut group = group(c, "append_durable");
    for length in [64_usize, 256, 4_096, 65_536] {
        let folder = folder();
        let (log, batch) = (log(&folder), [record(length)]);
        group.throughput(Throughput::Bytes(u64::try_from(length).expect("a small number")));
        group.bench_function(BenchmarkId::new("payload_bytes", length), |b| {
            b.iter(|| log.append(black_box(&batch), 2).expect("an append"));
        });
    }
    for count in [1_u64, 10, 100, 1_000] {
        let folder = folder();
        let log = log(&folder);
        let batch: Vec<_> = (0..count).map(|_| record(256)).collect();
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::new("records_a_batch", count), |b| {
            b.iter(|| log.append(black_box(&batch), 2).expect("an append"));
        });
    }
    group.throughput(Throughput::Elements(1));
    for threads in [1, 8, 32, 256] {
        let folder = folder();
        let log = log(&folder);
        group.bench_function(BenchmarkId::new("threads", threads), |b| {
            b.iter_custom(|appends| together(&log, threads, appends));
        });
    }
    group.finish();
}

/// The time of `count` appends by concurrent threads. Each thread appends equally often; the time of
/// surplus appends is subtracted.
fn together(log: &Log, threads: u64, appends: u64) -> Duration {
    let each = appends.div_ceil(threads);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    log.append(black_box(&[record(256)]), 2).expect("an append");
                }
            });
        }
    });
    let narrow = |count: u64| u32::try_from(count).expect("no more than fit into a minute");
    started.elapsed() * narrow(appends) / narrow(each * threads)
}

/// A closed log.
fn filled(folder: &tempfile::TempDir) -> Arc<dyn Storage> {
    let log = log(folder);
    let batch: Vec<_> = (0..1_000).map(|_| record(256)).collect();
    for _ in 0..RECORDS / 1_000 {
        log.append(&batch, 2).expect("an append");
    }
    log.close().expect("a clean close");
    Arc::new(DiskStorage)
}

fn walk(c: &mut Criterion) {
    let folder = folder();
    let (storage, dir) = (filled(&folder), folder.path().join("bench.ledger"));
    let mut group = group(c, "walk");
    group.throughput(Throughput::Elements(RECORDS));
    for (name, links) in [("checksums", ChainCheck::Trust), ("links", ChainCheck::Recompute)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let reader =
                    LogReader::open(&storage, &dir).expect("a log").with_chain_check(links);
                let (mut walk, mut bytes) = (reader.walk(1), 0);
                while let Some(item) = walk.next_ref() {
                    if let LogItem::Record(record, _) = item.expect("a disk that can be read") {
                        bytes += record.payload.len();
                    }
                }
                bytes
            });
        });
    }
    group.finish();
}

fn verified(c: &mut Criterion) {
    let folder = folder();
    let (storage, dir) = (filled(&folder), folder.path().join("bench.ledger"));
    let mut group = group(c, "verify");
    group.throughput(Throughput::Elements(RECORDS));
    for jobs in [1, 2, 4] {
        let number = NonZeroUsize::new(jobs).expect("a job");
        group.bench_function(BenchmarkId::new("jobs", jobs), |b| {
            let options = VerifyOptions { jobs: number, ..VerifyOptions::DEFAULT };
            b.iter(|| verify(&storage, &dir, options).expect("a log").counts.records);
        });
    }
    group.finish();
}

criterion_group!(benches, append, walk, verified);
criterion_main!(benches);
