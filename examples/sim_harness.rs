//! How to crash your own harness at every call that it makes to the disk, and see that it comes
//! through: replace `orchestrate` by your loop and `judge` by what must hold.
//!
//! `cargo run --features sim --example sim_harness`
#![cfg_attr(not(test), expect(clippy::print_stdout, reason = "it is a program that talks"))]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::format::Uid;
use plan_ledger::plan::{LostCause, StepStatus};
use plan_ledger::sim::{Loss, SimDisk};
use plan_ledger::{Clock, Environment, IdSource, Ledger, Plan, Receipt, Result, RunPolicy};

const PLAN: &str = r#"{"steps": [
    {"id": "build"}, {"id": "test", "after": ["build"]}, {"id": "publish", "after": ["test"]}]}"#;

/// Your loop: it starts or goes on, works until nothing is left, and may stop at any `?`.
fn orchestrate(environment: &Environment, work: &mut Vec<String>) -> Result<Ledger> {
    let plan: Plan = serde_json::from_str(PLAN).expect("a valid plan");
    let (ledger, _) = Ledger::open_or_create(Path::new("/ledger"), environment)?;
    let known = ledger.state().run_named("release").map(|run| run.id);
    let run = match known {
        Some(run) => run,
        None => ledger.start_run("release", &plan, RunPolicy::default())?,
    };
    for token in ledger.state().in_flight.keys() {
        ledger.report_lost(*token, LostCause::RunnerDied, "the harness was restarted")?;
    }
    while let Some(task) = ledger.dispatch(run, "worker")? {
        work.push(task.step.id.clone());
        ledger.record_receipt(task.token, Receipt::default())?;
    }
    Ok(ledger)
}

/// What must hold at the end, wherever the crash was.
fn judge(ledger: &Ledger, work: &[String], story: &str) {
    let state = ledger.state();
    let run = state.run_named("release").expect("the run was started");
    assert_eq!(run.count(StepStatus::Accepted), 3, "{story}: {:?}", run.counts);
    assert!(work.len() <= 4, "{story}: only what was in flight is done again: {work:?}");
}

/// Time and identifiers that only the calls decide.
#[derive(Debug)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn now(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

impl IdSource for Counter {
    fn next_id(&self) -> Uid {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let mut id = [1; 16];
        id.iter_mut().zip(number).for_each(|(to, from)| *to = from);
        id
    }
}

fn on(disk: &SimDisk) -> Environment {
    let counter = || Arc::new(Counter(AtomicU64::new(1_700_000_000_000_000 + disk.calls())));
    Environment {
        storage: Arc::new(disk.clone()),
        clock: counter(),
        ids: counter(),
        ..Environment::system()
    }
}

#[cfg_attr(test, test)]
fn main() {
    let calm = SimDisk::new();
    let mut work = Vec::new();
    let ledger = orchestrate(&on(&calm), &mut work).expect("nothing goes wrong");
    judge(&ledger, &work, "no crash");
    let mut crashes = 0;
    for call in 1..=calm.calls() {
        for loss in [Loss::Everything, Loss::Nothing, Loss::Some(call)] {
            let (disk, mut work) = (SimDisk::new(), Vec::new());
            disk.crash_at(call);
            let first_life = orchestrate(&on(&disk), &mut work);
            assert!(first_life.is_err(), "the machine stopped at call {call}");
            disk.lose_power(loss);
            let story: Vec<String> = disk.injected().iter().map(ToString::to_string).collect();
            let story = story.join("; ");
            let second_life = orchestrate(&on(&disk), &mut work);
            let ledger = second_life.unwrap_or_else(|error| panic!("{story}: {error}"));
            judge(&ledger, &work, &story);
            crashes += 1;
        }
    }
    println!("{crashes} crashes, and each time the run went on to the same end");
}
