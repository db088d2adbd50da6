//! Applies events of a run as a whole: end, pause, budget, replan requests, forks and timers.
//!
//! Invariants: `State::due` contains the first timer of each run. An ended run has no open question
//! and no timer except leases.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::{
    BudgetChanged, Ending, PauseCause, ReplanRequested, ReplanTrigger, RunEnded, StepsInherited,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::state::run::{ReplanRequest, Run, RunStatus, Timer};
use crate::plan::state::{ENDED_KEPT, State};
use crate::plan::value::ids::{RunId, Timestamp};

impl State {
    /// Runs `change`, which may open or close this question only, and updates the index of the
    /// ledger.
    pub(super) fn change_question(
        &mut self,
        id: RunId,
        question: QuestionId,
        change: impl FnOnce(&mut Run),
    ) {
        let is_open = self.change(id, |run| {
            change(run);
            run.questions.contains_key(&question)
        });
        match is_open {
            Some(true) => drop(self.questions.insert(question, id)),
            Some(false) if self.questions.get(&question) == Some(&id) => {
                self.questions.remove(&question);
            }
            _ => {}
        }
    }

    /// Runs `change`, which may open or close any question of the run, and updates the index of the
    /// ledger.
    pub(super) fn change_questions(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        let changed = self.change(id, |run| {
            let before = run.open_questions();
            change(run);
            (before, run.open_questions())
        });
        if let Some((before, after)) = changed {
            self.replace_questions(id, &before, &after);
        }
    }

    /// Replaces the open questions of a run in the index of the ledger.
    pub(super) fn replace_questions(
        &mut self,
        run: RunId,
        before: &[QuestionId],
        after: &[QuestionId],
    ) {
        for question in before {
            self.questions.remove(question);
        }
        self.questions.extend(after.iter().map(|question| (*question, run)));
    }

    pub(super) fn change_budget(&mut self, changed: &BudgetChanged) {
        let Some(run) = changed.run else {
            self.account.limits = changed.limits;
            return;
        };
        self.change_run(run, |run| {
            run.account.limits = changed.limits;
            run.set_wall_timer();
        });
    }

    pub(super) fn end_run(&mut self, seq: u64, ended: &RunEnded) {
        let (run, ending, time) = (ended.run, ended.ending, self.time);
        let is_open = |run: &Run| !matches!(run.status, RunStatus::Ended(_));
        if !self.runs.get(&run).is_some_and(is_open) {
            return;
        }
        self.ended.insert((seq, run));
        self.change_questions(run, |run| {
            run.status = RunStatus::Ended(ending);
            run.end_record = Some((seq, time));
            run.pause = None;
            run.request = None;
            if matches!(ending, Ending::Cancelled | Ending::Aborted) {
                run.cancel_open_steps();
            }
            run.close_all_questions();
            run.timers.retain(|(_, timer)| matches!(timer, Timer::Lease(_)));
        });
    }

    pub(super) fn reopen_run(&mut self, run: RunId) {
        let ended = self.change(run, |run| {
            if run.status != RunStatus::Ended(Ending::Failed) {
                return None;
            }
            let ended = run.end_record.take();
            run.reopen();
            ended
        });
        if let Some(Some((seq, _))) = ended {
            self.ended.remove(&(seq, run));
        }
    }

    /// Replaces the runs that ended first by summaries until at most [`ENDED_KEPT`] ended runs are
    /// complete.
    pub(super) fn retire(&mut self) {
        while self.ended.len() > ENDED_KEPT
            && let Some((_, id)) = self.ended.pop_first()
        {
            // The summary comes from the overview, so the run is not unpacked.
            let Some(overview) = self.runs.overview(&id) else { continue };
            let summary = overview.summary();
            match self.runs.discard(&id) {
                Some(run) => self.forget_attempts(&run),
                None => self.dispatched.retain(|_, (run, ..)| *run != id),
            }
            self.summaries.extend(summary.map(|summary| (id, summary)));
        }
    }

    /// Removes the attempts of a run from the index of the ledger.
    fn forget_attempts(&mut self, run: &Run) {
        for token in &run.dispatched {
            if let Entry::Occupied(attempt) = self.dispatched.entry(*token)
                && attempt.get().0 == run.id
            {
                attempt.remove();
            }
        }
    }
}

