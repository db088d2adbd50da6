//! Records everything that is due: expired leases, delays, deadlines, and the backlog of earlier
//! commands.

use crate::error::Result;
use crate::plan::Command;

use super::engine::Engine;
use super::submitted::Submitted;

/// See [`crate::Ledger::tick`].
pub(crate) fn tick(engine: &Engine) -> Result<()> {
    while submit(engine).wait()? {}
    Ok(())
}

/// Submit one batch of due events, if something is due. The value is whether more is due.
pub(crate) fn submit(engine: &Engine) -> Submitted<'_, bool> {
    match engine.is_tick_due() {
        Ok(true) => engine.submit(None, |transaction| {
            transaction.run(&Command::Tick)?;
            Ok(transaction.has_backlog())
        }),
        Ok(false) => Submitted::ready(engine, false),
        Err(error) => Submitted::failed(engine, error),
    }
}
