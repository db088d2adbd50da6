//! The entry points: read and lint a plan file or a text.

use std::io::Read;
use std::path::Path;

use super::detect;
use super::diagnostic::{Diagnostic, ReadError, ReadResult, plan_error};
use super::draft::ValidPlan;
use super::plan_file::PlanFile;
use super::syntax::{is_blank, read_text, read_text_from, without_byte_order_mark};
use crate::error::Result;

/// Reads a plan file.
pub fn read(path: &Path) -> Result<PlanFile> {
    read_tag(path, None)
}

/// Reads a plan file. Of a file with several tagged plans, `tag` selects one.
pub fn read_tag(path: &Path, tag: Option<&str>) -> Result<PlanFile> {
    let text = read_text(path, "plan file")?;
    parse_plan(&file_name(path), &text, tag).map_err(|error| error.at_path(path))
}

/// Reads a plan from an open stream such as standard input. Messages and done marks use `name` as
/// the file name.
pub fn read_from(name: &str, from: impl Read) -> Result<PlanFile> {
    parse(name, &read_text_from(from, Path::new(name), "plan file")?)
}

/// Parses a plan. Messages and done marks use `name` as the file name.
pub fn parse(name: &str, text: &str) -> Result<PlanFile> {
    parse_tag(name, text, None)
}

/// Parses a plan. Of a text with several tagged plans, `tag` selects one.
pub fn parse_tag(name: &str, text: &str, tag: Option<&str>) -> Result<PlanFile> {
    parse_plan(name, text, tag).map_err(|error| error.at_path(Path::new(name)))
}

/// The diagnostics of a plan file, and its plan if it is valid.
#[derive(Debug)]
pub struct LintReport {
    /// The plan, unless there is a problem.
    pub plan_file: Option<PlanFile>,
    /// All problems, or else all warnings and then all notes, each in the order of the plan.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a plan file and reports its problems, or its warnings and notes. Returns an error only if
/// the file itself cannot be read.
pub fn lint(path: &Path, tag: Option<&str>) -> Result<LintReport> {
    let text = read_text(path, "plan file")?;
    Ok(lint_text(&file_name(path), &text, tag))
}

/// Parses a plan and reports its problems, or its warnings and notes.
#[must_use]
pub fn lint_text(name: &str, text: &str, tag: Option<&str>) -> LintReport {
    let text = without_byte_order_mark(text);
    match validated(name, text, tag) {
        Ok(valid) => {
            let mut diagnostics = valid.warnings(text);
            diagnostics.extend(valid.plan_file.notes.clone());
            LintReport { plan_file: Some(normalized(valid.plan_file)), diagnostics }
        }
        Err(ReadError::Invalid(diagnostics)) => LintReport { plan_file: None, diagnostics },
        Err(ReadError::Syntax { line, error, .. }) => {
            let diagnostics = vec![Diagnostic::from_error(line, &error)];
            LintReport { plan_file: None, diagnostics }
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn parse_plan(name: &str, text: &str, tag: Option<&str>) -> Result<PlanFile> {
    Ok(normalized(validated(name, without_byte_order_mark(text), tag)?.plan_file))
}

fn validated(name: &str, text: &str, tag: Option<&str>) -> ReadResult<ValidPlan> {
    if is_blank(text) {
        let message = "the file is empty: expected a plan with at least one step";
        return Err(plan_error(message).into());
    }
    detect::parse_draft(name, text, tag)?.validate(text)
}

/// Reads the plan back from its canonical text, as a ledger does. A number such as `1e3` has one
/// spelling there, so equal hashes mean equal plans.
fn normalized(plan_file: PlanFile) -> PlanFile {
    let plan = serde_json::from_str(&plan_file.plan.canonical()).unwrap_or(plan_file.plan);
    PlanFile { plan, ..plan_file }
}
