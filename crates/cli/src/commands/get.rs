//! `ledger get`: prints a variable of a run.

use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::Run;
use plan_ledger::plan::{CompactPlan, CompactStep, closest_name};

use crate::json::AnyJson;
use crate::options::{LedgerArgs, RunOption};
use crate::output::{Code, Failure, print_result, shell_command};
use crate::requests::run_or_only;

use super::inspect::read_state;

const EXAMPLES: &str = "\
Examples:
  ledger get count --run my-plan
  region=$(ledger get region --json | jq -r .value)   a string without its quotes
  ledger get count --json                          with its version, for `ledger set --if-version`

A variable that a step of the plan would set, but has not, is null. Another name is an error. It takes
no lock.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunOption,
    /// The variable's name
    name: String,
}

/// The value of a variable.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VariableLine {
    /// The variable.
    name: String,
    /// The run, by name.
    run: String,
    /// The value: any JSON; null if it is not set.
    value: AnyJson,
    /// How often it was set.
    version: u64,
}

pub(crate) fn get(args: &GetArgs) -> Result<Code, Failure> {
    read_state(args.ledger.dir(), |state| {
        let run = run_or_only(state, args.run.run.as_deref())?;
        let variable = run.variables.get(&args.name);
        if variable.is_none() {
            check_declared(run, &args.name, args.ledger.dir())?;
        }
        let value = variable.map_or(Value::Null, |variable| variable.value.value());
        let text = value.to_string();
        let line = VariableLine {
            name: args.name.clone(),
            run: run.name.clone(),
            value: value.into(),
            version: variable.map_or(0, |variable| variable.version),
        };
        print_result(args.ledger.json.0, &line, &text)?;
        Ok(Code::Success)
    })
}

/// Rejects a name that no step of the plan sets: probably a typing error.
fn check_declared(run: &Run, name: &str, ledger: &Path) -> Result<(), Failure> {
    let steps = run.plan().into_iter().flat_map(CompactPlan::steps);
    let declared: Vec<&str> = steps.flat_map(CompactStep::outputs).collect();
    if declared.contains(&name) {
        return Ok(());
    }
    let known = declared.into_iter().chain(run.variables.keys().map(String::as_str));
    let hint = match closest_name(name, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None => {
            let command = shell_command("inspect", ledger, &["variables", &run.name]);
            format!("`{command}` lists them")
        }
    };
    Err(Failure::Usage(format!("run {} has no variable `{name}`\nhint: {hint}", run.name)))
}
