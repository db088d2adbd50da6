//! The checks before an epoch is opened. An epoch replaces the owner and stays in the store, so a start that will be
//! refused should not open one. Only the check that the store is complete comes later: until then another process may
//! continue the log, and collect objects.

use std::io::Write as _;
use std::path::Path;

use plan_ledger::internals::store::{StandbyFolder, StoreClient};
use plan_ledger::{Environment, Error, ErrorKind};

use crate::output::Failure;
use crate::server::{check_root_of_folder, open_in_turn};

/// The size in bytes of the records that opening an epoch writes to the folder, and of the first records after it.
const ROOM: usize = 256 << 10;

/// Checks that the folder has room, and that the ledger has the last record that this user wrote to it. `is_known`
/// states whether the store has the ledger.
///
/// # Errors
/// `DiskFull`; `Rejected` if the ledger was rolled back, unless that is accepted.
pub(super) fn check(
    dir: &Path,
    environment: &Environment,
    client: &StoreClient,
    is_known: bool,
) -> Result<(), Failure> {
    expect_room(dir)?;
    let found = check_root_of_folder(dir, environment);
    if found.is_ok() || !is_known {
        return found;
    }
    // The store may have records that the folder lacks. This copies them into the folder, and writes nothing to the
    // store.
    let follow = || StandbyFolder::open(dir, environment.log_options(), client);
    match open_in_turn(dir, follow) {
        Ok(folder) => {
            folder.finish()?;
            check_root_of_folder(dir, environment)
        }
        // It may be otherwise when the ledger is opened, and then an epoch would be opened unchecked.
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Io) => {
            Err(error.into())
        }
        // If the ledger cannot be opened, the later attempt reports the reason.
        Err(_) => Ok(()),
    }
}

/// The same for a folder that is at the end of the log, since it followed it.
///
/// # Errors
/// As [`check`].
pub(super) fn check_followed(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    expect_room(dir)?;
    check_root_of_folder(dir, environment)
}

/// Checks that the folder has room for the records of opening an epoch.
///
/// # Errors
/// `DiskFull`; `Io` if nothing can be written there.
fn expect_room(dir: &Path) -> Result<(), Error> {
    // The file has no name, so it leaves nothing behind. Some file systems allocate space only when the data is synced.
    let written = tempfile::tempfile_in(dir).and_then(|mut file| {
        file.write_all(&vec![0x5a; ROOM])?;
        file.sync_data()
    });
    written.map_err(|error| {
        let error = Error::io("write to the folder", dir, error);
        match error.kind() {
            ErrorKind::DiskFull => {
                error.with_hint("make room and start again; nothing was changed")
            }
            _ => error,
        }
    })
}
