//! The newest snapshot of the state, read on another thread while the end of the log is looked at:
//! neither needs the other before both are there, and each takes one processor.
//!
//! Invariants:
//! - What is read is used only if it fits the log that was opened, and is the snapshot that would be
//!   read otherwise. Whatever goes wrong here is left to whoever reads it then, and says so.
//! - The thread ends before this does. It writes nothing.

use std::path::Path;
use std::thread::JoinHandle;

use crate::log::{Housekeeping, SnapshotFolder};
use crate::plan::State;

use super::environment::Environment;
use super::load::Unfitted;

/// The thread, if there is one.
#[derive(Debug)]
pub(super) struct Ahead(Option<JoinHandle<Option<Unfitted<State>>>>);

impl Ahead {
    /// Begin to read the newest snapshot of the ledger in `dir`, unless all is to be done on one thread.
    pub(super) fn read(dir: &Path, environment: &Environment) -> Self {
        if environment.housekeeping == Housekeeping::Inline {
            return Self(None);
        }
        let (storage, dir) = (environment.storage.clone(), dir.to_owned());
        let work = move || Unfitted::newest(SnapshotFolder::of(&*storage, &dir));
        Self(std::thread::Builder::new().name("newest-snapshot".to_owned()).spawn(work).ok())
    }

    /// What was found.
    pub(super) fn wait(mut self) -> Option<Unfitted<State>> {
        self.0.take()?.join().ok().flatten()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // What a panic left undone is done again by whoever needs it.
        let _ = self.0.take().map(JoinHandle::join);
    }
}
