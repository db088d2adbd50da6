//! Reads and writes plan files in any form.

use std::io::Write as _;
use std::path::Path;

use clap::ValueEnum;

use plan_ledger::Error;
use plan_ledger_files::{self as files, ExportFormat, PlanFile, ReadOptions};

use crate::output::render::{escape_json, escape_lines};
use crate::output::{AtomicFile, Failure, LongTask, ProgressUnit};

/// The forms of plan files, for the help of each command that reads one.
pub(super) const FORMS: &str = "\
Plan files are recognized by their content (format/plan-files.md): our own YAML, JSON and Markdown,
task-master tasks.json, Ralph prd.json, beads issues.jsonl, spec-kit and OpenSpec tasks.md, any
JSON list of tasks, and Markdown with boxes, numbered items or headings such as `Step 1`.";

/// The form of a written plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FormChoice {
    /// Our own form, as YAML
    Yaml,
    /// Our own form, as JSON: one document with top-level `steps`
    Json,
    /// Our own form, as Markdown
    Md,
    /// The PLAN artifact: outcome, phases with actions, next action, risks
    Plan,
    /// The tasks.md of spec-kit
    SpecKit,
    /// A Markdown check list, with a heading for each phase
    Tasks,
    /// The tasks.json of task-master
    TaskMaster,
    /// The issues.jsonl of beads
    Beads,
    /// A to-do list of Cursor
    Cursor,
    /// A diagram for Graphviz
    Dot,
    /// A diagram for Mermaid
    Mermaid,
}

impl From<FormChoice> for ExportFormat {
    fn from(choice: FormChoice) -> Self {
        match choice {
            FormChoice::Yaml => Self::Yaml,
            FormChoice::Json => Self::Json,
            FormChoice::Md => Self::Markdown,
            FormChoice::Plan => Self::Artifact,
            FormChoice::SpecKit => Self::SpecKit,
            FormChoice::Tasks => Self::Tasks,
            FormChoice::TaskMaster => Self::TaskMaster,
            FormChoice::Beads => Self::Beads,
            FormChoice::Cursor => Self::Cursor,
            FormChoice::Dot => Self::Dot,
            FormChoice::Mermaid => Self::Mermaid,
        }
    }
}

/// Reads a plan file; of a file with several tagged plans, the one with that tag.
pub(super) fn read(file: &Path, tag: Option<&str>) -> Result<PlanFile, Failure> {
    ReadOptions::of_tag(tag).read(file).map_err(Failure::of_input)
}

/// The plan of a file in another form.
pub(super) fn converted(
    file: &Path,
    imported: &PlanFile,
    form: FormChoice,
) -> Result<String, Failure> {
    let text = imported.render(form.into());
    let text = text.map_err(|error| Failure::of_input(error.at_path(file)))?;
    // Only JSON can have every character in an escaped form; elsewhere it is shown instead.
    Ok(match form {
        FormChoice::Json | FormChoice::TaskMaster | FormChoice::Beads => escape_json(&text),
        _ => escape_lines(&text),
    })
}

/// The fields that a form cannot express, for people; `None` if it keeps everything.
pub(super) fn lost_in(imported: &PlanFile, form: FormChoice, text: &str) -> Option<String> {
    if matches!(form, FormChoice::Dot | FormChoice::Mermaid) {
        return None;
    }
    let again = files::parse("plan", text).ok()?;
    let lost = imported.fields_lost_in(&again).into_iter();
    let lost: Vec<String> = lost
        .map(|(name, steps)| match steps {
            0 => name,
            count => format!("{name} of {}", count_of(count, "step")),
        })
        .collect();
    (!lost.is_empty()).then(|| {
        format!("this form has no place for: {}; --form md keeps everything", lost.join(", "))
    })
}

/// The form of our own that the name of a file asks for.
pub(super) fn form_of_name(path: &Path) -> FormChoice {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => FormChoice::Json,
        Some("md" | "markdown") => FormChoice::Md,
        _ => FormChoice::Yaml,
    }
}

/// Writes a plan into a new file.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let task = LongTask::start(ProgressUnit::Bytes, path)?;
    let target = AtomicFile::beside(path, &task)?;
    let failed = |error: std::io::Error| Error::io("write the plan", path, error);
    let mut file = target.create().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(target.publish(path)?)
}

/// `no steps`, `1 step`, `2 steps`.
pub(super) fn count_of(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing}"),
        many => format!("{many} {thing}s"),
    }
}
