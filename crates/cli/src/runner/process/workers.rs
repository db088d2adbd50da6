//! Process workers: the shell runs the command of each step, or one command for all steps.
//!
//! `format/hand-off.md` defines the input of a worker and the receipts that it may write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use plan_ledger::internals::ledger::PlannedFiles;
use plan_ledger::plan::{CompactPlan, CompactStep, Idempotence, ResolvedOutcome};
use plan_ledger::{AttemptToken, Error, ErrorKind, FailureClass, Receipt, Result, RunId, Task};

use crate::protocol::hand_off::files;
use crate::protocol::hand_off::{HandOff, PlanContext};
use crate::protocol::{StepName, WorkerKind, traceparent};
use crate::runner::check::{Check, CheckAnswer, Subject};
use crate::runner::dead_letter::{dead_letter, lost_before};
use crate::runner::helpers::commands::Helpers;
use crate::runner::own_folder::LedgerPlace;
use crate::runner::process::adopted::AdoptedJob;
use crate::runner::process::job::{Job, JobSpec, Streams, Variables};
use crate::runner::process::limits::{
    EndedBy, JobLimits, STREAM_LENGTH_MAX, StepLimits, WorkerLimits, repeat_of_job, wait_of_job,
};
use crate::runner::process::orphans;
use crate::runner::process::orphans::Orphan;
use crate::runner::process::output::Worked;
use crate::runner::process::receipt as worked;
use crate::runner::process::receipt::{failed_receipt, with_notes};
use crate::runner::process::scratch::{COST, LeftJobs, Scratch};
use crate::runner::progress::Fence;
use crate::runner::waits::backoff::Backoff;
use crate::runner::workers::{LeftAttempt, Report, StartFailure, WorkerNote, Workers};
use plan_ledger_views::{InsideWait, Repeat};

/// Options of process workers.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The ledger's folder, absolute, so that it is valid in every working folder.
    pub ledger: PathBuf,
    pub run: RunId,
    /// The command for steps without a command.
    pub worker: Option<String>,
}

pub struct ProcessWorkers {
    options: ProcessOptions,
    /// The commands for the steps of owners that have one.
    of_owners: BTreeMap<String, String>,
    helpers: Helpers,
    context: PlanContext,
    pub(crate) scratch: Scratch,
    pub(crate) notes: Vec<WorkerNote>,
    jobs: BTreeMap<Key, Running>,
    /// Reports about jobs that could not be started.
    ready: VecDeque<Report>,
    pub(crate) heard: (Sender<WorkerMessage>, Receiver<WorkerMessage>),
    limits: WorkerLimits,
    stream_length_max: u64,
    /// The remains of an earlier runner.
    left: LeftJobs,
    /// The workers of an earlier runner that this one has taken over.
    pub(crate) adopted: BTreeMap<AttemptToken, (AdoptedJob, Known)>,
    /// Whether runners of other machines may host attempts of the same run.
    is_shared: bool,
    /// The folder of the ledger, if the files of the workers are in it.
    place: Option<LedgerPlace>,
    /// Whether this process may no longer host workers.
    fence: Fence,
    /// When to check the limits of running jobs next.
    next_check: Instant,
    /// The folder for checks of criteria, if it is not the folder of this process.
    checked_in: Option<PathBuf>,
}

/// The time between two checks of the limits.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Messages to the thread that waits for reports.
pub(crate) enum WorkerMessage {
    /// A job has ended.
    Ended(Key),
    /// A worker's report is complete: its artifacts were examined. Includes the notes.
    Examined(AttemptToken, Box<Receipt>, Vec<String>),
}

/// A running job.
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) known: Known,
}

/// The data needed when a job ends.
pub(crate) struct Known {
    /// The files that its step is expected to change.
    pub(crate) changes: Vec<String>,
    /// Whether its step is idempotent.
    pub(crate) idempotence: Idempotence,
    /// The delay after it, if it is a worker that fails.
    pub(crate) backoff: Option<Backoff>,
    /// The form of its result, if it is a check.
    pub(crate) answer: CheckAnswer,
}

/// The commands of a worker use the ledger in its folder, even if this process has the addresses of servers.
pub(crate) fn no_servers() -> Option<(&'static str, OsString)> {
    std::env::var_os("LEDGER_SERVER").map(|_| ("LEDGER_SERVER", OsString::new()))
}

