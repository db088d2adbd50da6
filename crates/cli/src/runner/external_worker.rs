//! External workers: `ledger work` runs one claimed attempt as a process, and the commands that
//! judge it.
//!
//! Invariant: the process and all its descendants are killed before the functions here return. If
//! the process left no receipt, the ledger's rules decide about the effects it may have had.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use plan_ledger::plan::{Idempotence, Token};
use plan_ledger::{
    AttemptToken, Error, ErrorKind, LedgerView, Output, Receipt, Result, Ruling, Run, RunId,
};

use crate::protocol::hand_off::files;
use crate::runner::check::{Check, Checked, Criteria};
use crate::runner::check_lock::{CheckLock, left_note};
use crate::runner::dead_letter::{dead_letter, lost_before_task};
use crate::runner::drive::checks::{Judging, output_of};
use crate::runner::process::exit_record::CommandEnd;
use crate::runner::process::job::{Job, JobSpec, Streams, Variables};
use crate::runner::process::limits::{EndedBy, JobLimits, StepLimits, WorkerLimits};
use crate::runner::process::orphans;
use crate::runner::process::output::Worked;
use crate::runner::process::receipt as worked;
use crate::runner::process::receipt::WorkerEnd;
use crate::runner::process::report::repeated_note;
use crate::runner::process::scratch::Scratch;
use crate::runner::process::workers::{
    Key, ProcessOptions, ProcessWorkers, no_servers, scratch_folder, stem,
};
use crate::runner::waits::backoff::Backoff;
use crate::runner::workers::{Report, StartFailure, Workers as _};

/// How often a running process checks for a stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An attempt and the command that executes it.
#[derive(Debug)]
pub(crate) struct ExternalWork<'a> {
    /// The ledger's folder, absolute.
    pub(crate) ledger: &'a Path,
    /// The folder of the process's temporary files.
    pub(crate) folder: PathBuf,
    /// The hand-off of the dispatched attempt.
    pub(crate) task: &'a Value,
    /// The shell command.
    pub(crate) command: &'a str,
    /// Limits beyond those of the plan.
    pub(crate) limits: WorkerLimits,
    /// The servers that have the ledger, for the commands of the process, if no folder has it.
    pub(crate) servers: Option<String>,
}

/// The caller's instruction for a running process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Keep running.
    Continue,
    /// Ask the process to end, and end it after its grace period.
    Stop,
    /// End the process at once: its attempt is over.
    End,
}

/// How the process ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It exited or exceeded a limit, with this receipt.
    Returned(Box<Receipt>),
    /// It was stopped by request.
    Stopped,
}

/// The first command among the criteria that have no verdict yet.
fn first_check(run: &Run, criteria: Criteria) -> Option<Check> {
    let judging = Judging::default();
    match criteria {
        Criteria::OfStep(number) => judging.of_step(run, number),
        Criteria::OfPlan => judging.of_plan(run),
    }
}

/// Whether a command is among the criteria that have no verdict yet.
pub(crate) fn has_check(run: &Run, criteria: Criteria) -> bool {
    first_check(run, criteria).is_some()
}

/// The folders for the check of a criterion.
#[derive(Debug)]
pub(crate) struct CheckPlaces<'a> {
    /// The ledger's folder, absolute.
    pub(crate) ledger: &'a Path,
    /// The lock of the criteria; the files of the check are beside it.
    pub(crate) lock: &'a CheckLock,
    /// The working folder of the command, if it is not that of this process.
    pub(crate) working: Option<PathBuf>,
}

/// Run the first command among the criteria that have no verdict yet, as a runner does. Returns
/// `None` if there is none. `order` is polled ten times a second; a check that it stops gives no
/// verdict. `noted` gets the processes of the same check that a dead runner left running; they were
/// killed.
///
/// # Errors
/// The ledger cannot be read, this machine has no room for the files of a process, or a process of
/// a dead runner cannot be ended.
pub(crate) fn check_external(
    view: &LedgerView,
    run: &Run,
    criteria: Criteria,
    places: CheckPlaces<'_>,
    mut order: impl FnMut() -> Order,
    noted: impl FnOnce(&str),
) -> Result<Option<Checked>> {
    let Some(mut check) = first_check(run, criteria) else { return Ok(None) };
    if let Criteria::OfStep(number) = criteria
        && let Some(attempt) = run.step(number).and_then(|step| step.attempt())
        && let Some(output @ Output::Blob(_)) = output_of(attempt)
    {
        check.output = match view.output(output) {
            Ok(output) => output,
            // Missing output fails the criterion.
            Err(error) if error.is_corrupt() => {
                let Check { subject, criterion, .. } = check;
                let (ruling, evidence) = (Some(Ruling::Fail), error.to_string());
                return Ok(Some(Checked::free(subject, criterion, ruling, evidence)));
            }
            Err(error) => return Err(error),
        };
    }
    let CheckPlaces { ledger, lock, working } = places;
    if let Some(note) = end_check_of_runner(ledger, run.id, &check)? {
        noted(&note);
    }
    let options = ProcessOptions { ledger: ledger.to_owned(), run: run.id, worker: None };
    let mut workers = ProcessWorkers::in_ledger(lock.folder(), options).checking_in(working);
    workers.check(&check)?;
    loop {
        match workers.next(POLL_INTERVAL) {
            Some(Report::Checked(checked)) => return Ok(Some(checked)),
            Some(Report::MovedCheck(_)) => {
                workers.expect_in_place()?;
                return Ok(None);
            }
            _ => {}
        }
        if order() != Order::Continue {
            workers.stop_all();
        }
    }
}

