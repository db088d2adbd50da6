//! Shows that a judge is at work: it has a lock on a file while it checks the reports of other
//! processes.
//!
//! A runner and a judge of one run have a shared lock on the file of that run, a judge of every run on a file for
//! all of them; a worker that checks its own step has the check lock of that step. A lock ends with its process, even by a kill,
//! and its file may remain.

use std::fs::{OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use plan_ledger::{RunId, StepNumber};

/// The folder of the judges' locks, in the folder of a ledger.
pub(crate) fn checks_folder(ledger: &Path) -> PathBuf {
    ledger.join("work").join("checks")
}

/// The file that a judge of a run, or of every run, has locked.
pub(crate) fn judge_mark(ledger: &Path, run: Option<RunId>) -> PathBuf {
    let name = run.map_or_else(|| "judge.lock".to_owned(), |run| format!("run-{run}-judge.lock"));
    checks_folder(ledger).join(name)
}

/// The file that the process has locked that checks a step.
pub(crate) fn step_lock(ledger: &Path, run: RunId, step: StepNumber) -> PathBuf {
    checks_folder(ledger).join(format!("run-{run}-step-{step}.lock"))
}

/// Whether a process checks the reports in a run.
pub(crate) fn has_judge(ledger: &Path, run: RunId) -> bool {
    [Some(run), None].iter().any(|of| is_locked(&judge_mark(ledger, *of)))
}

/// Whether a process has locked a file. The file is never created, and a link or a pipe in its place is not followed.
pub(super) fn is_locked(path: &Path) -> bool {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let Ok(flags) = i32::try_from(flags.bits()) else { return false };
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
