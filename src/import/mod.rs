//! Plan files: our own YAML and JSON form, and the files of other tools.
//!
//! Invariants:
//! - The form is told from the content, never from the file's name.
//! - What is read is a plan without problems, or an error that names the file and every problem.
//! - Done marks never enter the plan: they are facts about somebody's run, and the plan's hash
//!   must not move when work is done.
//!
//! Left out on purpose: writing files of other tools back.

mod own;
mod schema;
mod taskmaster;
mod text;
mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

pub use schema::schema;
pub use tools::read_tools;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{self, Plan, Rejection};

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
    /// The form of the file.
    pub format: PlanFormat,
}

impl Imported {
    /// A plan that comes with no marks.
    fn unmarked(plan: Plan, format: PlanFormat) -> Self {
        let marks = BTreeMap::new;
        Self { plan, done: marks(), skipped: marks(), statuses: marks(), format }
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
    /// The `tasks.json` of task-master.
    TaskMaster,
}

impl fmt::Display for PlanFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yaml => "YAML plan",
            Self::Json => "JSON plan",
            Self::TaskMaster => "task-master file",
        })
    }
}

/// Reads a plan file.
pub fn read(path: &Path) -> Result<Imported> {
    read_tag(path, None)
}

/// Reads a plan file; of a file with several tagged plans, the one of that tag.
pub fn read_tag(path: &Path, tag: Option<&str>) -> Result<Imported> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let text = text::read(path, "plan file")?;
    parsed(&name, &text, tag).map_err(|error| error.at_path(path))
}

/// Reads a plan from text. The name stands for the file in messages and done marks.
pub fn parse(name: &str, text: &str) -> Result<Imported> {
    parse_tag(name, text, None)
}

/// Reads a plan from text; of a text with several tagged plans, the one of that tag.
pub fn parse_tag(name: &str, text: &str, tag: Option<&str>) -> Result<Imported> {
    parsed(name, text, tag).map_err(|error| error.at_path(Path::new(name)))
}

fn parsed(name: &str, text: &str, tag: Option<&str>) -> Result<Imported> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text::is_blank(text) {
        return Err(bad_plan("the file is empty: expected a plan with at least one step"));
    }
    let imported = match text.trim_start().chars().next() {
        Some('{' | '[') => json(name, text, tag)?,
        _ => untagged(tag, Imported::unmarked(own::yaml(text)?, PlanFormat::Yaml))?,
    };
    match plan::validate(&imported.plan) {
        problems if problems.is_empty() => {
            Ok(Imported { plan: as_stored(imported.plan), ..imported })
        }
        problems => Err(Rejection::InvalidPlan(problems).into()),
    }
}

/// The plan as a ledger gives it back: a number such as `1e3` has one spelling there, and two
/// plans that differ only in it are equal.
fn as_stored(plan: Plan) -> Plan {
    serde_json::from_str(&plan.canonical()).unwrap_or(plan)
}

/// JSON is read twice: for its shape, then strictly, because only then do errors have a place.
fn json(name: &str, text: &str, tag: Option<&str>) -> Result<Imported> {
    let value = own::json_value(text)?;
    if taskmaster::is_ours(&value) {
        return taskmaster::import(name, &value, tag);
    }
    if !own::is_ours(&value) {
        return Err(bad_plan(
            "the JSON is no plan: expected our own form (an object with a list `steps`) or a \
             task-master file (a list `tasks`, or tags that have one)",
        ));
    }
    drop(value);
    untagged(tag, Imported::unmarked(own::json(text)?, PlanFormat::Json))
}

fn untagged(tag: Option<&str>, imported: Imported) -> Result<Imported> {
    match tag {
        None => Ok(imported),
        Some(tag) => Err(bad_plan(format!(
            "tag `{tag}` was asked for, but a {} has no tags; leave the tag out",
            imported.format
        ))),
    }
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
