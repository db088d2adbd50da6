//! The files that a plan's steps are expected to change, with their hashes at the time of the plan.
//! They are stored in one variable of the run, [`PLANNED_FILES`]. The command line sets it when it
//! proposes a version; otherwise a runner sets it before it dispatches a step of the version.
//!
//! A value with another structure is ignored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::plan::{ContentHash, Json, Run, RunId};

/// The name of the variable. It is not an identifier, so no expression of a plan can use it.
pub const PLANNED_FILES: &str = "ledger.files";

/// The files of a plan version as they were when it became active.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFiles {
    /// The version.
    pub version: u32,
    /// The hash of each file by its path; `None` if it did not exist or was not a regular file.
    pub files: BTreeMap<String, Option<ContentHash>>,
}

/// A file of a step as it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path, as in the plan.
    pub path: String,
    /// The hash of its bytes; `None` if it did not exist, or was not a regular file.
    pub hash: Option<ContentHash>,
}

impl PlannedFiles {
    /// The files that are recorded in a run, if any are.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        let variable = run.variables.get(PLANNED_FILES)?;
        serde_json::from_str(variable.value.as_str()).ok()
    }

    /// The value of the variable.
    #[must_use]
    pub fn to_json(&self) -> Json {
        // This cannot fail: all map keys are strings.
        Json::from(serde_json::to_value(self).unwrap_or_default())
    }
}

/// A cache of the parsed newest value of the variable, which may be too long to parse for every
/// step.
#[derive(Debug, Default)]
pub(crate) struct PlannedFilesCache(Mutex<Option<CachedFiles>>);

#[derive(Debug)]
struct CachedFiles {
    run: RunId,
    /// The variable's version.
    version: u64,
    files: Arc<PlannedFiles>,
}

impl PlannedFilesCache {
    fn lock(&self) -> MutexGuard<'_, Option<CachedFiles>> {
        // The value is set in one assignment, so it is valid even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files in this version of the variable, if it is cached.
    pub(crate) fn get(&self, run: RunId, version: u64) -> Option<Arc<PlannedFiles>> {
        let cached = self.lock();
        let cached =
            cached.as_ref().filter(|cached| (cached.run, cached.version) == (run, version));
        cached.map(|cached| Arc::clone(&cached.files))
    }

    /// Parse this version of the variable, and cache it.
    pub(crate) fn parse(&self, run: RunId, version: u64, value: &str) -> Arc<PlannedFiles> {
        let files: Arc<PlannedFiles> = Arc::new(serde_json::from_str(value).unwrap_or_default());
        *self.lock() = Some(CachedFiles { run, version, files: Arc::clone(&files) });
        files
    }
}
