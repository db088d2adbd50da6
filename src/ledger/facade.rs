//! The public interface of an open ledger: one method per operation, each a short delegation.
//!
//! # Errors
//! Every method that writes fails with `Rejected` and the reason if the command is invalid, and
//! with the other errors that [`Ledger::execute`] lists.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::log::{Ack, ArchiveReference, BatchKey};
use crate::plan::{
    ApprovalPolicy, AttemptToken, Command, ContentHash, Cost, Decision, Event, Json, Limits,
    LostCause, Output, Plan, Question, QuestionId, Receipt, Rejection, ReplanTrigger, Run, RunId,
    RunPolicy, State, StepNumber, StepStatus, Timestamp, Verdict,
};

use super::blobs::CollectedBlobs;
use super::codec::hash::plan_draft;
use super::codec::note::Note;
use super::environment::Environment;
use super::history::compare::{self, RunComparison};
use super::history::metrics::{self, RunMetrics};
use super::history::trace::{self, Trace};
use super::open::{self, OpenReport};
use super::projection::{Projection, RecordedEvent, decode_record};
use super::retention::prune::{self, PruneReport, RetentionLimit};
use super::snapshot::state_hash::state_hash;
use super::snapshot::store::Snapshot;
use super::transaction::commit::{Commit, status_of_attempt, step_of_attempt};
use super::transaction::cost_correction;
use super::transaction::dispatch;
use super::transaction::engine::Engine;
use super::transaction::execution::Transaction;
use super::transaction::fork::{self, ForkPoint};
use super::transaction::submitted::Submitted;
use super::transaction::task::Task;
use super::transaction::{tick, time_travel};

/// A ledger that is open for writing. At most one exists per folder, over all processes.
#[derive(Debug)]
pub struct Ledger {
    engine: Engine,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its number.
    pub id: QuestionId,
    /// The run that waits for it.
    pub run: RunId,
    /// The question.
    pub question: Question,
}

/// The answer of a person to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// One of the question's options.
    pub answer: String,
    /// The person.
    pub by: String,
    /// The person's reason.
    pub note: String,
    /// Hash of the question as the person saw it. The question's own hash differs if it changed in
    /// the meantime.
    pub shown: ContentHash,
}

/// Opening and closing.
impl Ledger {
    /// Create a ledger in a folder that does not exist yet.
    ///
    /// # Errors
    /// `Io`, `DiskFull`; `Locked` if another process is creating it; `TooLarge` for the segment sizes.
    pub fn create(dir: &Path, environment: &Environment) -> Result<Self> {
        open::create(dir, environment).map(|engine| Self { engine })
    }

    /// Open a ledger, and recover it if necessary.
    ///
    /// # Errors
    /// `NotALedger`; `Locked`, naming the lock holder; `Corrupt`, `Tampered` and `Ambiguous`, with
    /// the location; `Unsupported`; `Io` and `DiskFull`. None of these loses data.
    pub fn open(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        open::open(dir, environment).map(|(engine, report)| (Self { engine }, report))
    }

    /// Open the ledger in a folder, or create one if the folder does not exist.
    ///
    /// # Errors
    /// As [`Ledger::open`] and [`Ledger::create`].
    pub fn open_or_create(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        open::open_or_create(dir, environment).map(|(engine, report)| (Self { engine }, report))
    }

    /// Mark the ledger as cleanly closed. Dropping it does the same but cannot report an error.
    /// Acknowledged records are durable in both cases.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Warnings since the ledger was opened: snapshots that could not be used or made. Each is listed
    /// once, up to 256.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }
}

/// Commands.
impl Ledger {
    /// Execute a command: decide it, append its events durably as one batch, and apply them.
    ///
    /// # Errors
    /// `Rejected`, with the reason: nothing was written. `DiskFull` and `TooLarge`: nothing was
    /// written, and the ledger can still be used. `OutcomeUnknown`: a write or sync failed; open
    /// the ledger again to learn whether the command was committed. `Poisoned`: an earlier write
    /// failed. `Fenced`: this process lost the right to write, and nothing was written.
    pub fn execute(&self, command: &Command) -> Result<Commit> {
        self.engine.execute(None, command)
    }

