//! `ledger plan export`: converts a plan file to another form, or writes the plan of a run to a file.
//!
//! The converted file reads as the same plan, with the same marks of finished steps. The plan of a run
//! is written in the form of the file that it came from, with its progress, its next action and its
//! decisions, so that the next session starts from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::internals::files::PlanFile;
use plan_ledger::internals::ledger::time_of;
use plan_ledger::internals::plan::{AcceptedBasis, CompactPlan};
use plan_ledger::{LedgerView, Run, State, StepStatus, plan_hash};

use crate::commands::inspect::{Surroundings, next_action};
use crate::commands::last_runner::RunnerStatus;
use crate::commands::read_report::print_read_report;
use crate::commands::read_state::read_state;
use crate::options::{LedgerOption, ReadPlanArgs, environment};
use crate::output::{Code, Failure, print_message, print_raw};
use crate::runner::DeadClaim;

use super::forms::{FORMS, FormChoice, converted, count_of, write_new};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan export tasks.json -o plan.yaml\n  \
         ledger plan export issues.jsonl --form md -o plan.md\n  \
         ledger plan export my-plan -o plan.md            the plan of a run, with its progress\n\n\
         Steps that the file marks as done stay marked. A word that is not a file names a run.\n\n\
         {FORMS}"
    )
}

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct PlanExportArgs {
    /// The plan file, or a run
    #[arg(value_name = "FILE|RUN")]
    file: PathBuf,
    /// The form of the result [default: yaml; for a run that of the file that it came from]
    #[arg(long, visible_alias = "format", value_name = "FORM")]
    form: Option<FormChoice>,
    #[command(flatten)]
    ledger: LedgerOption,
    #[command(flatten)]
    read: ReadPlanArgs,
    /// Write the result to this file, which must not exist
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(super) fn export(args: &PlanExportArgs) -> Result<Code, Failure> {
    if let Some(name) = args.file.to_str().filter(|_| !args.file.exists()) {
        let is_run = |state: &State| Ok(state.run_named(name).is_some());
        if read_state(&args.ledger.dir, is_run).unwrap_or(false) {
            return read_state(&args.ledger.dir, |state| export_run(args, state, name));
        }
    }
    let imported = args.read.read(&args.file)?;
    if !imported.report.is_empty() {
        print_read_report(&args.file, &imported);
    }
    let text = converted(&args.file, &imported, args.form.unwrap_or(FormChoice::Yaml))?;
    write(args, &imported, &text)
}

fn write(args: &PlanExportArgs, plan: &PlanFile, text: &str) -> Result<Code, Failure> {
    match &args.output {
        None => print_raw(text)?,
        Some(path) => {
            write_new(path, text)?;
            let steps = count_of(plan.plan.steps.len(), "step");
            let hash = plan_hash(&plan.plan).short();
            print_message(&format!("{}: {steps}, hash {hash}", path.display()));
        }
    }
    Ok(Code::Success)
}

/// Writes the active plan of a run.
fn export_run(args: &PlanExportArgs, state: &State, name: &str) -> Result<Code, Failure> {
    let run = state.run_named(name).ok_or_else(|| Failure::Usage(format!("no run {name}")))?;
    let Some(plan) = run.plan().map(CompactPlan::decode) else {
        return Err(Failure::Rejected(format!("run {name} has no active plan")));
    };
    let form = args.form.unwrap_or_else(|| form_of(run));
    let with = |status: StepStatus| -> BTreeMap<String, String> {
        let has = run.steps.iter().filter(|step| step.status == status);
        has.map(|step| (step.id().to_owned(), format!("run {name}"))).collect()
    };
    let file = PlanFile::of_run(plan, with(StepStatus::Accepted), with(StepStatus::Skipped));
    let text = converted(&args.file, &file, form)?;
    write(args, &file, &with_notes(&text, form, &notes(args, state, run)?))
}

/// The form of the file that the first version of a run came from.
fn form_of(run: &Run) -> FormChoice {
    let file = run.versions.iter().find_map(|version| version.provenance.as_ref()?.file.clone());
    let ending = file.as_deref().map(Path::new).and_then(Path::extension);
    match ending.and_then(|ending| ending.to_str()) {
        Some("md" | "markdown") => FormChoice::Md,
        Some("jsonl") => FormChoice::Beads,
        Some("json") if is_of_task_master(run) => FormChoice::TaskMaster,
        Some("json") => FormChoice::Json,
        _ => FormChoice::Yaml,
    }
}

/// Whether the steps of a run have fields of task-master.
fn is_of_task_master(run: &Run) -> bool {
    let plan = run.plan().map(CompactPlan::decode);
    plan.is_some_and(|plan| plan.steps.iter().any(|step| step.extra.contains_key("taskmaster")))
}

/// The next action, and the decisions of people about the plan and its steps.
fn notes(args: &PlanExportArgs, state: &State, run: &Run) -> Result<Vec<String>, Failure> {
    let dir = &args.ledger.dir;
    let view = LedgerView::open(dir, &environment())?;
    let runner = &RunnerStatus::of(dir, view.log());
    let now = time_of(dir, &environment(), state.time)?;
    let dead = &DeadClaim::all(dir);
    let next = next_action(state, run, Surroundings { dir, now, runner, dead });
    let mut notes = vec![format!("Next action: {}", next.text)];
    for (number, version) in (1..).zip(&run.versions) {
        let note = if version.note.is_empty() { &version.reason } else { &version.note };
        if !note.is_empty() {
            notes.push(format!("Decision: version {number}: {note}"));
        }
    }
    for step in &run.steps {
        if let Some(AcceptedBasis::Answered { by }) = step.accepted() {
            notes.push(format!("Decision: {}: answered by {by}", step.id()));
        }
        if let Some((_, message)) = step.last_failure() {
            notes.push(format!("Open: {}: {message}", step.id()));
        }
    }
    Ok(notes)
}

/// A plan with notes that are not part of it: comments. JSON has none, so they go to standard error.
fn with_notes(text: &str, form: FormChoice, notes: &[String]) -> String {
    let lines = notes.iter().map(|note| note.split_whitespace().collect::<Vec<_>>().join(" "));
    match form {
        FormChoice::Yaml => {
            lines.map(|note| format!("# {note}\n")).chain([text.to_owned()]).collect()
        }
        FormChoice::Md => {
            let comment = |note: String| format!("<!-- {} -->\n", note.replace("--", "- -"));
            let notes: String = lines.map(comment).collect();
            let (header, plan) = text.split_once('\n').unwrap_or((text, ""));
            format!("{header}\n{notes}{plan}")
        }
        FormChoice::Tasks => {
            let comment = |note: String| format!("<!-- {} -->\n", note.replace("--", "- -"));
            let notes: String = lines.map(comment).collect();
            let (header, plan) = text.split_once('\n').unwrap_or((text, ""));
            format!("{header}\n\n{notes}{plan}")
        }
        FormChoice::Cursor => {
            let notes: String = lines.map(|note| format!("{note}\n")).collect();
            format!("{text}\n{notes}")
        }
        FormChoice::TaskMaster
        | FormChoice::Beads
        | FormChoice::Json
        | FormChoice::Dot
        | FormChoice::Mermaid => {
            lines.for_each(|note| print_message(&note));
            text.to_owned()
        }
    }
}
