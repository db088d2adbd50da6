//! The [`Workers`] interface: it starts attempts and checks, and reports how they end.

use std::time::Duration;

use plan_ledger::internals::ledger::PlannedFiles;
use plan_ledger::plan::{CompactPlan, Idempotence, ResolvedOutcome};
use plan_ledger::{AttemptToken, Error, Receipt, Result, Task};

use crate::protocol::WorkerKind;

use super::check::{Check, Checked, Subject};
use super::helpers::commands::Helpers;

/// The error of this machine that prevented an attempt.
#[derive(Debug)]
pub enum StartFailure {
    /// The worker did not start.
    BeforeStart(Error),
    /// The worker started and was stopped; it may have had side effects.
    AfterStart(Error),
}

impl StartFailure {
    /// The error of this machine.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::BeforeStart(error) | Self::AfterStart(error) => error,
        }
    }
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> Self {
        Self::BeforeStart(error)
    }
}

/// The interface to the workers.
pub trait Workers {
    /// The type of these workers. A dispatch record names its worker as this type, a slash and a
    /// slot number; a later runner recognizes hosted attempts by it.
    fn kind(&self) -> WorkerKind;

    /// Whether the worker of an attempt of an earlier process is still at work, and has not reported.
    fn is_left_at_work(&self, _token: AttemptToken) -> bool {
        false
    }

    /// Take over the worker of an attempt of an earlier process, if it is still at work: it reports as if it
    /// had been started here. Called before [`Self::confirm_dead`].
    fn adopt(&mut self, _attempt: LeftAttempt) -> bool {
        false
    }

    /// Make sure that no worker of an earlier process of this run is alive, except those that were taken
    /// over. Their files stay. Fails if a worker is alive and cannot be killed.
    fn confirm_dead(&mut self) -> Result<()>;

    /// Kill the workers of an earlier process of this run, except those of these attempts.
    ///
    /// # Errors
    /// As [`Self::confirm_dead`].
    fn kill_left(&mut self, _except: &[AttemptToken]) -> Result<()> {
        Ok(())
    }

    /// Whether the runner of another machine may host an attempt: the ledger is in a store, and nothing here shows that
    /// its worker was started here. Called after [`Self::confirm_dead`].
    fn may_be_elsewhere(&self, _token: AttemptToken) -> bool {
        false
    }

    /// The attempts of an earlier process that left files.
    fn left_attempts(&self) -> Vec<AttemptToken> {
        Vec::new()
    }

    /// The receipt of an attempt of an earlier process: its worker ended by itself, or had written
    /// its receipt, and the receipt was not recorded. The attempt's step may be done again
    /// (`idempotence`) and is expected to change these files.
    fn left_receipt(
        &mut self,
        _token: AttemptToken,
        _idempotence: Idempotence,
        _changes: &[String],
    ) -> Option<Receipt> {
        None
    }

    /// Delete the files of an earlier process: everything that they contain is recorded.
    fn forget_left(&mut self) -> Result<()> {
        Ok(())
    }

    /// Start an attempt. Fails only for reasons of this machine, such as a full disk; a worker that
    /// cannot be started for another reason is reported as a failed receipt.
    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure>;

    /// The ledger's folder, if other processes may run checks of the same run: a check then needs
    /// the check lock.
    fn shared_folder(&self) -> Option<&std::path::Path> {
        None
    }

    /// Check that the files of the workers are where they were when the first one started.
    ///
    /// # Errors
    /// The folder of the ledger was moved or removed.
    fn expect_in_place(&self) -> Result<()> {
        Ok(())
    }

    /// Start judging a command criterion, or probing a lost attempt.
    fn check(&mut self, check: &Check) -> Result<()>;

    /// The next report of a worker or a check; waits at most this long.
    fn next(&mut self, wait: Duration) -> Option<Report>;

    /// Called when the attempt's receipt or loss is durable: its files may be deleted.
    fn settled(&mut self, token: AttemptToken);

    /// Ask every worker to stop, and stop every check. Each still reports, if necessary as stopped. A
    /// worker that does not end within its grace period is killed.
    fn stop_all(&mut self);

    /// Stop the worker of an attempt that is over. It still reports, but the report is ignored.
    fn stop(&mut self, _token: AttemptToken) {}

    /// The configured judge and planner.
    fn helpers(&self) -> Helpers {
        Helpers::default()
    }

    /// The current state of the files of a plan version, if these workers work on files.
    fn planned_files(&self, _version: u32, _plan: &CompactPlan) -> Option<PlannedFiles> {
        None
    }

    /// The files of a step that changed since its plan was made, although no step may change them.
    fn stale_files(&self, _task: &Task) -> Vec<String> {
        Vec::new()
    }

    /// Notes since the last call, beyond the reports.
    fn notes(&mut self) -> Vec<WorkerNote> {
        Vec::new()
    }

    /// The outcome of a lost attempt of a non-idempotent step, if these workers know it. `None`
    /// leaves it to a person.
    fn resolve_outcome(&self) -> Option<ResolvedOutcome>;
}

/// An attempt of an earlier process.
#[derive(Debug)]
pub struct LeftAttempt {
    pub token: AttemptToken,
    /// Its number, from 1.
    pub number: u32,
    /// Whether its step may be done again.
    pub idempotence: Idempotence,
    /// Whether its step has a `retry` policy.
    pub has_retry: bool,
    /// How often in a row its worker may print the same lines, if the plan says so.
    pub repeat_limit: Option<u32>,
    /// The files that its step is expected to change.
    pub changes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerNote {
    /// The attempt that the note is about, if any.
    pub token: Option<AttemptToken>,
    pub text: String,
}

/// A report of a worker or a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A worker ended with this receipt.
    Finished(AttemptToken, Box<Receipt>),
    /// [`Workers::stop_all`] ended a worker before it reported.
    Stopped(AttemptToken),
    /// A check ended.
    Checked(Checked),
    /// A worker ended, and its files have moved: its result is kept there, for the next runner.
    Moved(AttemptToken),
    /// A check ended, and its files have moved.
    MovedCheck(Subject),
}
