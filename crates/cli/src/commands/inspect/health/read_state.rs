//! Reads the newest state of a ledger without its lock, for the commands that only read.

use std::path::Path;

use plan_ledger::internals::ledger::expect_valid;
use plan_ledger::{Error, ErrorKind, State};

use crate::output::Failure;

use super::newest_state;
use crate::commands::store::source::environment_for;
use crate::options::environment;

/// Calls `look` with the newest state.
///
/// If one of the state's runs cannot be read, the result is an error, even if `look` succeeded. If
/// not all records can be read, the state may be stale: the output of `look` remains, and the
/// command exits with the code for damage.
pub(crate) fn read_state<T>(
    dir: &Path,
    look: impl FnOnce(&State) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (state, unread) = newest_state(dir, &environment_for(dir, &environment())?)?;
    let found = look(&state);
    expect_valid(&state)?;
    let Some(unread) = unread else { return found };
    let message = match found {
        Err(Failure::Missing { .. }) if state.runs.is_empty() => {
            format!("no run can be read; {unread}")
        }
        // The missing item may be in the unreadable records.
        Err(Failure::Usage(message) | Failure::Missing { message, .. }) => {
            format!("{message}; {unread}")
        }
        Err(failure) => return Err(failure),
        Ok(_) => unread,
    };
    Err(Error::new(ErrorKind::Corrupt, message).into())
}
