//! Sequential durable steps, for the comparison with workflow tools: the receipt of a step and the
//! dispatch of the next one are one commit.

use std::path::Path;
use std::time::Instant;

use plan_ledger::{Environment, Json, Ledger, Receipt, RunPolicy};

use crate::Result;
use crate::plans::plan;

/// Print the seconds that so many steps take in a new ledger.
pub fn run(dir: &Path, steps: u64) -> Result<()> {
    let ledger = Ledger::create(dir, &Environment::system())?;
    let run = ledger.start_run("steps", &plan(steps)?, RunPolicy::default())?;
    let (started, mut done) = (Instant::now(), 0);
    let mut task = ledger.dispatch(run, "worker")?;
    while let Some(current) = task {
        let output = Json::new(&serde_json::json!("x".repeat(200))).into();
        let receipt = Receipt { output, ..Receipt::default() };
        (_, task) = ledger.record_receipt_and_dispatch(current.token, receipt, "worker")?;
        done += 1;
    }
    let took = started.elapsed();
    ledger.close()?;
    if done != steps {
        return Err(format!("{done} of {steps} steps were done").into());
    }
    println!("{}", took.as_secs_f64());
    Ok(())
}
