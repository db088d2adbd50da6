//! Starts of a run by a service: systemd or cron, with `ledger resume --service DIGEST`.
//!
//! `ledger setup service` writes the digest of the last runner into a unit. A start with that
//! digest is refused if another command line, folder or ledger is recorded by now: a unit starts
//! only the command line that its user saw. Starts are counted in the user's state folder. A start
//! is without progress if no step was accepted or skipped since the previous start. After three
//! such starts, the service gives up. A start does not count if its runner only waited for its
//! hours, the end of a limit or a person.
//!
//! Invariants:
//! - The count is written before the runner starts: a runner that crashes the machine is counted.
//! - A runner that ends by itself, or a person who resumes the run, begins a new count.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use plan_ledger::plan::Route;
use plan_ledger::{Error, Run, StepStatus};
use plan_ledger_views::{RunnerWait, WaitingItem, waiting_items};

use crate::output::{Failure, shell_command};
use crate::protocol::private_files;
use crate::server::state_folder;

use crate::server::LastRunner;

/// After this many starts without progress, a service no longer starts a run.
const STARTS_MAX: u32 = 3;

/// How far the run of a runner is that is not at work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunProgress {
    /// Accepted and skipped steps.
    pub(crate) finished: u32,
    /// Whether its last runner only waited when it was ended.
    pub(crate) only_waited: bool,
}

/// Whether the last runner of a run only waited when it was ended: no attempt and no check was at work, and it waited
/// for its hours, the end of a limit or a person.
pub(crate) fn only_waited(run: &Run, waits: &[RunnerWait]) -> bool {
    let is_work = |item: &WaitingItem| {
        matches!(
            item,
            WaitingItem::Held { .. } | WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. }
        )
    };
    if waiting_items(run, &Route::default(), 0).iter().any(is_work) {
        return false;
    }
    let has_work = run.has_dispatchable() || run.count(StepStatus::Delayed) > 0;
    !has_work || waits.iter().any(|wait| wait.run == run.id)
}

/// The starts of a run by a service, one after the other without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceStarts {
    /// Accepted and skipped steps at the first of them.
    finished: u32,
    /// Their number.
    starts: u32,
}

impl ServiceStarts {
    /// Counts a start of the runner with this digest; `None` if it exceeds the limit.
    fn count(digest: &str, progress: RunProgress) -> io::Result<Option<()>> {
        let path = path(digest).ok_or(io::ErrorKind::NotFound)?;
        let last = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(next) = Self::after(last, progress) else { return Ok(None) };
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        private_files::create_folders(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&next)?)?;
        // A count that is lost in a power cut allows one more start.
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(Some(()))
    }

    /// The count after one more start; `None` if it exceeds the limit. The start replaces one that
    /// only waited.
    fn after(last: Option<Self>, progress: RunProgress) -> Option<Self> {
        let RunProgress { finished, only_waited } = progress;
        let before = last.filter(|last| last.finished == finished).map_or(0, |last| last.starts);
        let starts = if only_waited { before.max(1) } else { before.saturating_add(1) };
        (starts <= STARTS_MAX).then_some(Self { finished, starts })
    }

    /// Begins a new count for a runner: it ended by itself, or a person resumes it.
    pub(crate) fn forget(runner: &LastRunner) {
        if let Some(path) = path(&runner.digest()) {
            // There is no file unless a service started the runner.
            let _ = fs::remove_file(path);
        }
    }
}

/// Admits the start of a runner by a service, and counts it.
///
/// # Errors
/// `Rejected` if the recorded command line has changed, or after three starts without progress.
pub(crate) fn admit(last: &LastRunner, digest: &str, progress: RunProgress) -> Result<(), Failure> {
    let resume = |words: &[&str]| shell_command("resume", &last.ledger, words);
    plan_ledger::mutant!(ServiceStartsAnything => return Ok(()));
    if last.digest() != digest {
        return Err(Failure::Rejected(format!(
            "the last runner of run {} has another command line or folder than when the service was set up\n\
             hint: look at it with `{}`, then run `{}`",
            last.run,
            resume(&[&last.run, "--show"]),
            shell_command("setup service", &last.ledger, &[&last.run]),
        )));
    }
    let counted = ServiceStarts::count(digest, progress)
        .map_err(|error| Error::io("count the starts of the run", &last.ledger, error))?;
    counted.ok_or_else(|| {
        Failure::Rejected(format!(
            "run {} was started {STARTS_MAX} times and finished no step: the service gives up\n\
             hint: find the cause with `{}`, then start it with `{}`",
            last.run,
            shell_command("status", &last.ledger, &[]),
            resume(&[&last.run]),
        ))
    })
}

fn path(digest: &str) -> Option<PathBuf> {
    Some(state_folder("services")?.join(format!("{digest}.json")))
}

#[cfg(test)]
mod tests {
    //! Goal: a service gives up after three starts in a row that work and finish no step.

    use super::*;

    const AT_WORK: RunProgress = RunProgress { finished: 5, only_waited: false };

    #[test]
    fn fourth_start_without_a_finished_step_is_refused() {
        let mut last = None;
        for starts in 1..=STARTS_MAX {
            last = ServiceStarts::after(last, AT_WORK);
            assert_eq!(last, Some(ServiceStarts { finished: 5, starts }));
        }
        assert_eq!(ServiceStarts::after(last, AT_WORK), None);
        let next = ServiceStarts::after(last, RunProgress { finished: 6, ..AT_WORK });
        assert_eq!(next, Some(ServiceStarts { finished: 6, starts: 1 }));
    }

    #[test]
    fn start_after_one_that_only_waited_takes_its_place() {
        let waited = RunProgress { only_waited: true, ..AT_WORK };
        let mut last = ServiceStarts::after(None, waited);
        for starts in 1..=STARTS_MAX {
            for _ in 0..5 {
                last = ServiceStarts::after(last, waited);
                assert_eq!(last, Some(ServiceStarts { finished: 5, starts }));
            }
            last = ServiceStarts::after(last, AT_WORK);
        }
        assert_eq!(last, None);
    }
}
