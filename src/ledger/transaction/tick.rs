//! Records everything that is due: expired leases, delays, deadlines, and the backlog of earlier
//! commands.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::plan::{Command, State};

use super::backlog::Backlog;
use super::engine::{Engine, Prepared, SubmitError, SubmittedTransaction};

/// See [`crate::Ledger::tick`].
pub(crate) fn tick(engine: &Engine) -> Result<()> {
    while let Some(submitted) = submit(engine) {
        if engine.wait(submitted)?.1 == Backlog::Empty {
            break;
        }
    }
    Ok(())
}

/// Submit one batch of due events; `None` if nothing is due.
pub(crate) fn submit(
    engine: &Engine,
) -> Option<std::result::Result<SubmittedTransaction<Backlog>, SubmitError<Error>>> {
    let mut shared = match engine.lock() {
        Ok(shared) => shared,
        Err(error) => return Some(Err(SubmitError::Failed(error))),
    };
    let now = engine.now();
    let is_due = shared.state.next_due().is_some_and(|due| due <= now);
    if !is_due && shared.backlog == Backlog::Empty {
        return None;
    }
    let build = |_: &State| Ok::<_, Error>(Cow::Borrowed(&Command::Tick));
    let prepared = Prepared { build: &build, follow_up: None, key: None };
    Some(engine.submit_prepared(&mut shared, &prepared, |_, events| Backlog::of(events)))
}