/// End a check that a dead runner left: a living one has the lock of the criteria. Returns a note for people.
fn end_check_of_runner(ledger: &Path, run: RunId, check: &Check) -> Result<Option<String>> {
    let scratch = Scratch::new(scratch_folder(ledger, run));
    let stem = stem(Key::Check(check.subject, check.criterion));
    if !scratch.path(&stem, "err").exists() {
        return Ok(None);
    }
    let (orphans, _) = scratch.confirm_job_dead(&stem)?;
    scratch.forget(&stem);
    Ok(left_note(&orphans))
}

/// Delete the files of an attempt, once its end is durable.
pub(crate) fn forget_external(folder: &Path, token: AttemptToken) {
    Scratch::new(folder.to_owned()).forget(&token.to_string());
}

/// End the processes that the worker of a dead process left running in that folder, and read its result.
///
/// # Errors
/// A process is still alive, or the files cannot be read.
pub(crate) fn left_result(ledger: &Path, folder: &Path, task: &Value) -> Result<LeftResult> {
    let limits = WorkerLimits::default();
    let folder = folder.to_owned();
    let work = ExternalWork { ledger, folder, task, command: "", limits, servers: None };
    let (scratch, stem) = (work.scratch(), work.attempt().to_string());
    let (orphans, record) = scratch.confirm_job_dead(&stem)?;
    let note = orphans::note(&orphans);
    let found = worked::left(&scratch, &stem, record.as_ref(), work.idempotence());
    let receipt = found.map(|Worked { mut receipt, mut notes }| {
        notes.extend(note.clone());
        let places = scratch.artifact_places(work.changes());
        notes.extend(files::examine(&mut receipt.artifacts, &places));
        receipt.log_tail = worked::with_notes(receipt.log_tail.into(), &notes).into();
        receipt
    });
    Ok(LeftResult { receipt, note })
}

/// The remains of the worker of a dead process.
#[derive(Debug, Default)]
pub(crate) struct LeftResult {
    /// Its result, if it had one.
    pub(crate) receipt: Option<Receipt>,
    /// The processes that were left running, and were killed.
    pub(crate) note: Option<String>,
}