/// The remains of an attempt's worker after its runner ended.
#[derive(Debug)]
pub(crate) enum LeftBehind {
    AtWork,
    /// It ended with this receipt.
    Result(Box<Receipt>),
    /// No result.
    Nothing,
}

/// The purpose of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Work(AttemptToken),
    Check(Subject, u32),
}

impl ProcessWorkers {
    /// New workers; no process is started yet.
    #[must_use]
    pub fn new(options: ProcessOptions) -> Self {
        let folder = scratch_folder(&options.ledger, options.run);
        Self::in_ledger(folder, options)
    }

    /// Keep the files of the processes in this folder, which is in the folder of the ledger.
    pub(crate) fn in_ledger(folder: PathBuf, options: ProcessOptions) -> Self {
        let place = LedgerPlace::of(&options.ledger);
        let mut workers = Self::within(folder, options);
        workers.place = Some(place);
        workers
    }

    /// Keep the files of the processes in this folder.
    pub(crate) fn within(folder: PathBuf, options: ProcessOptions) -> Self {
        Self {
            options,
            of_owners: BTreeMap::new(),
            helpers: Helpers::default(),
            context: PlanContext::default(),
            scratch: Scratch::new(folder),
            notes: Vec::new(),
            jobs: BTreeMap::new(),
            ready: VecDeque::new(),
            heard: channel(),
            limits: WorkerLimits::default(),
            stream_length_max: STREAM_LENGTH_MAX,
            left: LeftJobs::default(),
            adopted: BTreeMap::new(),
            is_shared: false,
            place: None,
            fence: Fence::default(),
            next_check: Instant::now(),
            checked_in: None,
        }
    }

    /// Check criteria in this folder.
    #[must_use]
    pub(crate) fn checking_in(mut self, folder: Option<PathBuf>) -> Self {
        self.checked_in = folder;
        self
    }

    /// Use these commands for the steps of owners, unless a step has its own command.
    #[must_use]
    pub fn with_owners(mut self, commands: BTreeMap<String, String>) -> Self {
        self.of_owners = commands;
        self
    }

    /// Add a judge and a planner.
    #[must_use]
    pub fn with_helpers(mut self, helpers: Helpers) -> Self {
        self.helpers = helpers;
        self
    }

    /// Send this much of the plan to every worker.
    #[must_use]
    pub fn with_context(mut self, context: PlanContext) -> Self {
        self.context = context;
        self
    }

