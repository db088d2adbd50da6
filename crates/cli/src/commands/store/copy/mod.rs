//! Folders and the log in a store: `restore` makes a folder of a store, `replicate` ships a folder that another process
//! writes, and `rejoin` makes place for a restored folder where one has diverged.

mod rejoin;
mod replicate;
mod restore;

use plan_ledger::{Error, ErrorKind};

pub(crate) use rejoin::RecordJson;
pub(super) use rejoin::{RejoinArgs, rejoin};
pub(crate) use replicate::{ReplicateArgs, replicate};
pub(crate) use restore::{RestoreArgs, restore};
pub(super) use restore::{is_free, records_about};

/// The error of a folder that has diverged, with the command that saves what only it has.
pub(super) fn with_rejoin(error: Error, url: &str, dir: &std::path::Path) -> Error {
    if error.kind() != ErrorKind::Diverged {
        return error;
    }
    error.with_hint(format!(
        "nothing was changed; `ledger store rejoin {url} --ledger {}` shows what only this folder has, saves \
         it, and restores the store",
        dir.display()
    ))
}
