//! `ledger plan enrich`: fills in the fields of a plan's steps from a registry of tools.

use std::path::PathBuf;

use clap::Args;

use plan_ledger::plan::validate;
use plan_ledger_files::{ExportFormat, PlanFile, read_tools};

use crate::output::{Code, Failure, output_file, print_note, print_raw};

use super::forms::{read, write_new};

const EXAMPLES: &str = "\
Examples:
  ledger plan enrich rough.yaml --tools tools.yaml
  ledger plan enrich rough.yaml --tools tools.yaml -o plan.json

Only missing fields are filled in, and they are listed in the step's extra.enriched. The result is
JSON, which every command that reads plans accepts. The registry is described in format/tools.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanEnrichArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The registry of tools: YAML or JSON
    #[arg(long, value_name = "REGISTRY")]
    tools: PathBuf,
    /// Write the result to this file, which must not exist
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(super) fn enrich_file(args: &PlanEnrichArgs) -> Result<Code, Failure> {
    let imported = read(&args.file, None)?;
    let registry = read_tools(&args.tools).map_err(Failure::of_input)?;
    let enriched = imported.plan.enriched(&registry);
    let problems: Vec<String> = validate(&enriched).iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: the enriched plan is not valid:\n  {}",
            args.tools.display(),
            problems.join("\n  ")
        )));
    }
    let changed = enriched.steps.iter().zip(&imported.plan.steps).filter(|(new, old)| new != old);
    let (changed, steps) = (changed.count(), enriched.steps.len());
    let text = PlanFile { plan: enriched, ..imported }
        .render(ExportFormat::Json)
        .map_err(|error| Failure::of_input(error.at_path(&args.file)))?;
    match output_file(args.output.as_ref()) {
        None => print_raw(&text)?,
        Some(path) => write_new(path, &text)?,
    }
    print_note(&format!("enriched {changed} of {steps} steps"));
    Ok(Code::Success)
}
