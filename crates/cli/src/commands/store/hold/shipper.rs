//! The owner's thread that ships records which were acknowledged before the store had them. It also uploads segments,
//! parts of segments, and snapshots, so that a restore needs fewer requests and a shorter fold.
//!
//! Invariants:
//! - An outage of the store ends no server here: a commit that must wait for the store ends it, or its end does.
//! - At an orderly end everything that was acknowledged is shipped before the log is closed, as long as the store takes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use plan_ledger::internals::store::{AckMode, StoreKeeper};
use plan_ledger::log::Keeper as _;
use plan_ledger::{Error, ErrorKind};

use crate::commands::store::remote::at_store;
use crate::output::print_message;
use crate::protocol::not_ignored;

/// The pause between two shipments.
const SHIP_EVERY: Duration = Duration::from_secs(1);

/// The pause between two checks whether too few records are in segment objects. The check makes no request.
const UPLOAD_EVERY: Duration = Duration::from_secs(2);

/// How long an orderly end waits for a store that accepts nothing.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(10);

/// The pause between two checks of the thread while the process ends.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Whether a second signal asked the process to end at once.
#[derive(Debug)]
pub(super) struct Haste(Arc<AtomicBool>);

impl Haste {
    /// Notice signals from now on. One that cannot be watched only means that the end waits for its time.
    pub(super) fn watch() -> Self {
        let asked = Arc::default();
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP]) {
            let _ = signal_hook::flag::register(signal, Arc::clone(&asked));
        }
        Self(asked)
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Shipper {
    keeper: Arc<StoreKeeper>,
    /// Why the last shipment failed.
    last: Arc<Mutex<Option<String>>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// How often a mode ships. In `bounded` a commit rarely waits for it.
fn ship_every(ack: AckMode) -> Duration {
    match ack {
        AckMode::Bounded(bound) => SHIP_EVERY.min(bound / 2),
        AckMode::Local | AckMode::Store => SHIP_EVERY,
    }
}

impl Shipper {
    pub(super) fn start(keeper: &Arc<StoreKeeper>) -> Result<Self, Error> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let last = Arc::default();
        let shipping = Shipping {
            keeper: Arc::clone(keeper),
            last: Arc::clone(&last),
            is_ending: Arc::clone(&is_ending),
            is_out: false,
        };
        let thread = Builder::new().name("ship".to_owned()).spawn(move || shipping.run());
        let failed = |error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"));
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { keeper: Arc::clone(keeper), last, is_ending, thread })
    }

    /// Why the thread ended by itself.
    pub(super) fn failure(&mut self) -> Option<Error> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        joined(thread).err()
    }

    /// Ship the remaining records, and end the thread. It gives up if nothing reaches the store for [`LAST_WAIT`], or
    /// after a second signal.
    pub(super) fn end(&mut self, haste: &Haste) -> Result<(), Error> {
        self.is_ending.store(true, Ordering::Release);
        self.keeper.wake();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let (mut kept, mut since) = (self.keeper.kept_seq(), Instant::now());
        loop {
            if thread.is_finished() {
                return joined(thread);
            }
            // The thread may be uploading a segment, which may take long. The process can end without it, because a
            // successor waits.
            if self.keeper.lag().records == 0 {
                return Ok(());
            }
            if self.keeper.kept_seq() > kept {
                (kept, since) = (self.keeper.kept_seq(), Instant::now());
            }
            let why = if haste.is_asked() {
                "a second signal ended the wait for the store".to_owned()
            } else if since.elapsed() >= LAST_WAIT {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let last = last.map_or_else(String::new, |why| format!(": {why}"));
                format!("the store accepted none of them for {} s{last}", LAST_WAIT.as_secs())
            } else {
                std::thread::sleep(LOOK_PAUSE);
                continue;
            };
            return Err(Error::new(ErrorKind::Io, why));
        }
    }
}

impl Drop for Shipper {
    /// The process ends, and does not wait for a thread that may wait for the store.
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.keeper.wake();
    }
}

fn joined(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    let message = "the thread that ships to the store panicked";
    thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, message)))
}

struct Shipping {
    keeper: Arc<StoreKeeper>,
    last: Arc<Mutex<Option<String>>>,
    is_ending: Arc<AtomicBool>,
    /// The store did not answer the last time.
    is_out: bool,
}

impl Shipping {
    fn run(mut self) -> Result<(), Error> {
        let every = ship_every(self.keeper.ack());
        let mut looked = Instant::now();
        // The last record at the last check, and whether that check found nothing left to ship.
        let (mut looked_at, mut is_settled) = (0, false);
        loop {
            self.keeper.wait(every);
            let is_last = self.is_ending.load(Ordering::Acquire);
            let shipped = self.ship();
            if is_last {
                return shipped;
            }
            match shipped {
                Err(error) if is_outage(&error) => self.note_outage(error),
                shipped => {
                    shipped?;
                    self.is_out = false;
                    *self.last() = None;
                }
            }
            let kept_seq = self.keeper.kept_seq();
            let is_due = kept_seq > looked_at || !is_settled;
            if is_due && !self.is_out && looked.elapsed() >= UPLOAD_EVERY {
                let count = self.upload();
                // HEAD may have covered the last record only after the check.
                is_settled = count == 0 && kept_seq == looked_at;
                (looked, looked_at) = (Instant::now(), kept_seq);
            }
        }
    }

    fn ship(&self) -> Result<(), Error> {
        match self.keeper.lag().records {
            0 => Ok(()),
            _ => self.keeper.ship().map(drop),
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<String>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_outage(&mut self, error: Error) {
        let error = at_store(error, self.keeper.url());
        if !self.is_out {
            print_message(&format!("cannot ship to the store, trying again: {error}"));
        }
        self.is_out = true;
        *self.last() = Some(error.message().to_owned());
    }

    /// Without its object, a segment is restored from its slots. Returns the number of objects.
    fn upload(&self) -> u64 {
        match self.keeper.upload_segments() {
            Ok(count) => count,
            Err(error) => {
                if !is_outage(&error) {
                    let error = at_store(error, self.keeper.url());
                    print_message(&format!("cannot upload a segment: {error}"));
                }
                0
            }
        }
    }
}

fn is_outage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::OutcomeUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipping_is_more_frequent_than_the_bound() {
        let every = |seconds| ship_every(AckMode::Bounded(Duration::from_secs(seconds)));
        assert_eq!(every(1), Duration::from_millis(500));
        assert_eq!(every(5), SHIP_EVERY);
        assert_eq!(ship_every(AckMode::Local), SHIP_EVERY);
    }
}
