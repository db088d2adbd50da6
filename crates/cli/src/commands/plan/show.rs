//! `ledger plan show`: a plan file as an overview, or as JSON. `ledger plan export` writes other forms.

use std::path::PathBuf;

use clap::Args;

use plan_ledger::{Step, plan_hash};
use plan_ledger_files::{Diagnostic, PlanFile, Severity};

use crate::options::plan_file::print_read_report;
use crate::options::{AsJson, ReadPlanArgs};
use crate::output::{Code, Failure, print_message, print_raw, print_text};

use super::forms::{FORMS, FormChoice, converted, count_of};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan show prd.json\n  \
         ledger plan show tasks.json --plan-tag later --json | jq '.steps[].id'\n\n{FORMS}"
    )
}

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct PlanShowArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    read: ReadPlanArgs,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn show(args: &PlanShowArgs) -> Result<Code, Failure> {
    let imported = args.read.read(&args.file)?;
    if !imported.report.is_empty() || !imported.readings.is_empty() {
        print_read_report(&args.file, &imported);
    }
    // Those without a line are about this machine.
    let is_of_text = |note: &&Diagnostic| note.severity == Severity::Warning && note.line.is_some();
    for warning in imported.notes.iter().filter(is_of_text) {
        print_message(&format!("{}: warning: {warning}", args.file.display()));
    }
    if args.json.0 {
        print_raw(&converted(&args.file, &imported, FormChoice::Json)?)?;
    } else {
        print_text(&overview(&imported))?;
    }
    Ok(Code::Success)
}

/// A heading, the commands of the plan, and a line for each step and barrier.
fn overview(imported: &PlanFile) -> String {
    let PlanFile { plan, done, skipped, format, .. } = imported;
    let mut lines = Vec::new();
    let title = if plan.title.is_empty() { "untitled plan" } else { &plan.title };
    lines.push(format!(
        "{title} ({format}): {}, {} done, {} dropped; hash {}",
        count_of(plan.steps.len(), "step"),
        done.len(),
        skipped.len(),
        plan_hash(plan).short()
    ));
    lines.extend(Some(plan.executed_text()).filter(|text| !text.is_empty()));
    let mut phase = None;
    for step in &plan.steps {
        if step.phase != phase {
            phase.clone_from(&step.phase);
            let of = plan.phases.iter().find(|each| Some(&each.id) == phase.as_ref());
            lines.push(
                of.map_or_else(String::new, |phase| format!("{}  {}", phase.id, phase.title)),
            );
        }
        let mark = match (done.contains_key(&step.id), skipped.contains_key(&step.id)) {
            (true, _) => 'x',
            (false, true) => '-',
            (false, false) => ' ',
        };
        lines.push(format!("[{mark}] {}  {}{}", step.id, title_of(step), dependencies(step)));
    }
    for barrier in &plan.barriers {
        lines.push(format!("barrier {}  of {}", barrier.id, barrier.members.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// The title of a step, or the first line of its goal.
fn title_of(step: &Step) -> &str {
    let text = if step.title.is_empty() { &step.goal } else { &step.title };
    text.lines().next().unwrap_or_default()
}

/// The dependencies of a step, in parentheses; only their number if there are many.
fn dependencies(step: &Step) -> String {
    const NAMES_MAX: usize = 8;
    match step.after.len() {
        0 => String::new(),
        many if many > NAMES_MAX => format!(" (after {many} others)"),
        _ => format!(" (after {})", step.after.join(", ")),
    }
}
