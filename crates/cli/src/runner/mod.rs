//! The runner: deals the steps of one run to workers until there is nothing left to deal.
//!
//! The loop ([`drive`]) stands on two ports. The [`Ledger`](plan_ledger::ledger::Ledger) is what it
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
//! - An attempt of an earlier runner is given up only when its worker is known to be dead, and
//!   with it all that it had started. Nothing outlives the job that started it unnoticed.
//! - Judges and planners are asked like workers, through the second port. What they say is recorded
//!   under their name, or is of no account.
//!
//! Left out on purpose: retries, caps and acceptance, which are the ledger's rules.

mod check;
mod checked;
mod drive;
mod files;
mod hand_off;
mod helpers;
mod job;
mod judge;
mod marks;
mod nearby;
mod orphans;
mod output;
mod outside;
mod pending;
mod planner;
mod probe;
mod process;
mod receipt_file;
mod record;
mod recover;
mod report;
mod scratch;
mod stub;
mod summary;
mod turn;
mod wait;
mod watch;
mod words;
mod worked;

use std::path::PathBuf;
use std::time::Duration;

use plan_ledger::error::{Error, Result};
use plan_ledger::ledger::{PlannedFiles, Task};
use plan_ledger::plan::{AttemptToken, CompactPlan, Json, Receipt, ResolvedOutcome, Ruling, RunId};

pub(crate) use check::may_hold;
pub use drive::{Options, drive};
pub(crate) use files::planned_files;
pub use files::{ChangedFile, FileState};
pub(crate) use hand_off::class_word;
pub use hand_off::{FailedCriterion, HandOff, PlanBrief, PlanContext, PreviousAttempt};
pub use helpers::{Helpers, Judge, Planner};
pub use marks::{Marks, Taken, take_marks};
pub use nearby::{Nearby, Neighbour};
pub(crate) use output::unusable;
pub(crate) use outside::{
    Criteria, End, Order, OutsideWork, check_outside, forget_outside, has_check,
};
pub use pending::{Pending, pending};
pub(crate) use planner::is_by_planner;
pub use process::{ProcessOptions, ProcessWorkers};
pub(crate) use receipt_file::{receipt_json, receipt_of_json};
pub use recover::recover;
pub use stub::{StubOptions, StubWorkers};
pub use summary::{Counts, RunOutcome, RunSummary, Session, Unrecorded};
pub(crate) use turn::Turn;
pub use watch::{Observer, Progress, StepName, StopRequest};
pub(crate) use words::{describe, title, trigger_json};

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
    fn remarks(&mut self) -> Vec<Remark> {
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

    fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Stub => "stub",
        }
    }
}

/// Something that was noticed and is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The attempt that it is about, if it is about one.
    pub token: Option<AttemptToken>,
    /// What, for people.
    pub text: String,
}

/// A criterion to judge, a probe, or a planner to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is judged.
    pub subject: Subject,
    /// The criterion's 0-based place in its list.
    pub criterion: u32,
    /// The shell command.
    pub command: String,
    /// How it answers.
    pub answer: Answer,
    /// The `LEDGER_*` variables that name what is judged.
    pub environment: Vec<(String, String)>,
    /// What is given on standard input: the output under judgement, `null` for the whole plan, or
    /// what a judge or a planner is asked.
    pub output: Json,
    /// Seconds after which the check is ended, and so has failed.
    pub timeout_seconds: Option<u32>,
}

/// How a check answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// By its exit status: 0 passes.
    Status,
    /// By a verdict that it prints.
    Verdict,
    /// By a plan that it prints.
    Plan,
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
    /// Another plan, that a planner is asked for: not judged, but printed.
    Replan(RunId),
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
    /// The judgement; `None` if the check was ended by [`Workers::stop_all`], if a probe cannot
    /// tell, or if a judge or a planner gave no usable answer.
    pub ruling: Option<Ruling>,
    /// On what grounds; of a planner that passes, what it printed.
    pub evidence: String,
}

/// Where a process runner keeps the files of its workers: a folder of the ledger and the run.
#[must_use]
pub fn scratch_folder(ledger: &std::path::Path, run: RunId) -> PathBuf {
    ledger.join("work").join(format!("run-{run}"))
}
