//! `ledger get`: prints a variable of a run.

use clap::Args;
use serde_json::{Value, json};

use crate::options::{LedgerArgs, RunOption};
use crate::output::{Code, Failure, print_result};
use crate::server::run_or_only;

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

pub(crate) fn get(args: &GetArgs) -> Result<Code, Failure> {
    read_state(&args.ledger.dir, |state| {
        let run = run_or_only(state, args.run.run.as_deref())?;
        let variable = run.variables.get(&args.name);
        let value = variable.map_or(Value::Null, |variable| variable.value.value());
        let line = json!({
            "type": "variable", "run": run.name, "name": args.name, "value": value,
            "version": variable.map_or(0, |variable| variable.version),
        });
        print_result(args.ledger.json, &line, &value.to_string())?;
        Ok(Code::Success)
    })
}
