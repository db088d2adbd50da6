//! What events about a run as a whole change: its end, pauses, budgets, requests, forks, timers.
//!
//! Invariants: of each run the first timer stands in the ledger's list. A run that has ended has
//! no timer and no open question.

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
use crate::plan::value::ids::{Micros, RunId};

impl State {
    /// Changes a run in a way that may open or close one question, and no other.
    pub(super) fn with_question(
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

    /// Changes a run in a way that may open or close any of its questions.
    pub(super) fn with_questions(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        let changed = self.change(id, |run| {
            let before = run.open_questions();
            change(run);
            (before, run.open_questions())
        });
        if let Some((before, after)) = changed {
            self.replace_questions(id, &before, &after);
        }
    }

    /// Strikes out the questions of a run that were open, and enters those that are.
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
        self.with(run, |run| {
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
        self.with_questions(run, |run| {
            run.status = RunStatus::Ended(ending);
            run.ended = Some((seq, time));
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
            let ended = run.ended.take();
            run.reopen();
            ended
        });
        if let Some(Some((seq, _))) = ended {
            self.ended.remove(&(seq, run));
        }
    }

    /// Leaves a summary of the runs that ended first, where too many that have ended are whole.
    pub(super) fn retire(&mut self) {
        while self.ended.len() > ENDED_KEPT
            && let Some((_, id)) = self.ended.pop_first()
        {
            // What a list shows of it is all that is left: nothing is unpacked for that.
            let Some(glance) = self.runs.glance(&id) else { continue };
            let summary = glance.summary();
            match self.runs.discard(&id) {
                Some(run) => self.forget_attempts(&run),
                None => self.dealt.retain(|_, (run, _)| *run != id),
            }
            self.summaries.extend(summary.map(|summary| (id, summary)));
        }
    }

    /// Whoever asks for an attempt of that run is told that there is none. All that are known of it
    /// are its own, and few beside those of other runs.
    fn forget_attempts(&mut self, run: &Run) {
        for token in &run.dealt {
            if let Entry::Occupied(attempt) = self.dealt.entry(*token)
                && attempt.get().0 == run.id
            {
                attempt.remove();
            }
        }
    }
}

impl Run {
    pub(super) fn request_replan(&mut self, seq: u64, time: Micros, requested: &ReplanRequested) {
        self.request = Some(ReplanRequest {
            seq,
            time,
            trigger: requested.trigger.clone(),
            from: requested.from,
            reason: requested.reason.clone(),
        });
        // Whoever was about to ask for another plan, too, need not.
        self.due.clone().into_iter().for_each(|number| self.review(number));
    }

    pub(super) fn withdraw_replan(&mut self) {
        let request = self.request.take();
        self.is_complete |=
            request.is_some_and(|request| request.trigger == ReplanTrigger::Extension);
    }

    pub(super) fn set_pause(&mut self, cause: Option<PauseCause>) {
        self.pause = cause;
        self.set_wall_timer();
    }

    /// The run goes on after it had failed.
    fn reopen(&mut self) {
        self.status = RunStatus::Running;
        self.abort = None;
        // What failed the plan as a whole is judged anew once its steps are closed again.
        self.plan_verdicts.clear();
        // Its end closed all questions: who still needs an answer asks again.
        self.step_numbers().for_each(|number| self.review(number));
        for id in self.barriers.keys().cloned().collect::<Vec<_>>() {
            self.review_barrier(&id);
        }
        self.set_timers();
    }

    fn cancel_open_steps(&mut self) {
        for number in self.step_numbers() {
            if self.step(number).is_some_and(|step| step.status.is_open()) {
                self.shift(number, StepStatus::Cancelled);
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
        for step in self.steps.iter_mut().filter(|step| step.hold().question.is_some()) {
            step.change_hold(|hold| hold.question = None);
        }
        self.barriers.values_mut().for_each(|barrier| barrier.question = None);
    }

    /// The tags with a cap in the ledger are these now.
    pub(super) fn cap_tags(&mut self, in_ledger: &BTreeSet<String>) {
        let planned = self.plan().map(|plan| plan.header().caps.tags.keys().cloned().collect());
        let capped: BTreeSet<String> =
            in_ledger.union(&planned.unwrap_or_default()).cloned().collect();
        if capped != self.capped_tags {
            self.capped_tags = capped;
            self.rebuild_lanes();
        }
    }

    /// Sets the timers that follow from how the run stands, after all of them may have changed.
    /// Those of leases are kept by whoever keeps the attempts in flight.
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

    /// How some steps of a forked run stand when it begins.
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
                self.shift(each.step, each.status);
            }
            self.review(each.step);
        }
    }
}