impl Run {
    pub(super) fn request_replan(
        &mut self,
        seq: u64,
        time: Timestamp,
        requested: &ReplanRequested,
    ) {
        self.request = Some(ReplanRequest {
            seq,
            time,
            trigger: requested.trigger.clone(),
            from: requested.from,
            reason: requested.reason.clone(),
        });
        // Steps with a pending replan request need none now.
        self.pending_steps.clone().into_iter().for_each(|number| self.refresh_pending(number));
    }

    pub(super) fn withdraw_replan(&mut self) {
        let request = self.request.take();
        self.is_complete |=
            request.is_some_and(|request| request.trigger == ReplanTrigger::Extension);
        // The next request may be one that another worker made in the meantime.
        self.reported.clone().into_iter().for_each(|number| self.refresh_pending(number));
    }

    pub(super) fn set_pause(&mut self, cause: Option<PauseCause>) {
        self.pause = cause;
        self.set_wall_timer();
    }

    /// Reopens the run after a failure.
    fn reopen(&mut self) {
        self.status = RunStatus::Running;
        self.abort_reason = None;
        // The plan criteria are judged again once all steps are closed.
        self.plan_verdicts.clear();
        // The end of the run closed all questions. Those that still need an answer are asked again.
        self.step_numbers().for_each(|number| self.refresh_pending(number));
        for id in self.barriers.keys().cloned().collect::<Vec<_>>() {
            self.refresh_pending_barrier(&id);
        }
        self.set_timers();
    }

    fn cancel_open_steps(&mut self) {
        for number in self.step_numbers() {
            if self.step(number).is_some_and(|step| step.status.is_open()) {
                self.set_status(number, StepStatus::Cancelled);
                if let Some(step) = self.steps.get_mut(number.index()) {
                    step.take_attempt();
                }
            }
        }
    }

    fn close_all_questions(&mut self) {
        let open: Vec<_> = self.questions.keys().copied().collect();
        for question in open {
            self.close(question);
        }
        for number in self.step_numbers() {
            if self.step(number).is_some_and(|step| step.hold().question.is_some())
                && let Some(step) = self.steps.get_mut(number.index())
            {
                step.change_hold(|hold| hold.question = None);
            }
        }
        self.barriers.values_mut().for_each(|barrier| barrier.question = None);
    }

    /// Updates the set of capped tags.
    pub(super) fn cap_tags(&mut self, in_ledger: &BTreeSet<String>) {
        let planned = self.plan().map(|plan| plan.header().caps.tags.keys().cloned().collect());
        let capped: BTreeSet<String> =
            in_ledger.union(&planned.unwrap_or_default()).cloned().collect();
        if capped != self.capped_tags {
            self.capped_tags = capped;
            self.rebuild_lanes();
        }
    }

    /// Rebuilds all timers except leases, which change with the attempts in flight.
    pub(super) fn set_timers(&mut self) {
        self.timers.retain(|(_, timer)| matches!(timer, Timer::Lease(_)));
        for number in self.step_numbers() {
            let Some(step) = self.step(number) else { continue };
            if let (StepStatus::Delayed, Some(until)) = (step.status, step.hold().delay) {
                self.timers.insert((until, Timer::Delay(number)));
            }
        }
        for (id, barrier) in &self.barriers {
            if let (BarrierStatus::Closed, Some(deadline)) = (barrier.status, barrier.deadline) {
                self.timers.insert((deadline, Timer::Barrier(id.clone())));
            }
        }
        for (id, question) in &self.questions {
            if let Some(deadline) = question.asked.deadline {
                self.timers.insert((deadline, Timer::Question(*id)));
            }
        }
        self.set_wall_timer();
    }

    fn set_wall_timer(&mut self) {
        self.timers.retain(|(_, timer)| *timer != Timer::Wall);
        if let Some(until) = self.wall_until()
            && self.pause.is_none()
        {
            self.timers.insert((until, Timer::Wall));
        }
    }

    /// Sets the initial status of steps of a forked run.
    pub(super) fn inherit(&mut self, inherited: &StepsInherited) {
        for each in &inherited.steps {
            let Some(step) = self.steps.get_mut(each.step.index()) else { continue };
            if step.last_seq != 0 || step.status == StepStatus::Removed {
                continue;
            }
            step.attempts = each.attempts;
            step.failures = each.failures;
            step.change(|detail| detail.last_failure = each.last_failure.clone().map(Box::new));
            if matches!(
                each.status,
                StepStatus::Accepted | StepStatus::Skipped | StepStatus::Failed
            ) {
                step.accept(each.accepted.clone());
                self.set_status(each.step, each.status);
            }
            self.refresh_pending(each.step);
        }
    }
}
