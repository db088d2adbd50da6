//! `ledger plan diff`: compares two plan files.

use std::path::PathBuf;

use clap::Args;

use plan_ledger::internals::plan::diff;

use crate::output::{Code, Failure, PlanDiffJson, plan_diff_text, print_result};

use super::forms::read;

const EXAMPLES: &str = "\
Examples:
  ledger plan diff old.yaml new.yaml
  ledger plan diff old.yaml new.yaml --json | jq .reordered";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanDiffArgs {
    /// The old plan
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The new plan
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn diff_files(args: &PlanDiffArgs) -> Result<Code, Failure> {
    let (old, new) = (read(&args.old, None)?.plan, read(&args.new, None)?.plan);
    let difference = diff(&old, &new);
    let line = PlanDiffJson::from(&difference);
    print_result(args.json, &line, &plan_diff_text(&difference))?;
    Ok(Code::Success)
}
