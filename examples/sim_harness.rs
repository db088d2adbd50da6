//! Crash-tests a harness at every change that it makes to the disk: replace `orchestrate` with your
//! loop, and `check` with the properties that must hold at the end.
//!
//! `cargo run -p plan-ledger-lab --features examples --example sim_harness`
#![cfg_attr(not(test), expect(clippy::print_stdout, reason = "an example prints its results"))]

use std::path::Path;

use plan_ledger::{Environment, Ledger, LostCause, Plan, Receipt, Result, RunPolicy, StepStatus};
use plan_ledger_lab::{SimDisk, environment, every_crash};

const PLAN: &str = r#"{"steps": [
    {"id": "build"}, {"id": "test", "after": ["build"]}, {"id": "publish", "after": ["test"]}]}"#;

/// Your loop: it starts or resumes, works until nothing is left, and may stop at any `?`.
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
fn check(ledger: &Ledger) -> std::result::Result<(), String> {
    let state = ledger.state().map_err(|error| error.to_string())?;
    let run = state.run_named("release").ok_or("the run is missing")?;
    let attempts: u32 = run.steps.iter().map(|step| step.attempts).sum();
    match (run.count(StepStatus::Accepted), attempts) {
        (3, 3..=4) => Ok(()),
        (accepted, attempts) => Err(format!("{accepted} steps accepted, {attempts} attempts")),
    }
}

#[cfg_attr(test, test)]
fn main() {
    let workload = |disk: &SimDisk| {
        orchestrate(&environment(disk)).map_err(|error| format!("the harness failed: {error}"))
    };
    let crashes = every_crash(workload, |_, ledger| check(&ledger))
        .expect("the harness survives every crash");
    println!(
        "{} crash points, {} restarts each: every run completed",
        crashes.points,
        crashes.runs / crashes.points
    );
}
