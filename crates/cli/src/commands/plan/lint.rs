//! `ledger plan lint`: errors and likely mistakes in a plan file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use plan_ledger::internals::files::{self, Diagnostic, LintReport, Severity};
use plan_ledger::plan_hash;

use crate::output::{Code, Failure, print_json, print_result, print_text};

use super::forms::{FORMS, count_of};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan lint plan.yaml\n  \
         ledger plan lint tasks.md --strict               exit code 1 if there is a warning\n  \
         ledger plan lint issues.jsonl --json | jq -r 'select(.type == \"problem\")'\n\n\
         Exit code 2 if the file has no plan that can be run.\n\n{FORMS}"
    )
}

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct PlanLintArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// End with exit code 1 if there is a warning
    #[arg(long)]
    strict: bool,
    /// In a file with several tagged plans, the plan with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

pub(super) fn lint(args: &PlanLintArgs) -> Result<Code, Failure> {
    let report = files::lint(&args.file, args.tag.as_deref());
    let LintReport { plan_file: imported, diagnostics } =
        report.map_err(|error| Failure::of_plan_file(&error))?;
    for diagnostic in &diagnostics {
        print_diagnostic(&args.file, diagnostic, args.json)?;
    }
    let count =
        |severity: Severity| diagnostics.iter().filter(|each| each.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    let plan = imported.as_ref().map(|imported| &imported.plan);
    let hash = plan.map(plan_hash);
    let value = json!({
        "type": "summary", "hash": hash, "steps": plan.map(|plan| plan.steps.len()),
        "form": imported.as_ref().map(|imported| imported.format.to_string()),
        "problems": problems, "warnings": warnings, "notes": count(Severity::Note),
    });
    let (Some(imported), Some(hash)) = (imported, hash) else {
        let found = count_of(problems, "problem");
        print_result(args.json, &value, &format!("{found}: the plan cannot be run"))?;
        return Ok(Code::Usage);
    };
    let steps = count_of(imported.plan.steps.len(), "step");
    let found = count_of(warnings, "warning");
    let text = format!("{}: {steps}, {found}; hash {}", imported.format, hash.short());
    print_result(args.json, &value, &text)?;
    Ok(if args.strict && warnings > 0 { Code::Failed } else { Code::Success })
}

fn print_diagnostic(file: &Path, diagnostic: &Diagnostic, as_json: bool) -> Result<(), Failure> {
    let Diagnostic { severity, line, place, message } = diagnostic;
    if as_json {
        return print_json(&json!({
            "type": severity.to_string(), "line": line, "place": place, "message": message,
        }));
    }
    let line = line.map_or_else(String::new, |line| format!("{line}:"));
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    print_text(&format!("{}:{line} {severity}: {place}{message}\n", file.display()))
}
