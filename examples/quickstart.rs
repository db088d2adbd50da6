//! A plan of three steps, executed through a ledger that survives whatever happens between any
//! two lines. Run it twice: the second time it finds the work done.
#![expect(clippy::print_stdout, reason = "it is a program that talks")]

use std::path::Path;

use plan_ledger::plan::{Json, RunStatus};
use plan_ledger::{Environment, Ledger, Plan, Receipt, RunPolicy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan: Plan = serde_json::from_str(
        r#"{"title": "Release", "steps": [
            {"id": "build", "goal": "compile the program"},
            {"id": "test", "goal": "run the tests", "after": ["build"]},
            {"id": "publish", "goal": "upload it", "after": ["test"], "idempotent": "no"}]}"#,
    )?;
    let dir = std::env::temp_dir().join("quickstart.ledger");
    let (ledger, report) = Ledger::open_or_create(Path::new(&dir), &Environment::system())?;
    println!("{report}");
    let run = match ledger.state()?.run_named("release") {
        Some(run) => run.id,
        None => ledger.start_run("release", &plan, RunPolicy::default())?,
    };
    while let Some(task) = ledger.dispatch(run, "worker-1")? {
        println!("step {}: {}", task.number, task.step.goal);
        let output = Json::new(&serde_json::json!({ "done": task.step.id })).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() })?;
    }
    let state = ledger.state()?;
    let status = state.runs.get(&run).map(|run| run.status);
    println!("{status:?}: record {}, state {}", ledger.head().seq, ledger.state_hash()?);
    assert!(matches!(status, Some(RunStatus::Ended(_))));
    Ok(ledger.close()?)
}
