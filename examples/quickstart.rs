//! Executes a plan of three steps through a ledger. If the program is killed between any two lines, the
//! next run continues where it stopped; once the plan is done, it finds nothing left to do.
#![expect(clippy::print_stdout, reason = "the example prints its progress")]

use std::path::Path;

use plan_ledger::{Claim, Environment, Ledger, Plan, Result};
use serde_json::json;

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
    let ledger = Ledger::options().environment(environment.clone()).open(dir)?;
    println!("{}", ledger.open_report());
    let run = ledger.start_or_resume("release", &plan)?;
    // An attempt that was in flight when this program was killed will never report: its step is
    // dispatched again.
    ledger.recover_abandoned(run)?;
    loop {
        match ledger.claim(run, "worker-1")? {
            Claim::Task(task) => {
                println!("step {}: {} ({})", task.number, task.step.goal, task.idempotency_key);
                let output = json!({ "done": task.step.id });
                task.succeed(output)?;
            }
            Claim::Wait { reason, .. } => unreachable!("one worker never waits here: {reason}"),
            Claim::Done(_) => break,
        }
    }
    println!("done: record {}, state {}", ledger.head().seq, ledger.state_hash()?);
    Ok(ledger)
}
