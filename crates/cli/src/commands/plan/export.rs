//! `ledger plan export`: converts a plan file to another form, or writes the plan of a run to a file.
//!
//! The converted file reads as the same plan, with the same marks of finished steps; the command
//! names the fields that the form cannot express. The plan of a run is written in the form of its
//! original file, with its progress, its next action and its decisions, so that the next session
//! starts from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use plan_ledger::plan::{AcceptedBasis, CompactPlan};
use plan_ledger::{LedgerView, Plan, Run, State, StepStatus, plan_hash};
use plan_ledger_files::{self as files, PlanFile, PlanFormat};

use plan_ledger_views::step_title;

use crate::commands::inspect::read_state;
use crate::commands::store::source::{environment_for, is_store};
use crate::options::plan_file::print_read_report;
use crate::options::{AsJson, LedgerOption, ReadPlanArgs, environment};
use crate::output::{
    Code, Failure, escape_control, output_file, print_message, print_note, print_raw, reader,
};
use crate::protocol::counted;
use crate::server::Surroundings;

use super::into::export_into;

use super::forms::{FORMS, FormChoice, converted, count_of, lost_in, write_new};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan export tasks.json -o plan.yaml\n  \
         ledger plan export plan.yaml --form dot | dot -Tsvg > plan.svg\n  \
         ledger plan export issues.jsonl --form md -o plan.md\n  \
         ledger plan export my-plan -o plan.md            the plan of a run, with its progress\n  \
         ledger plan export my-plan --form plan           the same as a PLAN artifact\n  \
         ledger plan export my-plan --into tasks.md       tick the steps of the run in its own file\n\n\
         Steps that the file marks as done stay marked. A word that is not a file names a run.\n\n\
         With --into, all but the marks stays as it is. A file whose text was changed since the plan was\n\
         read is refused (exit code 6). Exit code 1: a step has no mark in the file, or none for its status.\n\n\
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
    #[arg(long, value_name = "FORM")]
    form: Option<FormChoice>,
    #[command(flatten)]
    ledger: LedgerOption,
    #[command(flatten)]
    read: ReadPlanArgs,
    /// Write the result to this file, which must not exist
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write the statuses of the run into the file that its plan was read from: only its marks change
    #[arg(long, value_name = "FILE", conflicts_with_all = ["form", "output"])]
    into: Option<PathBuf>,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn export(args: &PlanExportArgs) -> Result<Code, Failure> {
    if let Some(file) = &args.into {
        let name = args.file.to_string_lossy();
        return export_into(&args.ledger.dir, &name, &args.read, file, args.json.0);
    }
    if let Some(name) = args.file.to_str().filter(|_| !args.file.exists()) {
        let is_run = |state: &State| Ok(state.run_named(name).is_some());
        let found = read_state(&args.ledger.dir, is_run);
        let found = if is_store(&args.ledger.dir) { found? } else { found.unwrap_or(false) };
        if found {
            return read_state(&args.ledger.dir, |state| export_run(args, state, name));
        }
    }
    let imported = args.read.read(&args.file)?;
    if !imported.report.is_empty() || !imported.readings.is_empty() {
        print_read_report(&args.file, &imported);
    }
    let form = args.form.unwrap_or(FormChoice::Yaml);
    let text = converted(&args.file, &imported, form)?;
    write(args, &imported, form, &text)
}

fn write(
    args: &PlanExportArgs,
    plan: &PlanFile,
    form: FormChoice,
    text: &str,
) -> Result<Code, Failure> {
    if let Some(lost) = lost_in(plan, form, text) {
        print_message(&lost);
    }
    match output_file(args.output.as_ref()) {
        None => print_raw(text)?,
        Some(path) => {
            write_new(path, text)?;
            let steps = count_of(plan.plan.steps.len(), "step");
            let hash = plan_hash(&plan.plan).short();
            print_note(&format!("{}: {steps}, hash {hash}", path.display()));
        }
    }
    Ok(Code::Success)
}

