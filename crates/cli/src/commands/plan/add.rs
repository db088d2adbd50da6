//! `ledger plan add`: proposes a plan version with one more step.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use plan_ledger::Step;
use plan_ledger_files::{self as files, Severity};

use crate::options::{LedgerArgs, RunOption, plan_author, read_json_value};
use crate::output::{Code, Failure};
use crate::requests::AddStepRequest;

use super::planned_files::execute_and_note;

const EXAMPLES: &str = "\
Examples:
  ledger plan add lint --goal 'run the linter' --after build
  ledger plan add --step '{\"id\": \"lint\", \"command\": \"make lint\"}' --reason 'found on the way'

It proposes a version of the plan with one more step; the run's policy decides whether the version
waits for approval. A version that an agent adds waits for a person. Finished steps stay finished.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanAddArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The new step's id
    #[arg(value_name = "ID", required_unless_present = "step")]
    id: Option<String>,
    /// The whole step as JSON (format/plan.md); @FILE for a file, - for standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["id", "goal", "after"])]
    step: Option<String>,
    /// The step's goal
    #[arg(long, value_name = "TEXT", default_value = "")]
    goal: String,
    /// A step that it depends on
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    #[command(flatten)]
    run: RunOption,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// The fault of a step, in the words of the reader of plan files.
fn why(step: &Value) -> String {
    if !step.is_object() {
        return "expected an object with an id".to_owned();
    }
    let plan = format!("{{\"defaults\":{{}},\"steps\":[{step}]}}");
    let report = files::lint_text("step", &plan, None);
    let problems = report.diagnostics.iter().filter(|each| each.severity == Severity::Problem);
    let texts: Vec<String> = problems
        .map(|each| match each.place.split_once("].") {
            Some((_, field)) => format!("{field}: {}", without_list(&each.message)),
            None => without_list(&each.message),
        })
        .collect();
    if texts.is_empty() { "expected an object with an id".to_owned() } else { texts.join("; ") }
}

/// A message without the list of all fields; a suggestion stays.
fn without_list(message: &str) -> String {
    let message = message.replacen("unknown field", "there is no field", 1);
    let Some((start, list)) = message.split_once(", expected one of") else {
        return message;
    };
    let hint = list.split_once("; ").map_or("see format/plan.md", |(_, hint)| hint);
    format!("{start}; {hint}")
}

pub(super) fn add(args: &PlanAddArgs) -> Result<Code, Failure> {
    let step: Step = if let Some(step) = &args.step {
        let value = read_json_value(step)?;
        Step::deserialize(&value)
            .map_err(|_| Failure::Usage(format!("this is not a step of a plan: {}", why(&value))))?
    } else {
        Step {
            id: args.id.clone().unwrap_or_default(),
            goal: args.goal.clone(),
            after: args.after.clone(),
            ..Step::default()
        }
    };
    let (run, reason) = (args.run.run.clone(), args.reason.clone());
    let waits_for_approval = false;
    execute_and_note(
        &args.ledger,
        AddStepRequest { run, step: Box::new(step), reason, waits_for_approval, by: plan_author() },
    )
    .map(|(code, _)| code)
}
