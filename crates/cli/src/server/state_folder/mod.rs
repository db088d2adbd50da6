//! The user's state folder: data that the program keeps about ledgers outside of them.

pub(crate) mod known_root;
pub(crate) mod last_runner;
pub(crate) mod resume_place;
pub(crate) mod surroundings;

use std::path::PathBuf;

/// The folder for a kind of files (`XDG_STATE_HOME`); `None` if the user has no home.
pub(crate) fn state_folder(kind: &str) -> Option<PathBuf> {
    let state = dirs::state_dir().or_else(dirs::data_local_dir)?;
    Some(state.join("plan-ledger").join(kind))
}
