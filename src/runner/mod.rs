//! The runner: deals the steps of one run to workers until there is nothing left to deal.
//!
//! The loop ([`drive`]) stands on two ports. The [`Ledger`](crate::ledger::Ledger) is what it
//! writes to; [`Workers`] is what it deals to: processes ([`ProcessWorkers`]) or canned answers
//! ([`StubWorkers`]).
//!
//! Invariants:
//! - A worker is started only after its dispatch is durable, and what belongs to an attempt on
//!   this machine is thrown away only after its receipt is durable.
//! - The loop itself has no thread and reads no clock but the one it is given. With stubs, the
//!   same ledger gives the same sequence of calls, so that a simulated disk can drive this loop.
//! - It decides nothing about the plan: what is ready, what a failure means and when a run has
//!   ended is the ledger's answer.
//! - An attempt of an earlier runner is given up only when its worker is known to be dead.
//!
//! Left out on purpose: retries, caps and acceptance, which are the ledger's rules.

mod check;
mod drive;
mod hand_off;
mod job;
mod left;
mod output;
mod outside;
mod pending;
mod probe;
mod process;
mod receipt_file;
mod recover;
mod scratch;
mod stub;
mod summary;
mod wait;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::ledger::Task;
use crate::plan::{
    AttemptToken, Finding, Json, Micros, Receipt, Ruling, RunId, StepNumber, StepStatus,
};

#[cfg(feature = "cli")]
pub(crate) use check::may_hold;
pub use drive::{Options, drive};
pub use hand_off::{FailedCriterion, HandOff, PlanBrief};
pub(crate) use outside::{End, Order, OutsideWork};
pub use pending::{Pending, pending};
pub use process::{ProcessOptions, ProcessWorkers};
pub(crate) use receipt_file::{receipt_json, receipt_of_json};
pub use recover::recover;
pub use stub::{StubOptions, StubWorkers};
pub use summary::{Counts, RunOutcome, RunSummary, Session, Unrecorded};
pub use wait::Patience;
pub(crate) use words::{describe, title};

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

    /// Start judging a command criterion, or probing what a lost attempt did.
    fn check(&mut self, check: &Check) -> Result<()>;

    /// The next thing that a worker or a check has to say, waiting at most so long.
    fn next(&mut self, wait: Duration) -> Option<Report>;

    /// The attempt's receipt, or its loss, is durable: whatever was kept of it may go.
    fn settled(&mut self, token: AttemptToken);

    /// End every worker and every check. Each of them still reports, at the latest as stopped.
    fn stop_all(&mut self);

    /// What is found about a lost attempt of a step that must not be done twice, where these
    /// workers can tell. `None` leaves it to a person.
    fn resolve_doubt(&self) -> Option<Finding>;
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

    fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Stub => "stub",
        }
    }
}

/// A command criterion to judge, or a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is judged.
    pub subject: Subject,
    /// The criterion's 0-based place in its list.
    pub criterion: u32,
    /// The shell command; exit status 0 passes.
    pub command: String,
    /// The `LEDGER_*` variables that name what is judged.
    pub environment: Vec<(String, String)>,
    /// The output under judgement, given on standard input; `null` for the whole plan.
    pub output: Json,
    /// Seconds after which the check is ended, and so has failed.
    pub timeout_seconds: Option<u32>,
}

/// What a criterion is about. The order puts steps before the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The work of one attempt.
    Attempt(AttemptToken),
    /// What a lost attempt did: not judged, but probed.
    Doubt(AttemptToken),
    /// The plan as a whole.
    Plan(RunId),
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

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What was judged.
    pub subject: Subject,
    /// The criterion's 0-based place in its list.
    pub criterion: u32,
    /// The judgement; `None` if the check was ended by [`Workers::stop_all`], or if a probe
    /// cannot tell.
    pub ruling: Option<Ruling>,
    /// On what grounds.
    pub evidence: String,
}

/// What somebody outside wants of a loop that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Go on.
    #[default]
    None,
    /// Deal no more and wait for what runs.
    Drain,
    /// End the workers too.
    Kill,
}

/// Watches a loop: for people, for programs, and to end it.
pub trait Observer {
    /// Something happened. Everything but [`Progress::Started`] is durable by now.
    fn progress(&mut self, progress: &Progress);

    /// Asked between any two steps of the loop.
    fn stop_request(&mut self) -> StopRequest;
}

/// What a step is called: for messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    /// Its number.
    pub number: StepNumber,
    /// Its author's name for it.
    pub id: String,
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.number, self.id)
    }
}

/// What happens in a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An attempt is lost: of an earlier runner, or ended by a stop request.
    Lost {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// Why, for people.
        detail: String,
        /// How the step stands now.
        status: StepStatus,
    },
    /// A step was dealt.
    Dispatched {
        /// The step.
        step: StepName,
        /// Its title, or the first line of its goal.
        title: String,
        /// The attempt, from 1.
        attempt: u32,
        /// Its token.
        token: AttemptToken,
        /// Who has it.
        worker: String,
    },
    /// Its worker runs.
    Started {
        /// The step.
        step: StepName,
    },
    /// A worker's receipt was recorded.
    Receipt {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// What it said, in a word: `succeeded`, `failed` or `replan_requested`.
        outcome: &'static str,
        /// Why it failed, for people; empty when it did not.
        message: String,
        /// How long it took.
        duration: Micros,
        /// How the step stands now.
        status: StepStatus,
    },
    /// A receipt came too late and was recorded as refused.
    Refused {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// Why.
        reason: String,
    },
    /// A command criterion was judged.
    Verdict {
        /// The step, or `None` for the plan as a whole.
        step: Option<StepName>,
        /// The criterion's 0-based place.
        criterion: u32,
        /// The judgement.
        ruling: Ruling,
        /// On what grounds.
        evidence: String,
        /// How the step stands now.
        status: Option<StepStatus>,
    },
    /// A probe looked for what a lost attempt did.
    Probed {
        /// The step.
        step: StepName,
        /// What it found; `None` if it cannot tell.
        finding: Option<Finding>,
        /// On what grounds.
        evidence: String,
        /// How the step stands now.
        status: StepStatus,
    },
    /// There is nothing to do until something falls due.
    Waiting {
        /// When, in microseconds since the Unix epoch.
        until: Micros,
        /// What.
        reason: String,
    },
    /// Nothing more is dealt; the loop waits for so many workers and checks.
    Draining {
        /// Why.
        reason: String,
        /// How many.
        running: usize,
    },
    /// How far the run is: after every change.
    Counted {
        /// Steps that are accepted or skipped.
        settled: u32,
        /// Steps of the active version.
        steps: u32,
    },
}

/// Where a process runner keeps the files of its workers: a folder of the ledger and the run.
#[must_use]
pub fn scratch_folder(ledger: &std::path::Path, run: RunId) -> PathBuf {
    ledger.join("work").join(format!("run-{run}"))
}
