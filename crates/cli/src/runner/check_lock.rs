//! Whose turn it is to run the commands that judge a step or a plan, where several processes could:
//! of those that work from outside, and the runner, the one that has a file locked.
//!
//! A runner has the ledger to itself, but not the criteria: who worked from outside judges between
//! two looks at the ledger, and may be at it when a runner begins or comes to the plan's own.
//!
//! Invariants:
//! - A turn ends with its process, however that ends.
//! - Its file goes with it. Whoever locked a file that was gone by then has locked nothing.
//!
//! Left out on purpose: what came of the check, which only the ledger knows: whoever gets a turn
//! looks there first.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plan_ledger::error::{Error, Result};
use plan_ledger::plan::RunId;

use crate::runner::check::Criteria;

/// A turn; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct CheckLock {
    path: PathBuf,
    /// Closed after the name is gone.
    _file: File,
}

impl CheckLock {
    /// Take the turn to check these criteria; `None` while another process has it.
    ///
    /// # Errors
    /// The file cannot be made or locked in the ledger's folder.
    pub(crate) fn take(ledger: &Path, run: RunId, criteria: Criteria) -> Result<Option<Self>> {
        let folder = ledger.join("work").join("checks");
        let name = match criteria {
            Criteria::OfStep(number) => format!("run-{run}-step-{number}.turn"),
            Criteria::OfPlan => format!("run-{run}-plan.turn"),
        };
        let path = folder.join(name);
        let cannot = |error| Error::io("take the turn to check", &path, error);
        fs::create_dir_all(&folder).map_err(cannot)?;
        loop {
            let open = OpenOptions::new().create(true).append(true).open(&path);
            let file = open.map_err(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
            let own = file.metadata().map_err(cannot)?;
            let named = fs::metadata(&path);
            if named.is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino())) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for CheckLock {
    fn drop(&mut self) {
        // One that is left behind is as good as none.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: at no time have two a turn, however often it changes hands, and no file is left.

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_at_a_time_has_the_turn() {
        let ledger = tempfile::tempdir().unwrap();
        let (inside, turns) = (AtomicU32::new(0), AtomicU32::new(0));
        let take = || CheckLock::take(ledger.path(), RunId(1), Criteria::OfPlan).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while turns.load(Ordering::SeqCst) < 400 {
                        let Some(turn) = take() else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two have the turn");
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        let _other = CheckLock::take(ledger.path(), RunId(2), Criteria::OfPlan).unwrap().unwrap();
        let left = fs::read_dir(ledger.path().join("work/checks")).unwrap().count();
        assert_eq!(left, 1);
    }
}
