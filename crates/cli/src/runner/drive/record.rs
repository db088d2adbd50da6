//! Recording: writes receipts, lost attempts, lease renewals and notes to the ledger.
//!
//! Invariants:
//! - The runner deletes an attempt's local files only after the end of the attempt is durable.
//! - The runner stops a worker when its attempt is over (its lease expired, or a new plan version
//!   removed its step): the result would be rejected, and another worker may already have the step.

use plan_ledger::internals::ledger::PLANNED_FILES;
use plan_ledger::plan::{Micros, OnStale};
use plan_ledger::{
    AttemptToken, Command, Disposition, ErrorKind, FailureClass, Json, LostCause, Outcome, Receipt,
    Result, Run, StepStatus, Task,
};

use crate::protocol::StepName;
use crate::protocol::hand_off::describe;
use crate::runner::drive::guard::{
    Consequence, EndedAttempt, HeldOwner, disk_problem, would_dispatch,
};
use crate::runner::drive::recover::{keep_left, status_of};
use crate::runner::drive::state::{Drive, half_way};
use crate::runner::drive::summary::Unrecorded;
use crate::runner::helpers::folder_state::FolderState;
use crate::runner::imported_status::import_statuses;
use crate::runner::process::output;
use crate::runner::progress::Progress;
use crate::runner::workers::Report;
use plan_ledger_views::stale_text;

/// How long to wait before retrying a failed lease renewal.
const RENEW_AGAIN: Micros = 1_000_000;

/// The pause between two checks for claims of dead processes.
const DEAD_CLAIMS_EVERY: Micros = 2_000_000;

/// The actor of the records that the runner writes.
pub(crate) const RUNNER: &str = "runner";

