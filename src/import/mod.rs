//! Plan files: our own YAML, JSON and Markdown form, and the files of other tools.
//!
//! Invariants:
//! - The form is told from the content, never from the file's name.
//! - What is read is a plan without problems, or an error that names the file and every problem.
//! - Nothing that a file says is lost: what a plan has no field for goes to `extra`, and what
//!   changes while work is done stands beside the plan, so that its hash does not move.
//! - The same text gives the same plan, and [`written`] in any of our forms, it reads as itself.
//!
//! Left out on purpose: writing files of other tools back.

mod beads;
mod detect;
mod draft;
mod fields;
mod finding;
mod lines;
mod markdown;
mod marks;
mod order;
mod own;
mod records;
mod schema;
mod taskmaster;
mod text;
mod tools;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

pub use finding::{Finding, Severity};
pub use schema::schema;
pub use tools::read_tools;
pub use write::{Form, dot_quoted, mermaid_quoted, written};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Extra, Plan};
use draft::Judged;
use finding::Refusal;

/// The largest plan file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A plan that was read from a file, and what the file says beyond the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The plan: valid, with all of its steps.
    pub plan: Plan,
    /// Steps that the file marks as done, each with where it says so.
    pub done: BTreeMap<String, String>,
    /// Steps that the file marks as not to be done any more, each with where it says so.
    pub skipped: BTreeMap<String, String>,
    /// The marks themselves, as the file has them, of every step that has one.
    pub statuses: BTreeMap<String, String>,
    /// Fields of steps that the author's tool changes while work is done, as the file has them.
    pub progress: BTreeMap<String, Extra>,
    /// How the file was read where it left a choice.
    pub notes: Vec<Finding>,
    /// The form of the file.
    pub format: PlanFormat,
}

impl Imported {
    /// A plan that comes with no marks.
    fn unmarked(plan: Plan, format: PlanFormat) -> Self {
        Self {
            plan,
            done: BTreeMap::new(),
            skipped: BTreeMap::new(),
            statuses: BTreeMap::new(),
            progress: BTreeMap::new(),
            notes: Vec::new(),
            format,
        }
    }
}

/// The form of a plan file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanFormat {
    /// Our own form, as YAML.
    Yaml,
    /// Our own form, as JSON.
    Json,
    /// Our own form, as Markdown.
    OwnMarkdown,
    /// The `tasks.json` of task-master.
    TaskMaster,
    /// The `prd.json` of Ralph.
    Ralph,
    /// The `issues.jsonl` of beads.
    Beads,
    /// Any other list of tasks in JSON.
    Records,
    /// The `tasks.md` of spec-kit.
    SpecKit,
    /// Any other plan in Markdown, that of `OpenSpec` among them.
    Markdown,
}

impl PlanFormat {
    /// Whether it is our own form, in which every field means what `format/plan.md` says.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Self::Yaml | Self::Json | Self::OwnMarkdown)
    }
}

impl fmt::Display for PlanFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yaml => "YAML plan",
            Self::Json => "JSON plan",
            Self::OwnMarkdown => "Markdown plan of our own form",
            Self::TaskMaster => "task-master file",
            Self::Ralph => "Ralph file",
            Self::Beads => "beads file",
            Self::Records => "JSON list of tasks",
            Self::SpecKit => "spec-kit file",
            Self::Markdown => "Markdown plan",
        })
    }
}

/// Reads a plan file.
pub fn read(path: &Path) -> Result<Imported> {
    read_tag(path, None)
}

/// Reads a plan file; of a file with several tagged plans, the one of that tag.
pub fn read_tag(path: &Path, tag: Option<&str>) -> Result<Imported> {
    let text = text::read(path, "plan file")?;
    parsed(&name_of(path), &text, tag).map_err(|error| error.at_path(path))
}

/// Reads a plan file that is open already, as standard input is. The name stands for it in messages
/// and done marks.
pub fn read_from(name: &str, from: impl Read) -> Result<Imported> {
    parse(name, &text::read_from(from, Path::new(name), "plan file")?)
}

/// Reads a plan from text. The name stands for the file in messages and done marks.
pub fn parse(name: &str, text: &str) -> Result<Imported> {
    parse_tag(name, text, None)
}

/// Reads a plan from text; of a text with several tagged plans, the one of that tag.
pub fn parse_tag(name: &str, text: &str, tag: Option<&str>) -> Result<Imported> {
    parsed(name, text, tag).map_err(|error| error.at_path(Path::new(name)))
}

/// Everything that is to be said about a plan file, and its plan, if it is one.
#[derive(Debug)]
pub struct Checked {
    /// The plan, if nothing is wrong with it.
    pub imported: Option<Imported>,
    /// All problems, or else all warnings and notes, each group in the order of the plan.
    pub findings: Vec<Finding>,
}

/// Looks for everything that is wrong with a plan file, or hardly meant. An error is what keeps
/// the file itself from being read.
pub fn check(path: &Path, tag: Option<&str>) -> Result<Checked> {
    let text = text::read(path, "plan file")?;
    Ok(check_text(&name_of(path), &text, tag))
}

/// Looks for everything that is wrong with a plan's text, or hardly meant.
#[must_use]
pub fn check_text(name: &str, text: &str, tag: Option<&str>) -> Checked {
    let text = without_mark(text);
    match judged(name, text, tag) {
        Ok(judged) => {
            let mut findings = judged.warnings(text);
            findings.extend(judged.imported.notes.clone());
            Checked { imported: Some(as_stored(judged.imported)), findings }
        }
        Err(Refusal::Problems(findings)) => Checked { imported: None, findings },
        Err(Refusal::Unreadable { line, error, .. }) => {
            Checked { imported: None, findings: vec![Finding::of_error(line, &error)] }
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn parsed(name: &str, text: &str, tag: Option<&str>) -> Result<Imported> {
    Ok(as_stored(judged(name, without_mark(text), tag)?.imported))
}

fn judged(name: &str, text: &str, tag: Option<&str>) -> std::result::Result<Judged, Refusal> {
    if text::is_blank(text) {
        let text = "the file is empty: expected a plan with at least one step";
        return Err(bad_plan(text).into());
    }
    detect::draft(name, text, tag)?.judged(text)
}

/// With the plan as a ledger gives it back: a number such as `1e3` has one spelling there, and two
/// plans that differ only in it are equal.
fn as_stored(imported: Imported) -> Imported {
    let plan = serde_json::from_str(&imported.plan.canonical()).unwrap_or(imported.plan);
    Imported { plan, ..imported }
}

/// An error of the file. What it quotes from the file cannot steer a terminal.
fn bad_plan(message: impl AsRef<str>) -> Error {
    let mut text = String::new();
    for char in message.as_ref().chars() {
        if char.is_control() {
            text.extend(char.escape_debug());
        } else {
            text.push(char);
        }
    }
    Error::new(ErrorKind::BadPlan, text)
}

#[cfg(test)]
mod tests;
