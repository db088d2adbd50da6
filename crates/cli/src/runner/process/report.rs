//! Reports of ended processes: the receipt of a worker, or the result of a check.
//!
//! Invariant: slow work, such as hashing artifacts, never runs on the thread that waits for
//! reports.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use plan_ledger::plan::Idempotence;
use plan_ledger::{AttemptToken, Cost, FailureClass, Receipt};

use crate::protocol::hand_off::files;
use crate::runner::check::{CheckAnswer, Checked, Subject};
use crate::runner::process::check_result as checked;
use crate::runner::process::check_result::Ended;
use crate::runner::process::exit_record::CommandEnd;
use crate::runner::process::job::WaitThread;
use crate::runner::process::limits::EndedBy;
use crate::runner::process::orphans;
use crate::runner::process::output::{Worked, read_limited};
use crate::runner::process::receipt as worked;
use crate::runner::process::receipt::{WorkerEnd, failed_receipt, with_notes};
use crate::runner::process::scratch::COST;
use crate::runner::process::workers::{Key, Known, ProcessWorkers, Running, WorkerMessage, stem};
use crate::runner::workers::{Report, WorkerNote, Workers as _};
use plan_ledger_views::Repeat;

/// The cost that a judge or a planner reported. Any other text is ignored.
fn read_cost(path: &Path) -> Option<Cost> {
    let bytes = read_limited(path, COST_LENGTH_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The status of a process that SIGKILL ended.
const KILLED: i32 = 9;

/// The largest length of such a report.
const COST_LENGTH_MAX: u64 = 1 << 16;

/// A note that a worker printed the same lines over and over until it ended. If it was ended for that reason, the
/// failure states it.
pub(crate) fn repeated_note(repeat: Option<&Repeat>, ended_by: Option<EndedBy>) -> Option<String> {
    let is_said = matches!(ended_by, Some(EndedBy::Repeating { .. }));
    repeat.filter(|_| !is_said).map(|repeat| format!("it printed {repeat}"))
}

impl ProcessWorkers {
    /// The report of an ended job; `None` while slow work for it continues.
    pub(crate) fn report(&mut self, key: Key, running: Running) -> Option<Report> {
        let Running { job, known: Known { changes, idempotence, backoff, answer } } = running;
        let stem = job.stem.clone();
        let repeated = job.repeated();
        let left = orphans::note(&job.end_leftovers(&self.scratch));
        let wait_thread = job.wait_thread();
        let ended = match job.reap(&self.scratch) {
            Ok(ended) => ended,
            Err(error) => {
                return Some(self.exit_status_unknown(key, (idempotence, answer), &error));
            }
        };
        let status = match ended.end {
            CommandEnd::Ended(status) => status,
            CommandEnd::NotStarted(errno) => {
                let refusal = std::io::Error::from_raw_os_error(errno);
                return Some(self.refused(key, answer, &refusal));
            }
        };
        match key {
            Key::Work(token) => {
                let mut notes: Vec<String> = left.into_iter().collect();
                let has_receipt = || worked::complete_receipt(&self.scratch, &stem).is_some();
                let ended_by = ended.ended_by(status, has_receipt);
                if ended_by.is_some_and(EndedBy::is_request) {
                    self.note(Some(token), &notes);
                    return Some(Report::Stopped(token));
                }
                notes.extend(repeated_note(repeated.as_ref(), ended_by));
                let ending = WorkerEnd { status, ended_by, is_disk_full: ended.is_disk_full };
                let worked = worked::result(&self.scratch, &stem, ending, idempotence);
                notes.extend(worked.notes);
                let mut receipt = worked.receipt;
                receipt.duration = ended.duration;
                if let Some(backoff) = backoff {
                    backoff.add_to(&mut receipt.outcome);
                }
                let receipt = Box::new(receipt);
                let places = self.scratch.artifact_places(changes);
                self.examine(token, (receipt, notes), places, &wait_thread)
            }
            Key::Check(subject, criterion) => {
                let path = |suffix| self.scratch.path(&stem, suffix);
                let (by, duration) = (ended.ended_by(status, || false), ended.duration);
                let cost = read_cost(&path(COST));
                let ended = Ended { status, by, output: path("out"), errors: path("err") };
                let (ruling, evidence) = checked::ruling(subject, answer, &ended);
                self.scratch.forget(&stem);
                let token = match subject {
                    Subject::Attempt(token) | Subject::Probe(token) => Some(token),
                    Subject::Plan(_) | Subject::Replan(_) | Subject::Decision(_) => None,
                };
                let notes = left.map(|left| format!("a check {left}"));
                self.note(token, notes.as_slice());
                let checked = Checked { subject, criterion, ruling, evidence, cost, duration };
                Some(Report::Checked(checked))
            }
        }
    }

    /// The report of an adopted worker that has ended.
    pub(crate) fn adopted_report(&mut self) -> Option<Report> {
        let is_over =
            |token: &AttemptToken| self.scratch.process_at_work(&stem(Key::Work(*token))).is_none();
        let token = self.adopted.keys().copied().find(is_over)?;
        let (job, Known { changes, idempotence, backoff, .. }) = self.adopted.remove(&token)?;
        let stem = stem(Key::Work(token));
        if self.expect_in_place().is_err() {
            return Some(Report::Moved(token));
        }
        let (left, record) = match self.scratch.confirm_job_dead(&stem) {
            Ok(confirmed) => confirmed,
            Err(error) => {
                // Its attempt stays in flight until its lease expires.
                self.note(Some(token), &[error.to_string()]);
                return Some(Report::Moved(token));
            }
        };
        let mut notes: Vec<String> = orphans::note(&left).into_iter().collect();
        let (repeated, ended_by) = (job.repeated(), job.ended_by());
        let is_success = || record.and_then(|it| it.reported()).is_some_and(|it| it.success());
        let worked = match ended_by {
            Some(EndedBy::Over) => None,
            Some(EndedBy::Stop) if is_success() => {
                worked::left(&self.scratch, &stem, record.as_ref(), idempotence)
            }
            Some(EndedBy::Stop) => worked::complete_receipt(&self.scratch, &stem),
            Some(by) => {
                let (status, ended_by) = (ExitStatus::from_raw(KILLED), Some(by));
                let ending = WorkerEnd { status, ended_by, is_disk_full: false };
                Some(worked::result(&self.scratch, &stem, ending, idempotence))
            }
            None => worked::left(&self.scratch, &stem, record.as_ref(), idempotence),
        };
        let Some(Worked { mut receipt, notes: more }) = worked else {
            self.note(Some(token), &notes);
            return Some(Report::Stopped(token));
        };
        notes.extend(more);
        notes.extend(repeated_note(repeated.as_ref(), ended_by));
        if let Some(backoff) = backoff {
            backoff.add_to(&mut receipt.outcome);
        }
        let places = self.scratch.artifact_places(changes);
        notes.extend(files::examine(&mut receipt.artifacts, &places));
        Some(self.finished(token, Box::new(receipt), &notes))
    }

    /// The report about a job that the operating system refused to start.
    pub(crate) fn refused(
        &self,
        key: Key,
        answer: CheckAnswer,
        refusal: &std::io::Error,
    ) -> Report {
        match key {
            Key::Work(token) => Report::Finished(token, Box::new(worked::not_started(refusal))),
            Key::Check(subject, criterion) => {
                self.scratch.forget(&stem(key));
                let evidence = format!("cannot start: {refusal}");
                let ruling = checked::unanswered(subject, answer);
                Report::Checked(Checked::free(subject, criterion, ruling, evidence))
            }
        }
    }

    /// Examine the artifacts of a receipt on another thread: hashing large files must not delay
    /// other reports.
    fn examine(
        &mut self,
        token: AttemptToken,
        (mut receipt, mut notes): (Box<Receipt>, Vec<String>),
        places: Vec<String>,
        wait_thread: &WaitThread,
    ) -> Option<Report> {
        if receipt.artifacts.is_empty() {
            return Some(self.finished(token, receipt, &notes));
        }
        let heard = self.heard.0.clone();
        wait_thread.run(move || {
            notes.extend(files::examine(&mut receipt.artifacts, &places));
            // The receiver no longer exists while the runner exits.
            let _ = heard.send(WorkerMessage::Examined(token, receipt, notes));
        });
        None
    }

    /// A worker's report with its notes.
    pub(crate) fn finished(
        &mut self,
        token: AttemptToken,
        receipt: Box<Receipt>,
        notes: &[String],
    ) -> Report {
        self.note(Some(token), notes);
        let log_tail = with_notes(receipt.log_tail.to_string(), notes).into();
        Report::Finished(token, Box::new(Receipt { log_tail, ..*receipt }))
    }

    fn note(&mut self, token: Option<AttemptToken>, notes: &[String]) {
        self.notes.extend(notes.iter().map(|text| WorkerNote { token, text: text.clone() }));
    }

    /// The exit status is unavailable. That happens only if other code reaps this process's
    /// children.
    fn exit_status_unknown(
        &self,
        key: Key,
        (idempotence, answer): (Idempotence, CheckAnswer),
        error: &std::io::Error,
    ) -> Report {
        let message = format!("its exit status is not known: {error}");
        match key {
            Key::Work(token) => {
                let receipt = failed_receipt(FailureClass::Unknown, message);
                let disposition = worked::unknown(idempotence);
                Report::Finished(token, Box::new(Receipt { disposition, ..receipt }))
            }
            Key::Check(subject, criterion) => {
                self.scratch.forget(&stem(key));
                let ruling = checked::unanswered(subject, answer);
                Report::Checked(Checked::free(subject, criterion, ruling, message))
            }
        }
    }
}
