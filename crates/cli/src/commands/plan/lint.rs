//! `ledger plan lint`: errors and likely mistakes in a plan file.

use std::path::{Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::files::{self, Diagnostic, LintReport, Severity};
use plan_ledger::{ContentHash, plan_hash};

use crate::output::{Code, Failure, print_line, print_result, print_text};

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
    let LintReport { plan_file: imported, diagnostics } = report.map_err(Failure::of_input)?;
    for diagnostic in &diagnostics {
        print_diagnostic(&args.file, diagnostic, args.json)?;
    }
    let count =
        |severity: Severity| diagnostics.iter().filter(|each| each.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    let plan = imported.as_ref().map(|imported| &imported.plan);
    let hash = plan.map(plan_hash);
    let line = LintLine {
        form: imported.as_ref().map(|imported| imported.format.to_string()),
        hash,
        notes: count(Severity::Note),
        problems,
        steps: plan.map(|plan| plan.steps.len()),
        warnings,
    };
    let (Some(imported), Some(hash)) = (imported, hash) else {
        let found = count_of(problems, "problem");
        print_result(args.json, &line, &format!("{found}: the plan cannot be run"))?;
        return Ok(Code::Usage);
    };
    let steps = count_of(imported.plan.steps.len(), "step");
    let found = count_of(warnings, "warning");
    let text = format!("{}: {steps}, {found}; hash {}", imported.format, hash.short());
    print_result(args.json, &line, &text)?;
    Ok(if args.strict && warnings > 0 { Code::Failed } else { Code::Success })
}

fn print_diagnostic(file: &Path, diagnostic: &Diagnostic, as_json: bool) -> Result<(), Failure> {
    let Diagnostic { severity, line, place, message } = diagnostic;
    if as_json {
        let found = DiagnosticJson { line: *line, message, place };
        return print_line(&match severity {
            Severity::Problem => DiagnosticLine::Problem(found),
            Severity::Warning => DiagnosticLine::Warning(found),
            Severity::Note => DiagnosticLine::Note(found),
        });
    }
    let line = line.map_or_else(String::new, |line| format!("{line}:"));
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    print_text(&format!("{}:{line} {severity}: {place}{message}\n", file.display()))
}

/// The result of a check, the last line.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintLine {
    /// The form of the file; null if it has no plan.
    form: Option<String>,
    /// The hash of the plan; null if it cannot be run.
    hash: Option<ContentHash>,
    /// The number of notes.
    notes: usize,
    /// The number of errors.
    problems: usize,
    /// The number of its steps.
    steps: Option<usize>,
    /// The number of likely mistakes.
    warnings: usize,
}

/// A diagnostic about a plan file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum DiagnosticLine<'a> {
    /// An error: the plan cannot be run.
    Problem(DiagnosticJson<'a>),
    /// A likely mistake.
    Warning(DiagnosticJson<'a>),
    /// A note about how the file is read.
    Note(DiagnosticJson<'a>),
}

/// The place and the text of a diagnostic.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiagnosticJson<'a> {
    /// The line in the file.
    line: Option<u64>,
    /// The text, for people.
    message: &'a str,
    /// The part of the plan.
    place: &'a str,
}