/// Writes the active plan of a run, or before the first one the version that waits for approval.
fn export_run(args: &PlanExportArgs, state: &State, name: &str) -> Result<Code, Failure> {
    let run = state.run_named(name).ok_or_else(|| Failure::Usage(format!("no run {name}")))?;
    let waiting = run.newest_proposal().filter(|_| run.active == 0);
    let plan = run.plan().or_else(|| waiting.map(|(_, version)| &*version.plan));
    let Some(plan) = plan.map(CompactPlan::decode) else {
        let versions = counted(u64::try_from(run.versions.len()).unwrap_or(u64::MAX), "version");
        return Err(Failure::Rejected(format!(
            "run {name} has no active plan, and none of its {versions} waits for approval\nhint: \
             `ledger inspect plan {name} --version N --json` prints the plan of any version"
        )));
    };
    if let Some((number, _)) = waiting {
        print_message(&format!("version {number} of run {name}, which waits for approval"));
    }
    let form = args.form.unwrap_or_else(|| form_of(run));
    let with = |status: StepStatus| -> BTreeMap<String, String> {
        let has = run.steps.iter().filter(|step| step.status == status);
        has.map(|step| (step.id().to_owned(), format!("run {name}"))).collect()
    };
    let mut file = PlanFile::of_run(plan, with(StepStatus::Accepted), with(StepStatus::Skipped));
    let notes = Notes::of(args, state, run)?;
    if form == FormChoice::Plan {
        notes.add_to(&mut file.plan);
        let text = converted(&args.file, &file, form)?;
        return write(args, &file, form, &text);
    }
    let text = converted(&args.file, &file, form)?;
    write(args, &file, form, &with_notes(&text, form, &notes.lines()))
}

/// The form of the file of a run's first version: from the file itself if it still exists, else
/// from its name and the fields of its steps.
fn form_of(run: &Run) -> FormChoice {
    let file = run.versions.iter().find_map(|version| version.provenance.as_ref()?.file.clone());
    let file = file.as_deref().map(Path::new);
    if let Some(form) = file.and_then(form_of_file) {
        return form;
    }
    let ending = file.and_then(Path::extension);
    match ending.and_then(|ending| ending.to_str()) {
        Some("md" | "markdown") => form_of_markdown(run),
        Some("jsonl") => FormChoice::Beads,
        Some("json") if is_of_task_master(run) => FormChoice::TaskMaster,
        Some("json") => FormChoice::Json,
        _ => FormChoice::Yaml,
    }
}

fn form_of_file(path: &Path) -> Option<FormChoice> {
    Some(match files::read(path).ok()?.format {
        PlanFormat::Yaml => FormChoice::Yaml,
        PlanFormat::Json => FormChoice::Json,
        PlanFormat::NativeMarkdown => FormChoice::Md,
        PlanFormat::TaskMaster => FormChoice::TaskMaster,
        PlanFormat::Beads => FormChoice::Beads,
        PlanFormat::Cursor => FormChoice::Cursor,
        PlanFormat::SpecKit => FormChoice::SpecKit,
        PlanFormat::Markdown => {
            let text = std::fs::read_to_string(path).ok()?;
            let is_artifact = text.lines().any(|line| line.starts_with("# PLAN:"));
            if is_artifact { FormChoice::Plan } else { FormChoice::Tasks }
        }
        _ => return None,
    })
}

fn form_of_markdown(run: &Run) -> FormChoice {
    let Some(plan) = run.plan().map(CompactPlan::decode) else { return FormChoice::Md };
    let is_spec_kit = |id: &str| {
        let number = id.strip_prefix('T').unwrap_or_default();
        number.len() >= 2 && number.chars().all(|c| c.is_ascii_digit())
    };
    let markdown = plan.extra.get("markdown");
    if markdown.is_some_and(|fields| fields.get("next_action").is_some()) {
        FormChoice::Plan
    } else if plan.steps.iter().all(|step| is_spec_kit(&step.id)) {
        FormChoice::SpecKit
    } else {
        FormChoice::Md
    }
}

/// Whether the steps of a run have fields of task-master.
fn is_of_task_master(run: &Run) -> bool {
    let plan = run.plan().map(CompactPlan::decode);
    plan.is_some_and(|plan| plan.steps.iter().any(|step| step.extra.contains_key("taskmaster")))
}

/// The facts beside the plan that the next session needs.
struct Notes {
    next_action: String,
    /// The title of the step that they are about; empty for none.
    next_title: String,
    /// The decisions about the plan and its steps.
    decisions: Vec<String>,
    /// The last failures of steps.
    open: Vec<String>,
}

