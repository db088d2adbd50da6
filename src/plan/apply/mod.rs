//! The fold: applies events to the state.
//!
//! Applying judges nothing. Commands are judged in `decide` and consequences in `settle`; both produce
//! events, and only events change the state.
//!
//! Invariants:
//! - Total, infallible and deterministic. An event that does not fit the state, which only a forged log
//!   can contain, changes only the sequence number and the time.
//! - Derived data (ready queues, counts, barriers) is updated here and nowhere else. An update touches
//!   only what depends on the change.

mod activation;
mod control;
mod counts;
mod flights;
mod money;
mod questions;
mod status;
mod steps;
mod transition;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::plan::event::Event;
use crate::plan::event::plan_event::{HashedStep, PlanProposed};
use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::{CapChanged, CapScope, RunStarted, VariableSet};
use crate::plan::event::step_event::StepRecord;
use crate::plan::state::State;
use crate::plan::state::run::{PlanVersion, Run, Variable};
use crate::plan::value::expression;
use crate::plan::value::ids::{Micros, RunId, StepNumber};
use flights::Flight;

/// The parts of a step that the indexes of the ledger hold.
struct Listed {
    flight: Option<Flight>,
    question: Option<QuestionId>,
}

impl State {
    /// Advances over a record that belongs to the log only.
    pub fn pass(&mut self, seq: u64, time: Micros) {
        self.seq = seq;
        self.time = self.time.max(time);
    }

    /// Applies the event of record `seq`, written at `time`.
    pub fn apply(&mut self, seq: u64, time: Micros, event: &Event) {
        match event {
            // Steps are encoded directly from the borrowed event: cloning them would cost most.
            Event::PlanSteps(added) => {
                self.pass(seq, time);
                self.with(added.run, |run| run.add_plan_steps(added.version, &added.steps));
            }
            _ => self.take(seq, time, event.clone()),
        }
    }

    /// Applies an owned event, without cloning the parts that the state keeps.
    pub fn take(&mut self, seq: u64, time: Micros, event: Event) {
        self.pass(seq, time);
        self.fold(seq, time, event);
        self.retire();
    }

    fn fold(&mut self, seq: u64, time: Micros, event: Event) {
        match event {
            Event::RunStarted(started) => self.start_run(started, time),
            Event::PlanActivated(activated) => {
                let capped = self.capped_tags();
                self.with_flights(activated.run, |run| {
                    run.activate(&activated, time);
                    run.cap_tags(&capped);
                });
            }
            Event::Step(record) => self.apply_step(seq, time, record),
            Event::CapChanged(changed) => self.change_cap(changed),
            Event::PlanProposed(proposed) => self.with(proposed.run, |run| run.propose(proposed)),
            Event::PlanSteps(added) => {
                self.with(added.run, |run| run.add_plan_steps(added.version, &added.steps));
            }
            Event::PlanReviewed(reviewed) => self.with(reviewed.run, |run| {
                if let Some(version) = run.version_mut(reviewed.version) {
                    version.review = Some(reviewed.review);
                }
            }),
            Event::PlanVerdict(judged) => self.with(judged.run, |run| {
                if judged.version == run.active {
                    run.plan_verdicts.entry(judged.verdict.criterion).or_insert(judged.verdict);
                }
            }),
            Event::VariableSet(set) => self.with(set.run, |run| run.set_variable(set, time)),
            Event::Barrier(changed) => self.with(changed.run, |run| run.change_barrier(&changed)),
            Event::RunEnded(ended) => self.end_run(seq, &ended),
            Event::RunReopened(reopened) => self.reopen_run(reopened.run),
            Event::RunPaused(paused) => {
                self.with(paused.run, |run| run.set_pause(Some(paused.cause)));
            }
            Event::RunResumed(resumed) => self.with(resumed.run, |run| run.set_pause(None)),
            Event::BudgetChanged(changed) => self.change_budget(&changed),
            Event::QuestionAsked(event) => {
                let asked = |run: &mut Run| run.question_asked(seq, time, &event.asked);
                self.with_question(event.run, QuestionId(seq), asked);
            }
            Event::QuestionAnswered(event) => {
                let answered = &event.answered;
                self.with_question(event.run, answered.question, |run| {
                    run.question_answered(answered);
                });
            }
            Event::QuestionExpired(event) => {
                let expired = &event.expired;
                self.with_question(event.run, expired.question, |run| {
                    run.question_expired(expired);
                });
            }
            Event::ReplanRequested(requested) => {
                self.with(requested.run, |run| run.request_replan(seq, time, &requested));
            }
            Event::ReplanWithdrawn(withdrawn) => self.with(withdrawn.run, Run::withdraw_replan),
            Event::RunForked(forked) => self.with(forked.run, |run| run.forked = Some(forked)),
            Event::StepsInherited(inherited) => {
                self.with(inherited.run, |run| run.inherit(&inherited));
            }
        }
    }

    /// Changes a run, and updates its first timer in the due list. Every change of a timer goes through here.
    fn change<T>(&mut self, id: RunId, change: impl FnOnce(&mut Run) -> T) -> Option<T> {
        let run = self.runs.get_mut(&id)?;
        let before = run.next_due();
        let result = change(run);
        let after = run.next_due();
        if before != after {
            before.map(|due| self.due.remove(&(due, id)));
            after.map(|due| self.due.insert((due, id)));
        }
        Some(result)
    }

