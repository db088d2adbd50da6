//! Workers that are processes: a step's own command, or one command for all, run by the shell.
//!
//! What a worker is told and what it may answer is `format/hand-off.md`.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::ledger::Task;
use crate::plan::{AttemptToken, FailureClass, Finding, Micros, Outcome, Receipt, Ruling, RunId};

use super::job::{EndedBy, Job, JobSpec, Streams};
use super::left::Left;
use super::output::{failed, tail};
use super::scratch::Scratch;
use super::scratch_folder;
use super::{
    Check, Checked, HandOff, Report, StartFailure, StepName, Subject, WorkerKind, Workers,
};

/// How much of what a check printed goes into its evidence, in bytes.
const EVIDENCE_LENGTH_MAX: u64 = 1 << 10;

/// Where and how processes work.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The ledger's folder, absolute, so that it names the same folder from everywhere.
    pub ledger: PathBuf,
    /// The run.
    pub run: RunId,
    /// The command for steps that have none of their own.
    pub worker: Option<String>,
}

/// Workers that are processes.
pub struct ProcessWorkers {
    options: ProcessOptions,
    scratch: Scratch,
    jobs: BTreeMap<Key, Job>,
    /// Reports of what could not be started.
    ready: VecDeque<Report>,
    ended: (Sender<Key>, Receiver<Key>),
}

/// What a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Work(AttemptToken),
    Check(Subject, u32),
}

impl ProcessWorkers {
    /// No process is started yet.
    #[must_use]
    pub fn new(options: ProcessOptions) -> Self {
        let scratch = Scratch::new(scratch_folder(&options.ledger, options.run));
        Self { options, scratch, jobs: BTreeMap::new(), ready: VecDeque::new(), ended: channel() }
    }