impl Drive<'_> {
    pub(crate) fn take(&mut self, report: Report) {
        match report {
            Report::Finished(token, mut receipt) => {
                if let Some(running) = self.running.remove(&token) {
                    let step = running.step.number.to_string();
                    let (guards, clock) = (self.options.guards, self.clock);
                    let (owner, begun) = (running.owner.clone(), running.begun);
                    let is_shared = running.is_shared;
                    let attempt = EndedAttempt { step, owner, is_shared, begun };
                    let consequence = self.guard.take(guards, attempt, &mut receipt, clock);
                    let outside = running.watch.as_ref().and_then(|watch| {
                        let now = FolderState::of_working_folder(self.workers.shared_folder()?);
                        watch.before.changes_outside(&now, &watch.allowed)
                    });
                    if let Some(note) = outside {
                        self.note(Some(running.step.clone()), note);
                    }
                    self.record(token, running.step, *receipt);
                    match consequence {
                        Some(Consequence::Pause(reason)) => {
                            if let Err(error) = self.pause(&reason) {
                                self.fail(error);
                            }
                        }
                        Some(Consequence::Hold(held)) => {
                            let HeldOwner { owner, until, reason, .. } = held;
                            let until = until.map(|until| self.by_wall(until));
                            let is_news = held.is_unexplained || held.is_first_limit;
                            let second_owner = self.second_of(owner.as_deref());
                            let held =
                                Progress::Held { owner, second_owner, until, reason, is_news };
                            self.observer.progress(&held);
                        }
                        None => {}
                    }
                }
            }
            Report::Stopped(token) => {
                if let Some(running) = self.running.remove(&token) {
                    // The attempt is not released, since its worker had started and may have had
                    // side effects.
                    let detail = "its worker was stopped before it reported";
                    self.give_up(token, &running.step, LostCause::RunnerDied, detail);
                }
            }
            Report::Checked(checked) => self.take_verdict(checked),
            // No result is recorded: the next runner finds it with the files of the worker, and judges it again.
            Report::Moved(token) => {
                self.running.remove(&token);
                self.expect_in_place();
            }
            Report::MovedCheck(subject) => {
                self.checking.remove(&subject);
                self.expect_in_place();
            }
        }
    }

    /// Stop dispatching if the folder with the workers' files has moved.
    pub(crate) fn expect_in_place(&mut self) {
        if let Err(error) = self.workers.expect_in_place() {
            self.fail(error);
        }
    }

    /// Pause the run, so that a person can check it.
    fn pause(&mut self, reason: &str) -> Result<()> {
        let pause = Command::PauseByRunner { run: self.run, reason: reason.to_owned() };
        match self.ledger.execute(&pause) {
            Ok(_) => self.note(None, format!("the run is paused: {reason}")),
            // It is paused already, or it has ended.
            Err(error) if error.rejection().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether no step is dispatched because the disk of the ledger is nearly full. Reports to a person when that
    /// begins, and when there is room again.
    pub(crate) fn is_held_by_disk(&mut self) -> Result<bool> {
        let Some(reason) = self.disk_problem() else {
            if self.no_room.take().is_some() {
                self.observer.progress(&Progress::Disk { problem: None });
            }
            return Ok(false);
        };
        let state = self.ledger.state()?;
        if self.no_room.is_none() && state.runs.get(&self.run).is_some_and(would_dispatch) {
            self.no_room = Some(reason.clone());
            self.observer.progress(&Progress::Disk { problem: Some(reason) });
        }
        Ok(true)
    }

    pub(crate) fn disk_problem(&self) -> Option<String> {
        disk_problem(self.options.guards, self.workers.shared_folder()?)
    }

    /// The reason why a step is not accepted after its worker succeeded; empty if it is accepted,
    /// or not judged yet.
    fn why_not(&mut self, step: &StepName, status: StepStatus) -> String {
        if matches!(status, StepStatus::Accepted | StepStatus::Reported) {
            return String::new();
        }
        let state = self.state();
        let run = state.as_ref().and_then(|state| state.runs.get(&self.run));
        let failure = run.and_then(|run| run.step(step.number)?.last_failure());
        failure.map(|(_, message)| message.to_string()).unwrap_or_default()
    }

    fn record(&mut self, token: AttemptToken, step: StepName, receipt: Receipt) {
        match self.ledger.record_hosted_receipt(token, receipt.clone()) {
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
                let message =
                    if message.is_empty() { self.why_not(&step, status) } else { message };
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
                // The ledger can never store this receipt, so the attempt fails with that reason.
                let message = format!("its receipt is too large: {error}; name an artifact");
                self.record(token, step, output::unusable(message, &receipt));
            }
            Err(error) => {
                self.unrecorded.push(Unrecorded { step, token, receipt });
                self.fail(error);
            }
        }
    }

    /// Record an attempt as lost.
    pub(crate) fn give_up(
        &mut self,
        token: AttemptToken,
        step: &StepName,
        cause: LostCause,
        detail: &str,
    ) {
        match self.ledger.report_lost(token, cause, detail) {
            Ok(_) => {
                self.workers.settled(token);
                self.session.lost += 1;
                let Some(state) = self.state() else { return };
                self.observer.progress(&Progress::Lost {
                    step: step.clone(),
                    token,
                    detail: detail.to_owned(),
                    status: status_of(&state, self.run, step.number),
                });
            }
            // Its lease expired in the meantime, so it is already lost.
            Err(error) if error.rejection().is_some() => self.workers.settled(token),
            // The next runner finds it in flight and records it as lost.
            Err(error) => self.fail(error),
        }
    }

    pub(crate) fn renew_leases(&mut self) {
        let now = self.clock.now();
        let due: Vec<AttemptToken> = self
            .running
            .iter()
            .filter(|(_, running)| running.renew_at <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in due {
            let renew_at = match self.ledger.renew_hosted(token) {
                Ok(lease_until) => half_way(now, lease_until),
                // Its lease expired: the ledger will reject its receipt.
                Err(error) if error.rejection().is_some() => Micros::MAX,
                // Space may be free again on a full disk while the worker still runs.
                Err(error) => {
                    self.fail(error);
                    now.saturating_add(RENEW_AGAIN)
                }
            };
            if let Some(running) = self.running.get_mut(&token) {
                running.renew_at = renew_at;
            }
        }
    }

    /// From time to time, take over the claims of dead processes of other workers: their leases may
    /// last for hours.
    pub(crate) fn release_dead_claims(&mut self) -> Result<()> {
        let Some(take_over) = self.options.take_over else { return Ok(()) };
        let Some(dir) = self.workers.shared_folder().map(ToOwned::to_owned) else { return Ok(()) };
        let now = self.clock.now();
        if now < self.dead_claims_at || !self.may_start() {
            return Ok(());
        }
        self.dead_claims_at = now.saturating_add(DEAD_CLAIMS_EVERY);
        keep_left(self.ledger, &dir, Some(self.run))?;
        take_over(self.ledger, &dir)?.into_iter().for_each(|note| self.note(None, note));
        Ok(())
    }

    /// Record the receipts that could not be recorded before, since a full disk may have space
    /// again.
    pub(crate) fn retry_unrecorded_receipts(&mut self) {
        let disk_was_full =
            self.fatal.as_ref().is_some_and(|error| error.kind() == ErrorKind::DiskFull);
        if disk_was_full {
            for Unrecorded { step, token, receipt } in std::mem::take(&mut self.unrecorded) {
                self.record(token, step, receipt);
            }
        }
    }

    /// Stop the workers with attempts that are over.
    pub(crate) fn end_revoked(&mut self) {
        let Some(state) = self.state() else { return };
        let is_over = |token: &AttemptToken| !state.in_flight.contains_key(token);
        let over: Vec<AttemptToken> = self.running.keys().copied().filter(is_over).collect();
        for token in over {
            self.workers.stop(token);
        }
    }

    /// Prepare a newly active plan version before any of its steps is dispatched. Returns whether
    /// the version is new to this loop.
    pub(crate) fn prepare_version(&mut self) -> Result<bool> {
        let state = self.ledger.state()?;
        let Some(run) = state.runs.get(&self.run) else { return Ok(false) };
        if self.prepared_version == run.active {
            return Ok(false);
        }
        self.note_planned_files(run)?;
        if let Some(marks) = self.options.marks {
            let taken = import_statuses(self.ledger, self.run, marks)?;
            if taken.is_any() {
                self.note(None, taken.to_string());
            }
        }
        self.prepared_version = run.active;
        Ok(true)
    }

    /// Report the files of a step that changed since its plan was made. Returns whether the step is not
    /// started: a person decides first, and the files then count as known; or the assumption that they
    /// are as planned is broken, and the rules decide.
    pub(crate) fn is_held_as_stale(&mut self, task: &Task, step: &StepName) -> Result<bool> {
        let stale = self.workers.stale_files(task);
        if stale.is_empty() {
            return Ok(false);
        }
        let what = stale_text(&stale);
        self.note(Some(step.clone()), what.clone());
        let of_plan = task.plan.header().failure.on_stale;
        match self.options.on_stale.unwrap_or(of_plan) {
            OnStale::Warn => return Ok(false),
            OnStale::Replan => {
                let class = FailureClass::AssumptionBroken;
                let payload = Json::default();
                let outcome = Outcome::Failed { class, message: what, payload };
                let disposition = Some(Disposition::DidNotHappen);
                let receipt = Receipt { outcome, disposition, ..Receipt::default() };
                self.record(task.token.seq, step.clone(), receipt);
            }
            OnStale::Ask => {
                self.give_up(task.token.seq, step, LostCause::Released, &what);
                let state = self.ledger.state()?;
                if let Some(run) = state.runs.get(&self.run) {
                    self.set_planned_files(run)?;
                }
                let reason = format!("{step}: {what}");
                let paused = Command::PauseByRunner { run: self.run, reason };
                // It may be paused already.
                if let Err(error) = self.ledger.execute(&paused)
                    && error.rejection().is_none()
                {
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// Record the state of the files in the active version, so that workers learn which files have
    /// changed since.
    fn note_planned_files(&self, run: &Run) -> Result<()> {
        if plan_ledger::internals::ledger::PlannedFiles::of(run)
            .is_some_and(|it| it.version == run.active)
        {
            return Ok(());
        }
        self.set_planned_files(run)
    }

    fn set_planned_files(&self, run: &Run) -> Result<()> {
        let files = run.plan().and_then(|plan| self.workers.planned_files(run.active, plan));
        let Some(files) = files else { return Ok(()) };
        let seen = Some(run.variables.get(PLANNED_FILES).map_or(0, |variable| variable.version));
        match self.ledger.set_variable(self.run, PLANNED_FILES, files.to_json(), seen, RUNNER) {
            Err(error) if error.rejection().is_none() => Err(error),
            // Another process recorded it, or the run has ended.
            _ => Ok(()),
        }
    }

    /// Report the notes of the workers, and keep them for the summary.
    pub(crate) fn take_notes(&mut self) {
        let notes = self.workers.notes();
        if notes.is_empty() {
            return;
        }
        let state = self.state();
        for note in notes {
            let step = state.as_ref().zip(note.token).and_then(|(state, token)| {
                let (_, number, _) = state.dispatched.get(&token)?;
                Some(StepName::of(state.runs.get(&self.run)?, *number))
            });
            self.note(step, note.text);
        }
    }

    pub(crate) fn note(&mut self, step: Option<StepName>, note: String) {
        self.notes.push((step.clone(), note.clone()));
        self.observer.progress(&Progress::Noted { step, note });
    }
}
