//! `ledger plan add`: proposes a plan version with one more step.

use clap::Args;
use serde_json::json;

use plan_ledger::Step;

use crate::options::{LedgerArgs, read_json_value};
use crate::output::{Code, Failure};
use crate::requests::AddStepRequest;

use super::planned_files::execute_and_note;

const EXAMPLES: &str = "\
Examples:
  ledger plan add lint --goal 'run the linter' --after build --command 'make lint'
  ledger plan add --step '{\"id\": \"lint\", \"after\": [\"build\"]}' --reason 'found on the way'

It proposes a version of the plan with one more step; the run's policy decides whether the version
waits for approval. Finished steps stay finished.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanAddArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The new step's id
    #[arg(value_name = "ID", required_unless_present = "step")]
    id: Option<String>,
    /// The whole step as JSON (format/plan.md); @FILE for a file, - for standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["id", "goal", "after", "command"])]
    step: Option<String>,
    /// The step's goal
    #[arg(long, value_name = "TEXT", default_value = "")]
    goal: String,
    /// A step that it depends on
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// The shell command of the step
    #[arg(long, value_name = "CMD")]
    command: Option<String>,
    /// The run's name; optional if only one run is active
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    run: Option<String>,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(super) fn add(args: &PlanAddArgs) -> Result<Code, Failure> {
    let value = if let Some(step) = &args.step {
        read_json_value(step)?
    } else {
        let mut value = json!({ "id": args.id, "goal": args.goal, "after": args.after });
        if let (Some(command), Some(members)) = (&args.command, value.as_object_mut()) {
            members.insert("command".to_owned(), json!(command));
        }
        value
    };
    let step: Step = serde_json::from_value(value)
        .map_err(|error| Failure::Usage(format!("this is not a step of a plan: {error}")))?;
    let (run, reason) = (args.run.clone(), args.reason.clone());
    execute_and_note(&args.ledger, AddStepRequest { run, step: Box::new(step), reason })
}
