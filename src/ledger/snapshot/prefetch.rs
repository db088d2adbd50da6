//! Reads the newest snapshot of the state on a second thread while the log is recovered: neither
//! needs the other until both are done. It also unpacks the newest open run, which the records after
//! the snapshot most probably are about.
//!
//! Invariants:
//! - The result is used only if it fits the recovered log and is the snapshot that the regular read
//!   would choose. Errors are ignored here: the regular read encounters and reports them.
//! - The thread writes nothing, and it ends before the `Prefetch` is dropped.

use std::path::Path;
use std::thread::JoinHandle;

use crate::log::{BackgroundWork, SnapshotFolder};
use crate::plan::State;

use crate::ledger::environment::Environment;

use super::load::UncheckedSnapshot;

#[derive(Debug)]
pub(crate) struct Prefetch(Option<JoinHandle<Option<UncheckedSnapshot<State>>>>);

impl Prefetch {
    /// Start to read the newest snapshot of the ledger in `dir`, unless background work runs
    /// inline.
    pub(crate) fn start(dir: &Path, environment: &Environment) -> Self {
        if environment.background_work == BackgroundWork::Inline {
            return Self(None);
        }
        let (storage, dir) = (environment.storage.clone(), dir.to_owned());
        let work = move || {
            UncheckedSnapshot::newest(SnapshotFolder::of(&*storage, &dir)).filter(has_valid_run)
        };
        Self(std::thread::Builder::new().name("newest-snapshot".to_owned()).spawn(work).ok())
    }

    /// The snapshot, if a valid one was found.
    pub(crate) fn wait(mut self) -> Option<UncheckedSnapshot<State>> {
        self.0.take()?.join().ok().flatten()
    }
}

/// Whether the newest open run can be unpacked; it stays unpacked.
fn has_valid_run(newest: &UncheckedSnapshot<State>) -> bool {
    let runs = &newest.value().runs;
    runs.open().next_back().is_none_or(|run| runs.get(&run).is_some())
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // If the thread panicked, the regular read does its work.
        let _ = self.0.take().map(JoinHandle::join);
    }
}
