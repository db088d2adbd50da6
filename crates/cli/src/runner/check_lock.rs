//! The check lock: a file lock that keeps two processes from judging the same criteria at once.
//!
//! The runner and `ledger work` can both run the commands that judge a step or a plan. The writer
//! lock does not prevent this, since an external worker runs its commands without it. A process
//! that gets the check lock reads the ledger first, because the previous lock holder may have
//! recorded the verdict.
//!
//! Invariants:
//! - The lock is released when its process ends, even by a kill.
//! - The lock file is deleted with the lock. A process that has locked a deleted file does not have
//!   the lock and tries again.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use plan_ledger::{Error, Result, RunId};

use crate::protocol::{checks_folder, judge_mark, private_files, step_lock};
use crate::runner::check::Criteria;
use crate::runner::own_folder::{create_own_folder, share};

/// A held check lock, released on drop.
#[derive(Debug)]
pub(crate) struct CheckLock {
    path: PathBuf,
    /// Closed after the file is deleted.
    _file: File,
}

impl CheckLock {
    /// Lock these criteria; `None` while another process has the lock.
    ///
    /// # Errors
    /// The lock file cannot be created or locked in the ledger's folder.
    pub(crate) fn take(ledger: &Path, run: RunId, criteria: Criteria) -> Result<Option<Self>> {
        let folder = checks_folder(ledger);
        let path = match criteria {
            Criteria::OfStep(number) => step_lock(ledger, run, number),
            Criteria::OfPlan => folder.join(format!("run-{run}-plan.lock")),
        };
        let cannot = |error| Error::io("lock the criteria for a check", &path, error);
        create_own_folder(&folder)?;
        loop {
            let file = private_files::open_to_append(&path).map_err(cannot)?;
            // The file of another user is shared already.
            let _ = share(&file, &folder);
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

/// How often a mark is tried to be set, and the pause between two tries.
const MARK_TRIES: u32 = 50;
const MARK_PAUSE: Duration = Duration::from_millis(2);

/// Says that a judge is at work, as long as it lives.
#[derive(Debug)]
pub(crate) struct JudgeMark {
    _file: File,
}

impl JudgeMark {
    /// Sets the mark of a judge of one run, or of every run. Without it, other processes only say that none is at
    /// work.
    pub(crate) fn set(ledger: &Path, run: Option<RunId>) -> Option<Self> {
        let folder = checks_folder(ledger);
        create_own_folder(&folder).ok()?;
        let file = private_files::open_to_append(&judge_mark(ledger, run)).ok()?;
        // The file of another user is shared already.
        let _ = share(&file, &folder);
        // A process that looks for the mark has it locked for a moment.
        for _ in 0..MARK_TRIES {
            if file.try_lock_shared().is_ok() {
                return Some(Self { _file: file });
            }
            sleep(MARK_PAUSE);
        }
        None
    }
}

impl Drop for CheckLock {
    fn drop(&mut self) {
        // A lock file that remains is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: at most one process has the lock at any time, and no lock file remains.

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn check_lock_is_exclusive() {
        let ledger = tempfile::tempdir().unwrap();
        let (inside, turns) = (AtomicU32::new(0), AtomicU32::new(0));
        let take = || CheckLock::take(ledger.path(), RunId(1), Criteria::OfPlan).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while turns.load(Ordering::SeqCst) < 400 {
                        let Some(lock) = take() else { continue };
                        assert_eq!(
                            inside.fetch_add(1, Ordering::SeqCst),
                            0,
                            "two processes have the lock"
                        );
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        let _other = CheckLock::take(ledger.path(), RunId(2), Criteria::OfPlan).unwrap().unwrap();
        let left = fs::read_dir(ledger.path().join("work/checks")).unwrap().count();
        assert_eq!(left, 1);
    }
}
