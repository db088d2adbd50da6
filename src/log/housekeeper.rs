//! The thread for what need not be done before an acknowledgement: the next segment is made
//! ahead, the last one is sealed, and what was written is made durable when nobody writes.
//!
//! Invariants:
//! - No append waits for it: it works on files of its own, and syncs HEAD beside a group.
//! - Without it the log is the same; only rotations take longer.
//! - It ends before the handle does.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::Durability;
use super::engine::{Engine, QueueGuard};
use super::prepare::Prepared;
use super::queue::{HeadOnDisk, Health, Helper, Turn};

/// Nothing was submitted for that long: nobody writes.
const IDLE: Duration = Duration::from_secs(1);

/// The thread.
#[derive(Debug)]
pub(super) struct Housekeeper {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    /// Start it. If the system has no thread to spare, there is none.
    pub(super) fn start(engine: &Arc<Engine>) -> Self {
        let own = engine.clone();
        let thread = std::thread::Builder::new()
            .name("ledger-housekeeping".to_owned())
            .spawn(move || keep_house(&own));
        Self { engine: engine.clone(), thread: thread.ok() }
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        if !self.engine.ownership.is_own_process() {
            // The thread is the parent's; a fork has no such thread to wait for.
            return;
        }
        self.engine.lock().helper = Helper::Dismissed;
        self.engine.chores.notify_all();
        if let Some(thread) = self.thread.take() {
            // Whatever it panicked of, it has told the queue.
            let _ = thread.join();
        }
        self.engine.discard_prepared();
    }
}

fn keep_house(engine: &Engine) {
    let mut queue = engine.lock();
    while queue.helper != Helper::Dismissed && queue.health == Health::Good {
        queue = if let Some(wanted) = queue.wants_segment() {
            queue.prepared = Prepared::Making;
            drop(queue);
            prepare(engine, wanted)
        } else if let Some(sealable) = queue.to_seal.pop_front() {
            drop(queue);
            if engine.ownership.check().is_ok() {
                engine.seal(&sealable);
            }
            engine.lock()
        } else if queue.is_durable() && queue.head == HeadOnDisk::Synced {
            sleep(engine, queue)
        } else {
            watch(engine, queue)
        };
    }
}

fn prepare(engine: &Engine, wanted: (u64, u64)) -> QueueGuard<'_> {
    let goes_on = || engine.lock().helper != Helper::Dismissed;
    let made = engine.prepare(wanted, &goes_on);
    let mut queue = engine.lock();
    queue.prepared = match made {
        Ok(blank) => Prepared::Ready(blank),
        // No reason to stop: whoever needs the segment makes it, or is told why not.
        Err(_) => Prepared::Refused(queue.active.header.ordinal),
    };
    queue
}

fn sleep<'a>(engine: &'a Engine, mut queue: QueueGuard<'a>) -> QueueGuard<'a> {
    queue.helper = Helper::Asleep;
    let mut queue = engine.chores.wait(queue).unwrap_or_else(PoisonError::into_inner);
    if queue.helper == Helper::Asleep {
        queue.helper = Helper::Busy;
    }
    queue
}

/// Wait for a second in which nobody writes; then make durable what is not.
fn watch<'a>(engine: &'a Engine, queue: QueueGuard<'a>) -> QueueGuard<'a> {
    let before = queue.activity;
    let waited = engine.chores.wait_timeout(queue, IDLE);
    let (mut queue, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    let is_idle = timeout.timed_out() && queue.activity == before && queue.turn == Turn::Free;
    if !is_idle || queue.helper == Helper::Dismissed {
        return queue;
    }
    if !queue.is_durable() {
        queue = engine.commit(queue, Durability::Sync).unwrap_or_else(|stopped| stopped);
    }
    drop(queue);
    engine.sync_head();
    engine.lock()
}
