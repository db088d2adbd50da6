//! The error of a folder that has diverged, with the commands that save its records.

use std::path::Path;

use plan_ledger::{Error, ErrorKind};

use crate::protocol::{ledger_option, quoted};

/// The same error. For a folder that has diverged, its hint names the command that saves the records that only it has.
pub(crate) fn with_rejoin(error: Error, url: &str, dir: &Path) -> Error {
    if error.kind() != ErrorKind::Diverged {
        return error;
    }
    error.with_hint(format!(
        "nothing was changed; `ledger store rejoin {} {}` shows what only this folder has, saves \
         it, and restores the store",
        quoted(url),
        ledger_option(dir)
    ))
}
