//! What a process that has ended has to say: a worker's receipt, or what came of a check.
//!
//! Invariant: what takes long is not done by the one who waits for reports.

use std::time::Duration;

use plan_ledger::plan::{AttemptToken, FailureClass, Idempotence, Micros, Receipt};

use crate::runner::check::{Answer, Checked, Subject};
use crate::runner::files;
use crate::runner::process::check_result as checked;
use crate::runner::process::check_result::Ended;
use crate::runner::process::job::{Aside, EndedBy};
use crate::runner::process::orphans;
use crate::runner::process::receipt as worked;
use crate::runner::process::receipt::{failed_receipt, with_notes};
use crate::runner::process::workers::{Heard, Key, Known, ProcessWorkers, Running, stem};
use crate::runner::workers::{Report, WorkerNote};

impl ProcessWorkers {
    /// What an ended job has to say; `None` if that is still being found out.
    pub(crate) fn report(&mut self, key: Key, running: Running) -> Option<Report> {
        let Running { job, known: Known { changes, idempotence, answer } } = running;
        let duration = micros(job.started.elapsed());
        let stem = job.stem.clone();
        let left = orphans::remark(&job.end_leftovers(&self.scratch));
        let aside = job.aside();
        let (status, ended_by) = job.reap();
        let status = match status {
            Ok(status) => status,
            Err(error) => return Some(self.lost_sight(key, (idempotence, answer), &error)),
        };
        // A job that ended by itself just before it would have been ended counts as it ended.
        let ended_by = ended_by.filter(|_| status.code().is_none());
        match key {
            Key::Work(token) => {
                let notes: Vec<String> = left.into_iter().collect();
                if ended_by == Some(EndedBy::Stop) {
                    self.remark(Some(token), &notes);
                    return Some(Report::Stopped(token));
                }
                let ending = (status, ended_by);
                let receipt = worked::receipt(&self.scratch, &stem, ending, idempotence);
                let receipt = Box::new(Receipt { duration, ..receipt });
                self.examine(token, (receipt, notes), changes, &aside)
            }
            Key::Check(subject, criterion) => {
                let path = |suffix| self.scratch.path(&stem, suffix);
                let ended =
                    Ended { status, by: ended_by, output: path("out"), errors: path("err") };
                let (ruling, evidence) = checked::ruling(subject, answer, &ended);
                self.scratch.forget(&stem);
                let token = match subject {
                    Subject::Attempt(token) | Subject::Doubt(token) => Some(token),
                    Subject::Plan(_) | Subject::Replan(_) => None,
                };
                let notes = left.map(|left| format!("a check {left}"));
                self.remark(token, notes.as_slice());
                Some(Report::Checked(Checked { subject, criterion, ruling, evidence }))
            }
        }
    }

    /// Look at the artifacts of a receipt. Hashing large ones takes long, and nobody else is to wait.
    fn examine(
        &mut self,
        token: AttemptToken,
        (mut receipt, mut notes): (Box<Receipt>, Vec<String>),
        changes: Vec<String>,
        aside: &Aside,
    ) -> Option<Report> {
        if receipt.artifacts.is_empty() {
            return Some(self.finished(token, receipt, &notes));
        }
        let heard = self.heard.0.clone();
        aside.please(move || {
            notes.extend(files::examine(&mut receipt.artifacts, &changes));
            // Nobody listens any more when the runner is on its way out.
            let _ = heard.send(Heard::Examined(token, receipt, notes));
        });
        None
    }

    /// A worker's report, with what was noticed.
    pub(crate) fn finished(
        &mut self,
        token: AttemptToken,
        receipt: Box<Receipt>,
        notes: &[String],
    ) -> Report {
        self.remark(Some(token), notes);
        let log_tail = with_notes(receipt.log_tail.clone(), notes);
        Report::Finished(token, Box::new(Receipt { log_tail, ..*receipt }))
    }

    fn remark(&mut self, token: Option<AttemptToken>, notes: &[String]) {
        self.remarks.extend(notes.iter().map(|text| WorkerNote { token, text: text.clone() }));
    }

    /// The operating system does not say how a job ended. That never happens unless somebody
    /// else reaps this process's children.
    fn lost_sight(
        &self,
        key: Key,
        (idempotence, answer): (Idempotence, Answer),
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
                Report::Checked(Checked { subject, criterion, ruling, evidence: message })
            }
        }
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