impl Notes {
    fn of(args: &PlanExportArgs, state: &State, run: &Run) -> Result<Self, Failure> {
        let dir = &args.ledger.dir;
        let environment = environment_for(dir, &environment())?;
        let view = LedgerView::open(dir, &environment)?;
        let now = environment.time_of(dir, state.time)?;
        let around = Surroundings::now(dir, view.log(), state, now);
        let next = around.known((state, run), now, false, reader()).next_action();
        let title = next.step().map(|number| step_title(run, number)).unwrap_or_default();
        let mut notes = Self {
            next_action: one_line(&next.text),
            next_title: one_line(title.lines().next().unwrap_or_default()),
            decisions: Vec::new(),
            open: Vec::new(),
        };
        for (number, version) in (1..).zip(&run.versions) {
            let note = if version.note.is_empty() { &version.reason } else { &version.note };
            if !note.is_empty() {
                notes.decisions.push(one_line(&format!("version {number}: {note}")));
            }
        }
        for step in &run.steps {
            if let Some(AcceptedBasis::Answered { by }) = step.accepted() {
                notes.decisions.push(one_line(&format!("{}: answered by {by}", step.id())));
            }
            if let Some((_, message)) = step.last_failure() {
                notes.open.push(one_line(&format!("{}: {message}", step.id())));
            }
        }
        Ok(notes)
    }

    /// The lines of comments, which are printed as they are.
    fn lines(&self) -> Vec<String> {
        let next = [format!("Next action: {}", self.next_action)].into_iter();
        let decisions = self.decisions.iter().map(|text| format!("Decision: {text}"));
        let open = self.open.iter().map(|text| format!("Open: {text}"));
        next.chain(decisions).chain(open).map(|line| escape_control(&line)).collect()
    }

    /// Makes them sections of a PLAN artifact, beside the decisions of earlier sessions.
    fn add_to(&self, plan: &mut Plan) {
        let fields = plan.extra.entry("markdown".to_owned()).or_insert_with(|| json!({}));
        let Some(fields) = fields.as_object_mut() else { return };
        let next = match self.next_title.as_str() {
            "" => self.next_action.clone(),
            title => format!("{title} ({})", self.next_action),
        };
        fields.insert("next_action".to_owned(), json!(next));
        let mut all = match fields.remove("decisions") {
            Some(Value::Array(all)) => all,
            Some(text) => vec![text],
            None => Vec::new(),
        };
        for text in &self.decisions {
            if !all.iter().any(|known| known == text) {
                all.push(json!(text));
            }
        }
        if !all.is_empty() {
            fields.insert("decisions".to_owned(), Value::Array(all));
        }
        for text in &self.open {
            if !plan.risks.contains(text) {
                plan.risks.push(text.clone());
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A plan with notes that are not part of it: comments, which the reader leaves out. JSON has none, so
/// they go to standard error.
fn with_notes(text: &str, form: FormChoice, lines: &[String]) -> String {
    let comment = |note: &String| format!("<!-- ledger: {} -->\n", note.replace("--", "- -"));
    match form {
        FormChoice::Yaml => {
            let notes = lines.iter().map(|note| format!("# {note}\n"));
            notes.chain([text.to_owned()]).collect()
        }
        FormChoice::Md => {
            let notes: String = lines.iter().map(comment).collect();
            let (header, plan) = text.split_once('\n').unwrap_or((text, ""));
            format!("{header}\n{notes}{plan}")
        }
        FormChoice::Tasks | FormChoice::SpecKit => {
            let notes: String = lines.iter().map(comment).collect();
            let (header, plan) = text.split_once('\n').unwrap_or((text, ""));
            format!("{header}\n\n{notes}{plan}")
        }
        FormChoice::Cursor => {
            let notes: String = lines.iter().map(comment).collect();
            format!("{text}\n{notes}")
        }
        // The notes of a PLAN artifact are sections.
        FormChoice::Plan => text.to_owned(),
        FormChoice::TaskMaster
        | FormChoice::Beads
        | FormChoice::Json
        | FormChoice::Dot
        | FormChoice::Mermaid => {
            for note in lines {
                print_message(note);
            }
            text.to_owned()
        }
    }
}
