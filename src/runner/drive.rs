//! The loop: deal, record, judge, renew, until nothing is left to deal.
//!
//! Invariants:
//! - A ledger error stops dealing at once. What runs is waited for, and each receipt is tried
//!   again at the end; those that could not be recorded are named.
//! - Criteria of one subject are judged one after the other, each as soon as it can be, and they
//!   count towards `max_parallel` like workers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::{Clock, Ledger, Task};
use crate::plan::{AttemptToken, LostCause, Micros, Receipt, RunId, RunStatus, StepStatus};

use super::recover::{recover, status_of};
use super::summary::{Counts, RunOutcome, RunSummary, Session, Unrecorded};
use super::wait::Patience;
use super::words::{describe, title};
use super::{
    Check, Observer, Progress, Report, StartFailure, StepName, StopRequest, Subject, Workers,
    output, summary,
};

/// The longest that the loop sleeps before it looks at its stop request again.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);

/// How a loop works.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many workers and checks may run at once; 0 counts as 1.
    pub max_parallel: usize,
    /// What it waits for when there is nothing to do.
    pub patience: Patience,
}

/// Deal a run's steps until it has ended, somebody must answer, or the observer asks to stop.
///
/// An error is returned only if the loop could not begin; what happens later is in the summary.
pub fn drive(
    ledger: &Ledger,
    clock: &dyn Clock,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
    options: Options,
) -> Result<RunSummary> {
    let started = clock.now();
    let lost = recover(ledger, run, workers, observer)?;
    let session = Session { lost, ..Session::default() };
    let drive = Drive {
        ledger,
        clock,
        run,
        workers,
        observer,
        options,
        session,
        started,
        running: BTreeMap::new(),
        queued: VecDeque::new(),
        checking: BTreeMap::new(),
        probed: BTreeSet::new(),
        stop: StopRequest::None,
        fatal: None,
        unrecorded: Vec::new(),
    };
    drive.go()
}

/// A worker that runs.
struct Running {
    step: StepName,
    slot: usize,
    /// When its lease is to be renewed.
    renew_at: Micros,
}

pub(super) struct Drive<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) clock: &'a dyn Clock,
    pub(super) run: RunId,
    pub(super) workers: &'a mut dyn Workers,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) options: Options,
    session: Session,
    started: Micros,
    running: BTreeMap<AttemptToken, Running>,
    /// Checks that wait for a free place.
    pub(super) queued: VecDeque<(Option<StepName>, Check)>,
    /// What is being checked right now.
    pub(super) checking: BTreeMap<Subject, Option<StepName>>,
    /// Lost attempts that were probed.
    pub(super) probed: BTreeSet<AttemptToken>,
    stop: StopRequest,
    fatal: Option<Error>,
    unrecorded: Vec<Unrecorded>,
}