    fn environment(&self, task: &Task) -> Vec<(String, String)> {
        let receipt = self.scratch.path(&stem(Key::Work(task.token)), "receipt");
        [
            ("LEDGER_DIR", self.options.ledger.display().to_string()),
            ("LEDGER_RUN", task.run_name.clone()),
            ("LEDGER_STEP", task.step.id.clone()),
            ("LEDGER_STEP_NUMBER", task.number.to_string()),
            ("LEDGER_ATTEMPT", task.attempt.to_string()),
            ("LEDGER_TOKEN", task.token.to_string()),
            ("LEDGER_IDEMPOTENCY_KEY", task.idempotency_key.clone()),
            ("LEDGER_RECEIPT", receipt.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn launch(
        &mut self,
        key: Key,
        spec: &JobSpec<'_>,
    ) -> std::result::Result<Option<std::io::Error>, StartFailure> {
        match Job::start(spec, &self.scratch, key, &self.ended.0) {
            Ok(job) => {
                self.jobs.insert(key, job);
                Ok(None)
            }
            Err(not_started) => not_started.or_refusal().map(Some),
        }
    }

    /// End what takes too long; when the next one will.
    fn enforce_timeouts(&mut self) -> Option<Instant> {
        let now = Instant::now();
        for job in self.jobs.values_mut() {
            if job.deadline().is_some_and(|deadline| deadline <= now) {
                job.end(EndedBy::Timeout);
            }
        }
        self.jobs.values().filter_map(Job::deadline).min()
    }

    fn report(&self, key: Key, job: Job) -> Report {
        let duration = micros(job.started.elapsed());
        let timeout = job.timeout_seconds.unwrap_or(0);
        let stem = job.stem.clone();
        let (status, ended_by) = job.reap();
        let status = match status {
            Ok(status) => status,
            Err(error) => return self.lost_sight(key, &error),
        };
        // A job that ended by itself just before it would have been ended counts as it ended.
        let ended_by = ended_by.filter(|_| status.code().is_none());
        match key {
            Key::Work(token) => match ended_by {
                Some(EndedBy::Stop) => Report::Stopped(token),
                by => {
                    let receipt = self.receipt(&stem, status, by.map(|_| timeout));
                    Report::Finished(token, Box::new(Receipt { duration, ..receipt }))
                }
            },
            Key::Check(subject, criterion) => {
                let printed = tail(&self.scratch.path(&stem, "err"), EVIDENCE_LENGTH_MAX);
                self.scratch.forget(&stem);
                let how = match (ended_by, status.code()) {
                    (Some(EndedBy::Timeout), _) => format!("timed out after {timeout} s"),
                    (_, Some(code)) => format!("exit status {code}"),
                    (_, None) => status.to_string(),
                };
                let ruling = match (subject, status.code()) {
                    (_, Some(0)) => Some(Ruling::Pass),
                    // A probe that says neither cannot tell.
                    (Subject::Doubt(_), Some(1)) => Some(Ruling::Fail),
                    (Subject::Doubt(_), _) => None,
                    _ => Some(Ruling::Fail),
                };
                let stopped = ended_by == Some(EndedBy::Stop);
                Report::Checked(Checked {
                    subject,
                    criterion,
                    ruling: ruling.filter(|_| !stopped),
                    evidence: format!("{how}\n{printed}").trim_end().to_owned(),
                })
            }
        }
    }

    fn receipt(
        &self,
        stem: &str,
        status: std::process::ExitStatus,
        timed_out: Option<u32>,
    ) -> Receipt {
        let path = |suffix| self.scratch.path(stem, suffix);
        let left = Left { output: path("out"), errors: path("err"), receipt: path("receipt") };
        left.receipt(status, timed_out)
    }

    /// The operating system does not say how a job ended. That never happens unless somebody
    /// else reaps this process's children.
    fn lost_sight(&self, key: Key, error: &std::io::Error) -> Report {
        let message = format!("its exit status is not known: {error}");
        match key {
            Key::Work(token) => {
                Report::Finished(token, Box::new(failed_receipt(FailureClass::Unknown, message)))
            }
            Key::Check(subject, criterion) => {
                self.scratch.forget(&stem(key));
                let ruling = unheard(subject);
                Report::Checked(Checked { subject, criterion, ruling, evidence: message })
            }
        }
    }
}

impl Workers for ProcessWorkers {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Process
    }

    fn confirm_dead(&mut self) -> Result<()> {
        self.scratch.confirm_dead()
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        let key = Key::Work(task.token);
        let Some(command) = task.step.command.as_ref().or(self.options.worker.as_ref()) else {
            let message = "the step has no command and there is no worker for it".to_owned();
            let receipt = Box::new(failed_receipt(FailureClass::Deterministic, message));
            self.ready.push_back(Report::Finished(task.token, receipt));
            return Ok(());
        };
        let hand_off = HandOff::new(task).to_json();
        let spec = JobSpec {
            stem: stem(key),
            name: StepName::of_task(task).to_string(),
            command: &command.clone(),
            environment: self.environment(task),
            input: hand_off.as_bytes(),
            timeout_seconds: task.step.timeout_seconds,
            streams: Streams::Separate,
        };
        if let Some(refusal) = self.launch(key, &spec)? {
            let receipt = failed_receipt(class_of(&refusal), format!("cannot start: {refusal}"));
            self.ready.push_back(Report::Finished(task.token, Box::new(receipt)));
        }
        Ok(())
    }

    fn check(&mut self, check: &Check) -> Result<()> {
        let key = Key::Check(check.subject, check.criterion);
        let mut environment = check.environment.clone();
        environment.push(("LEDGER_DIR".to_owned(), self.options.ledger.display().to_string()));
        let spec = JobSpec {
            stem: stem(key),
            name: format!("criterion {} of {:?}", check.criterion, check.subject),
            command: &check.command,
            environment,
            input: check.output.as_str().as_bytes(),
            timeout_seconds: check.timeout_seconds,
            streams: Streams::Together,
        };
        if let Some(refusal) = self.launch(key, &spec).map_err(StartFailure::into_error)? {
            let Check { subject, criterion, .. } = *check;
            let evidence = format!("cannot start: {refusal}");
            let ruling = unheard(subject);
            self.ready.push_back(Report::Checked(Checked { subject, criterion, ruling, evidence }));
        }
        Ok(())
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        if let Some(report) = self.ready.pop_front() {
            return Some(report);
        }
        let give_up = Instant::now().checked_add(wait)?;
        loop {
            let timeout = self.enforce_timeouts();
            let until = timeout.map_or(give_up, |timeout| timeout.min(give_up));
            let left = until.saturating_duration_since(Instant::now());
            match self.ended.1.recv_timeout(left) {
                Ok(key) => {
                    // Each job sends its key once, so it is there.
                    let Some(job) = self.jobs.remove(&key) else { continue };
                    return Some(self.report(key, job));
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
        for job in self.jobs.values_mut() {
            job.end(EndedBy::Stop);
        }
    }

    fn resolve_doubt(&self) -> Option<Finding> {
        None
    }
}

impl Drop for ProcessWorkers {
    /// Nobody is left to hear of what still runs.
    fn drop(&mut self) {
        std::mem::take(&mut self.jobs).into_values().for_each(Job::end_now);
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

/// The name of a job's files.
fn stem(key: Key) -> String {
    match key {
        Key::Work(token) => token.to_string(),
        Key::Check(Subject::Attempt(token), criterion) => format!("{token}-criterion-{criterion}"),
        Key::Check(Subject::Doubt(token), _) => format!("{token}-probe"),
        Key::Check(Subject::Plan(_), criterion) => format!("plan-criterion-{criterion}"),
    }
}

/// What a check comes to that did not run: a criterion that nobody saw hold does not, and a probe
/// cannot tell.
fn unheard(subject: Subject) -> Option<Ruling> {
    match subject {
        Subject::Doubt(_) => None,
        Subject::Attempt(_) | Subject::Plan(_) => Some(Ruling::Fail),
    }
}

fn failed_receipt(class: FailureClass, message: String) -> Receipt {
    let outcome: Outcome = failed(class, message);
    Receipt { outcome, ..Receipt::default() }
}

/// Too many processes or too little memory pass; a command that cannot be started stays so.
fn class_of(refusal: &std::io::Error) -> FailureClass {
    match refusal.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory => FailureClass::Transient,
        _ => FailureClass::Deterministic,
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
