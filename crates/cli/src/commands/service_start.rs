//! Starts of a run by a service: systemd or cron, with `ledger resume --service DIGEST`.
//!
//! `ledger setup service` writes the digest of the last runner into a unit. A start with that digest is
//! refused if another command line, folder or ledger is recorded by now: a unit starts only what its user
//! saw. Starts are counted in the user's state folder. A start is without progress if no step was accepted
//! or skipped since the one before it. After three of those, the service gives up.
//!
//! Invariants:
//! - The count is written before the runner starts: a runner that ends the machine is counted.
//! - A runner that ends by itself, or a person who resumes the run, begins a new count.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use plan_ledger::Error;

use crate::output::{Failure, shell_command};
use crate::protocol::private_files;
use crate::server::state_folder;

use super::last_runner::LastRunner;

/// After so many starts without progress, a service starts a run no more.
const STARTS_MAX: u32 = 3;

/// The starts of a run by a service, one after the other without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceStarts {
    /// Accepted and skipped steps at the first of them.
    finished: u32,
    /// Their number.
    starts: u32,
}

impl ServiceStarts {
    /// Counts a start of the runner with this digest; `None` if it is one too many.
    fn count(digest: &str, finished: u32) -> io::Result<Option<()>> {
        let path = path(digest).ok_or(io::ErrorKind::NotFound)?;
        let last = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(next) = Self::after(last, finished) else { return Ok(None) };
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        private_files::create_folders(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&next)?)?;
        // After a power cut, a count that is lost is one start more.
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(Some(()))
    }

    /// The count with one start more; `None` if it is one too many.
    fn after(last: Option<Self>, finished: u32) -> Option<Self> {
        match last {
            Some(last) if last.finished == finished => {
                (last.starts < STARTS_MAX).then(|| Self { starts: last.starts + 1, ..last })
            }
            _ => Some(Self { finished, starts: 1 }),
        }
    }

    /// Begins a new count for a runner: it ended by itself, or a person resumes it.
    pub(crate) fn forget(runner: &LastRunner) {
        if let Some(path) = path(&runner.digest()) {
            // There is none unless a service started it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Admits the start of a runner by a service, and counts it. `finished` is the number of accepted and skipped
/// steps.
///
/// # Errors
/// `Rejected` if the recorded command line is another one by now, or after three starts without progress.
pub(crate) fn admit(last: &LastRunner, digest: &str, finished: u32) -> Result<(), Failure> {
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
    let counted = ServiceStarts::count(digest, finished)
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
    //! Goal: a service gives up after three starts in a row that finish no step.

    use super::*;

    #[test]
    fn fourth_start_without_a_finished_step_is_refused() {
        let mut last = None;
        for starts in 1..=STARTS_MAX {
            last = ServiceStarts::after(last, 5);
            assert_eq!(last, Some(ServiceStarts { finished: 5, starts }));
        }
        assert_eq!(ServiceStarts::after(last, 5), None);
        assert_eq!(ServiceStarts::after(last, 6), Some(ServiceStarts { finished: 6, starts: 1 }));
    }
}
