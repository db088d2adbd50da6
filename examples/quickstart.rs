//! Executes a plan of three steps through a ledger. If the program is killed between any two lines, the
//! next run continues where it stopped; once the plan is done, it finds nothing left to do.
#![expect(clippy::print_stdout, reason = "the example prints its progress")]

use std::path::Path;

use plan_ledger::plan::{Json, LostCause};
use plan_ledger::{Environment, Ledger, Plan, Receipt, Result, RunPolicy};

const PLAN: &str = r#"{"title": "Release", "steps": [
    {"id": "build", "goal": "compile the program"},
    {"id": "test", "goal": "run the tests", "after": ["build"]},
    {"id": "publish", "goal": "upload it", "after": ["test"], "idempotent": "with_key"}]}"#;

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join("quickstart.ledger");
    release(&dir, &Environment::system())?.close()
}

pub(crate) fn release(dir: &Path, environment: &Environment) -> Result<Ledger> {
    let plan: Plan = serde_json::from_str(PLAN).expect("a plan");
    let (ledger, report) = Ledger::open_or_create(dir, environment)?;
    println!("{report}");
    let state = ledger.state()?;
    let run = match state.names.get("release") {
        Some(run) => *run,
        None => ledger.start_run("release", &plan, RunPolicy::default())?,
    };
    // An attempt that was in flight when this program was killed will never report: its step is
    // dispatched again.
    for (token, _) in state.in_flight.iter().filter(|(_, (of, _))| *of == run) {
        ledger.report_lost(*token, LostCause::RunnerDied, "the program was killed")?;
    }
    while let Some(task) = ledger.dispatch(run, "worker-1")? {
        println!("step {}: {} ({})", task.number, task.step.goal, task.idempotency_key);
        let output = Json::new(&serde_json::json!({ "done": task.step.id })).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() })?;
    }
    println!("done: record {}, state {}", ledger.head().seq, ledger.state_hash()?);
    Ok(ledger)
}