    /// Limit the workers in this way.
    #[must_use]
    pub fn with_limits(mut self, limits: WorkerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The ledger is in a store: runners of other machines may host attempts, and once the fence is closed, this
    /// process hosts none.
    #[must_use]
    pub fn shared(mut self, fence: Fence) -> Self {
        self.is_shared = true;
        self.fence = fence;
        self
    }

    /// Finds the remains of an attempt's worker after its runner ended. A worker at work is not
    /// changed.
    pub(crate) fn left_behind(&mut self, attempt: LeftAttempt) -> LeftBehind {
        let token = attempt.token;
        let stem = stem(Key::Work(token));
        if self.scratch.process_at_work(&stem).is_some() {
            return LeftBehind::AtWork;
        }
        let has_ended = self.scratch.record(&stem).is_some()
            || worked::complete_receipt(&self.scratch, &stem).is_some();
        if !has_ended {
            return LeftBehind::Nothing;
        }
        self.take_over(attempt);
        match self.adopted_report() {
            Some(Report::Finished(_, receipt)) => LeftBehind::Result(receipt),
            _ => LeftBehind::Nothing,
        }
    }

    /// Report about a worker of an earlier runner when it has ended.
    fn take_over(&mut self, attempt: LeftAttempt) {
        let LeftAttempt { token, number, idempotence, has_retry, repeat_limit, changes } = attempt;
        let stem = stem(Key::Work(token));
        let own = StepLimits { timeout_seconds: None, repeat_limit, changes: &changes };
        let limits = JobLimits::of_worker(own, self.limits);
        let limits = JobLimits { stream_length_max: self.stream_length_max, ..limits };
        let job = AdoptedJob::new(&stem, limits, &self.scratch);
        let backoff = Some(Backoff::new(number, token, has_retry));
        let known = Known { changes, idempotence, backoff, answer: CheckAnswer::Status };
        self.adopted.insert(token, (job, known));
    }

    fn environment(&self, task: &Task) -> Variables {
        let receipt = self.scratch.path(&stem(Key::Work(task.token.seq)), "receipt");
        [
            ("LEDGER_DIR", self.options.ledger.clone().into()),
            ("LEDGER_RUN", task.run_name.clone().into()),
            ("LEDGER_STEP", task.step.id.clone().into()),
            ("LEDGER_STEP_NUMBER", task.number.to_string().into()),
            ("LEDGER_ATTEMPT", task.attempt.to_string().into()),
            ("LEDGER_TOKEN", task.token.to_string().into()),
            ("LEDGER_IDEMPOTENCY_KEY", task.idempotency_key.clone().into()),
            ("LEDGER_RECEIPT", receipt.into()),
            ("LEDGER_WORKER", self.kind().as_str().into()),
            ("TRACEPARENT", traceparent(&task.ledger, task.run, task.token.seq).into()),
        ]
        .into_iter()
        .chain(no_servers())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn launch(
        &mut self,
        key: Key,
        spec: &JobSpec<'_>,
        known: Known,
    ) -> std::result::Result<Option<std::io::Error>, StartFailure> {
        match Job::start(spec, &self.scratch, WorkerMessage::Ended(key), &self.heard.0) {
            Ok(job) => {
                self.jobs.insert(key, Running { job, known });
                Ok(None)
            }
            Err(not_started) => not_started.or_refusal().map(Some),
        }
    }

    /// Stop jobs that exceed their limits. Returns the time of the next check.
    fn enforce_limits(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.next_check <= now {
            let Self { jobs, adopted, scratch, notes, .. } = self;
            let jobs = jobs.iter_mut().map(|(key, running)| {
                let Key::Work(token) = *key else { return (None, running.job.enforce(scratch)) };
                (Some(token), running.job.enforce(scratch))
            });
            let adopted = adopted.iter_mut();
            let adopted = adopted.map(|(token, (job, _))| (Some(*token), job.enforce(scratch)));
            let noted = jobs.chain(adopted);
            notes.extend(noted.filter_map(|(token, text)| Some(WorkerNote { token, text: text? })));
            self.next_check = now + POLL_INTERVAL;
        }
        (!self.jobs.is_empty() || !self.adopted.is_empty()).then_some(self.next_check)
    }

    /// Leave adopted workers at work, for a runner of their run.
    pub(crate) fn leave_adopted(&mut self) {
        self.adopted.clear();
    }

    /// The stems of the files of adopted workers.
    fn adopted_stems(&self) -> BTreeSet<String> {
        self.adopted.keys().map(|token| stem(Key::Work(*token))).collect()
    }
}

impl Workers for ProcessWorkers {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Process
    }

    fn is_left_at_work(&self, token: AttemptToken) -> bool {
        let stem = stem(Key::Work(token));
        self.scratch.is_at_work(&stem) && worked::complete_receipt(&self.scratch, &stem).is_none()
    }

    fn adopt(&mut self, attempt: LeftAttempt) -> bool {
        let token = attempt.token;
        let is_supervised = self.scratch.process_at_work(&stem(Key::Work(token))).is_some();
        let is_kept = is_supervised && self.is_left_at_work(token);
        if !is_kept || plan_ledger::mutant!(LiveWorkerKilled) {
            return false;
        }
        self.take_over(attempt);
        true
    }

    fn confirm_dead(&mut self) -> Result<()> {
        self.kill_left(&[])
    }

    fn kill_left(&mut self, except: &[AttemptToken]) -> Result<()> {
        let mut of_job: BTreeMap<Option<AttemptToken>, Vec<Orphan>> = BTreeMap::new();
        let mut kept = self.adopted_stems();
        kept.extend(except.iter().map(|token| stem(Key::Work(*token))));
        self.left = self.scratch.confirm_dead(&kept)?;
        for orphan in std::mem::take(&mut self.left.orphans) {
            let token = orphan.stem().as_deref().and_then(token_of);
            of_job.entry(token).or_default().push(orphan);
        }
        for (token, orphans) in of_job {
            let text = orphans::note(&orphans);
            self.notes.extend(text.map(|text| WorkerNote { token, text }));
        }
        Ok(())
    }

    fn may_be_elsewhere(&self, token: AttemptToken) -> bool {
        self.is_shared && !self.left.stems.contains(&stem(Key::Work(token)))
    }

    fn left_attempts(&self) -> Vec<AttemptToken> {
        self.left.stems.iter().filter_map(|stem| token_of(stem)).collect()
    }

    fn left_receipt(
        &mut self,
        token: AttemptToken,
        idempotence: Idempotence,
        changes: &[String],
    ) -> Option<Receipt> {
        let stem = stem(Key::Work(token));
        let record = self.left.records.get(&stem);
        let Worked { mut receipt, mut notes } =
            worked::left(&self.scratch, &stem, record, idempotence)?;
        let places = self.scratch.artifact_places(changes.to_vec());
        notes.extend(files::examine(&mut receipt.artifacts, &places));
        receipt.log_tail = with_notes(receipt.log_tail.into(), &notes).into();
        Some(receipt)
    }

    fn forget_left(&mut self) -> Result<()> {
        self.left = LeftJobs::default();
        self.scratch.forget_all(&self.adopted_stems())
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        if self.fence.is_closed() {
            let message = "another process may hold the ledger, so no worker starts";
            return Err(Error::new(ErrorKind::Fenced, message).into());
        }
        let key = Key::Work(task.token.seq);
        let of_owner = task.step.owner.as_ref().and_then(|owner| self.of_owners.get(owner));
        let command = task.step.command.as_ref().or(of_owner).or(self.options.worker.as_ref());
        let Some(command) = command else {
            let message = "the step has no command and there is no worker for it".to_owned();
            let receipt = Box::new(failed_receipt(FailureClass::Deterministic, message));
            self.ready.push_back(Report::Finished(task.token.seq, receipt));
            return Ok(());
        };
        if let Some(receipt) = dead_letter(lost_before(task)) {
            self.ready.push_back(Report::Finished(task.token.seq, Box::new(receipt)));
            return Ok(());
        }
        let hand_off = HandOff::with_context(task, self.context).to_json();
        let changes = task.step.changes.to_vec();
        let own = StepLimits {
            timeout_seconds: task.step.timeout_seconds,
            repeat_limit: task.step.repeat_limit,
            changes: &changes,
        };
        let limits = JobLimits::of_worker(own, self.limits);
        let spec = JobSpec {
            stem: stem(key),
            name: StepName::of_task(task).to_string(),
            command: &command.clone(),
            folder: None,
            environment: self.environment(task),
            input: hand_off.as_bytes(),
            limits: JobLimits { stream_length_max: self.stream_length_max, ..limits },
            streams: Streams::Separate,
        };
        let idempotence = task.step.idempotent.unwrap_or_default();
        let backoff = Backoff::new(task.attempt, task.token.seq, task.step.retry.is_some());
        let (backoff, answer) = (Some(backoff), CheckAnswer::Status);
        let known = Known { changes, idempotence, backoff, answer };
        if let Some(refusal) = self.launch(key, &spec, known)? {
            self.ready.push_back(self.refused(key, CheckAnswer::Status, &refusal));
        }
        Ok(())
    }

    fn stale_files(&self, task: &Task) -> Vec<String> {
        let files = files::changed_files(&task.step.changes, &task.planned_files);
        let others = task.plan.steps().filter(|step| step.id() != task.step.id);
        let others: Vec<String> =
            others.flat_map(CompactStep::changes).map(str::to_owned).collect();
        // An earlier attempt may have changed them.
        if task.attempt > 1 { Vec::new() } else { files::stale_files(&files, &others) }
    }

    fn expect_in_place(&self) -> Result<()> {
        self.place.as_ref().map_or(Ok(()), LedgerPlace::check)
    }

    fn shared_folder(&self) -> Option<&std::path::Path> {
        Some(&self.options.ledger)
    }

    fn check(&mut self, check: &Check) -> Result<()> {
        let key = Key::Check(check.subject, check.criterion);
        let variables = check.environment.iter().map(|(name, value)| (name.clone(), value.into()));
        let own = ("LEDGER_DIR".to_owned(), self.options.ledger.clone().into());
        let is_helper = check.answer != CheckAnswer::Status;
        let cost = || ("LEDGER_COST".to_owned(), self.scratch.path(&stem(key), COST).into());
        let environment = variables.chain([own]).chain(is_helper.then(cost)).collect();
        let folder = self.checked_in.clone();
        let spec = JobSpec {
            stem: stem(key),
            name: format!("criterion {} of {:?}", check.criterion, check.subject),
            command: &check.command,
            folder: folder.as_deref(),
            environment,
            input: check.output.as_str().as_bytes(),
            limits: JobLimits {
                stream_length_max: self.stream_length_max,
                ..JobLimits::of_check(check.timeout_seconds)
            },
            streams: match check.answer {
                CheckAnswer::Status => Streams::Together,
                CheckAnswer::Verdict | CheckAnswer::Reply => Streams::Separate,
            },
        };
        // A check is idempotent.
        let idempotence = Idempotence::Yes;
        let (changes, answer) = (Vec::new(), check.answer);
        let known = Known { changes, idempotence, backoff: None, answer };
        let launched = self.launch(key, &spec, known);
        if let Some(refusal) = launched.map_err(StartFailure::into_error)? {
            self.ready.push_back(self.refused(key, check.answer, &refusal));
        }
        Ok(())
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        if let Some(report) = self.ready.pop_front() {
            return Some(report);
        }
        let give_up = Instant::now().checked_add(wait)?;
        loop {
            let next_check = self.enforce_limits();
            if let Some(report) = self.adopted_report() {
                return Some(report);
            }
            let until = next_check.map_or(give_up, |next_check| next_check.min(give_up));
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.1.recv_timeout(left) {
                Ok(WorkerMessage::Ended(key)) => {
                    // Each job sends its key once, so the job exists.
                    let Some(mut running) = self.jobs.remove(&key) else { continue };
                    if self.fence.is_closed() {
                        // Its process was ended, which is not a result.
                        running.job.end(EndedBy::Stop);
                    }
                    if self.expect_in_place().is_err() {
                        running.job.end_leftovers(&self.scratch);
                        // How it ended is in its record, which is in the folder.
                        let _ = running.job.reap(&self.scratch);
                        return Some(moved(key));
                    }
                    let report = self.report(key, running);
                    // A file that was read after a move is not a result.
                    if report.is_some() {
                        return report.map(|it| self.expect_in_place().map_or(moved(key), |()| it));
                    }
                }
                Ok(WorkerMessage::Examined(token, receipt, notes)) => {
                    if self.expect_in_place().is_err() {
                        return Some(Report::Moved(token));
                    }
                    return Some(self.finished(token, receipt, &notes));
                }
                Err(_) if Instant::now() >= give_up => return None,
                Err(_) => {}
            }
        }
    }

    fn settled(&mut self, token: AttemptToken) {
        self.scratch.forget(&stem(Key::Work(token)));
    }

    fn stop_all(&mut self) {
        for running in self.jobs.values_mut() {
            running.job.end(EndedBy::Stop);
        }
        for (job, _) in self.adopted.values_mut() {
            job.end(EndedBy::Stop, &self.scratch);
        }
    }

    fn stop(&mut self, token: AttemptToken) {
        if let Some(running) = self.jobs.get_mut(&Key::Work(token)) {
            running.job.end(EndedBy::Over);
        }
        if let Some((job, _)) = self.adopted.get_mut(&token) {
            job.end(EndedBy::Over, &self.scratch);
        }
    }

    fn helpers(&self) -> Helpers {
        self.helpers.clone()
    }

    fn planned_files(&self, version: u32, plan: &CompactPlan) -> Option<PlannedFiles> {
        files::planned_files(version, plan)
    }

    fn notes(&mut self) -> Vec<WorkerNote> {
        std::mem::take(&mut self.notes)
    }

    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        None
    }
}

