//! The main loop: dispatch steps, record receipts, run checks and renew leases until no work is
//! left.
//!
//! Invariants:
//! - A ledger error stops dispatch at once. The loop waits for running workers and submits
//!   unrecorded receipts once more at the end; the summary lists each receipt that could not be
//!   recorded. The log itself never repeats a failed write.
//! - The criteria of one subject are judged one after the other, each as early as possible. Checks
//!   count toward `max_parallel`, as workers do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use plan_ledger::plan::{Micros, Route, STALL_AFTER, Taker, Warning};
use plan_ledger::{
    AttemptToken, Clock, Command, Error, Ledger, LostCause, Result, RunId, RunStatus, State,
    StepNumber, StepStatus, Task, Timestamp,
};

use crate::protocol::hand_off::title;
use crate::protocol::{StepName, slow_text};
use crate::runner::drive::guard::{GuardState, closed_until};
use crate::runner::drive::record::RUNNER;
use crate::runner::drive::recover::{Recovered, recover};
use crate::runner::drive::state::{
    Drive, FileWatch, Options, Planning, Running, WAIT_MAX, half_way,
};
use crate::runner::drive::summary;
use crate::runner::drive::summary::{Counts, RunOutcome, RunSummary, Session};
use crate::runner::helpers::command_gate::CommandGate;
use crate::runner::helpers::folder_state::FolderState;
use crate::runner::progress::{Observer, Progress, STOPPING, StopRequest};
use crate::runner::waits::hold::Hold;
use crate::runner::waits::holds::Holds;
use crate::runner::workers::{StartFailure, Workers};

/// The interval at which an idle loop checks whether another process has released the check lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Dispatch the steps of a run until it ends, needs a person, or the observer asks to stop.
///
/// # Errors
/// Only if the loop cannot start. Later errors are part of the summary.
pub fn drive(
    ledger: &Ledger,
    clock: &dyn Clock,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
    options: Options<'_>,
) -> Result<RunSummary> {
    let started = clock.now();
    let Recovered { receipts, lost, adopted } =
        recover(ledger, run, workers, observer, options.left_workers)?;
    let session = Session { receipts, lost, ..Session::default() };
    let helpers = workers.helpers();
    let holds = workers.shared_folder().map(|dir| Holds::read(dir, run)).unwrap_or_default();
    let drive = Drive {
        ledger,
        clock,
        run,
        workers,
        observer,
        options,
        session,
        started,
        running: adopted_by_token(&*ledger.state()?, run, &adopted, started),
        queued: VecDeque::new(),
        checking: BTreeMap::new(),
        probed: BTreeSet::new(),
        helpers,
        decided: BTreeSet::new(),
        unjudged: BTreeSet::new(),
        locked_checks: BTreeSet::new(),
        gate: CommandGate::new(options.checks),
        guard: GuardState::continued(holds),
        noted_holds: Holds::default(),
        is_hold_unnoted: false,
        dead_claims_at: Timestamp::MIN,
        planning: Planning::default(),
        no_room: None,
        said_wait: None,
        seen: 0,
        prepared_version: 0,
        quiet_since: started,
        notes: Vec::new(),
        stop: StopRequest::None,
        fatal: None,
        unrecorded: Vec::new(),
    };
    drive.run_to_end()
}

/// The workers that were taken over, as running ones.
fn adopted_by_token(
    state: &State,
    run: RunId,
    adopted: &[AttemptToken],
    now: Timestamp,
) -> BTreeMap<AttemptToken, Running> {
    let running = |(index, token): (usize, &AttemptToken)| {
        let (_, number) = state.in_flight.get(token)?;
        let the_run = state.runs.get(&run)?;
        let attempt = the_run.step(*number)?.attempt()?;
        let step = the_run.plan_step(*number)?.decode();
        let slot = attempt.worker.rsplit_once('/').and_then(|(_, slot)| slot.parse().ok());
        let running = Running {
            step: StepName::of(the_run, *number),
            slot: slot.unwrap_or(index),
            owner: attempt.second_owner.clone().or(step.owner.clone()),
            is_shared: step.command.is_none(),
            renew_at: half_way(now, attempt.lease_until),
            begun: attempt.dispatched,
            changes: step.changes.to_vec(),
            watch: None,
            estimate: step.estimate_seconds,
        };
        Some((*token, running))
    };
    adopted.iter().enumerate().filter_map(running).collect()
}