    /// Execute a command. If a command was already committed under this key, return that commit
    /// instead. A caller that does not know the outcome of a command can therefore repeat it, even
    /// after opening the ledger again. Keys are kept for [`crate::log::KEY_WINDOW`] records. A
    /// rejected command leaves no key.
    ///
    /// # Errors
    /// As [`Ledger::execute`]; `Corrupt` if the last records cannot be read.
    pub fn execute_once(&self, key: &BatchKey, command: &Command) -> Result<Commit> {
        self.engine.execute(Some(key), command)
    }

    /// Execute several commands as one atomic commit, or build a command from the state on which it
    /// is decided. The result is revealed by [`Submitted::wait`], after everything that it depends on
    /// is durable; several transactions can be submitted before the first wait, and share a sync.
    ///
    /// The closure may be called more than once, since the ledger may append a note of its own in
    /// the meantime. If it fails, nothing is written. If a transaction was already committed under
    /// the key, the closure runs on the current state, its commands are skipped, and it gets the
    /// events of that commit.
    ///
    /// The closure runs under the ledger's lock. If it calls the ledger, it deadlocks.
    ///
    /// # Errors
    /// Those of the closure; as [`Ledger::execute_once`].
    pub fn transact<T>(
        &self,
        key: Option<&BatchKey>,
        run: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Submitted<'_, T> {
        self.engine.submit(key, run)
    }

    /// Execute a command, and read a value from the state right after it.
    fn execute_and_read<T>(&self, command: &Command, read: impl Fn(&State) -> T) -> Result<T> {
        let run = |transaction: &mut Transaction<'_>| {
            transaction.run(command)?;
            Ok(read(transaction.state()))
        };
        self.transact(None, run).wait()
    }

    /// Record everything that is due: expired leases, delays, questions, barriers and wall time,
    /// and consequences of earlier commands that did not fit into their batches. Call it at
    /// [`State::next_due`] or later. An item is due once the ledger's time has reached it: the time
    /// of the clock or of the last record, whichever is later.
    pub fn tick(&self) -> Result<()> {
        tick::tick(&self.engine)
    }

    /// Append a note, once per key. It changes no state.
    ///
    /// # Errors
    /// `TooLarge`, and the write errors of [`Ledger::execute`].
    pub fn add_note(&self, note: &Note, key: Option<&BatchKey>) -> Result<Ack> {
        self.engine.append_note(note.to_record()?, key)
    }
}

/// Runs and plans.
impl Ledger {
    /// Start a run of a plan. With automatic approval the plan is active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected` if the name is taken or not allowed.
    pub fn start_run(&self, name: &str, plan: &Plan, policy: RunPolicy) -> Result<RunId> {
        let draft = plan_draft(plan)?;
        let commit = self.execute(&Command::StartRun {
            name: name.to_owned(),
            policy,
            reason: String::new(),
            draft,
        })?;
        Ok(started_run(&commit))
    }

    /// Propose the next version of a run's plan, and return its number. With automatic approval it is
    /// active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`.
    pub fn propose(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_for(run, plan, reason, None)
    }

    /// As [`Ledger::propose`]. `trigger` is recorded as the cause of the new version, unless a
    /// replan request is open.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`, with `ReplanLimit` if the plan allows no
    /// more versions.
    pub fn propose_for(
        &self,
        run: RunId,
        plan: &Plan,
        reason: &str,
        trigger: Option<ReplanTrigger>,
    ) -> Result<u32> {
        self.propose_with(run, plan, reason, trigger, ApprovalPolicy::Automatic)
    }

    /// As [`Ledger::propose`], but the version always needs a review, regardless of the run's
    /// policy.
    ///
    /// # Errors
    /// As [`Ledger::propose_for`].
    pub fn propose_for_review(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_with(run, plan, reason, None, ApprovalPolicy::Required)
    }

    fn propose_with(
        &self,
        run: RunId,
        plan: &Plan,
        reason: &str,
        trigger: Option<ReplanTrigger>,
        approval: ApprovalPolicy,
    ) -> Result<u32> {
        let (draft, reason) = (plan_draft(plan)?, reason.to_owned());
        let commit =
            self.execute(&Command::ProposePlan { run, draft, reason, trigger, approval })?;
        let version = commit.events.iter().find_map(|(_, event)| match event {
            Event::PlanProposed(proposed) => Some(proposed.version),
            _ => None,
        });
        Ok(version.expect("an accepted proposal has an event"))
    }

