//! The folders that a runner has in the folder of a ledger.
//!
//! Invariant: none of them is reached through a link. A ledger that came with a cloned repository could
//! have links that lead to other folders of its user, whose files a runner would then delete.

use std::fs;
use std::io;
use std::path::Path;

use plan_ledger::{Error, ErrorKind, Result};

/// Create a folder below `work` in a ledger's folder.
///
/// # Errors
/// `Io`; `NotALedger` if it, or the folder above it, is a link.
pub(crate) fn create_own_folder(folder: &Path) -> Result<()> {
    expect_no_link(folder)?;
    fs::create_dir_all(folder)
        .map_err(|error| Error::io("create the workers' folder", folder, error))
}

/// Refuse a folder below `work` that is a link, or that a link leads to.
///
/// # Errors
/// As [`create_own_folder`].
pub(crate) fn expect_no_link(folder: &Path) -> Result<()> {
    for path in folder.ancestors().take(2) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() && !plan_ledger::mutant!(LinkFollowed) => {
                let message = "this is a link, and nothing in the folder of a ledger may be one";
                let error = Error::new(ErrorKind::NotALedger, message).at_path(path);
                return Err(error.with_hint("remove it, if the ledger is yours"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("look at the workers' folder", path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
