//! The facade: one handle on a ledger, shared by as many threads as like.
//!
//! Invariants:
//! - What a method returned is durable. A command that was refused wrote nothing.
//! - The state is exactly the fold of the durable records; after a failed write it is folded
//!   again from the log before anything else is decided.
//! - Time and identities come from the [`Environment`] and nowhere else.
//!
//! Left out on purpose: running workers (a harness does, or the `ledger` binary) and judging
//! anything (`plan` does).

mod ahead;
mod archive;
mod archive_part;
mod attempts;
mod blobs;
mod books;
mod changes;
mod chronicle;
mod codec;
mod compare;
mod control;
mod copies;
mod environment;
mod execute;
mod export;
mod files;
#[cfg(test)]
mod golden_tests;
mod hash;
mod history;
mod import;
mod islands;
mod kind;
mod ladder;
mod later;
mod lines;
mod load;
mod lost_note;
mod metrics;
mod packed;
mod projection;
mod recent;
mod remark;
mod replay;
mod report;
mod rest;
mod retention;
mod run_body;
mod runs;
mod salvage;
mod shadow;
mod snapshots;
mod spacing;
mod spans;
mod state_body;
mod state_values;
mod streams;
mod task;
mod thin_out;
mod trace;
mod travel;
mod verify;
mod wish;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::log::{Log, LogReader};
use crate::plan::{
    AttemptToken, Command, ContentHash, Event, Json, LostCause, Micros, Plan, Receipt, Rejection,
    RunId, RunPolicy, State, StepStatus, Verdict,
};

pub use crate::log::{Ack, BatchKey, Housekeeping, OnAmbiguous, SegmentSizes};
use ahead::Ahead;
pub use archive::{Archived, archive, archive_environment};
pub use attempts::{EARLIER_ATTEMPTS_MAX, EarlierAttempt, EarlierEnd};
use blobs::Blobs;
pub use blobs::{BlobCheck, BlobSurvey, BlobUse, Collected, blob_of};
pub use books::StepCost;
pub use changes::Changed;
pub use chronicle::{Chronicle, Milestone};
pub use codec::{decode, encode};
pub use compare::{
    AttemptDifference, AttemptEnd, Comparison, EndKind, Pair, Parted, Parting, StepDifference,
};
pub use control::{OpenQuestion, Reply};
pub use environment::{
    Clock, Environment, IdSource, SystemClock, parse_duration, parse_time, time_text,
};
use execute::{Freshness, Shared};
pub use export::{Describe, Exported};
use files::FilesRead;
pub use files::{PLANNED_FILES, PlannedFile, PlannedFiles};
#[doc(hidden)]
pub use hash::step_hash;
pub use hash::{bytes_hash, draft as plan_draft, plan_hash, state_hash};
pub use import::{Imported, import};
pub use kind::Kind;
use ladder::Ladder;
#[doc(hidden)]
pub use later::Later;
use load::Unfitted;
#[doc(hidden)]
pub use load::expect_sound;
pub use metrics::{ESTIMATE, Metrics, Ratio, RunMetrics};
pub use projection::Projection;
pub use remark::{REMARK_LENGTH_MAX, Remark};
pub use replay::{Fold, FoldWatch, Ground, LedgerView, Recorded};
pub use report::OpenReport;
pub use retention::{PrunePlan, Pruned, Through};
pub use runs::ForkPoint;
pub use salvage::{GAPS_MAX, Salvaged, salvage};
pub use shadow::Change;
pub use snapshots::Snapshot;
pub use spans::{Stretch, StretchKind, Track};
pub use streams::RUNS;
pub use task::Task;
pub use trace::{Remains, Trace, Traced};
pub use verify::{Condition, Level, Phase, Progress, VerifyReport, VerifyRequest, root, verify};
#[doc(hidden)]
pub use wish::next_of;
pub use wish::{Follow, Make, Wish};

/// A ledger that is open for writing. At most one exists per folder, in all processes.
#[derive(Debug)]
pub struct Ledger {
    /// Dropped first: what is being made is made while the ledger is still held.
    ladder: Mutex<Ladder>,
    log: Log,
    shared: Mutex<Shared>,
    environment: Environment,
    blobs: Blobs,
    files: FilesRead,
}

/// What a command led to.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Of the last event; of the last durable record if the command led to none.
    pub ack: Ack,
    /// The events, each with its sequence number.
    pub events: Vec<(u64, Event)>,
}

impl Ledger {
    /// Make a ledger in a folder that is not there yet.
    ///
    /// # Errors
    /// `Io`, `DiskFull`, and `Locked` if somebody is making it just now; `TooLarge` for segments that
    /// are.
    pub fn create(dir: &Path, environment: &Environment) -> Result<Self> {
        let time = environment.clock.now();
        let log = Log::create(dir, environment.log_options(), time)?;
        Ok(Self::with(log, environment, None)?.0)
    }