    /// Request another plan version, and return the record of the request.
    ///
    /// # Errors
    /// `Rejected`: with `ReplanIsOpen`, naming the record, if a request is open already.
    pub fn request_replan(
        &self,
        run: RunId,
        trigger: ReplanTrigger,
        from: Option<StepNumber>,
        reason: &str,
    ) -> Result<u64> {
        let reason = reason.to_owned();
        let commit = self.execute(&Command::RequestReplan { run, trigger, from, reason })?;
        let is_request = |event: &Event| matches!(event, Event::ReplanRequested(_));
        let request = commit.events.iter().find(|(_, event)| is_request(event));
        Ok(request.expect("an accepted request has an event").0)
    }

    /// Withdraw the open request for another plan version, so that the run continues with its
    /// current version. There are two exceptions: if the request was made because a precondition or
    /// a plan criterion does not hold, the step or the run fails; and if it asked for more steps of a
    /// plan with `continues`, none follow, and the run ends after its last open step.
    ///
    /// # Errors
    /// `Rejected`: with `NoReplanRequested` if no request is open.
    pub fn withdraw_replan(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.execute(&Command::WithdrawReplan { run, by, reason })
    }

    /// Fork a run: start a run of this name with the plan versions, accepted work and variables of
    /// the parent. Attempts and questions start again, and the parent's spending does not count
    /// against the budget of the fork.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record; `Rejected` with `NoSuchRun`, even if the parent
    /// started only after that record, `NoSuchStep`, `RunExists`, or `NoActivePlan`.
    pub fn fork(&self, parent: RunId, point: ForkPoint, name: &str) -> Result<RunId> {
        let commit = self.execute(&self.fork_command(parent, point, name)?)?;
        Ok(started_run(&commit))
    }

    /// The command that forks a run.
    #[doc(hidden)]
    pub fn fork_command(&self, parent: RunId, point: ForkPoint, name: &str) -> Result<Command> {
        fork::fork_command(&self.engine, parent, point, name)
    }

    /// Stop dispatching in a run. Attempts in flight continue.
    pub fn pause(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        self.execute(&Command::Pause { run, by: by.to_owned(), reason: reason.to_owned() })
    }

    /// Allow dispatching in a paused run again.
    ///
    /// # Errors
    /// `Rejected`: with `NotPaused`, and with `Paused` while a budget is used up.
    pub fn resume(&self, run: RunId, by: &str) -> Result<Commit> {
        self.execute(&Command::Resume { run, by: by.to_owned() })
    }

    /// Set the budget of a run or, with `None`, of the whole ledger. The limits are totals that
    /// include past spending. Runs that were paused only because of the budget continue.
    pub fn set_budget(
        &self,
        run: Option<RunId>,
        limits: Option<Limits>,
        by: &str,
    ) -> Result<Commit> {
        self.execute(&Command::SetBudget { run, limits, by: by.to_owned() })
    }

    /// Set a variable, and return its new version. `expected_version` is the version that the
    /// caller read: 0 if the variable was not set, `None` to set it unconditionally.
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
        let version = commit.events.iter().find_map(|(_, event)| match event {
            Event::VariableSet(set) => Some(set.version),
            _ => None,
        });
        Ok(version.expect("an accepted value has an event"))
    }

    /// The open questions of all runs, the oldest first.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn questions(&self) -> Result<Vec<OpenQuestion>> {
        let state = self.state()?;
        let open = |(id, run): (&QuestionId, &RunId)| {
            let question = state.runs.get(run)?.questions.get(id)?.clone();
            Some(OpenQuestion { id: *id, run: *run, question })
        };
        Ok(state.questions.iter().filter_map(open).collect())
    }

    /// Answer a question.
    ///
    /// # Errors
    /// `Rejected`: with `NoSuchQuestion` if it is no longer open, `HashDiffers` if the person saw
    /// another question, `NotAnOption`.
    pub fn answer(&self, question: QuestionId, reply: Reply) -> Result<Commit> {
        let Reply { answer, by, note, shown } = reply;
        self.execute(&Command::Answer { question, answer, by, note, shown })
    }

    /// Decide what happens to a step whose attempt failed, such as a retry or a replan. Only a plan
    /// with an external decider ([`crate::plan::Decider::External`]) leaves this decision to the
    /// caller. `rule` and `reason` are recorded with it. Returns the step's status after the
    /// decision.
    ///
    /// # Errors
    /// `Rejected`: with `DecidedByRules` if the rules of the plan decide; `NothingFailed` if no failed
    /// attempt waits for a decision; `NoFallback` if the step has no usable fallback;
    /// `MustNotBeRepeated` for a retry of work that must not be repeated.
    pub fn decide_failure(
        &self,
        run: RunId,
        step: StepNumber,
        decision: Decision,
        rule: &str,
        reason: &str,
    ) -> Result<StepStatus> {
        let (rule, reason) = (rule.to_owned(), reason.to_owned());
        let command = Command::DecideFailure { run, step, decision, rule, reason };
        self.execute_and_read(&command, |state| {
            let step = state.runs.get(&run).and_then(|run| run.step(step));
            step.map_or(StepStatus::Removed, |step| step.status)
        })
    }
}

