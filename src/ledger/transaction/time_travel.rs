//! Reads the past of an open ledger: a projection at any record. It also makes snapshots on
//! request.
//!
//! Invariant: a failure with a snapshot never affects a command or a result.

use crate::error::Result;
use crate::ledger::projection::Projection;
use crate::ledger::snapshot::retention::remove_old_snapshots;
use crate::ledger::snapshot::store::{self, Snapshot};

use super::engine::Engine;

/// A projection after record `seq`; see [`crate::Ledger::project`].
pub(crate) fn project<P: Projection>(engine: &Engine, seq: u64) -> Result<P> {
    let reader = engine.reader()?;
    let projected = store::project_at::<P>(&reader, seq)?;
    if !projected.ignored.is_empty() {
        engine.log.check_process()?;
        engine.scheduler().warn_all(&projected.ignored);
    }
    Ok(projected.value)
}

/// Make a snapshot after the last record; see [`crate::Ledger::snapshot`].
pub(crate) fn make_snapshot<P: Projection>(engine: &Engine) -> Result<Snapshot> {
    engine.log.check_process()?;
    let storage = &*engine.environment.storage;
    let (intervals, lock) = {
        let scheduler = engine.scheduler();
        (scheduler.intervals(), scheduler.snapshot_lock())
    };
    let guard = lock.lock();
    let (last, reader) = (engine.log.last_durable().seq, engine.reader()?);
    let (snapshot, note, ignored) = store::make::<P>(storage, &reader, last, &guard)?;
    // Release the guard first: a thread that has locked the scheduler may be waiting for it.
    drop(guard);
    engine.scheduler().warn_all(&ignored);
    engine.append_note(note.record(), None)?;
    let _guard = lock.lock();
    remove_old_snapshots::<P>(storage, &engine.reader()?, intervals)?;
    Ok(snapshot)
}
