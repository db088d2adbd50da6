//! The background thread: it preallocates the next segment, seals the last one, and makes buffered
//! records durable while the log is idle.
//!
//! Invariants:
//! - No append waits for it: it works on files of its own, and syncs HEAD while a group is written.
//! - Without it the log has the same content; only rotations take longer.
//! - The thread is joined before the handle is dropped.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::batch::Durability;
use super::shared::{SharedWriter, StateGuard};
use super::state::{BackgroundState, FlushState, HeadDurability, NextSegment, WriterStatus};
use super::sync::thread::{Builder, JoinHandle};

/// The log is idle if nothing was submitted for this long.
const IDLE: Duration = Duration::from_secs(1);

/// The thread, joined when this is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    shared: Arc<SharedWriter>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Start it. The log works without it if the system cannot create a thread.
    pub(crate) fn start(shared: &Arc<SharedWriter>) -> Self {
        let own = shared.clone();
        let thread = Builder::new().name("ledger-background".to_owned()).spawn(move || run(&own));
        Self { shared: shared.clone(), thread: thread.ok() }
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if !self.shared.ownership.is_own_process() {
            // The thread belongs to the parent process; a fork has nothing to join.
            return;
        }
        self.shared.lock().background = BackgroundState::ShuttingDown;
        self.shared.background_wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked during a flush, the log is already poisoned.
            let _ = thread.join();
        }
        self.shared.discard_preallocated();
    }
}

fn run(shared: &SharedWriter) {
    let mut state = shared.lock();
    while state.background != BackgroundState::ShuttingDown && state.status == WriterStatus::Open {
        state = if let Some((ordinal, length)) = state.segment_to_preallocate() {
            state.next_segment = NextSegment::InProgress;
            drop(state);
            preallocate(shared, ordinal, length)
        } else if let Some(task) = state.to_seal.pop_front() {
            drop(state);
            if shared.ownership.check().is_ok() {
                shared.seal(&task);
            }
            shared.lock()
        } else if state.is_durable() && state.head == HeadDurability::Synced {
            wait_for_work(shared, state)
        } else {
            flush_when_idle(shared, state)
        };
    }
}

fn preallocate(shared: &SharedWriter, ordinal: u64, length: u64) -> StateGuard<'_> {
    let keep_going = || shared.lock().background != BackgroundState::ShuttingDown;
    let preallocated = shared.preallocate(ordinal, length, &keep_going);
    let mut state = shared.lock();
    state.next_segment = match preallocated {
        Ok(segment) => NextSegment::Ready(segment),
        // Not an error: a rotation creates the segment itself, or reports why it cannot.
        Err(_) => NextSegment::Failed(state.active.header.ordinal),
    };
    state
}

fn wait_for_work<'a>(shared: &'a SharedWriter, mut state: StateGuard<'a>) -> StateGuard<'a> {
    state.background = BackgroundState::Idle;
    let mut state = shared.background_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
    if state.background == BackgroundState::Idle {
        state.background = BackgroundState::Busy;
    }
    state
}

/// Wait until the log was idle for a second, then make everything durable.
fn flush_when_idle<'a>(shared: &'a SharedWriter, state: StateGuard<'a>) -> StateGuard<'a> {
    let before = state.activity;
    let waited = shared.background_wake.wait_timeout(state, IDLE);
    let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    let is_idle =
        timeout.timed_out() && state.activity == before && state.flush == FlushState::Idle;
    if !is_idle || state.background == BackgroundState::ShuttingDown {
        return state;
    }
    if !state.is_durable() {
        state = shared.commit(state, Durability::Sync).unwrap_or_else(|stopped| stopped);
    }
    drop(state);
    shared.sync_head();
    shared.lock()
}