/// Workers and their attempts.
impl Ledger {
    /// Dispatch the first step of a run's queue. `None` if nothing can be dispatched now: the queue
    /// is empty, a cap is reached, the run is paused (perhaps by this call, if it finds that a
    /// budget is used up), the rest of a budget is reserved, or the run has ended;
    /// [`Ledger::state`] shows the cause. Everything that is due, such as expired leases, is
    /// recorded first.
    ///
    /// # Errors
    /// `Rejected` if there is no such run or it has no active plan; as [`Ledger::execute`].
    pub fn dispatch(&self, run: RunId, worker: &str) -> Result<Option<Task>> {
        self.dispatch_if(run, worker, &|_| true)
    }

    /// As [`Ledger::dispatch`], as long as a condition on the state holds.
    #[doc(hidden)]
    pub fn dispatch_if(
        &self,
        run: RunId,
        worker: &str,
        condition: &dyn Fn(&State) -> bool,
    ) -> Result<Option<Task>> {
        dispatch::dispatch_if(&self.engine, run, worker, condition)
    }

    /// Dispatch this step only. Expired leases are recorded first.
    ///
    /// # Errors
    /// `Rejected`: with `Leased`, the worker and the lease if another worker has claimed it;
    /// `NotReady`, `CapReached`, `BudgetReserved`; with `Paused` if a budget is used up, even if
    /// this call is the first to find that.
    pub fn claim(&self, run: RunId, step: StepNumber, worker: &str) -> Result<Task> {
        dispatch::claim(&self.engine, run, step, worker)
    }

    /// Renew the lease of an attempt, and return its new expiry time in microseconds.
    pub fn renew(&self, token: AttemptToken) -> Result<Timestamp> {
        self.execute_and_read(&Command::Renew { token, lease: None }, |state| {
            let attempt = step_of_attempt(state, token).and_then(|step| step.attempt());
            attempt.map_or(0, |attempt| attempt.lease_until)
        })
    }

    /// Record that an attempt will never report.
    pub fn report_lost(
        &self,
        token: AttemptToken,
        cause: LostCause,
        detail: &str,
    ) -> Result<Commit> {
        self.execute(&Command::ReportLost { token, cause, detail: detail.to_owned() })
    }

    /// Record the receipt of an attempt and all of its consequences, and return the step's status.
    ///
    /// # Errors
    /// `Rejected`: with `NoSuchOutput` if it names an output that does not exist, and with
    /// `StaleToken` if the attempt is over. A stale receipt is recorded as rejected, except in two
    /// cases: no attempt has this token, or the state has only a summary of the attempt's run,
    /// since [`crate::plan::ENDED_KEPT`] other runs have ended after it.
    pub fn record_receipt(&self, token: AttemptToken, receipt: Receipt) -> Result<StepStatus> {
        let status = |transaction: &Transaction<'_>| status_of_attempt(transaction.state(), token);
        let (commit, status) =
            self.submit_receipt::<_, Error>(None, token, receipt, None, status).wait_commit()?;
        if commit.rejects_receipt() {
            return Err(Rejection::StaleToken(token).into());
        }
        Ok(status)
    }

