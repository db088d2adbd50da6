//! `ledger plan lint`, `show` and `export`: plan files of any form.
//!
//! Invariants: the file is only read; what is exported reads as the same plan with the same marks.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use plan_ledger::files::{self, Diagnostic, ExportFormat, LintReport, PlanFile, Severity};
use plan_ledger::ledger::plan_hash;
use plan_ledger::plan::Step;

use super::exit::{Code, Failure};
use super::plans::write_new;
use super::{answer_with, outcome, print, say};

/// The forms of plan files, for the help of every command that reads one.
pub(super) const FORMS: &str = "\
Plan files, told apart by their content (format/plan-files.md): our own YAML, JSON and Markdown,
task-master tasks.json, Ralph prd.json, beads issues.jsonl, spec-kit and OpenSpec tasks.md, any
JSON list of tasks, and Markdown with boxes, numbered items or headings such as `Step 1`.";

fn lint_help() -> String {
    format!(
        "Examples:\n  ledger plan lint plan.yaml\n  \
         ledger plan lint tasks.md --strict               exit code 1 if there is a warning\n  \
         ledger plan lint issues.jsonl --json | jq -r 'select(.type == \"problem\")'\n\n\
         Exit code 2 if the file holds no plan that could be run.\n\n{FORMS}"
    )
}

/// `ledger plan lint`.
#[derive(Debug, Args)]
#[command(after_help = lint_help())]
pub(super) struct LintArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// End with exit code 1 if there is a warning
    #[arg(long)]
    strict: bool,
    /// Of a file with several tagged plans, the one of this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

fn show_help() -> String {
    format!(
        "Examples:\n  ledger plan show prd.json\n  ledger plan show tasks.md --format md\n  \
         ledger plan show tasks.json --tag later --format json | jq '.steps[].id'\n  \
         ledger plan show plan.yaml --format dot | dot -Tsvg > plan.svg\n\n{FORMS}"
    )
}

/// `ledger plan show`.
#[derive(Debug, Args)]
#[command(after_help = show_help())]
pub(super) struct ShowArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print it in this form instead
    #[arg(long, value_name = "FORM")]
    format: Option<FormWord>,
    /// Of a file with several tagged plans, the one of this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// The same as --format json: one document
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

fn export_help() -> String {
    format!(
        "Examples:\n  ledger plan export tasks.json -o plan.yaml\n  \
         ledger plan export issues.jsonl --format md -o plan.md\n\n\
         What the file says is done goes with it, as marks beside the plan.\n\n{FORMS}"
    )
}

/// `ledger plan export`.
#[derive(Debug, Args)]
#[command(after_help = export_help())]
pub(super) struct ExportArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// In which form
    #[arg(long, value_name = "FORM", default_value = "yaml")]
    format: FormWord,
    /// Of a file with several tagged plans, the one of this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Write the result to this file, which must not be there yet
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

/// A form of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormWord {
    /// Our own form, as YAML
    Yaml,
    /// Our own form, as JSON: one document with top-level `steps`
    Json,
    /// Our own form, as Markdown
    Md,
    /// A picture for Graphviz
    Dot,
    /// A picture for Mermaid
    Mermaid,
}

impl From<FormWord> for ExportFormat {
    fn from(word: FormWord) -> Self {
        match word {
            FormWord::Yaml => Self::Yaml,
            FormWord::Json => Self::Json,
            FormWord::Md => Self::Markdown,
            FormWord::Dot => Self::Dot,
            FormWord::Mermaid => Self::Mermaid,
        }
    }
}

/// `ledger plan lint`.
pub(super) fn lint(args: &LintArgs) -> Result<Code, Failure> {
    let checked = files::lint(&args.file, args.tag.as_deref());
    let LintReport { plan_file: imported, diagnostics } =
        checked.map_err(|error| Failure::of_plan_file(&error))?;
    for finding in &diagnostics {
        tell(&args.file, finding, args)?;
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
        let found = counted(problems, "problem");
        outcome(args.json, &value, &format!("{found}: the file cannot be run"))?;
        return Ok(Code::Usage);
    };
    let (steps, found) = (counted(imported.plan.steps.len(), "step"), counted(warnings, "warning"));
    let text = format!("{}: {steps}, {found}; hash {}", imported.format, hash.short());
    outcome(args.json, &value, &text)?;
    Ok(if args.strict && warnings > 0 { Code::Failed } else { Code::Fine })
}

fn tell(file: &Path, finding: &Diagnostic, args: &LintArgs) -> Result<(), Failure> {
    let Diagnostic { severity, line, place, message } = finding;
    if args.json {
        let line = json!({
            "type": severity.to_string(), "line": line, "place": place, "message": message,
        });
        return print(&format!("{line}\n"));
    }
    let line = line.map_or_else(String::new, |line| format!("{line}:"));
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    answer_with(&format!("{}:{line} {severity}: {place}{message}\n", file.display()))
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

fn read(file: &Path, tag: Option<&str>) -> Result<PlanFile, Failure> {
    files::read_tag(file, tag).map_err(|error| Failure::of_plan_file(&error))
}

/// `ledger plan show`.
pub(super) fn show(args: &ShowArgs) -> Result<Code, Failure> {
    let imported = read(&args.file, args.tag.as_deref())?;
    let form = args.format.or(args.json.then_some(FormWord::Json));
    match form {
        None => answer_with(&overview(&imported))?,
        // For programs: exactly the bytes.
        Some(form) => print(&text(&args.file, &imported, form)?)?,
    }
    Ok(Code::Fine)
}

/// `ledger plan export`.
pub(super) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let imported = read(&args.file, args.tag.as_deref())?;
    let text = text(&args.file, &imported, args.format)?;
    match &args.output {
        None => print(&text)?,
        Some(path) => {
            write_new(path, &text)?;
            let steps = counted(imported.plan.steps.len(), "step");
            say(&format!(
                "{}: {steps}, hash {}",
                path.display(),
                plan_hash(&imported.plan).short()
            ));
        }
    }
    Ok(Code::Fine)
}

fn text(file: &Path, imported: &PlanFile, form: FormWord) -> Result<String, Failure> {
    let text = files::render(imported, form.into());
    text.map_err(|error| Failure::of_plan_file(&error.at_path(file)))
}

/// A plan as people look at it: its head, and a line for each step.
fn overview(imported: &PlanFile) -> String {
    let PlanFile { plan, done, skipped, format, .. } = imported;
    let mut lines = Vec::new();
    let title = if plan.title.is_empty() { "a plan without a title" } else { &plan.title };
    lines.push(format!(
        "{title} ({format}): {}, {} done, {} dropped; hash {}",
        counted(plan.steps.len(), "step"),
        done.len(),
        skipped.len(),
        plan_hash(plan).short()
    ));
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
        lines.push(format!("[{mark}] {}  {}{}", step.id, words(step), waits(step)));
    }
    for barrier in &plan.barriers {
        lines.push(format!("barrier {}  of {}", barrier.id, barrier.members.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// The title of a step, or the first line of its goal.
fn words(step: &Step) -> &str {
    let text = if step.title.is_empty() { &step.goal } else { &step.title };
    text.lines().next().unwrap_or_default()
}

/// What a step waits for, if that can be said in few words.
fn waits(step: &Step) -> String {
    const NAMES_MAX: usize = 8;
    match step.after.len() {
        0 => String::new(),
        many if many > NAMES_MAX => format!(" (after {many} others)"),
        _ => format!(" (after {})", step.after.join(", ")),
    }
}