impl ExternalWork<'_> {
    fn scratch(&self) -> Scratch {
        let outputs = self.ledger.join("work").join("outputs");
        Scratch::new(self.folder.clone()).with_outputs(outputs)
    }

    /// Run the command. Its files are kept until [`forget_external`]. `order` is polled ten times a second; `noted`
    /// gets observations about the command for people.
    ///
    /// # Errors
    /// This machine has no room for its files, or cannot watch it.
    pub(crate) fn run(
        &self,
        mut order: impl FnMut() -> Order,
        noted: impl Fn(&str),
    ) -> std::result::Result<End, StartFailure> {
        let scratch = self.scratch();
        let stem = self.attempt().to_string();
        let input = format!("{}\n", self.hand_off());
        let changes = self.changes();
        let number = |name: &str| {
            let found = self.task.get("step").and_then(|step| step.get(name)?.as_u64());
            found.and_then(|number| u32::try_from(number).ok())
        };
        let own = StepLimits {
            timeout_seconds: number("timeout_seconds"),
            repeat_limit: number("repeat_limit"),
            changes: &changes,
        };
        let spec = JobSpec {
            stem: stem.clone(),
            name: format!("step {} ({})", self.text("number"), self.step()),
            command: self.command,
            folder: None,
            environment: self.environment(scratch.path(&stem, "receipt")),
            input: input.as_bytes(),
            limits: JobLimits::of_worker(own, self.limits),
            streams: Streams::Separate,
        };
        if let Some(receipt) = dead_letter(lost_before_task(self.task)) {
            return Ok(End::Returned(Box::new(receipt)));
        }
        let (sender, ended) = channel();
        let mut job = match Job::start(&spec, &scratch, (), &sender) {
            Ok(job) => job,
            Err(not_started) => {
                let receipt = worked::not_started(&not_started.or_refusal()?);
                return Ok(End::Returned(Box::new(receipt)));
            }
        };
        while ended.recv_timeout(POLL_INTERVAL).is_err() {
            match order() {
                Order::Continue => {}
                Order::Stop => job.end(EndedBy::Stop),
                Order::End => job.end(EndedBy::Over),
            }
            if let Some(note) = job.enforce(&scratch) {
                noted(&note);
            }
        }
        self.end(&scratch, &stem, job, order).map_err(StartFailure::AfterStart)
    }

    fn end(
        &self,
        scratch: &Scratch,
        stem: &str,
        job: Job,
        mut order: impl FnMut() -> Order,
    ) -> Result<End> {
        let repeated = job.repeated();
        let mut notes: Vec<String> =
            orphans::note(&job.end_leftovers(scratch)).into_iter().collect();
        let wait_thread = job.wait_thread();
        let ended = job.reap(scratch).map_err(|error| {
            let message = format!("the worker's exit status is not known: {error}");
            Error::new(ErrorKind::Io, message)
        })?;
        let status = match ended.end {
            CommandEnd::Ended(status) => status,
            CommandEnd::NotStarted(errno) => {
                let refusal = std::io::Error::from_raw_os_error(errno);
                return Ok(End::Returned(Box::new(worked::not_started(&refusal))));
            }
        };
        let has_receipt = || worked::complete_receipt(scratch, stem).is_some();
        let ended_by = ended.ended_by(status, has_receipt);
        if ended_by.is_some_and(EndedBy::is_request) {
            return Ok(End::Stopped);
        }
        notes.extend(repeated_note(repeated.as_ref(), ended_by));
        let (is_disk_full, duration) = (ended.is_disk_full, ended.duration);
        let ending = WorkerEnd { status, ended_by, is_disk_full };
        let Worked { mut receipt, notes: of_result } =
            worked::result(scratch, stem, ending, self.idempotence());
        notes.extend(of_result);
        self.backoff().add_to(&mut receipt.outcome);
        let mut artifacts = std::mem::take(&mut receipt.artifacts);
        let places = scratch.artifact_places(self.changes());
        let (sender, examined) = channel();
        wait_thread.run(move || {
            let noticed = files::examine(&mut artifacts, &places);
            let _ = sender.send((artifacts, noticed));
        });
        // Hashing large artifacts takes long, and the lease must be renewed in the meantime.
        let (artifacts, noticed) = loop {
            match examined.recv_timeout(POLL_INTERVAL) {
                Ok(examined) => break examined,
                Err(RecvTimeoutError::Timeout) => _ = order(),
                Err(RecvTimeoutError::Disconnected) => {
                    break (Vec::new(), vec!["its artifacts could not be examined".to_owned()]);
                }
            }
        };
        receipt.artifacts = artifacts;
        notes.extend(noticed);
        let log_tail = worked::with_notes(receipt.log_tail.into(), &notes).into();
        Ok(End::Returned(Box::new(Receipt { duration, log_tail, ..receipt })))
    }

    /// The files that the step is expected to change.
    fn changes(&self) -> Vec<String> {
        let entries = self.task.pointer("/step/changes").cloned();
        entries.and_then(|entries| serde_json::from_value(entries).ok()).unwrap_or_default()
    }

    fn idempotence(&self) -> Idempotence {
        let word = self.task.pointer("/step/idempotent").cloned();
        word.and_then(|word| serde_json::from_value(word).ok()).unwrap_or_default()
    }

    /// The delay after the attempt, if it fails.
    fn backoff(&self) -> Backoff {
        let number = |name: &str| self.task.get(name).and_then(Value::as_u64).unwrap_or(1);
        let attempt = u32::try_from(number("attempt")).unwrap_or(u32::MAX);
        let is_planned = self.task.pointer("/step/retry").is_some();
        Backoff::new(attempt, self.attempt(), is_planned)
    }

    /// The number of the token.
    fn attempt(&self) -> AttemptToken {
        let token = self.text("token").parse::<Token>();
        token.map_or(AttemptToken(0), AttemptToken::from)
    }

    fn text(&self, member: &str) -> String {
        match self.task.get(member) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    fn step(&self) -> &str {
        self.task.pointer("/step/id").and_then(Value::as_str).unwrap_or_default()
    }

    /// The worker's input: the task without the fields that only its claimer needs.
    fn hand_off(&self) -> Value {
        let mut value = self.task.clone();
        if let Some(members) = value.as_object_mut() {
            for own in ["type", "worker", "lease_until_micros"] {
                members.remove(own);
            }
        }
        value
    }

    fn environment(&self, receipt: PathBuf) -> Variables {
        let servers =
            self.servers.clone().map(|servers| ("LEDGER_SERVER", OsString::from(servers)));
        let servers = servers.or_else(no_servers);
        let own: [(&str, OsString); 10] = [
            ("LEDGER_DIR", self.ledger.into()),
            ("LEDGER_RUN", self.text("run").into()),
            ("LEDGER_STEP", self.step().into()),
            ("LEDGER_STEP_NUMBER", self.text("number").into()),
            ("LEDGER_ATTEMPT", self.text("attempt").into()),
            ("LEDGER_TOKEN", self.text("token").into()),
            ("LEDGER_IDEMPOTENCY_KEY", self.text("idempotency_key").into()),
            ("LEDGER_RECEIPT", receipt.into()),
            ("LEDGER_WORKER", self.text("worker").into()),
            ("TRACEPARENT", self.text("traceparent").into()),
        ];
        own.into_iter().chain(servers).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