    /// Record the receipt of an attempt and dispatch the next step of the same run to the worker, in
    /// one commit, so that a whole step costs one sync. Returns the status of the reported step, and
    /// the task, if one could be dispatched.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`]; after an error nothing was dispatched.
    pub fn record_receipt_and_dispatch(
        &self,
        token: AttemptToken,
        receipt: Receipt,
        worker: &str,
    ) -> Result<(StepStatus, Option<Task>)> {
        dispatch::record_receipt_and_dispatch(&self.engine, token, receipt, worker)
    }

    /// Record verdicts on criteria of a reported step, and return its status.
    pub fn judge(&self, token: AttemptToken, verdicts: Vec<Verdict>) -> Result<StepStatus> {
        let command = Command::Judge { token, verdicts };
        self.execute_and_read(&command, |state| status_of_attempt(state, token))
    }

    /// Record that a worker is about to cause a side effect, under a key for deduplication.
    ///
    /// # Errors
    /// `Rejected`: with `EffectKnown` if it has already happened and must not be repeated;
    /// `StaleToken`.
    pub fn intend_effect(&self, token: AttemptToken, effect: &str, key: &str) -> Result<Commit> {
        let (effect, key) = (effect.to_owned(), key.to_owned());
        self.execute(&Command::IntendEffect { token, effect, key })
    }

    /// Record that the intended side effect happened.
    pub fn commit_effect(&self, token: AttemptToken, key: &str) -> Result<Commit> {
        self.execute(&Command::CommitEffect { token, key: key.to_owned() })
    }

    /// Correct the cost of an attempt that is over. `charged` is its current charge, from its
    /// receipt or the last correction. It is required if the attempt reported, and is compared with
    /// the attempt's records unless they were pruned.
    ///
    /// # Errors
    /// `Rejected`: with `ChargeDiffers`, giving the charge; `NotEstimated` if `charged` is
    /// missing; `StaleToken`. `Corrupt` if a record of the step cannot be read. The write errors of
    /// [`Ledger::execute`].
    pub fn correct_cost(
        &self,
        token: AttemptToken,
        cost: Cost,
        charged: Option<Cost>,
        by: &str,
    ) -> Result<Commit> {
        cost_correction::correct_cost(&self.engine, token, cost, charged, by)
    }
}

/// State and history.
impl Ledger {
    /// The current state, all of it durable. It is an immutable copy. The cost is proportional to
    /// the number of events since the last call; the first call, and a call while several older
    /// copies are in use, clones the whole state.
    ///
    /// After a failed write it is the fold of the durable records and no longer changes.
    ///
    /// # Errors
    /// `Corrupt`, `Fenced` and `Io` if the log must be read again and cannot be; `Fenced` in a
    /// forked process.
    pub fn state(&self) -> Result<Arc<State>> {
        self.engine.state()
    }

