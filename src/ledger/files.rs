//! How the files that a plan's steps are expected to change were when the plan was made: one
//! variable of the run, [`PLANNED_FILES`], that a runner sets before it deals a step of a version.
//!
//! Invariant: what is there is what somebody recorded. A value of another form says nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{ContentHash, Json, Run, Step};

/// The variable that holds them. No expression of a plan can name it, since it is no identifier.
pub const PLANNED_FILES: &str = "ledger.files";

/// The files of a plan version as they were when it became active.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFiles {
    /// The version.
    pub version: u32,
    /// The hash of each file by its path; `None` for one that was not there, or was no file.
    pub files: BTreeMap<String, Option<ContentHash>>,
}

/// A file of a step as it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path, as the plan has it.
    pub path: String,
    /// The hash of its bytes; `None` if it was not there, or was no file.
    pub hash: Option<ContentHash>,
}

impl PlannedFiles {
    /// What is recorded in a run, if anything is.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        let variable = run.variables.get(PLANNED_FILES)?;
        serde_json::from_str(variable.value.as_str()).ok()
    }

    /// The value of the variable.
    #[must_use]
    pub fn to_json(&self) -> Json {
        // Only map keys that are not strings could fail, and there are none.
        Json::from(serde_json::to_value(self).unwrap_or_default())
    }
}

/// What is recorded about the files of a step, for the active version.
pub(super) fn planned_files(run: &Run, step: &Step) -> Vec<PlannedFile> {
    if step.changes.is_empty() {
        return Vec::new();
    }
    let Some(planned) = PlannedFiles::of(run).filter(|it| it.version == run.active) else {
        return Vec::new();
    };
    let file = |path: &String| {
        let hash = *planned.files.get(path)?;
        Some(PlannedFile { path: path.clone(), hash })
    };
    step.changes.iter().filter_map(file).collect()
}
