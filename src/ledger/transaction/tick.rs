//! Records everything that is due: expired leases, delays, deadlines, and the backlog of earlier
//! commands.

use std::sync::PoisonError;
use std::time::Duration;

use crate::error::Result;
use crate::plan::Command;

use super::engine::Engine;
use super::submit::CommitOptions;
use super::submitted::Submitted;

/// The pause between two commits of a backlog.
const PAUSE: Duration = Duration::from_millis(1);

/// See [`crate::Ledger::tick`].
///
/// Only one thread at a time works on the backlog, and it waits for the disk between two commits:
/// another command waits for at most one of them.
pub(crate) fn tick(engine: &Engine) -> Result<()> {
    let _only = engine.ticking.lock().unwrap_or_else(PoisonError::into_inner);
    while submit(engine, CommitOptions::default()).wait()? {
        // A mutex is not fair: leave time for those that wait for the state.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Submit one batch of due events, if something is due. The value is whether more is due.
pub(crate) fn submit<'e>(engine: &'e Engine, options: CommitOptions<'_>) -> Submitted<'e, bool> {
    match engine.is_tick_due() {
        Ok(true) => engine.submit(options, |transaction| {
            transaction.run(&Command::Tick)?;
            Ok(transaction.has_backlog())
        }),
        Ok(false) => Submitted::ready(engine, false),
        Err(error) => Submitted::failed(engine, error),
    }
}