    /// Hash of the current state.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn state_hash(&self) -> Result<ContentHash> {
        Ok(state_hash(&*self.state()?))
    }

    /// The last durable record.
    #[must_use]
    pub fn head(&self) -> Ack {
        self.engine.log.last_durable()
    }

    /// The ledger's time, which all decisions use.
    #[doc(hidden)]
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// The state after record `seq`, folded from the newest valid snapshot up to it.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record; `Pruned` if the log cannot be folded up to it.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        self.project(seq)
    }

    /// Any projection after record `seq`.
    ///
    /// # Errors
    /// As [`Ledger::state_at`].
    pub fn project<P: Projection>(&self, seq: u64) -> Result<P> {
        time_travel::project(&self.engine, seq)
    }

    /// Make a durable snapshot of a projection after the last record, and append its snapshot note.
    /// This waits for a snapshot in progress. The newest two of a projection are kept, besides
    /// those that [`Environment::snapshot_every`] describes.
    ///
    /// # Errors
    /// `OutOfRange` before the first record; `Unencodable`, with the projection's error; `DiskFull` and
    /// `Io`. None of these affects the ledger.
    pub fn snapshot<P: Projection>(&self) -> Result<Snapshot> {
        time_travel::make_snapshot::<P>(&self.engine)
    }

    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Corrupt`, with the location, and `Io`.
    pub fn replay(&self, from: u64) -> Result<Vec<RecordedEvent>> {
        let reader = self.engine.reader()?;
        reader.records(from).map(|record| decode_record(&record?)).collect()
    }

    /// A copy of a full run. If the state has only a summary of it because it ended long ago, the
    /// run is folded from the log.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; as [`Ledger::state_at`].
    pub fn run(&self, run: RunId) -> Result<Run> {
        fork::current_run(&self.engine, run)
    }

    /// Every record of a run, with the fields that it changed.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if its first records were pruned; `Corrupt` and
    /// `Io`.
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace::trace(&self.engine.reader()?, run)
    }

    /// The differences between two runs.
    ///
    /// # Errors
    /// As [`Ledger::trace`].
    pub fn compare(&self, one: RunId, other: RunId) -> Result<RunComparison> {
        compare::compare(&self.engine.reader()?, [one, other])
    }

    /// The metrics of a run.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if some of its records were pruned and there is
    /// no snapshot of the metrics; `Corrupt` and `Io`.
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        metrics::metrics_of(&self.engine.reader()?, run)
    }

    /// The value of an output, wherever it is stored.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, for a missing or damaged blob; `Io`.
    pub fn output(&self, output: &Output) -> Result<Json> {
        self.engine.outputs.resolve(output)
    }
}

/// Disk space.
impl Ledger {
    /// Prune: append a durable note, then remove the oldest segments. `archive` is the archive that
    /// has a copy of them, if any.
    ///
    /// # Errors
    /// `Rejected`, with the missing condition: nothing was changed. `Corrupt` if the log, or a
    /// snapshot that would be an anchor, is damaged. `Io` after the note is durable: call it again,
    /// or open the ledger again, to continue.
    pub fn prune(
        &self,
        limit: RetentionLimit,
        archive: Option<ArchiveReference>,
        by: &str,
    ) -> Result<PruneReport> {
        prune::prune(&self.engine, limit, archive, by)
    }

    /// Remove the blobs that no record references, and unfinished blobs.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` if a record cannot be read, since that record might reference
    /// any blob: nothing was removed. `Poisoned` and `Fenced`, since the next writer may append
    /// records, unknown to this writer, that reference a blob. `Io`.
    pub fn collect_blobs(&self) -> Result<CollectedBlobs> {
        self.engine.outputs.collect(&self.engine.log)
    }
}

/// For the server: results that are revealed later.
impl Ledger {
    /// As [`Ledger::transact`], with any error.
    #[doc(hidden)]
    pub fn submit<T, E: From<Error>>(
        &self,
        key: Option<&BatchKey>,
        run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> Submitted<'_, T, E> {
        self.engine.submit(key, run)
    }

    /// Submit a receipt and, if there is a next worker, dispatch the next step of the same run to it
    /// in the same commit. `read` reads the result.
    #[doc(hidden)]
    pub fn submit_receipt<T, E: From<Error>>(
        &self,
        key: Option<&BatchKey>,
        token: AttemptToken,
        receipt: Receipt,
        next_worker: Option<&str>,
        read: impl FnMut(&Transaction<'_>) -> T,
    ) -> Submitted<'_, T, E> {
        dispatch::submit_receipt(&self.engine, key, token, receipt, next_worker, read)
    }

    /// As [`Ledger::tick`], for one batch. The value is whether more is due.
    #[doc(hidden)]
    pub fn submit_tick(&self) -> Submitted<'_, bool> {
        tick::submit(&self.engine)
    }

    /// Read from the state without copying it.
    ///
    /// # Errors
    /// `Corrupt` if a run that was read is invalid.
    #[doc(hidden)]
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Submitted<'_, T> {
        self.engine.read(read)
    }

    /// A result that depends on nothing.
    #[doc(hidden)]
    pub fn submit_nothing(&self) -> Submitted<'_, ()> {
        Submitted::ready(&self.engine, ())
    }

    /// Fail if a write has failed.
    ///
    /// # Errors
    /// The write errors of [`Ledger::execute`].
    #[doc(hidden)]
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }
}

impl Ledger {
    /// Complete a task with the data that is read without the lock.
    #[doc(hidden)]
    pub fn complete_task(&self, task: Task) -> Task {
        super::transaction::task::complete(&self.engine, task)
    }

    /// The log, for tests that append records that no command writes.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn log(&self) -> &crate::log::Log {
        &self.engine.log
    }
}

fn started_run(commit: &Commit) -> RunId {
    let started = commit.events.iter().find_map(|(_, event)| match event {
        Event::RunStarted(started) => Some(started.run),
        _ => None,
    });
    started.expect("an accepted run has an event")
}
