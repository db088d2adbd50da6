//! What to do with a folder that has diverged.

use std::path::Path;

use plan_ledger::{Error, ErrorKind};

use crate::protocol::{ledger_option, quoted};

/// The same error; that of a folder that has diverged names the command that saves what only it has.
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
