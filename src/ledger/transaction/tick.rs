//! Records everything that is due: expired leases, delays, deadlines, and the backlog of earlier
//! commands.

use std::sync::PoisonError;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::plan::Command;

use super::engine::Engine;
use super::execution::Transaction;
use super::submit::CommitOptions;

/// The pause between two commits of a backlog.
const PAUSE: Duration = Duration::from_millis(1);

/// See [`crate::Ledger::tick`].
///
/// Only one thread at a time works on the backlog, and it waits for the disk between two commits:
/// another command waits for at most one of them.
pub(crate) fn tick(engine: &Engine) -> Result<()> {
    let _only = engine.ticking.lock().unwrap_or_else(PoisonError::into_inner);
    let tick = |transaction: &mut Transaction<'_>| {
        transaction.run(&Command::Tick)?;
        Ok::<_, Error>(transaction.has_backlog())
    };
    while engine.is_tick_due()? && engine.transact(CommitOptions::default(), tick).wait()? {
        // A mutex is not fair: leave time for those that wait for the state.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
