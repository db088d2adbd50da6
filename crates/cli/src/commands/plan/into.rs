//! `ledger plan export RUN --into FILE`: the run's statuses in the file that its plan was read from.
//!
//! The plan version records the hash of its file without the marks. A file with that hash has the same steps in the
//! same order, whatever its marks are now. Only the marks of steps with another status than the run's are written.

use std::path::{Path, PathBuf};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::Provenance;
use plan_ledger::{ContentHash, Run, StepStatus};
use plan_ledger_files::MarkedFile;

use crate::commands::inspect::read_state;
use crate::options::ReadPlanArgs;
use crate::options::plan_file::{mark_of, marking, status_of, unmarked_hash, unmarked_steps_text};
use crate::output::{Code, Failure, print_message, print_result, replace_file, shell_command};
use crate::requests::run_of;

/// A version of a run's plan that was read from a file.
struct FileVersion {
    number: u32,
    provenance: Provenance,
    unmarked: ContentHash,
    steps: Vec<MarkedStep>,
}

/// A step of the file: its id, and its status in the run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct MarkedStep {
    /// Its status in the run; null if the run no longer has it.
    status: Option<StepStatus>,
    /// Its id.
    step: String,
}

/// The result of `ledger plan export --into`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct MarkedLine {
    /// The files that were changed.
    files: Vec<PathBuf>,
    /// The steps whose marks were written.
    marked: Vec<MarkedStep>,
    /// The run.
    run: String,
    /// The steps that have no mark in the file, or none for their status.
    unmarked: Vec<MarkedStep>,
    /// The version of the plan that was read from the file.
    version: u32,
}

/// Writes the statuses of a run into the file of its plan.
pub(super) fn export_into(
    ledger: &Path,
    name: &str,
    read: &ReadPlanArgs,
    file: &Path,
    as_json: bool,
) -> Result<Code, Failure> {
    let versions = read_state(ledger, |state| Ok(file_versions(run_of(state, name)?)))?;
    let (version, marked) = version_of(&versions, name, ledger, read, file)?;
    let of_steps: Vec<_> = version.steps.iter().map(|step| step.status.and_then(mark_of)).collect();
    let marking = marking(&marked, &of_steps, name)
        .map_err(|error| Failure::Rejected(format!("{error}\nhint: write the marks by hand")))?;
    for text in &marking.files {
        if !replace_file(&text.path, &text.before, &text.after)? {
            let path = text.path.display();
            let message = format!("{path} was changed meanwhile\nhint: repeat the command");
            return Err(Failure::Rejected(message));
        }
    }
    let named = |indexes: &[usize]| -> Vec<MarkedStep> {
        indexes.iter().filter_map(|at| version.steps.get(*at)).cloned().collect()
    };
    let line = MarkedLine {
        files: marking.files.iter().map(|file| file.path.clone()).collect(),
        marked: named(&marking.marked),
        run: name.to_owned(),
        unmarked: named(&marking.unmarked),
        version: version.number,
    };
    if let Some(text) = unmarked_text(&line.unmarked, file) {
        print_message(&text);
    }
    let text = match line.marked.len() {
        0 => format!("{}: no mark was changed", file.display()),
        1 => format!("{}: the mark of 1 step was written", file.display()),
        steps => format!("{}: the marks of {steps} steps were written", file.display()),
    };
    print_result(as_json, &line, &text)?;
    Ok(if line.unmarked.is_empty() { Code::Success } else { Code::Failed })
}

/// The versions of a run's plan that were read from a file, the newest first.
fn file_versions(run: &Run) -> Vec<FileVersion> {
    let mut found = Vec::new();
    for (number, version) in (1..).zip(&run.versions) {
        let Some(provenance) = version.provenance.clone() else { continue };
        let Some(unmarked) = provenance.unmarked_hash else { continue };
        let plan = version.plan.decode();
        let steps = plan
            .steps
            .iter()
            .map(|step| MarkedStep { status: status_of(run, &step.id), step: step.id.clone() });
        found.push(FileVersion { number, provenance, unmarked, steps: steps.collect() });
    }
    found.reverse();
    found
}

/// The version that was read from a file, and the file, read as it was then.
fn version_of<'a>(
    versions: &'a [FileVersion],
    run: &str,
    ledger: &Path,
    read: &ReadPlanArgs,
    file: &Path,
) -> Result<(&'a FileVersion, MarkedFile), Failure> {
    let export = shell_command("plan export", ledger, &[run, "-o", "NEW"]);
    let Some(newest) = versions.first() else {
        return Err(Failure::Rejected(format!(
            "no version of the plan of run {run} was read from a file\nhint: `{export}` writes the plan to \
             a new file"
        )));
    };
    let mut last: Option<(&[String], MarkedFile)> = None;
    for version in versions {
        let words = version.provenance.read_with.as_slice();
        let marked = match last.take() {
            Some((same, marked)) if same == words => marked,
            _ if read.words().is_empty() => ReadPlanArgs::of_words(words).read_marked(file)?,
            _ => read.read_marked(file)?,
        };
        let is_same_text =
            unmarked_hash(&marked) == version.unmarked || plan_ledger::mutant!(ChangedFileMarked);
        let is_same = is_same_text && marked.plan_file().plan.steps.len() == version.steps.len();
        if is_same {
            return Ok((version, marked));
        }
        last = Some((words, marked));
    }
    let (file, from) = (file.display(), newest.provenance.file.as_deref().unwrap_or("a file"));
    Err(Failure::Rejected(format!(
        "{file} is not the file that the plan of run {run} was read from ({from}), or its text was changed \
         since\nhint: `{export}` writes the plan of the run to a new file"
    )))
}

/// The message about steps without a mark.
fn unmarked_text(unmarked: &[MarkedStep], file: &Path) -> Option<String> {
    let names = unmarked.iter().map(|step| {
        let status = step.status.unwrap_or(StepStatus::Removed);
        format!("`{}` ({status})", step.step)
    });
    unmarked_steps_text(&names.collect::<Vec<_>>(), file)
}
