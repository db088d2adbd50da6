//! Creates a large ledger for measurements of readers: real runs, whose steps many threads dispatch and
//! report with group commit, and snapshots at the usual intervals.
//!
//! `cargo run --release --features examples --example large -- DIR [RECORDS]`
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::{Environment, Json, Ledger, Plan, Receipt, RunId, RunPolicy};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Threads that dispatch steps and report receipts.
const WORKERS: u64 = 64;
/// Steps of a run.
const STEPS: u64 = 400;

fn plan() -> Result<Plan, Failure> {
    let step = |number: u64| {
        serde_json::json!({
            "id": format!("s{number}"), "title": format!("Step number {number}"),
            "goal": "do what a step of a plan does", "outputs": [format!("out{}", number % 20)],
        })
    };
    let steps: Vec<_> = (0..STEPS).map(step).collect();
    Ok(serde_json::from_value(serde_json::json!({ "title": "Large", "steps": steps }))?)
}

/// Run plans until there are enough records.
fn work(ledger: &Ledger, next_run: &AtomicU64, enough: u64) -> Result<(), Failure> {
    let plan = plan()?;
    while ledger.head().seq < enough {
        let name = format!("run-{}", next_run.fetch_add(1, Ordering::Relaxed));
        let run = ledger.start_run(&name, &plan, RunPolicy::default())?;
        finish(ledger, run, enough)?;
    }
    Ok(())
}

fn finish(ledger: &Ledger, run: RunId, enough: u64) -> Result<(), Failure> {
    while let Some(task) = ledger.dispatch(run, "worker")? {
        let value = format!("result of step {}", task.number);
        let output = Json::new(&serde_json::json!({ "done": task.step.id, "text": value })).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() })?;
        if ledger.head().seq >= enough {
            break;
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().ok_or("expected a folder")?;
    let records: u64 = words.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let (ledger, _) = Ledger::open_or_create(Path::new(&dir), &Environment::system())?;
    let next_run = AtomicU64::new(ledger.head().seq);
    let (ledger_of_all, next_run) = (&ledger, &next_run);
    std::thread::scope(|scope| {
        let start = |_| scope.spawn(move || work(ledger_of_all, next_run, records));
        let workers: Vec<_> = (0..WORKERS).map(start).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => Err("a worker panicked".into()),
        })
    })?;
    let head = ledger.head();
    ledger.close()?;
    println!("{} records in {dir}", head.seq);
    Ok(())
}
