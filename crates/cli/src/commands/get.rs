//! `ledger get`: prints a variable of a run.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::json::AnyJson;
use crate::options::{LedgerArgs, RunOption};
use crate::output::{Code, Failure, print_result};
use crate::requests::run_or_only;

use super::read_state::read_state;

const EXAMPLES: &str = "\
Examples:
  ledger get count --run my-plan
  ledger get count --json                          with its version, for `ledger set --if-version`

It takes no lock.";

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
#[derive(Debug, Serialize, JsonSchema)]
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
        let value = variable.map_or(Value::Null, |variable| variable.value.value());
        let text = value.to_string();
        let line = VariableLine {
            name: args.name.clone(),
            run: run.name.clone(),
            value: value.into(),
            version: variable.map_or(0, |variable| variable.version),
        };
        print_result(args.ledger.json, &line, &text)?;
        Ok(Code::Success)
    })
}
