//! The port to the workers: starts attempts and checks, and reports how they end.

use std::time::Duration;

use plan_ledger::error::{Error, Result};
use plan_ledger::ledger::{PlannedFiles, Task};
use plan_ledger::plan::{AttemptToken, CompactPlan, ResolvedOutcome, Receipt};

use super::check::{Check, Checked};
use super::helpers::Helpers;

/// Why an attempt is not at work, for a reason of this machine.
#[derive(Debug)]
pub enum StartFailure {
    /// Its worker did nothing.
    NotBegun(Error),
    /// Its worker ran and was ended, and may have changed the world.
    Begun(Error),
}

impl StartFailure {
    /// What this machine said.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::NotBegun(error) | Self::Begun(error) => error,
        }
    }
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> Self {
        Self::NotBegun(error)
    }
}

/// Those who do the work: the second port of the loop.
pub trait Workers {
    /// What kind of workers these are. The worker's name in a dispatch record is this, a slash
    /// and a slot number, and it is how a later runner knows which attempts were hosted by one.
    fn kind(&self) -> WorkerKind;

    /// Make sure that no worker which an earlier process started for this run is alive, and
    /// throw away what it left behind. An error means that one is alive and cannot be ended.
    fn confirm_dead(&mut self) -> Result<()>;

    /// Start an attempt. An error is one of this machine (no room for its files); a worker that
    /// cannot be started for a reason of its own is reported as a failed receipt.
    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure>;

    /// The folder of the ledger, where other processes may run checks of the same run: then nothing
    /// is judged without its turn.
    fn shared_folder(&self) -> Option<&std::path::Path> {
        None
    }

    /// Start judging a command criterion, or probing what a lost attempt did.
    fn check(&mut self, check: &Check) -> Result<()>;

    /// The next thing that a worker or a check has to say, waiting at most so long.
    fn next(&mut self, wait: Duration) -> Option<Report>;

    /// The attempt's receipt, or its loss, is durable: whatever was kept of it may go.
    fn settled(&mut self, token: AttemptToken);

    /// End every worker and every check. Each of them still reports, at the latest as stopped.
    fn stop_all(&mut self);

    /// End the worker of an attempt that is over, and so can report nothing. It still reports.
    fn stop(&mut self, _token: AttemptToken) {}

    /// Who is asked beside the workers.
    fn helpers(&self) -> Helpers {
        Helpers::default()
    }

    /// How the files of a plan version are now, where these workers work on files.
    fn planned_files(&self, _version: u32, _plan: &CompactPlan) -> Option<PlannedFiles> {
        None
    }

    /// What was noticed since this was asked last, beyond what was reported.
    fn remarks(&mut self) -> Vec<WorkerNote> {
        Vec::new()
    }

    /// What is found about a lost attempt of a step that must not be done twice, where these
    /// workers can tell. `None` leaves it to a person.
    fn resolve_doubt(&self) -> Option<ResolvedOutcome>;
}

/// The kinds of workers that the loop can drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// One process for each attempt.
    Process,
    /// Canned answers from within the runner.
    Stub,
}

impl WorkerKind {
    /// Whether a worker of that name was hosted by a runner, this one or an earlier one.
    #[must_use]
    pub fn hosted(worker: &str) -> bool {
        [Self::Process, Self::Stub].iter().any(|kind| {
            worker.strip_prefix(kind.as_str()).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The name under which command criteria are judged: never that of a worker.
    #[must_use]
    pub fn judge(self) -> &'static str {
        match self {
            Self::Process => "runner",
            Self::Stub => "stub",
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Stub => "stub",
        }
    }
}

/// Something that was noticed and is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerNote {
    /// The attempt that it is about, if it is about one.
    pub token: Option<AttemptToken>,
    /// What, for people.
    pub text: String,
}

/// What a worker or a check has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A worker returned, or died.
    Finished(AttemptToken, Box<Receipt>),
    /// A worker was ended by [`Workers::stop_all`] and returned nothing.
    Stopped(AttemptToken),
    /// A check came to an end.
    Checked(Checked),
}