    fn with(&mut self, run: RunId, change: impl FnOnce(&mut Run)) {
        self.change(run, change);
    }

    fn start_run(&mut self, started: RunStarted, time: Micros) {
        if self.runs.contains_key(&started.run) || self.summaries.contains_key(&started.run) {
            return;
        }
        let mut run = Run::new(started.run, &started.name, started.policy, time);
        run.capped_tags = self.capped_tags();
        self.names.entry(started.name).or_insert(started.run);
        self.runs.insert(started.run, run);
    }

    fn change_cap(&mut self, changed: CapChanged) {
        let is_of_tag = matches!(changed.scope, CapScope::Tag(_));
        match changed.limit {
            Some(limit) => self.caps.insert(changed.scope, limit),
            None => self.caps.remove(&changed.scope),
        };
        if is_of_tag {
            let capped = self.capped_tags();
            self.runs.for_each_mut(|run| run.cap_tags(&capped));
        }
    }

    /// The tags for which the ledger has a cap.
    fn capped_tags(&self) -> BTreeSet<String> {
        let tag = |scope: &CapScope| match scope {
            CapScope::Tag(tag) => Some(tag.clone()),
            _ => None,
        };
        self.caps.keys().filter_map(tag).collect()
    }

    fn apply_step(&mut self, seq: u64, time: Micros, record: StepRecord) {
        let StepRecord { run: id, step: number, event, .. } = record;
        let changed = self.change(id, |run| {
            let before = run.listed(number);
            let entry = run.apply_step(seq, time, number, event);
            let after = run.listed(number);
            if before.flight != after.flight {
                run.replace_flights(&before.flight, &after.flight);
            }
            (entry, before, after)
        });
        let Some((entry, before, after)) = changed else { return };
        self.account.enter(entry);
        if before.question != after.question {
            before.question.map(|question| self.questions.remove(&question));
            after.question.map(|question| self.questions.insert(question, id));
        }
        if before.flight != after.flight {
            self.replace_flights(&before.flight, &after.flight);
        }
    }

    /// Changes a run in a way that may change any of its attempts in flight.
    fn with_flights(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        let changed = self.change(id, |run| {
            let (before, asked) = (run.flights(), run.open_questions());
            change(run);
            let after = run.flights();
            run.replace_flights(&before, &after);
            (before, after, asked, run.open_questions())
        });
        let Some((before, after, asked, asks)) = changed else { return };
        self.replace_questions(id, &asked, &asks);
        self.replace_flights(&before, &after);
    }
}

impl Run {
    fn version_mut(&mut self, version: u32) -> Option<&mut PlanVersion> {
        let index = usize::try_from(version).ok()?.checked_sub(1)?;
        self.versions.get_mut(index)
    }

    fn propose(&mut self, proposed: PlanProposed) {
        let next = u32::try_from(self.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
        if proposed.version != next {
            return;
        }
        let mut plan = *proposed.header;
        plan.steps.clear();
        self.versions.push(PlanVersion {
            hash: proposed.hash,
            reason: proposed.reason,
            review: None,
            plan: Arc::new(plan.into()),
            step_hashes: Vec::new(),
            numbers: Vec::new(),
            step_count: proposed.step_count,
        });
    }

    fn add_plan_steps(&mut self, version: u32, added: &[HashedStep]) {
        let Some(version) = self.version_mut(version) else { return };
        let total = version.step_hashes.len().saturating_add(added.len());
        if u32::try_from(total).map_or(true, |total| total > version.step_count) {
            return;
        }
        let plan = Arc::make_mut(&mut version.plan);
        version.step_hashes.extend(added.iter().map(|added| added.hash));
        plan.extend(added.iter().map(|added| &added.step));
        // The version is complete.
        if u32::try_from(total) == Ok(version.step_count) {
            version.step_hashes.shrink_to_fit();
            plan.shrink_to_fit();
        }
    }

    fn set_variable(&mut self, set: VariableSet, time: Micros) {
        let links = Arc::clone(&self.links);
        let watchers = links.watchers(&set.name).iter();
        let variable = Variable {
            value: set.value,
            version: set.version,
            origin: set.origin,
            time: if set.since == 0 { time } else { set.since.min(time) },
            is_trusted: true,
        };
        self.variables.insert(set.name, variable);
        // Preconditions that read the variable are evaluated again.
        for (number, place) in watchers.chain(links.watchers(expression::ALL)) {
            if let Some(step) = self.steps.get_mut(number.index()) {
                step.change_hold(|hold| hold.preconditions.retain(|at, _| at != place));
            }
            self.reopen_step(*number);
        }
    }

    fn listed(&self, number: StepNumber) -> Listed {
        let question = self.step(number).and_then(|step| step.hold().question);
        Listed { flight: self.flight(number), question }
    }

    fn open_questions(&self) -> Vec<QuestionId> {
        self.questions.keys().copied().collect()
    }

    /// When its first timer is due.
    fn next_due(&self) -> Option<Micros> {
        self.timers.first().map(|(due, _)| *due)
    }
}
