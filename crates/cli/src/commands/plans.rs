//! `ledger plan`: what concerns plans before and between their runs.
//!
//! Invariant: plan files are only read. What is made of one goes to standard output, or into a
//! file that is not there yet.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use plan_ledger::error::Error;
use plan_ledger::files::{self, ExportFormat, PlanFile};
use plan_ledger::plan::{FieldChange, Plan, PlanDiff, WorkChange, diff, enrich, validate};

use super::exit::{Code, Failure};
use super::part::Part;
use super::plan_files::{self, ExportArgs, LintArgs, ShowArgs};
use super::proposals::{self, AddArgs, HistoryArgs, ProposeArgs};
use super::review::{self, ReviewArgs, VerdictArgs, WithdrawArgs};
use super::{outcome, print, say};

const PLAN_EXAMPLES: &str = "\
Examples:
  ledger plan lint plan.yaml                       what is wrong with it, or hardly meant
  ledger plan export tasks.json -o plan.yaml       a plan of another tool, in our own form
  ledger plan propose plan.yaml                    start a run of it, for `ledger work`
  ledger plan review my-plan                       what waits for a yes, and how it differs

Each has more with `--help`.";

/// `ledger plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(super) struct PlanArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say everything that is wrong with a plan file, or hardly meant, with its line
    Lint(LintArgs),
    /// Show a plan file of any form, or print it in another one
    Show(ShowArgs),
    /// Write a plan file of any form in our own: as YAML, JSON or Markdown; or as a picture
    Export(ExportArgs),
    /// Say what differs between two plan files: steps, fields, order
    Diff(DiffArgs),
    /// Fill in what is known about the tools of a plan's steps
    Enrich(EnrichArgs),
    /// Start a run of a plan, or propose the next version of a run's plan
    Propose(ProposeArgs),
    /// Propose a version with one more step
    Add(AddArgs),
    /// List the versions of a run's plan
    History(HistoryArgs),
    /// Show the version of a run's plan that waits for a yes
    Review(ReviewArgs),
    /// Let that version become active
    Approve(VerdictArgs),
    /// Refuse that version
    Reject(VerdictArgs),
    /// Say that no other version is needed, or that a plan has no more steps to come
    Withdraw(WithdrawArgs),
}

const DIFF_EXAMPLES: &str = "\
Examples:
  ledger plan diff old.yaml new.yaml
  ledger plan diff old.yaml new.yaml --json | jq .reordered";

/// `ledger plan diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
struct DiffArgs {
    /// The plan before
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The plan after
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

const ENRICH_EXAMPLES: &str = "\
Examples:
  ledger plan enrich rough.yaml --tools tools.yaml
  ledger plan enrich rough.yaml --tools tools.yaml -o plan.json

Only what a step does not say is filled in, and marked in its extra.enriched. The result is JSON,
which every command that reads plans takes. The registry's form is format/tools.md.";

/// `ledger plan enrich`.
#[derive(Debug, Args)]
#[command(after_help = ENRICH_EXAMPLES)]
struct EnrichArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The registry of tools: YAML or JSON
    #[arg(long, value_name = "REGISTRY")]
    tools: PathBuf,
    /// Write the result to this file, which must not be there yet
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

/// `ledger plan`.
pub(super) fn plan(args: &PlanArgs) -> Result<Code, Failure> {
    match &args.what {
        What::Lint(args) => plan_files::lint(args),
        What::Show(args) => plan_files::show(args),
        What::Export(args) => plan_files::export(args),
        What::Diff(args) => diff_files(args),
        What::Enrich(args) => enrich_file(args),
        What::Propose(args) => proposals::propose(args),
        What::Add(args) => proposals::add(args),
        What::History(args) => proposals::history(args),
        What::Review(args) => review::show(args),
        What::Approve(args) => review::approve(args),
        What::Reject(args) => review::reject(args),
        What::Withdraw(args) => review::withdraw(args),
    }
}

fn read(file: &Path) -> Result<Plan, Failure> {
    let imported = files::read(file).map_err(|error| Failure::of_plan_file(&error))?;
    Ok(imported.plan)
}

fn diff_files(args: &DiffArgs) -> Result<Code, Failure> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let found = diff(&old, &new);
    outcome(args.json, &diff_json(&found), &diff_text(&found))?;
    Ok(Code::Fine)
}

/// The differences, as the published JSON has them.
pub(super) fn diff_json(found: &PlanDiff) -> Value {
    let PlanDiff { added, removed, changed, reordered, barriers, fields } = found;
    let changed = changed.iter().map(|step| {
        let work = match step.work {
            WorkChange::Same => "same",
            WorkChange::Other => "other",
        };
        json!({ "step": step.id, "work": work, "fields": fields_json(&step.fields) })
    });
    json!({
        "type": "diff", "added": added, "removed": removed, "changed": changed.collect::<Vec<_>>(),
        "reordered": reordered, "barriers": barriers, "fields": fields_json(fields),
    })
}

fn fields_json(fields: &[FieldChange]) -> Value {
    let field = |field: &FieldChange| {
        let FieldChange { name, old, new } = field;
        json!({ "field": name, "change": change_word(field), "old": old, "new": new })
    };
    fields.iter().map(field).collect()
}

fn change_word(field: &FieldChange) -> &'static str {
    match (&field.old, &field.new) {
        (None, _) => "added",
        (_, None) => "removed",
        (Some(_), Some(_)) => "changed",
    }
}

/// The summary of the differences, and then each field with what it was and is.
pub(super) fn diff_text(found: &PlanDiff) -> String {
    let mut lines = vec![found.to_string()];
    lines.extend(found.fields.iter().map(|field| field_text("plan", field)));
    for step in &found.changed {
        lines.extend(step.fields.iter().map(|field| field_text(&step.id, field)));
    }
    lines.join("\n")
}

fn field_text(whose: &str, field: &FieldChange) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), shortened);
    let (old, new) = (value(&field.old), value(&field.new));
    format!("  {whose}.{} {}: {old} -> {new}", field.name, change_word(field))
}

/// A value on one line, cut where it gets long.
fn shortened(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    let cut: String = text.chars().take(CHARS_MAX).collect();
    format!("{cut}...")
}

fn enrich_file(args: &EnrichArgs) -> Result<Code, Failure> {
    let imported = files::read(&args.file).map_err(|error| Failure::of_plan_file(&error))?;
    let registry =
        files::read_tool_registry(&args.tools).map_err(|error| Failure::of_plan_file(&error))?;
    let rich = enrich(&imported.plan, &registry);
    let problems: Vec<String> = validate(&rich).iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: with it the plan would not be valid:\n  {}",
            args.tools.display(),
            problems.join("\n  ")
        )));
    }
    let count = rich.steps.iter().zip(&imported.plan.steps).filter(|(one, other)| one != other);
    let (count, steps) = (count.count(), rich.steps.len());
    let text = files::render(&PlanFile { plan: rich, ..imported }, ExportFormat::Json)
        .map_err(|error| Failure::of_plan_file(&error.at_path(&args.file)))?;
    match &args.output {
        None => print(&text)?,
        Some(path) => write_new(path, &text)?,
    }
    say(&format!("{count} of {steps} steps were completed"));
    Ok(Code::Fine)
}

/// A file that is there already is somebody's; one that is not whole is nobody's.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let part = Part::beside(path)?;
    let failed = |error: std::io::Error| Error::io("write the plan", path, error);
    let mut file = File::create_new(part.path()).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(part.name(path)?)
}