impl Drop for ProcessWorkers {
    /// Kill the running jobs, since nothing receives their reports.
    fn drop(&mut self) {
        for running in std::mem::take(&mut self.jobs).into_values() {
            running.job.end_now(&self.scratch);
        }
        self.adopted.values().for_each(|(job, _)| job.kill(&self.scratch));
        self.scratch.tidy_up();
    }
}

impl std::fmt::Debug for ProcessWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessWorkers")
            .field("options", &self.options)
            .field("running", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

/// The report about a job that ended after its files were moved.
fn moved(key: Key) -> Report {
    match key {
        Key::Work(token) => Report::Moved(token),
        Key::Check(subject, _) => Report::MovedCheck(subject),
    }
}

/// The separator between the subject of a check and the index of its criterion in the stem of its files.
pub(crate) const CRITERION: &str = "-criterion-";

/// The subject in the stem of the files of a check of the plan's criteria.
pub(crate) const PLAN: &str = "plan";

/// The stem of a job's files.
pub(crate) fn stem(key: Key) -> String {
    match key {
        Key::Work(token) => token.to_string(),
        Key::Check(Subject::Attempt(token), criterion) => format!("{token}{CRITERION}{criterion}"),
        Key::Check(Subject::Probe(token), _) => format!("{token}-probe"),
        Key::Check(Subject::Plan(_), criterion) => format!("{PLAN}{CRITERION}{criterion}"),
        Key::Check(Subject::Replan(_), _) => "planner".to_owned(),
        Key::Check(Subject::Decision(token), _) => format!("decider-{token}"),
    }
}

/// The attempt of files with this stem; `None` for a check.
fn token_of(stem: &str) -> Option<AttemptToken> {
    stem.parse().ok().map(AttemptToken)
}

/// Kill the workers, checks and helpers of a run, and the processes that they started. Call this from a thread that
/// does not drive the run, after its [`Fence`] was closed, or if no thread drives it. Returns a note about the killed
/// processes.
pub(crate) fn end_workers(ledger: &Path, run: RunId) -> Option<String> {
    orphans::note(&Scratch::new(scratch_folder(ledger, run)).end_all())
}

/// Kill the workers, checks and helpers of all runs of a ledger, and the processes that they started, as the loss of
/// the machine would.
pub(crate) fn end_all_workers(ledger: &Path) {
    let Ok(work) = ledger.join(WORK).canonicalize() else { return };
    let Ok(entries) = std::fs::read_dir(work) else { return };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_of_run = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OF_RUN))
    };
    for folder in folders.filter(is_of_run) {
        // One that cannot be killed is found by the next runner.
        let _ = Scratch::new(folder).end_all();
    }
}

