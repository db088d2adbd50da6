//! How the files that a plan's steps are expected to change were when the plan was made: one
//! variable of the run, [`PLANNED_FILES`], that whoever proposes a version from the command line sets,
//! or else a runner before it deals a step of it.
//!
//! Invariant: what is there is what somebody recorded. A value of another form says nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::plan::{ContentHash, Json, Run, RunId, Step};

use super::Ledger;

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

/// What a value of the variable says, for as long as it is the newest one: it may be long, and is
/// read once and not for every step.
#[derive(Debug, Default)]
pub(super) struct FilesRead(Mutex<Option<Read>>);

#[derive(Debug)]
struct Read {
    run: RunId,
    /// How often the variable had been set.
    set: u64,
    files: Arc<PlannedFiles>,
}

impl FilesRead {
    fn known(&self) -> MutexGuard<'_, Option<Read>> {
        // What a thread that panicked left is whole: it is set in one move.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What that value of the variable says, if it was read before.
    fn find(&self, run: RunId, set: u64) -> Option<Arc<PlannedFiles>> {
        let known = self.known();
        known.as_ref().filter(|it| (it.run, it.set) == (run, set)).map(|it| Arc::clone(&it.files))
    }
}

impl Ledger {
    /// What is recorded about the files of a step, for the active version of its run's plan.
    pub(super) fn planned_files(&self, run: RunId, step: &Step) -> Vec<PlannedFile> {
        if step.changes.is_empty() {
            return Vec::new();
        }
        let planned = self.files_of(run);
        let file = |path: &String| {
            let hash = *planned.as_ref()?.files.get(path)?;
            Some(PlannedFile { path: path.clone(), hash })
        };
        step.changes.iter().filter_map(file).collect()
    }

    fn files_of(&self, id: RunId) -> Option<Arc<PlannedFiles>> {
        // Nobody waits while it is read.
        let (active, set, value) = {
            let shared = self.lock().ok()?;
            let run = shared.state.runs.get(&id)?;
            let variable = run.variables.get(PLANNED_FILES)?;
            let known = self.files.find(id, variable.version);
            let value = known.ok_or_else(|| variable.value.clone());
            (run.active, variable.version, value)
        };
        let files = match value {
            Ok(files) => files,
            Err(value) => {
                let files = Arc::new(serde_json::from_str(value.as_str()).unwrap_or_default());
                *self.files.known() = Some(Read { run: id, set, files: Arc::clone(&files) });
                files
            }
        };
        Some(files).filter(|files: &Arc<PlannedFiles>| files.version == active)
    }
}
