//! The last drill of a plan, kept in the user's state folder under the hash of the plan.
//!
//! A drill runs in ledgers of its own, often before the plan has a run and its ledger exists, so no ledger
//! can have its record. What counts is the plan: one with another hash has not been drilled.

use std::io::{self, Write as _};
use std::path::PathBuf;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{ContentHash, Timestamp};

use crate::output::render::local_moment;
use crate::protocol::private_files;
use crate::server::state_folder;

/// A drill of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LastDrill {
    /// Whether all checks held.
    pub(crate) holds: bool,
    /// When it ended.
    pub(crate) time_micros: Timestamp,
    /// The description of the drill, for people.
    pub(crate) what: String,
}

impl LastDrill {
    /// The last drill of the plan with that hash, if there was one on this machine.
    pub(crate) fn of(plan: ContentHash) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path(plan)?).ok()?).ok()
    }

    /// Keeps it as the last drill of a plan.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn keep(&self, plan: ContentHash) -> io::Result<()> {
        let path = path(plan).ok_or(io::ErrorKind::NotFound)?;
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        private_files::create_folders(folder)?;
        // A process that is killed leaves the old file or the new one.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(path)?;
        Ok(())
    }

    /// The drill in one line.
    pub(crate) fn text(&self) -> String {
        let result = if self.holds { "all checks hold" } else { "it failed" };
        format!("drilled on {}: {}, {result}", local_moment(self.time_micros), self.what)
    }
}

fn path(plan: ContentHash) -> Option<PathBuf> {
    Some(state_folder("drills")?.join(format!("{plan}.json")))
}
