//! Runs the criteria that are commands: those of a step after its receipt, and those of the plan
//! after the last step.
//!
//! Of several processes that could check the same criteria, the one with the check lock runs the
//! commands; the others wait for its verdicts. A worker checks the steps that it has reported, and
//! unchecked steps of an earlier worker of the same name. A worker of servers on other machines checks nothing: they take
//! no verdict from another machine. Nothing is checked inside an attempt or an agent session, and no command runs that no
//! person approved: such steps stay reported.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use plan_ledger::internals::ledger::expect_valid;
use plan_ledger::{Environment, LedgerView, Ruling, Run, State, StepNumber};

use crate::output::{Code, Failure, print_message};
use crate::protocol::{Answer, WorkerKind};
use crate::requests::{VerdictRequest, run_or_only};
use crate::runner::{
    CheckLock, CheckPlaces, Checked, Criteria, Order, StopRequest, Subject, check_external,
    has_check,
};

use super::answers::{has_command_criteria, text_in, without_nothing};
use super::judge_only::may_check;
use super::worker::Worker;

/// The pause between two attempts to take the check lock.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A check lock that was taken.
struct TakenLock {
    lock: CheckLock,
    /// Whether another process had it first.
    after_other: bool,
}

impl Worker<'_> {
    /// Checks the steps that an earlier worker of this name reported before it died.
    pub(super) fn check_leftovers(&mut self) -> Result<(), Failure> {
        plan_ledger::mutant!(InterruptedCheckNotResumed => return Ok(()));
        if self.is_remote() {
            return Ok(());
        }
        // An error is ignored here: the first claim reports a missing ledger or run.
        let Ok((state, _)) = self.read() else { return Ok(()) };
        if self.serves_every_run() {
            let mut open = state.runs.open().filter_map(|id| state.runs.get(&id));
            return open.try_for_each(|run| self.check_leftovers_of(run));
        }
        let Ok(run) = run_or_only(&state, self.args.run.name()) else { return Ok(()) };
        self.check_leftovers_of(run)
    }

    fn check_leftovers_of(&mut self, run: &Run) -> Result<(), Failure> {
        let is_own = |number: &&StepNumber| {
            let attempt = run.step(**number).and_then(|step| step.attempt());
            attempt.is_some_and(|attempt| attempt.worker == self.args.worker.worker)
        };
        let needs_check = |number: &StepNumber| has_check(run, Criteria::OfStep(*number));
        let own: Vec<StepNumber> =
            run.reported.iter().filter(is_own).copied().filter(needs_check).collect();
        for criteria in own.into_iter().map(Criteria::OfStep) {
            if !self.tell_unchecked(run, criteria) {
                continue;
            }
            // If the lock is taken, its owner is alive and checks them.
            let Some(lock) = self.take_lock(run, criteria)? else { continue };
            while let Some(answer) = self.check_one(&run.name, criteria, &lock)? {
                self.args.ledger.print(&answer)?;
            }
        }
        Ok(())
    }

    /// Checks the plan if there is nothing to dispatch and its steps are settled. Returns whether
    /// there was anything to check.
    pub(super) fn check_plan(&mut self, nothing: &Answer) -> Result<bool, Failure> {
        if self.is_remote() {
            return Ok(false);
        }
        let Some(run) = text_in(nothing, "run") else {
            return if self.serves_every_run() { self.check_plans() } else { Ok(false) };
        };
        self.check_plan_of(&run, nothing)
    }

    /// Checks the plans of all runs with only settled steps.
    fn check_plans(&mut self) -> Result<bool, Failure> {
        let (state, _) = self.read()?;
        let open = state.runs.open().filter_map(|id| state.runs.get(&id));
        let mut is_any = false;
        for run in open.filter(|run| has_check(run, Criteria::OfPlan)) {
            is_any |= self.check_plan_of(&run.name, &Answer::default())?;
        }
        Ok(is_any)
    }

    fn check_plan_of(&mut self, run: &str, nothing: &Answer) -> Result<bool, Failure> {
        let Some(taken) = self.lock(run, Criteria::OfPlan)? else { return Ok(false) };
        let mut is_any = taken.after_other;
        while !self.is_stopping()
            && let Some(answer) = self.check_one(run, Criteria::OfPlan, &taken.lock)?
        {
            if !is_any {
                self.args.ledger.print(&without_nothing(nothing.clone()))?;
            }
            is_any = true;
            self.args.ledger.print(&answer)?;
        }
        Ok(is_any)
    }

    /// The check lock of a step that is to be reported and checked here: then the answer does not say that
    /// nothing checks it.
    pub(super) fn lock_before_report(&self, task: &Value) -> Option<CheckLock> {
        if self.is_remote() || !has_command_criteria(task) {
            return None;
        }
        let number = task.get("number").and_then(Value::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok())?;
        let (state, _) = self.read().ok()?;
        let run = state.run_named(task.get("run").and_then(Value::as_str)?)?;
        if self.expect_checked_here(run).is_err() {
            return None;
        }
        self.take_lock(run, Criteria::OfStep(StepNumber(number))).ok()?
    }

    /// Takes the lock of criteria, unless another process has it, and reports the checks of an
    /// earlier process that it ended.
    pub(super) fn take_lock(
        &self,
        run: &Run,
        criteria: Criteria,
    ) -> Result<Option<CheckLock>, Failure> {
        let lock = CheckLock::take(&self.ledger, run.id, criteria)?;
        if let Some(left) = lock.as_ref().and_then(CheckLock::left) {
            print_message(left);
        }
        Ok(lock)
    }

    /// Checks a step that was just reported. Returns the last answer.
    pub(super) fn check_step(
        &mut self,
        reported: Answer,
        held: Option<CheckLock>,
    ) -> Result<Answer, Failure> {
        if self.is_remote() {
            return Ok(reported);
        }
        let line = reported.lines.first();
        let number = line.and_then(|line| line.get("number")).and_then(Value::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let (Some(run), Some(number)) = (text_in(&reported, "run"), number) else {
            return Ok(reported);
        };
        let criteria = Criteria::OfStep(StepNumber(number));
        let TakenLock { lock, .. } = match held {
            Some(lock) => TakenLock { lock, after_other: false },
            None => match self.lock(&run, criteria)? {
                Some(lock) => lock,
                None => return Ok(reported),
            },
        };
        let mut last = reported;
        while let Some(answer) = self.check_one(&run, criteria, &lock)? {
            self.args.ledger.print(&std::mem::replace(&mut last, answer))?;
        }
        Ok(last)
    }

    /// Waits for the check lock. Returns `None` if there is nothing to check, if no person approved the commands,
    /// or if the worker stops.
    fn lock(&mut self, run: &str, criteria: Criteria) -> Result<Option<TakenLock>, Failure> {
        let (state, _) = self.read()?;
        let Some(run) = find_run(&state, run)?.filter(|run| has_check(run, criteria)) else {
            return Ok(None);
        };
        if !self.tell_unchecked(run, criteria) {
            return Ok(None);
        }
        let mut after_other = false;
        while !self.is_stopping() {
            if let Some(lock) = self.take_lock(run, criteria)? {
                return Ok(Some(TakenLock { lock, after_other }));
            }
            after_other = true;
            sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    /// Runs one command under the check lock and records its verdict.
    pub(super) fn check_one(
        &mut self,
        run: &str,
        criteria: Criteria,
        lock: &CheckLock,
    ) -> Result<Option<Answer>, Failure> {
        let (state, view) = self.read()?;
        let Some(run) = find_run(&state, run)? else { return Ok(None) };
        let signals = &self.signals;
        let order = || match signals.request() {
            StopRequest::Kill => Order::Stop,
            StopRequest::None | StopRequest::Drain => Order::Continue,
        };
        let working = if self.args.judge_only {
            let Ok(folder) = may_check(run, criteria) else { return Ok(None) };
            Some(folder)
        } else if self.expect_checked_here(run).is_ok() {
            None
        } else {
            return Ok(None);
        };
        let places = CheckPlaces { ledger: &self.ledger, lock, working };
        let noted = |note: &str| print_message(note);
        let found = check_external(&view, run, criteria, places, order, noted)?;
        let ruling_of = |it: &Checked| {
            it.ruling.or(plan_ledger::mutant!(StoppedCheckPasses).then_some(Ruling::Pass))
        };
        let found = found.and_then(|it| ruling_of(&it).map(|ruling| (it, ruling)));
        let Some((checked, ruling)) = found else { return Ok(None) };
        let token = match checked.subject {
            Subject::Attempt(token) | Subject::Probe(token) => Some(token.0),
            Subject::Plan(_) | Subject::Replan(_) | Subject::Decision(_) => None,
        };
        let answer = self.send_verdict(VerdictRequest {
            token,
            run: Some(run.name.clone()),
            criterion: checked.criterion,
            ruling,
            by: WorkerKind::Process.judge().to_owned().into(),
            evidence: checked.evidence,
        })?;
        if answer.code == Code::Success.number() {
            return Ok(Some(answer));
        }
        // A rejection means that another verdict came first, or that the attempt was cancelled.
        if answer.code != Code::Rejected.number() {
            self.args.ledger.print(&answer)?;
        }
        Ok(None)
    }

    /// Reads the current state without the writer lock.
    pub(super) fn read(&self) -> Result<(State, LedgerView), Failure> {
        let view = LedgerView::open(&self.ledger, &Environment::system())?;
        Ok((view.fold_recent()?.state, view))
    }
}

fn find_run<'a>(state: &'a State, name: &str) -> Result<Option<&'a Run>, Failure> {
    let run = state.run_named(name);
    expect_valid(state)?;
    Ok(run)
}