impl Drive<'_> {
    fn go(mut self) -> Result<RunSummary> {
        self.count();
        self.queue_checks_of_reported();
        loop {
            self.heed_stop_request();
            // Before anything is dealt: dealing turns leases that have run out into losses, and
            // after a machine has slept, those of our own living workers would be among them.
            self.renew_leases();
            if self.may_start()
                && let Err(error) = self.start_all_that_may()
            {
                self.fail(error);
            }
            if self.is_idle() {
                match self.goes_on() {
                    Ok(true) => continue,
                    Ok(false) => break,
                    Err(error) => self.fail(error),
                }
                break;
            }
            if let Some(report) = self.workers.next(self.wait()) {
                self.take(report);
            }
        }
        self.record_what_was_left();
        self.summarize()
    }

    /// With nothing running, whether there is anything left to start or to wait for.
    fn goes_on(&mut self) -> Result<bool> {
        Ok(self.queue_plan_check() || self.wait_for_time()?)
    }

    pub(super) fn may_start(&self) -> bool {
        self.stop == StopRequest::None && self.fatal.is_none()
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.checking.is_empty()
    }

    fn busy(&self) -> usize {
        self.running.len() + self.checking.len()
    }

    fn has_room(&self) -> bool {
        self.busy() < self.options.max_parallel.max(1)
    }

    /// Checks first: they close steps, and closed steps open others.
    fn start_all_that_may(&mut self) -> Result<()> {
        self.queue_probes();
        while self.has_room()
            && let Some((step, check)) = self.queued.pop_front()
        {
            let Some(check) = self.with_output(step.as_ref(), check)? else { continue };
            self.workers.check(&check)?;
            self.checking.insert(check.subject, step);
        }
        while self.has_room() {
            let slot = self.free_slot();
            let worker = format!("{}/{slot}", self.workers.kind().as_str());
            let task = match self.ledger.dispatch(self.run, &worker) {
                Ok(Some(task)) => task,
                Ok(None) => break,
                // A run that has ended, or whose plan nobody approved yet, has nothing to deal:
                // its summary says how it stands.
                Err(error) if error.rejection().is_some() && !self.is_running() => break,
                Err(error) => return Err(error),
            };
            self.start(&task, slot, worker)?;
            self.heed_stop_request();
            if !self.may_start() {
                break;
            }
        }
        Ok(())
    }

    fn start(&mut self, task: &Task, slot: usize, worker: String) -> Result<()> {
        let step = StepName::of_task(task);
        self.session.dealt += 1;
        self.observer.progress(&Progress::Dispatched {
            step: step.clone(),
            title: title(task),
            attempt: task.attempt,
            token: task.token,
            worker,
        });
        if let Err(failure) = self.workers.start(task) {
            // What had begun is not released: it may have changed the world.
            let (cause, what, error) = match failure {
                StartFailure::NotBegun(error) => (LostCause::Released, "started", error),
                StartFailure::Begun(error) => (LostCause::RunnerDied, "watched", error),
            };
            let detail = format!("its worker could not be {what}: {error}");
            self.give_up(task.token, &step, cause, &detail);
            return Err(error);
        }
        let renew_at = half_way(self.clock.now(), task.lease_until);
        self.running.insert(task.token, Running { step: step.clone(), slot, renew_at });
        self.observer.progress(&Progress::Started { step });
        Ok(())
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Finished(token, receipt) => {
                if let Some(running) = self.running.remove(&token) {
                    self.record(token, running.step, *receipt);
                }
            }
            Report::Stopped(token) => {
                if let Some(running) = self.running.remove(&token) {
                    // Not released: it had begun, and may have changed the world.
                    let detail = "its worker was ended by request before it reported";
                    self.give_up(token, &running.step, LostCause::RunnerDied, detail);
                }
            }
            Report::Checked(checked) => self.take_verdict(checked),
        }
    }

    fn record(&mut self, token: AttemptToken, step: StepName, receipt: Receipt) {
        match self.ledger.record_receipt(token, receipt.clone()) {
            Ok(status) => {
                self.workers.settled(token);
                self.session.receipts += 1;
                let (outcome, message) = describe(&receipt.outcome);
                let is_retried =
                    matches!(status, StepStatus::Ready | StepStatus::Waiting | StepStatus::Delayed);
                self.session.retries += u32::from(outcome == "failed" && is_retried);
                if status == StepStatus::Reported {
                    self.queue_check_of_step(&step);
                }
                let duration = receipt.duration;
                let progress =
                    Progress::Receipt { step, token, outcome, message, duration, status };
                self.observer.progress(&progress);
                self.count();
            }
            Err(error) if error.rejection().is_some() => {
                self.workers.settled(token);
                self.session.refused += 1;
                let reason = error.to_string();
                self.observer.progress(&Progress::Refused { step, token, reason });
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                // It was not kept, and never will be: the attempt ends with that as its failure.
                let message = format!("its receipt is too large: {error}; name an artifact");
                self.record(token, step, output::unusable(message, receipt.duration));
            }
            Err(error) => {
                self.unrecorded.push(Unrecorded { step, token, receipt });
                self.fail(error);
            }
        }
    }

    /// Record that an attempt will never report.
    fn give_up(&mut self, token: AttemptToken, step: &StepName, cause: LostCause, detail: &str) {
        match self.ledger.report_lost(token, cause, detail) {
            Ok(_) => {
                self.workers.settled(token);
                self.session.lost += 1;
                self.observer.progress(&Progress::Lost {
                    step: step.clone(),
                    token,
                    detail: detail.to_owned(),
                    status: status_of(self.ledger, self.run, step.number),
                });
            }
            // Its lease ran out in the meantime: it is lost already.
            Err(error) if error.rejection().is_some() => self.workers.settled(token),
            // The next runner finds it in flight, and gives it up then.
            Err(error) => self.fail(error),
        }
    }

    fn renew_leases(&mut self) {
        let now = self.clock.now();
        let due: Vec<AttemptToken> = self
            .running
            .iter()
            .filter(|(_, running)| running.renew_at <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in due {
            let renew_at = match self.ledger.renew(token) {
                Ok(lease_until) => half_way(now, lease_until),
                // Its lease ran out: its receipt will be refused.
                Err(error) if error.rejection().is_some() => Micros::MAX,
                Err(error) => {
                    self.fail(error);
                    Micros::MAX
                }
            };
            if let Some(running) = self.running.get_mut(&token) {
                running.renew_at = renew_at;
            }
        }
    }

    /// How long there is nothing to do but to wait for a report.
    fn wait(&self) -> Duration {
        let next = self.running.values().map(|running| running.renew_at).min();
        let until = next.unwrap_or(Micros::MAX).saturating_sub(self.clock.now());
        Duration::from_micros(until).min(WAIT_MAX)
    }

    fn free_slot(&self) -> usize {
        let taken: BTreeSet<usize> = self.running.values().map(|running| running.slot).collect();
        (1..=taken.len() + 1).find(|slot| !taken.contains(slot)).unwrap_or(1)
    }

    fn is_running(&self) -> bool {
        let state = self.ledger.state();
        state.runs.get(&self.run).is_some_and(|run| run.status == RunStatus::Running)
    }

    pub(super) fn count(&mut self) {
        let state = self.ledger.state();
        let Some(run) = state.runs.get(&self.run) else { return };
        let settled = run.count(StepStatus::Accepted) + run.count(StepStatus::Skipped);
        let steps = run.active_version().map_or(0, |version| version.step_count);
        self.observer.progress(&Progress::Counted { settled, steps });
    }

    pub(super) fn heed_stop_request(&mut self) {
        let request = self.observer.stop_request();
        if request <= self.stop {
            return;
        }
        self.stop = request;
        let reason = if request == StopRequest::Kill { "ending the workers" } else { "stopping" };
        self.observer
            .progress(&Progress::Draining { reason: reason.to_owned(), running: self.busy() });
        if request == StopRequest::Kill {
            self.workers.stop_all();
        }
    }

    /// Deal no more, for this reason. The first one counts.
    pub(super) fn fail(&mut self, error: Error) {
        if self.fatal.is_none() {
            let progress = Progress::Draining { reason: error.to_string(), running: self.busy() };
            self.observer.progress(&progress);
            self.fatal = Some(error);
        }
    }

    /// A disk that was full may have room again by the time that the last worker is done.
    fn record_what_was_left(&mut self) {
        let disk_was_full =
            self.fatal.as_ref().is_some_and(|error| error.kind() == ErrorKind::DiskFull);
        if disk_was_full {
            for Unrecorded { step, token, receipt } in std::mem::take(&mut self.unrecorded) {
                self.record(token, step, receipt);
            }
        }
    }

    fn summarize(self) -> Result<RunSummary> {
        let state = self.ledger.state();
        let Some(run) = state.runs.get(&self.run) else {
            return Err(Error::from(crate::plan::Rejection::NoSuchRun));
        };
        let outcome = match (self.fatal, self.stop) {
            (Some(error), _) => RunOutcome::Stopped { error, unrecorded: self.unrecorded },
            (None, StopRequest::None) => summary::standing(run),
            (None, _) => match summary::standing(run) {
                RunOutcome::Waiting(_) => RunOutcome::Interrupted,
                ended => ended,
            },
        };
        let duration = self.clock.now().saturating_sub(self.started);
        Ok(RunSummary {
            run: run.name.clone(),
            outcome,
            counts: Counts::of(&state, run),
            session: Session { duration, ..self.session },
            failures: summary::failures(run),
            failed_criteria: summary::failed_criteria(run),
        })
    }
}

/// The middle between two points in time: a lease is renewed when half of it is over.
fn half_way(now: Micros, until: Micros) -> Micros {
    now.saturating_add(until.saturating_sub(now) / 2)
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
