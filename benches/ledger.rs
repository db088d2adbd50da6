//! Durable steps, open and replay, time travel, snapshots and verification, on the disk of the target
//! folder.
//!
//! Run with `cargo bench`. The sync method is fdatasync. With `-- --test` each bench runs once, as a
//! check.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use plan_ledger::internals::ledger::{VerifyLevel, VerifyRequest};
use plan_ledger::{Environment, Ledger, Plan, Receipt, RunPolicy, State, Step};

fn folder() -> tempfile::TempDir {
    let target = std::env::var_os("CARGO_TARGET_TMPDIR").unwrap_or_else(|| "target/tmp".into());
    std::fs::create_dir_all(&target).expect("a writable build folder");
    tempfile::tempdir_in(target).expect("a writable build folder")
}

fn plan(steps: usize) -> Plan {
    let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
    Plan { steps: (0..steps).map(step).collect(), ..Plan::default() }
}

/// A ledger with a run of that many steps, none of which was dispatched.
fn ledger(dir: &Path, steps: usize) -> (Ledger, plan_ledger::RunId) {
    let ledger = Ledger::create(dir, &Environment::system()).expect("a new ledger");
    let run = ledger.start_run("bench", &plan(steps), RunPolicy::default()).expect("a valid plan");
    (ledger, run)
}

fn work(ledger: &Ledger, run: plan_ledger::RunId) {
    if let Some(task) = ledger.dispatch(run, "worker").expect("a dispatch") {
        ledger.record_receipt(task.token, Receipt::default()).expect("a receipt");
    }
}

fn step(c: &mut Criterion) {
    c.bench_function("durable_step/dispatch_and_receipt", |b| {
        b.iter_batched_ref(
            || {
                let folder = folder();
                let (ledger, run) = ledger(&folder.path().join("step.ledger"), 200);
                (folder, ledger, run)
            },
            |(_, ledger, run)| (0..100).for_each(|_| work(ledger, *run)),
            BatchSize::PerIteration,
        );
    });
}

fn replay(c: &mut Criterion) {
    let folder = folder();
    let dir = folder.path().join("replay.ledger");
    let (made, run) = ledger(&dir, 1000);
    (0..1000).for_each(|_| work(&made, run));
    let records = made.head().seq;
    made.close().expect("a clean close");
    let mut group = c.benchmark_group("open_and_replay");
    group.throughput(Throughput::Elements(records));
    group.bench_function("1000_steps", |b| {
        b.iter(|| Ledger::open_with(&dir, &Environment::system()).expect("a ledger"));
    });
    group.finish();
}

/// Opening a ledger without a snapshot and with one near its end, and the state at one of the last
/// hundred records.
fn snapshot(c: &mut Criterion) {
    let folder = folder();
    let dir = folder.path().join("snapshot.ledger");
    let (made, run) = ledger(&dir, 1000);
    (0..950).for_each(|_| work(&made, run));
    let environment = Environment { snapshot_every: None, ..Environment::system() };
    made.close().expect("a clean close");
    let mut group = c.benchmark_group("time_travel");
    for name in ["without_snapshot", "with_snapshot"] {
        let (open, _) = Ledger::open_with(&dir, &environment).expect("a ledger");
        if name == "with_snapshot" {
            open.snapshot::<State>().expect("a snapshot");
            (0..50).for_each(|_| work(&open, run));
        }
        let seq = open.head().seq - 50;
        group.bench_function(format!("state_at/{name}"), |b| {
            b.iter(|| open.state_at(black_box(seq)).expect("a record that is there"));
        });
        open.close().expect("a clean close");
        group.bench_function(format!("open/{name}"), |b| {
            b.iter(|| Ledger::open_with(&dir, &environment).expect("a ledger"));
        });
    }
    group.finish();
}

/// Writing a snapshot a few records after the previous one, for plans of several sizes.
fn made(c: &mut Criterion) {
    let mut group = c.benchmark_group("snapshot_made");
    group.sample_size(10);
    for steps in [100, 1_000, 10_000] {
        let folder = folder();
        let dir = folder.path().join("made.ledger");
        let (made, run) = ledger(&dir, steps);
        made.close().expect("a clean close");
        let environment = Environment { snapshot_every: None, ..Environment::system() };
        let (ledger, _) = Ledger::open_with(&dir, &environment).expect("a ledger");
        let task = ledger.dispatch(run, "worker").expect("a dispatch").expect("a step");
        group.bench_function(BenchmarkId::new("steps", steps), |b| {
            b.iter_batched(
                || ledger.renew(task.token).expect("a sign of life"),
                |_| ledger.snapshot::<State>().expect("a snapshot").seq,
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Verification at every level of a ledger with a snapshot, with two threads.
fn verified(c: &mut Criterion) {
    let folder = folder();
    let dir = folder.path().join("verify.ledger");
    let (made, run) = ledger(&dir, 1000);
    (0..1000).for_each(|_| work(&made, run));
    made.snapshot::<State>().expect("a snapshot");
    let records = made.head().seq;
    made.close().expect("a clean close");
    let mut group = c.benchmark_group("verify");
    group.throughput(Throughput::Elements(records));
    for level in [VerifyLevel::Crc, VerifyLevel::Chain, VerifyLevel::Snapshots, VerifyLevel::Replay]
    {
        let (jobs, watch) = (NonZeroUsize::MIN.saturating_add(1), &|_| ControlFlow::Continue(()));
        group.bench_function(format!("{level:?}").to_lowercase(), |b| {
            let request = VerifyRequest { level, jobs, expected: None, watch };
            b.iter(|| request.run(&dir, &Environment::system()).expect("a ledger").condition());
        });
    }
    group.finish();
}

criterion_group!(benches, step, replay, snapshot, made, verified);
criterion_main!(benches);
