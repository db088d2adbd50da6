//! How to crash your own harness at every change that it makes to the disk, and see that it comes
//! through: replace `orchestrate` by your loop and `judge` by what must hold.
//!
//! `cargo run --features sim --example sim_harness`
#![cfg_attr(not(test), expect(clippy::print_stdout, reason = "it is a program that talks"))]

use std::path::Path;

use plan_ledger::lab::{environment, every_crash};
use plan_ledger::plan::{LostCause, StepStatus};
use plan_ledger::sim::SimDisk;
use plan_ledger::{Environment, Ledger, Plan, Receipt, Result, RunPolicy};

const PLAN: &str = r#"{"steps": [
    {"id": "build"}, {"id": "test", "after": ["build"]}, {"id": "publish", "after": ["test"]}]}"#;

/// Your loop: it starts or goes on, works until nothing is left, and may stop at any `?`.
fn orchestrate(environment: &Environment) -> Result<Ledger> {
    let plan: Plan = serde_json::from_str(PLAN).expect("a valid plan");
    let (ledger, _) = Ledger::open_or_create(Path::new("/ledger"), environment)?;
    let known = ledger.state()?.run_named("release").map(|run| run.id);
    let run = match known {
        Some(run) => run,
        None => ledger.start_run("release", &plan, RunPolicy::default())?,
    };
    for token in ledger.state()?.in_flight.keys() {
        ledger.report_lost(*token, LostCause::RunnerDied, "the harness was restarted")?;
    }
    while let Some(task) = ledger.dispatch(run, "worker")? {
        ledger.record_receipt(task.token, Receipt::default())?;
    }
    Ok(ledger)
}

/// What must hold at the end, wherever the crash was.
fn judge(ledger: &Ledger) -> std::result::Result<(), String> {
    let state = ledger.state().map_err(|error| error.to_string())?;
    let run = state.run_named("release").ok_or("the run is gone")?;
    let dealt: u32 = run.steps.iter().map(|step| step.attempts).sum();
    match (run.count(StepStatus::Accepted), dealt) {
        (3, 3..=4) => Ok(()),
        (accepted, dealt) => Err(format!("{accepted} steps accepted, {dealt} attempts")),
    }
}

#[cfg_attr(test, test)]
fn main() {
    let life = |disk: &SimDisk| {
        orchestrate(&environment(disk)).map_err(|error| format!("it did not come up: {error}"))
    };
    let crashes = every_crash(life, |_, ledger| judge(&ledger)).expect("every crash is survived");
    println!(
        "{} crashes, in {} ways each, and each time the run went on to the same end",
        crashes.points,
        crashes.lives / crashes.points
    );
}
