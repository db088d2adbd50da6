//! The entry points: read and lint a plan file or a text.

use std::io::Read;
use std::path::Path;

use super::conflict_marks::conflict_marks;
use super::detect;
use super::folder::{Folder, RowPlace, Texts, read_folder};
use super::options::ReadOptions;
use super::readings;
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity, plan_error};
use crate::draft::ValidPlan;
use crate::plan_file::PlanFile;
use crate::read_report::PartKind;
use crate::records;
use crate::syntax::{is_blank, normalized_text, read_text, read_text_from};
use plan_ledger::{Error, Result};

/// Reads a plan file, or a folder with a file for each task.
pub fn read(path: &Path) -> Result<PlanFile> {
    ReadOptions::default().read(path)
}

/// Parses a plan. Messages and done marks use `name` as the file name.
pub fn parse(name: &str, text: &str) -> Result<PlanFile> {
    ReadOptions::default().parse(name, text)
}

impl ReadOptions {
    /// Reads a plan file, or a folder with a file for each task.
    pub fn read(&self, path: &Path) -> Result<PlanFile> {
        let valid = if path.is_dir() {
            validated_folder(path, self)?
        } else {
            let text = read_text(path, "plan file")?;
            validated(&file_name(path), &normalized_text(&text), self)
        };
        Ok(normalized(valid.map_err(|error| Error::from(error).at_path(path))?.plan_file))
    }

    /// Reads a plan from an open stream such as standard input. Messages and done marks use `name` as
    /// the file name.
    pub fn read_stream(&self, name: &str, from: impl Read) -> Result<PlanFile> {
        self.parse(name, &read_text_from(from, Path::new(name), "plan file")?)
    }

    /// Parses a plan. Messages and done marks use `name` as the file name.
    pub fn parse(&self, name: &str, text: &str) -> Result<PlanFile> {
        let valid = validated(name, &normalized_text(text), self);
        let valid = valid.map_err(|error| Error::from(error).at_path(Path::new(name)))?;
        Ok(normalized(valid.plan_file))
    }

    /// Reads a plan file and reports its problems, or its warnings and notes. Returns an error only if
    /// the file itself cannot be read.
    pub fn lint(&self, path: &Path) -> Result<LintReport> {
        if path.is_dir() {
            return Ok(report_of(validated_folder(path, self)?, ""));
        }
        let text = read_text(path, "plan file")?;
        let text = normalized_text(&text);
        Ok(report_of(validated(&file_name(path), &text, self), &text))
    }

    /// Parses a plan and reports its problems, or its warnings and notes.
    #[must_use]
    pub fn lint_text(&self, name: &str, text: &str) -> LintReport {
        let text = normalized_text(text);
        report_of(validated(name, &text, self), &text)
    }
}

/// The diagnostics of a plan file, and its plan if it is valid.
#[derive(Debug)]
pub struct LintReport {
    /// The plan, unless there is a problem.
    pub plan_file: Option<PlanFile>,
    /// All problems, or else all warnings and then all notes, each in the order of the plan.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a plan and reports its problems, or its warnings and notes.
#[must_use]
pub fn lint_text(name: &str, text: &str, tag: Option<&str>) -> LintReport {
    ReadOptions::of_tag(tag).lint_text(name, text)
}

fn report_of(read: ReadResult<ValidPlan>, text: &str) -> LintReport {
    let LintReport { plan_file, diagnostics } = report_without_columns(read);
    let lines: Vec<&str> = text.lines().collect();
    let diagnostics = diagnostics.into_iter().map(|each| each.with_column(&lines)).collect();
    LintReport { plan_file, diagnostics }
}

fn report_without_columns(read: ReadResult<ValidPlan>) -> LintReport {
    match read {
        Ok(valid) => {
            let mut diagnostics = valid.warnings();
            diagnostics.extend(valid.plan_file.notes.clone());
            diagnostics.extend(report_notes(&valid.plan_file));
            LintReport { plan_file: Some(normalized(valid.plan_file)), diagnostics }
        }
        Err(error) => LintReport { plan_file: None, diagnostics: error.into_diagnostics() },
    }
}

/// The parts that were not read, or read differently, as notes.
fn report_notes(plan_file: &PlanFile) -> Vec<Diagnostic> {
    let note = |line, message: String| Diagnostic::at_line(Severity::Note, line, message);
    let unread = plan_file.report.unread.iter().map(|part| {
        let mut message = part.without_line();
        message.push_str(match (part.kind, part.count) {
            (PartKind::Placeholder, _) => ": fill in the template",
            (PartKind::Section, _) => " is kept as context",
            (_, 1) => " is not a task: it is kept with the plan",
            _ => " are not tasks: they are kept with the plan",
        });
        if part.kind == PartKind::Checkbox {
            message.push_str("; add an id to make one a step");
        }
        note(part.line, message)
    });
    let corrections = plan_file.report.correction_lines().into_iter();
    unread.chain(corrections.map(|(line, message)| note(line, message))).collect()
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Reads a text that has line feeds at the ends of its lines.
pub(crate) fn validated(name: &str, text: &str, options: &ReadOptions) -> ReadResult<ValidPlan> {
    if is_blank(text) {
        let message = "the file is empty: expected a plan with at least one step";
        return Err(plan_error(message).into());
    }
    let conflicts = conflict_marks(text);
    if !conflicts.is_empty() {
        return Err(ReadError::Invalid(conflicts));
    }
    let mut draft = detect::parse_draft(name, text, options)?;
    readings::expect(options.reading.as_deref(), &draft.plan_file)?;
    draft.drop_dependencies(&options.drop_dependencies);
    draft.read_commands(options.programs.as_ref());
    draft.validate()
}

fn validated_folder(path: &Path, options: &ReadOptions) -> Result<ReadResult<ValidPlan>> {
    Ok(validated_rows(path, options, &Texts::new())?.0)
}

/// Reads a folder with a file for each task, and where each row is. `texts` are read instead of files.
pub(crate) fn validated_rows(
    path: &Path,
    options: &ReadOptions,
    texts: &Texts,
) -> Result<(ReadResult<ValidPlan>, Vec<RowPlace>)> {
    let name = file_name(path);
    let Folder { rows, places, format, unread } = read_folder(path, texts)?;
    let no_plan = |_| plan_error("the files of the folder have no tasks").at_path(path);
    let mut draft = records::parse_rows(&name, rows, format).map_err(no_plan)?;
    if unread > 0 {
        draft.add_unread(PartKind::Record, unread, "", None);
    }
    if let Err(error) = readings::expect(options.reading.as_deref(), &draft.plan_file) {
        return Ok((Err(error), places));
    }
    draft.drop_dependencies(&options.drop_dependencies);
    draft.read_commands(options.programs.as_ref());
    Ok((draft.validate(), places))
}

/// Reads the plan back from its canonical text, as a ledger does. A number such as `1e3` has one
/// spelling there, so equal hashes mean equal plans.
pub(crate) fn normalized(plan_file: PlanFile) -> PlanFile {
    let plan = serde_json::from_str(&plan_file.plan.canonical()).unwrap_or(plan_file.plan);
    PlanFile { plan, ..plan_file }
}