impl Drive<'_> {
    fn run_to_end(mut self) -> Result<RunSummary> {
        self.count();
        loop {
            self.handle_stop_request();
            self.end_revoked();
            self.expect_in_place();
            self.note_holds(self.whole_hold());
            if let Err(error) = self.release_dead_claims() {
                self.fail(error);
            }
            self.queue_checks_of_other_workers();
            // Renew leases before dispatching. A dispatch records expired leases as lost attempts,
            // and after a suspend of the machine these would include the attempts of live workers.
            self.renew_leases();
            if self.may_start()
                && let Err(error) = self.start_ready()
            {
                self.fail(error);
            }
            if self.is_idle() {
                if self.may_start() && !self.queued.is_empty() {
                    // Another process holds the lock for every queued check.
                    sleep(LOCK_POLL_INTERVAL);
                    continue;
                }
                match self.has_work_left() {
                    Ok(true) => continue,
                    Ok(false) => break,
                    Err(error) => self.fail(error),
                }
                break;
            }
            self.note_slow();
            if let Some(report) = self.workers.next(self.wait()) {
                self.quiet_since = self.clock.now();
                self.take(report);
            }
            self.take_notes();
        }
        self.retry_unrecorded_receipts();
        self.note_conditions();
        self.note_holds(None);
        self.summarize()
    }

    /// Report attempts that take much longer than estimated, once each, and report if nothing starts or ends for a long
    /// time.
    fn note_slow(&mut self) {
        let now = self.clock.now();
        let mut slow = Vec::new();
        for running in self.running.values_mut() {
            let elapsed = now.saturating_sub(running.begun);
            if let Some(estimate) =
                running.estimate.take_if(|seconds| Warning::is_slow(elapsed, *seconds))
            {
                slow.push((running.step.clone(), slow_text(elapsed, estimate)));
            }
        }
        for (step, text) in slow {
            self.note(Some(step), text);
        }
        if !self.running.is_empty() && now.saturating_sub(self.quiet_since) >= STALL_AFTER {
            self.quiet_since = now;
            let names: Vec<String> =
                self.running.values().map(|running| running.step.to_string()).collect();
            let minutes = STALL_AFTER / 60_000_000;
            let names = names.join(", ");
            let text = format!("nothing has begun or ended for {minutes} min; in flight: {names}");
            self.note(None, text);
        }
    }

    /// Write the waits of this loop to a file for other processes and the next runner.
    pub(crate) fn note_holds(&mut self, hours: Option<Hold>) {
        let Some(dir) = self.workers.shared_folder().map(Path::to_owned) else { return };
        let Ok(state) = self.ledger.state() else { return };
        let is_over =
            state.runs.get(&self.run).is_none_or(|run| matches!(run.status, RunStatus::Ended(_)));
        let holds = if is_over {
            Holds::default()
        } else {
            self.guard.holds(hours, |owner| self.second_of(owner))
        };
        // A moved folder is not created again.
        if holds == self.noted_holds || self.fatal.is_some() {
            return;
        }
        match holds.write(&dir, self.run) {
            Ok(()) => (self.noted_holds, self.is_hold_unnoted) = (holds, false),
            // It is written again in the next pass of the loop.
            Err(error) if !self.is_hold_unnoted => {
                self.is_hold_unnoted = true;
                let text = "status cannot show what this runner waits for, and the next runner will meet the limit again";
                self.note(None, format!("{text}: {error}"));
            }
            Err(_) => {}
        }
    }

    /// The steps that are dispatched now: those of a held owner are not, unless its second owner takes them.
    fn route(&self) -> Route {
        let running = self.running.values().map(|running| (&running.owner, running.begun));
        let held = self.guard.held_owners(self.clock, &running);
        let limited = self.guard.limited(&held);
        let last = self.guard.steps_at_limits(self.clock);
        let last = last.filter_map(|step| step.parse().ok().map(StepNumber)).collect();
        Route { held, limited, last, ..self.options.route.clone() }
    }

    /// The second owner that now provides workers for the steps of an owner.
    pub(crate) fn second_of(&self, owner: Option<&str>) -> Option<String> {
        let state = self.ledger.state().ok()?;
        let owners = &state.runs.get(&self.run)?.plan()?.header().owners;
        match self.route().taker(owner, owners)? {
            Taker::Second(second) => Some(second.to_owned()),
            Taker::Own => None,
        }
    }

    /// Report the skipped steps with a condition that cannot be evaluated: it is probably a
    /// mistake.
    fn note_conditions(&mut self) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        let numbers = run.active_version().map(|version| version.numbers.as_slice());
        for number in numbers.unwrap_or_default() {
            if let Some(problem) = run.condition_problem(*number) {
                let note = format!("skipped: its condition cannot be evaluated: {problem}");
                self.note(Some(StepName::of(run, *number)), note);
            }
        }
    }

    /// Queue checks for steps that other workers have reported since the last call.
    fn queue_checks_of_other_workers(&mut self) {
        let seen = self.ledger.head().seq;
        if self.seen != seen {
            self.seen = seen;
            self.queue_checks_of_reported();
        }
    }

    /// Whether an idle loop still has work or a timer. The records of this pass may have opened a request for the
    /// planner or a question for the decider.
    fn has_work_left(&mut self) -> Result<bool> {
        let has_recorded = self.may_start() && self.ledger.head().seq != self.seen;
        Ok(has_recorded || self.queue_plan_check() || self.wait_for_time()?)
    }

    pub(crate) fn may_start(&self) -> bool {
        self.stop == StopRequest::None && self.fatal.is_none()
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.checking.is_empty()
    }

    fn busy(&self) -> usize {
        self.running.len() + self.checking.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.busy() < self.options.max_parallel.max(1)
    }

    /// Start everything that can start. Checks come first, since settling a step makes others
    /// ready.
    fn start_ready(&mut self) -> Result<()> {
        // Deadlines pass even while every slot is taken and nothing is dispatched.
        self.ledger.tick()?;
        self.prepare_version()?;
        self.queue_probes();
        self.queue_planner();
        self.queue_deciders();
        self.start_checks()?;
        if self.has_room() && self.is_held_by_disk()? {
            return Ok(());
        }
        let (mut ended, route) = (Vec::new(), self.route());
        if let Some(run) = self.ledger.state()?.runs.get(&self.run) {
            let status = |step: &str| Some(run.step(StepNumber(step.parse().ok()?))?.status);
            self.guard.end_retried(status, self.clock);
            ended = self.guard.redirected(run, &route, self.clock);
        }
        let early = self.guard.ended_early(self.clock).into_iter();
        ended.extend(early.filter_map(|step| step.parse().ok().map(StepNumber)));
        for step in ended {
            let by = RUNNER.to_owned();
            self.ledger.execute(&Command::EndDelay { run: self.run, step, by })?;
        }
        while self.has_room() && closed_until(self.options.guards, self.clock).is_none() {
            let slot = self.free_slot();
            let worker = format!("{}/{slot}", self.workers.kind().as_str());
            let task = match self.dispatch(&worker) {
                Ok(Some(task)) => task,
                Ok(None) if self.prepare_version()? => continue,
                Ok(None) => break,
                // A run that has ended, or has no approved plan yet, has nothing to dispatch: its
                // summary reports the reason.
                Err(error) if error.rejection().is_some() && !self.is_running() => break,
                Err(error) => return Err(error),
            };
            self.start(&task, slot, worker)?;
            self.handle_stop_request();
            if !self.may_start() {
                break;
            }
        }
        Ok(())
    }

    /// Dispatch a step, but only if the loop has prepared the active version.
    fn dispatch(&self, worker: &str) -> Result<Option<Task>> {
        let active = |state: &State| state.runs.get(&self.run).map_or(0, |run| run.active);
        let is_prepared = |state: &State| active(state) == self.prepared_version;
        self.ledger.dispatch_if(self.run, (worker, &self.route()), &is_prepared)
    }

    fn start(&mut self, task: &Task, slot: usize, worker: String) -> Result<()> {
        let step = StepName::of_task(task);
        if self.is_held_as_stale(task, &step)? {
            return Ok(());
        }
        self.session.dispatched += 1;
        let second_owner = self.second_owner_of(task);
        self.observer.progress(&Progress::Dispatched {
            second_owner,
            step: step.clone(),
            title: title(&task.step),
            attempt: task.attempt,
            token: task.token.seq,
            worker,
        });
        let changes: Vec<String> = task.step.changes.to_vec();
        let watch = self.watch_files(&changes);
        if let Err(failure) = self.workers.start(task) {
            // An attempt that had started is not released, since it may have had side effects.
            let (cause, what, error) = match failure {
                StartFailure::BeforeStart(error) => (LostCause::Released, "started", error),
                StartFailure::AfterStart(error) => (LostCause::RunnerDied, "watched", error),
            };
            let detail = format!("its worker could not be {what}: {error}");
            self.give_up(task.token.seq, &step, cause, &detail);
            return Err(error);
        }
        let renew_at = half_way(self.clock.now(), task.lease_until);
        let is_shared = task.step.command.is_none();
        let owner = task.step.owner.clone();
        let (begun, estimate) = (self.clock.now(), task.step.estimate_seconds);
        self.quiet_since = begun;
        let running = Running {
            step: step.clone(),
            slot,
            owner,
            is_shared,
            renew_at,
            begun,
            changes,
            watch,
            estimate,
        };
        self.running.insert(task.token.seq, running);
        self.observer.progress(&Progress::Started { step });
        Ok(())
    }

    /// The second owner if its worker gets the task.
    fn second_owner_of(&mut self, task: &Task) -> Option<String> {
        let state = self.state()?;
        let attempt = state.runs.get(&self.run)?.step(task.number)?.attempt()?;
        attempt.second_owner.clone().filter(|_| attempt.token == task.token.seq)
    }

    /// Reads the working folder before a worker starts, if the step lists the files that it may
    /// change. Workers at work at the same time share the folder: a file that one of them may
    /// change is not reported for another, and no file is reported if one of them has no list.
    fn watch_files(&mut self, changes: &[String]) -> Option<FileWatch> {
        let folder = self.workers.shared_folder()?.to_owned();
        for running in self.running.values_mut() {
            if changes.is_empty() {
                running.watch = None;
            } else if let Some(watch) = &mut running.watch {
                watch.allowed.extend_from_slice(changes);
            }
        }
        if changes.is_empty() || self.running.values().any(|running| running.changes.is_empty()) {
            return None;
        }
        let others = self.running.values().flat_map(|running| running.changes.iter().cloned());
        let allowed = changes.iter().cloned().chain(others).collect();
        let before = FolderState::of_working_folder(&folder);
        Some(FileWatch { before, allowed })
    }

    /// The maximum time for which the loop waits for the next report.
    fn wait(&self) -> Duration {
        let now = self.clock.now();
        let next = self.running.values().map(|running| running.renew_at);
        let held = self.guard.next_end(self.clock).map(|(until, _)| until);
        let next = next.chain(held).min();
        let until = next.unwrap_or(Micros::MAX).saturating_sub(now);
        Duration::from_micros(until).min(WAIT_MAX)
    }

    fn free_slot(&self) -> usize {
        let taken: BTreeSet<usize> = self.running.values().map(|running| running.slot).collect();
        (1..=taken.len() + 1).find(|slot| !taken.contains(slot)).unwrap_or(1)
    }

    /// The state. If it cannot be read, dispatch stops.
    pub(crate) fn state(&mut self) -> Option<Arc<State>> {
        self.ledger.state().map_err(|error| self.fail(error)).ok()
    }

    fn is_running(&mut self) -> bool {
        let Some(state) = self.state() else { return false };
        state.runs.get(&self.run).is_some_and(|run| run.status == RunStatus::Running)
    }

    pub(crate) fn count(&mut self) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        let settled = run.count(StepStatus::Accepted) + run.count(StepStatus::Skipped);
        let steps = run.active_version().map_or(0, |version| version.step_count);
        let spent = self.guard.spent_parts(run, self.clock);
        self.observer.progress(&Progress::Counted { settled, steps });
        for used in spent {
            self.observer.progress(&Progress::BudgetUsed(used));
        }
    }

    pub(crate) fn handle_stop_request(&mut self) {
        let request = self.observer.stop_request();
        if request <= self.stop {
            return;
        }
        self.stop = request;
        let reason = if request == StopRequest::Kill { "ending the workers" } else { STOPPING };
        self.observer
            .progress(&Progress::Draining { reason: reason.to_owned(), running: self.busy() });
        if request == StopRequest::Kill {
            self.workers.stop_all();
        }
    }

    /// Stop dispatching for this reason. The first reason is kept.
    pub(crate) fn fail(&mut self, error: Error) {
        if self.fatal.is_none() {
            let progress = Progress::Draining { reason: error.to_string(), running: self.busy() };
            self.observer.progress(&progress);
            self.fatal = Some(error);
        }
    }

    fn summarize(self) -> Result<RunSummary> {
        let state = match self.ledger.state() {
            Ok(state) => state,
            // The first error is the cause.
            Err(error) => return Err(self.fatal.unwrap_or(error)),
        };
        let Some(run) = state.runs.get(&self.run) else {
            return Err(Error::from(plan_ledger::Rejection::NoSuchRun));
        };
        let outcome = match (self.fatal, self.stop) {
            (Some(error), _) => RunOutcome::Stopped { error, unrecorded: self.unrecorded },
            (None, StopRequest::None) => {
                summary::standing(run, self.options.route, self.clock.now())
            }
            (None, _) => match summary::standing(run, self.options.route, self.clock.now()) {
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
            failed_criteria: plan_ledger_views::failed_criteria(run),
            trusted: summary::trusted(run),
            notes: self.notes,
            seen: self.seen,
        })
    }
}

#[cfg(test)]
#[path = "run_loop_tests.rs"]
mod tests;
