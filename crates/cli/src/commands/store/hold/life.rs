//! The owner's thread that shows signs of life, and checks whether another process took over.
//!
//! Without it, an idle owner would not notice that it was replaced while it was stopped.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use plan_ledger::internals::format::Uid;
use plan_ledger::internals::store::{LedgerIdentity, Objects, StoreKeeper};
use plan_ledger::log::Keeper as _;

use super::signs::{NodeRole, Owner, Signs, Successor};

/// How often a process shows a sign of life.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(2);

/// How often the owner's hint is written again, in case that it was lost.
const OWNER_EVERY: Duration = Duration::from_secs(600);

/// How long the end of the process waits for the thread.
const LAST_SIGN: Duration = Duration::from_secs(1);

/// The thread. It ends with this.
#[derive(Debug)]
pub(super) struct Life {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The data of the thread.
pub(super) struct Living {
    objects: Arc<dyn Objects>,
    identity: LedgerIdentity,
    keeper: Arc<StoreKeeper>,
    owner: Owner,
    signs: Signs,
    /// The process that took over, once it is found.
    successor: Arc<OnceLock<Successor>>,
    /// When the owner's hint was written.
    written: Option<Instant>,
}

impl Life {
    /// Shows the first sign of life, and continues on a thread.
    pub(super) fn start(mut living: Living) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        living.beat();
        let live = move || {
            while stopped.recv_timeout(SIGN_EVERY) == Err(RecvTimeoutError::Timeout) {
                living.beat();
            }
        };
        let thread = Builder::new().name("signs".to_owned()).spawn(live)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Life {
    /// A thread that waits for a store without an answer is left running: a late sign of life only delays a standby.
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        let since = Instant::now();
        while !thread.is_finished() {
            if since.elapsed() >= LAST_SIGN {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = thread.join();
    }
}

impl Living {
    pub(super) fn new(
        objects: &Arc<dyn Objects>,
        keeper: &Arc<StoreKeeper>,
        owner: &Owner,
        node: &Uid,
        successor: &Arc<OnceLock<Successor>>,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            identity: keeper.identity(),
            keeper: Arc::clone(keeper),
            owner: owner.clone(),
            signs: Signs::new(node, NodeRole::Owner),
            successor: Arc::clone(successor),
            written: None,
        }
    }

    fn beat(&mut self) {
        let Self { objects, identity, keeper, owner, .. } = self;
        // Checked first: a process that was stopped must not claim to be the owner.
        let next_seq = keeper.kept_seq().saturating_add(1);
        if let Some(found) = Successor::after(&**objects, identity, owner.epoch, next_seq) {
            // It may be known already.
            let _ = self.successor.set(found);
            return;
        }
        self.signs.write(&**objects);
        if self.written.is_none_or(|written| written.elapsed() >= OWNER_EVERY)
            && owner.write(&**objects)
        {
            self.written = Some(Instant::now());
        }
    }
}