    /// Open a ledger, and recover it if need be.
    ///
    /// # Errors
    /// `NotALedger`; `Locked`, naming the holder; `Corrupt`, `Tampered` and `Ambiguous`, naming
    /// the place; `Unsupported`; `Io` and `DiskFull`. Nothing was lost in any of these cases.
    pub fn open(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        let time = environment.clock.now();
        // Read while the end of the log is looked at: only then is it known whether it fits.
        let newest = Ahead::read(dir, environment);
        let (log, report) = Log::open(dir, environment.log_options(), time)?;
        let mut report = OpenReport::opened(&report, log.ack().seq);
        let (ledger, from_snapshot) = Self::with(log, environment, newest.wait())?;
        report.from_snapshot = from_snapshot;
        report.notes.extend(ledger.warnings());
        Ok((ledger, report))
    }

    /// Open the ledger in that folder, or make one if there is no such folder.
    ///
    /// # Errors
    /// As [`Ledger::open`] and [`Ledger::create`].
    pub fn open_or_create(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        match environment.storage.list(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                match Self::create(dir, environment) {
                    Ok(ledger) => {
                        let medium = environment.storage.medium(dir);
                        let medium = medium.unwrap_or(crate::storage::Medium::Local);
                        Ok((ledger, OpenReport::created(medium)))
                    }
                    // Somebody else made it in the meantime, and may have it.
                    Err(_) if environment.storage.list(dir).is_ok() => Self::open(dir, environment),
                    Err(error) => Err(error),
                }
            }
            _ => Self::open(dir, environment),
        }
    }

    /// The ledger on a log, and the record of the snapshot that its state was folded from.
    fn with(
        log: Log,
        environment: &Environment,
        newest: Option<Unfitted<State>>,
    ) -> Result<(Self, Option<u64>)> {
        let reader = log.reader()?;
        let folded = snapshots::project_newest(&reader, newest)?;
        let ladder = Ladder::new(environment, reader.dir(), folded.from.unwrap_or(0));
        ladder.warn_of(&folded.ignored);
        let blobs = Blobs::new(log.blobs());
        let shared = Mutex::new(Shared::new(folded.value));
        let (ladder, environment) = (Mutex::new(ladder), environment.clone());
        let files = FilesRead::default();
        Ok((Self { ladder, log, shared, environment, blobs, files }, folded.from))
    }

    /// Start a run of a plan. With automatic approval the plan is active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected` if there is a run of that name, or none may
    /// be called that.
    pub fn start_run(&self, name: &str, plan: &Plan, policy: RunPolicy) -> Result<RunId> {
        let draft = hash::draft(plan)?;
        let commit = self.execute(&Command::StartRun { name: name.to_owned(), policy, draft })?;
        let started = commit.events.iter().find_map(|(_, event)| match event {
            Event::RunStarted(started) => Some(started.run),
            _ => None,
        });
        Ok(started.expect("a run that was not refused was started"))
    }

    /// Propose the next version of a run's plan and return its number. With automatic approval
    /// it is active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`.
    pub fn propose(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_for(run, plan, reason, None)
    }

    /// Deal the first step of a run's queue; `None` when nothing may be dealt now: the queue is
    /// empty, a cap is reached, the run pauses (also because this attempt found its budget used
    /// up), what is left of a budget is set aside, or the run has ended ([`Ledger::state`] says
    /// which). What has fallen due, like leases that ran out, is turned into events first.
    ///
    /// # Errors
    /// `Rejected` if there is no such run or it has no active plan, and what [`Ledger::execute`]
    /// says.
    pub fn dispatch(&self, run: RunId, worker: &str) -> Result<Option<Task>> {
        self.dispatch_if(run, worker, &|_| true)
    }

    /// The same, as long as the state is so: else `None`.
    #[doc(hidden)]
    pub fn dispatch_if(
        &self,
        run: RunId,
        worker: &str,
        is_so: &dyn Fn(&State) -> bool,
    ) -> Result<Option<Task>> {
        let claim = |state: &State| {
            let worker = worker.to_owned();
            let dispatch = Command::Dispatch { run, step: None, worker, lease: None };
            let nothing = Rejection::NothingReady { in_flight: 0, reported: 0, in_doubt: 0 };
            is_so(state).then_some(dispatch).ok_or_else(|| nothing.into())
        };
        match self.deal(&claim, |_, task| task) {
            Ok(task) => Ok(task.map(|task| self.with_earlier(task))),
            Err(error) => match error.rejection() {
                Some(
                    Rejection::NothingReady { .. }
                    | Rejection::CapReached { .. }
                    | Rejection::Paused(_)
                    | Rejection::BudgetReserved(_)
                    | Rejection::RunHasEnded(_)
                    | Rejection::RunRetired(_),
                ) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Keep an attempt for longer; until when, in microseconds.
    pub fn renew(&self, token: AttemptToken) -> Result<Micros> {
        let until = |state: &State, _: &[_]| {
            let attempt = held(state, token).and_then(|step| step.attempt());
            attempt.map_or(0, |attempt| attempt.lease_until)
        };
        self.carry_out(&Command::Renew { token, lease: None }, until).map(|(_, until)| until)
    }

    /// Say that an attempt will never report.
    pub fn report_lost(
        &self,
        token: AttemptToken,
        cause: LostCause,
        detail: &str,
    ) -> Result<Commit> {
        self.execute(&Command::ReportLost { token, cause, detail: detail.to_owned() })
    }

    /// Record what a worker returned, and all that follows from it; how the step stands then.
    ///
    /// # Errors
    /// `Rejected` with `StaleToken` if the attempt is over: the receipt is kept all the same, as
    /// refused. It is not where nothing was dealt under this token, or [`crate::plan::ENDED_KEPT`] runs
    /// have ended since the attempt's own: the state is to stay small, and only a summary is left of
    /// such a run. With `NoSuchOutput` if it names an output that is not there.
    pub fn record_receipt(&self, token: AttemptToken, receipt: Receipt) -> Result<StepStatus> {
        let command = Command::RecordReceipt { token, receipt };
        let (commit, status) = self.carry_out(&command, |state, _| status(state, token))?;
        if is_refused(&commit) {
            return Err(Rejection::StaleToken(token).into());
        }
        Ok(status)
    }

    /// Judge criteria of a reported step; how it stands then.
    pub fn judge(&self, token: AttemptToken, verdicts: Vec<Verdict>) -> Result<StepStatus> {
        let command = Command::Judge { token, verdicts };
        self.carry_out(&command, |state, _| status(state, token)).map(|(_, status)| status)
    }

    /// Set a variable, if it still has the version that the caller saw (0: not set; `None`: in
    /// any case); its new version.
    ///
    /// # Errors
    /// `Rejected` with `VersionDiffers`.
    pub fn set_variable(
        &self,
        run: RunId,
        name: &str,
        value: Json,
        expected_version: Option<u64>,
        by: &str,
    ) -> Result<u64> {
        let (name, by) = (name.to_owned(), by.to_owned());
        let command = Command::SetVariable { run, name, value, expected_version, by };
        let commit = self.execute(&command)?;
        let set = commit.events.iter().find_map(|(_, event)| match event {
            Event::VariableSet(set) => Some(set.version),
            _ => None,
        });
        Ok(set.expect("a value that was not refused was set"))
    }

    /// Hash of the state now.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn state_hash(&self) -> Result<ContentHash> {
        Ok(state_hash(&*self.state()?))
    }

    /// What happened from record `from` on, up to what is durable now.
    ///
    /// # Errors
    /// `Corrupt`, naming the place, and `Io`.
    pub fn replay(&self, from: u64) -> Result<Vec<Recorded>> {
        let reader = self.reader()?;
        reader.records(from).map(|record| replay::recorded(&record?)).collect()
    }

    /// The log beneath: for the laboratory, which appends what no command asks for.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    fn reader(&self) -> Result<LogReader> {
        self.log.reader()
    }

    /// The last durable record.
    #[must_use]
    pub fn head(&self) -> Ack {
        self.log.ack()
    }

    /// Mark the ledger as cleanly closed. Dropping it does the same, but cannot report an error;
    /// nothing that was acknowledged depends on either.
    pub fn close(self) -> Result<()> {
        self.log.expect_own_process()?;
        self.ladder().finish();
        self.note_all();
        self.log.close()
    }

    /// What the threads share. A fork waits for no thread that has stayed behind in its parent.
    ///
    /// # Errors
    /// `Fenced` in a fork.
    fn lock(&self) -> Result<MutexGuard<'_, Shared>> {
        self.log.expect_own_process()?;
        // A thread that panicked left the mark of a stale state, which is folded again.
        Ok(self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Have the state folded again before anything else is told from it.
    fn mark_stale(&self) {
        // A fork tells nothing.
        if let Ok(mut shared) = self.lock() {
            shared.freshness = Freshness::Stale;
        }
    }
}

/// Whether a receipt was refused.
fn is_refused(commit: &Commit) -> bool {
    commit.events.iter().any(|(_, event)| {
        matches!(event, Event::Step(record)
            if matches!(record.event, crate::plan::StepEvent::ReceiptRefused(_)))
    })
}

/// The step of an attempt that was ever dealt.
fn held(state: &State, token: AttemptToken) -> Option<&crate::plan::StepState> {
    let (run, step) = state.dealt.get(&token)?;
    state.runs.get(run)?.step(*step)
}

/// How the step of an attempt stands.
fn status(state: &State, token: AttemptToken) -> StepStatus {
    held(state, token).map_or(StepStatus::Removed, |step| step.status)
}
