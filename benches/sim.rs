//! The cost of a crash image: forks of a simulated disk, a power loss, and opening a log.
//!
//! Run with `cargo bench --features sim --bench sim`. With `-- --test` each bench runs once.

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::internals::storage::{Access, Storage};
use plan_ledger::log::{Log, LogOptions, UidSource};

const DIR: &str = "/ledger";

fn options(disk: &SimDisk) -> LogOptions {
    LogOptions::new(Arc::new(disk.clone()), UidSource::new(|| [7; 16]))
}

fn record(length: usize) -> NewRecord {
    NewRecord { kind: 0x8002, codec: Codec::Raw, schema: 1, payload: vec![0xA5; length] }
}

/// A small log whose last record was not synced when the machine stopped.
fn stopped() -> SimDisk {
    let disk = SimDisk::new();
    let log = Log::create(Path::new(DIR), options(&disk), 1).expect("a new log");
    for _ in 0..10 {
        log.append(&[record(256)], 2).expect("an append");
    }
    disk.crash_at(disk.calls() + 2);
    log.append(&[record(256)], 3).expect_err("the machine stops before the sync");
    disk
}

fn crash_images(c: &mut Criterion) {
    let disk = stopped();
    let mut seed = 0;
    let mut image = |loss: fn(u64) -> Loss| {
        seed += 1;
        let fork = disk.fork();
        fork.lose_power(loss(seed));
        fork
    };
    c.bench_function("fork_and_lose_power", |b| b.iter(|| image(Loss::Some)));
    c.bench_function("crash_image_opened_after_a_kill", |b| {
        b.iter(|| {
            let fork = disk.fork();
            fork.kill_process();
            Log::open(Path::new(DIR), options(&fork), 4)
        });
    });
    c.bench_function("crash_image_opened_with_nothing_unsynced", |b| {
        b.iter(|| {
            let fork = image(|_| Loss::Everything);
            Log::open(Path::new(DIR), options(&fork), 4)
        });
    });
    c.bench_function("crash_image_opened_with_a_torn_end", |b| {
        b.iter(|| {
            let fork = image(Loss::Some);
            Log::open(Path::new(DIR), options(&fork), 4)
        });
    });
    c.bench_function("create_a_log", |b| {
        b.iter(|| {
            let disk = SimDisk::new();
            Log::create(Path::new(DIR), options(&disk), 1)
        });
    });
}

fn large_files(c: &mut Criterion) {
    let disk = SimDisk::new();
    let file = disk.create(Path::new("/file")).expect("a new file");
    for megabyte in 0..64 {
        file.write_at(&vec![0xA5; 1 << 20], megabyte << 20).expect("a write");
    }
    file.sync().expect("a sync");
    c.bench_function("fork_of_64_mib", |b| b.iter(|| disk.fork()));
    c.bench_function("fork_of_64_mib_and_a_write", |b| {
        b.iter(|| {
            let fork = disk.fork();
            let file = fork.open(Path::new("/file"), Access::ReadWrite).expect("the file");
            file.write_at(&[1; 512], 32 << 20).expect("a write");
            fork.lose_power(Loss::Everything);
            fork
        });
    });
}

criterion_group!(benches, crash_images, large_files);
criterion_main!(benches);
