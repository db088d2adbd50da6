//! The check lock: a file lock that keeps two processes from judging the same criteria at once.
//!
//! The runner and `ledger work` can both run the commands that judge a step or a plan. The writer lock does not prevent
//! this, since an external worker runs its commands without it. A process that gets the check lock reads the ledger
//! first, because the previous lock holder may have recorded the verdict. The files of a check by a judge or a worker
//! are in a folder beside the lock file, those of a runner's check among those of its workers; they show which checks
//! run now.
//!
//! Invariants:
//! - The lock is released when its process ends, even by a kill.
//! - The lock file is deleted with the lock. A process that has locked a deleted file does not have
//!   the lock and tries again.
//! - A process that gets the lock has ended the check that an earlier lock holder left, before it starts its own: a
//!   check never runs beside its repetition.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use plan_ledger::{AttemptToken, Error, Result, RunId, State};
use plan_ledger_views::CheckAtWork;

use crate::protocol::{checks_folder, judge_mark, private_files, step_lock};
use crate::runner::check::Criteria;
use crate::runner::own_folder::{create_own_folder, expect_no_link, share};
use crate::runner::process::limits::written_at;
use crate::runner::process::orphans;
use crate::runner::process::orphans::Orphan;
use crate::runner::process::scratch::Scratch;
use crate::runner::process::workers::{CRITERION, PLAN, scratch_folder};

/// A held check lock, released on drop.
#[derive(Debug)]
pub(crate) struct CheckLock {
    path: PathBuf,
    /// The processes that an earlier lock holder left running, for people.
    left: Option<String>,
    /// Closed after the file is deleted.
    _file: File,
}

impl CheckLock {
    /// Lock these criteria, and end the check that an earlier lock holder left; `None` while another process has
    /// the lock.
    ///
    /// # Errors
    /// The lock file cannot be created or locked in the ledger's folder, or that check cannot be ended.
    pub(crate) fn take(ledger: &Path, run: RunId, criteria: Criteria) -> Result<Option<Self>> {
        let folder = checks_folder(ledger);
        let path = match criteria {
            Criteria::OfStep(number) => step_lock(ledger, run, number),
            Criteria::OfPlan => folder.join(format!("run-{run}-plan.lock")),
        };
        Self::of_file(path, &folder)
    }

    fn of_file(path: PathBuf, folder: &Path) -> Result<Option<Self>> {
        let cannot = |error| Error::io("lock the criteria for a check", &path, error);
        create_own_folder(folder)?;
        let file = loop {
            let file = private_files::open_to_append(&path).map_err(cannot)?;
            // The file of another user is shared already.
            let _ = share(&file, folder);
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
            let own = file.metadata().map_err(cannot)?;
            let named = fs::metadata(&path);
            if named.is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino())) {
                break file;
            }
        };
        let mut lock = Self { path, left: None, _file: file };
        lock.left = end_left(lock.folder())?;
        Ok(Some(lock))
    }

    /// The folder for the files of the lock holder's check, if the lock holder is not a runner.
    pub(crate) fn folder(&self) -> PathBuf {
        self.path.with_extension("")
    }

    /// The processes that an earlier lock holder left running, which were killed, for people.
    pub(crate) fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }
}

/// End the check of an earlier lock holder, if it has files in this folder, and remove them.
fn end_left(folder: PathBuf) -> Result<Option<String>> {
    if !folder.exists() {
        return Ok(None);
    }
    let (scratch, none) = (Scratch::new(folder), BTreeSet::new());
    let left = scratch.confirm_dead(&none)?;
    scratch.forget_all(&none)?;
    scratch.tidy_up();
    Ok(left_note(&left.orphans))
}

/// The note about the processes of a check that was left, for people.
pub(crate) fn left_note(orphans: &[Orphan]) -> Option<String> {
    orphans::note(orphans).map(|note| format!("a check of a process that is gone {note}"))
}

/// End the checks of all dead processes, even if their criteria are decided. Returns notes for
/// people.
pub(crate) fn end_left_checks(ledger: &Path) -> Vec<String> {
    let folder = checks_folder(ledger);
    if expect_no_link(&folder).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("run-") && path.is_dir()
    });
    let note = |path: PathBuf| match CheckLock::of_file(path.with_extension("lock"), &folder) {
        Ok(lock) => lock?.left().map(str::to_owned),
        Err(error) => Some(error.to_string()),
    };
    folders.filter_map(note).collect()
}

/// The folders of checks, of all runs of a ledger.
pub(crate) fn check_folders(ledger: &Path) -> Vec<PathBuf> {
    let is_folder = |path: &PathBuf| path.is_dir();
    paths(&checks_folder(ledger)).into_iter().filter(is_folder).collect()
}

/// The checks of the criteria of a run that run now on this machine; `folders`: [`check_folders`].
pub(crate) fn checks_at_work(
    ledger: &Path,
    folders: &[PathBuf],
    state: &State,
    run: RunId,
) -> Vec<CheckAtWork> {
    let start = format!("run-{run}-");
    let is_of_run = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
    };
    let others = folders.iter().filter(is_of_run).cloned();
    let folders = others.chain([scratch_folder(ledger, run)]);
    let mut found: Vec<_> = folders.flat_map(|folder| checks_in(folder, state, run)).collect();
    found.sort_unstable();
    found
}

fn checks_in(folder: PathBuf, state: &State, run: RunId) -> Vec<CheckAtWork> {
    let files = paths(&folder);
    let scratch = Scratch::new(folder);
    let check = |path: &PathBuf| {
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        let (subject, criterion) = stem.split_once(CRITERION)?;
        let step = match subject {
            PLAN => None,
            token => {
                let token = AttemptToken(token.parse().ok()?);
                let (of, step, _) = state.dispatched.get(&token)?;
                Some((*of == run).then_some(*step)?)
            }
        };
        let process = scratch.noted_process(&stem).filter(|_| scratch.is_at_work(&stem))?;
        let (criterion, since) = (criterion.parse().ok()?, written_at(path)?);
        Some(CheckAtWork { step, criterion, process, since })
    };
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "pid"))
        .filter_map(check)
        .collect()
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = expect_no_link(folder).ok().and_then(|()| fs::read_dir(folder).ok());
    entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// How often a mark is tried to be set, and the pause between two tries.
const MARK_TRIES: u32 = 50;
const MARK_PAUSE: Duration = Duration::from_millis(2);

/// Shows that a judge is at work, as long as it lives.
#[derive(Debug)]
pub(crate) struct JudgeMark {
    _file: File,
}

impl JudgeMark {
    /// Sets the mark of a judge of one run, or of every run. Without it, other processes report that no judge is at
    /// work.
    pub(crate) fn set(ledger: &Path, run: Option<RunId>) -> Option<Self> {
        let folder = checks_folder(ledger);
        create_own_folder(&folder).ok()?;
        let file = private_files::open_to_append(&judge_mark(ledger, run)).ok()?;
        // The file of another user is shared already.
        let _ = share(&file, &folder);
        // A process that looks for the mark locks it for a moment.
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