/// The process of an attempt's worker, if that is still at work on this machine.
pub(crate) fn worker_at_work(ledger: &Path, run: RunId, token: AttemptToken) -> Option<u32> {
    let scratch = Scratch::new(scratch_folder(ledger, run));
    scratch.process_at_work(&stem(Key::Work(token)))
}

/// Whether the worker of an attempt is at work on this machine, and its supervisor is gone: no runner can take it over.
pub(crate) fn is_at_work_alone(ledger: &Path, run: RunId, token: AttemptToken) -> bool {
    Scratch::new(scratch_folder(ledger, run)).is_at_work_alone(&stem(Key::Work(token)))
}

/// The repetition of an attempt's worker, if its files are in that folder.
pub(crate) fn repeated_by(folder: PathBuf, token: AttemptToken) -> Option<Repeat> {
    repeat_of_job(&Scratch::new(folder), &stem(Key::Work(token)))
}

/// The wait of an attempt's worker in its process, for the end of a usage limit. `is_limited` states whether the owner
/// is at one.
pub(crate) fn inside_wait(
    ledger: &Path,
    run: RunId,
    token: AttemptToken,
    is_limited: bool,
) -> Option<InsideWait> {
    let scratch = Scratch::new(scratch_folder(ledger, run));
    let stem = stem(Key::Work(token));
    let written = ["out", "err"].map(|suffix| scratch.path(&stem, suffix));
    wait_of_job(&written, is_limited).filter(|_| scratch.record(&stem).is_none())
}

/// The folder of all workers' files, in that of the ledger.
const WORK: &str = "work";

/// The start of the name of the folder of a run's workers.
const OF_RUN: &str = "run-";

/// The folder of a process runner's files, by ledger and run.
#[must_use]
pub fn scratch_folder(ledger: &Path, run: RunId) -> PathBuf {
    ledger.join(WORK).join(format!("{OF_RUN}{run}"))
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
