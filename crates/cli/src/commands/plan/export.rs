//! `ledger plan export`: converts a plan file to another form.
//!
//! The converted file reads as the same plan, with the same marks of finished steps.

use std::path::PathBuf;

use clap::Args;

use plan_ledger::plan_hash;

use crate::commands::read_report::print_read_report;
use crate::options::ReadPlanArgs;
use crate::output::{Code, Failure, print_message, print_raw};

use super::forms::{FORMS, FormChoice, converted, count_of, write_new};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan export tasks.json -o plan.yaml\n  \
         ledger plan export issues.jsonl --format md -o plan.md\n\n\
         Steps that the file marks as done stay marked.\n\n{FORMS}"
    )
}

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct PlanExportArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The form of the result
    #[arg(long, value_name = "FORM", default_value = "yaml")]
    format: FormChoice,
    #[command(flatten)]
    read: ReadPlanArgs,
    /// Write the result to this file, which must not exist
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(super) fn export(args: &PlanExportArgs) -> Result<Code, Failure> {
    let imported = args.read.read(&args.file)?;
    if !imported.report.is_empty() {
        print_read_report(&args.file, &imported);
    }
    let text = converted(&args.file, &imported, args.format)?;
    match &args.output {
        None => print_raw(&text)?,
        Some(path) => {
            write_new(path, &text)?;
            let steps = count_of(imported.plan.steps.len(), "step");
            let hash = plan_hash(&imported.plan).short();
            print_message(&format!("{}: {steps}, hash {hash}", path.display()));
        }
    }
    Ok(Code::Success)
}
