//! The background thread: it preallocates the next segment, seals the last one, and makes buffered
//! records durable while the log is idle.
//!
//! Invariants:
//! - No append waits for it: it works on files of its own, and syncs HEAD while a group is written.
//! - Without it the log has the same content; only rotations take longer.
//! - It ends before the handle does.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::Durability;
use super::engine::{Engine, StateGuard};
use super::state::{BackgroundState, FlushState, HeadDurability, Health, NextSegment};

/// The log is idle if nothing was submitted for this long.
const IDLE: Duration = Duration::from_secs(1);

/// The thread, joined when this is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Start it. The log works without it if the system cannot create a thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> Self {
        let own = engine.clone();
        let thread = std::thread::Builder::new()
            .name("ledger-housekeeping".to_owned())
            .spawn(move || run(&own));
        Self { engine: engine.clone(), thread: thread.ok() }
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if !self.engine.ownership.is_own_process() {
            // The thread belongs to the parent process; a fork has nothing to join.
            return;
        }
        self.engine.lock().background = BackgroundState::ShuttingDown;
        self.engine.background_wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked during a flush, the log is already poisoned.
            let _ = thread.join();
        }
        self.engine.discard_preallocated();
    }
}

fn run(engine: &Engine) {
    let mut state = engine.lock();
    while state.background != BackgroundState::ShuttingDown && state.health == Health::Good {
        state = if let Some((ordinal, length)) = state.segment_to_preallocate() {
            state.next_segment = NextSegment::InProgress;
            drop(state);
            preallocate(engine, ordinal, length)
        } else if let Some(task) = state.to_seal.pop_front() {
            drop(state);
            if engine.ownership.check().is_ok() {
                engine.seal(&task);
            }
            engine.lock()
        } else if state.is_durable() && state.head == HeadDurability::Synced {
            wait_for_work(engine, state)
        } else {
            flush_when_idle(engine, state)
        };
    }
}

fn preallocate(engine: &Engine, ordinal: u64, length: u64) -> StateGuard<'_> {
    let keep_going = || engine.lock().background != BackgroundState::ShuttingDown;
    let preallocated = engine.preallocate(ordinal, length, &keep_going);
    let mut state = engine.lock();
    state.next_segment = match preallocated {
        Ok(segment) => NextSegment::Ready(segment),
        // Not an error: a rotation creates the segment itself, or reports why it cannot.
        Err(_) => NextSegment::Failed(state.active.header.ordinal),
    };
    state
}

fn wait_for_work<'a>(engine: &'a Engine, mut state: StateGuard<'a>) -> StateGuard<'a> {
    state.background = BackgroundState::Idle;
    let mut state = engine.background_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
    if state.background == BackgroundState::Idle {
        state.background = BackgroundState::Busy;
    }
    state
}

/// Wait until the log was idle for a second, then make everything durable.
fn flush_when_idle<'a>(engine: &'a Engine, state: StateGuard<'a>) -> StateGuard<'a> {
    let before = state.activity;
    let waited = engine.background_wake.wait_timeout(state, IDLE);
    let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    let is_idle =
        timeout.timed_out() && state.activity == before && state.flush == FlushState::Idle;
    if !is_idle || state.background == BackgroundState::ShuttingDown {
        return state;
    }
    if !state.is_durable() {
        state = engine.commit(state, Durability::Sync).unwrap_or_else(|stopped| stopped);
    }
    drop(state);
    engine.sync_head();
    engine.lock()
}
