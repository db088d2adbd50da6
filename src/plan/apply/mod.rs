//! The fold: applies events to the state.
//!
//! `apply` makes no decisions. `decide` handles commands, and `settle` derives consequences; both
//! return events, and only events change the state.
//!
//! Invariants:
//! - Total, infallible and deterministic. An event that does not fit the state, which only a forged
//!   log can contain, changes only the sequence numbers (of the state and of the step) and the
//!   time. After a recorded loss, an event of a step is the truth, even if it does not fit.
//! - Only this module updates derived data (ready queues, counts, barriers). An update touches only
//!   the data that depends on the change.

mod activation;
mod control;
mod counts;
mod in_flight;
mod lost_records;
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
use crate::plan::event::table::{StepEvent, StepRecord};
use crate::plan::model::budget::Cost;
use crate::plan::state::State;
use crate::plan::state::kept_hash::KeptHash;
use crate::plan::state::run::{PlanVersion, Run, Variable};
use crate::plan::value::expression;
use crate::plan::value::ids::{AttemptToken, RunId, StepNumber, Timestamp};
use in_flight::InFlightAttempt;
use money::AccountDelta;

/// The parts of a step that are in the indexes of the ledger.
struct IndexedParts {
    in_flight_attempt: Option<InFlightAttempt>,
    question: Option<QuestionId>,
}

impl State {
    /// Skips a record that is not an event: only the sequence number and the time change.
    pub fn skip_record(&mut self, seq: u64, time: Timestamp) {
        self.seq = seq;
        self.time = self.time.max(time);
    }

    /// Skips the placeholder of a record that was lost before the ledger was salvaged. The loss is
    /// remembered: the events that follow may presuppose the lost one.
    pub fn lose_record(&mut self, seq: u64, time: Timestamp) {
        self.skip_record(seq, time);
        match self.lost.last_entry() {
            Some(mut range) if range.get().saturating_add(1) == seq => *range.get_mut() = seq,
            _ => drop(self.lost.insert(seq, seq)),
        }
    }

    /// Applies the event of record `seq`, written at `time`.
    pub fn apply(&mut self, seq: u64, time: Timestamp, event: &Event) {
        match event {
            // Steps are encoded from the borrowed event, because cloning them is expensive.
            Event::PlanSteps(added) => {
                self.skip_record(seq, time);
                self.change_run(added.run, |run| run.add_plan_steps(added.version, &added.steps));
            }
            _ => self.apply_owned(seq, time, event.clone()),
        }
    }

    /// As [`State::apply`], for an owned event: the parts that the state keeps are not cloned.
    pub fn apply_owned(&mut self, seq: u64, time: Timestamp, event: Event) {
        self.skip_record(seq, time);
        self.apply_event(seq, time, event);
        self.retire();
    }

    fn apply_event(&mut self, seq: u64, time: Timestamp, event: Event) {
        match event {
            Event::RunStarted(started) => self.start_run(started, time),
            Event::PlanActivated(activated) => {
                let capped = self.capped_tags();
                self.change_attempts(activated.run, |run| {
                    run.activate(&activated, time);
                    run.cap_tags(&capped);
                });
            }
            Event::Step(record) => self.apply_step(seq, time, record),
            Event::CapChanged(changed) => self.change_cap(changed),
            Event::PlanProposed(proposed) => {
                self.change_run(proposed.run, |run| run.propose(proposed));
            }
            Event::PlanSteps(added) => {
                self.change_run(added.run, |run| run.add_plan_steps(added.version, &added.steps));
            }
            Event::PlanReviewed(reviewed) => self.change_run(reviewed.run, |run| {
                if let Some(version) = run.version_mut(reviewed.version) {
                    version.review = Some(reviewed.review);
                    version.note = reviewed.note;
                    version.commands = reviewed.commands;
                }
            }),
            Event::PlanVerdict(judged) => self.change_run(judged.run, |run| {
                if judged.version == run.active {
                    run.plan_verdicts.entry(judged.verdict.criterion).or_insert(judged.verdict);
                }
            }),
            Event::VariableSet(set) => self.change_run(set.run, |run| run.set_variable(set, time)),
            Event::BarrierChanged(changed) => {
                self.change_run(changed.run, |run| run.change_barrier(&changed));
            }
            Event::RunEnded(ended) => self.end_run(seq, &ended),
            Event::RunReopened(reopened) => self.reopen_run(reopened.run),
            Event::RunPaused(paused) => {
                self.change_run(paused.run, |run| run.set_pause(Some(paused.cause)));
            }
            Event::RunResumed(resumed) => self.change_run(resumed.run, |run| run.set_pause(None)),
            Event::BudgetChanged(changed) => self.change_budget(&changed),
            Event::QuestionAsked(event) => {
                let asked = |run: &mut Run| run.question_asked(seq, time, &event.asked);
                self.change_question(event.run, QuestionId(seq), asked);
            }
            Event::QuestionAnswered(event) => {
                let answered = &event.answered;
                self.change_question(event.run, answered.question, |run| {
                    run.question_answered(answered);
                });
            }
            Event::QuestionExpired(event) => {
                let expired = &event.expired;
                self.change_question(event.run, expired.question, |run| {
                    run.question_expired(expired);
                });
            }
            Event::ReplanRequested(requested) => {
                self.change_run(requested.run, |run| run.request_replan(seq, time, &requested));
            }
            Event::ReplanWithdrawn(withdrawn) => {
                self.change_run(withdrawn.run, Run::withdraw_replan);
            }
            Event::FailureSettingsChanged(changed) => {
                self.change_run(changed.run, |run| run.failure_settings = changed.settings);
            }
            Event::RunForked(forked) => self.change_run(forked.run, |run| run.fork = Some(forked)),
            Event::HelperEnded(ended) => {
                let spent = (Cost::default(), ended.cost);
                let delta = AccountDelta { spent, ..AccountDelta::default() };
                if self.change(ended.run, |run| run.account.apply_delta(delta)).is_some() {
                    self.account.apply_delta(delta);
                }
            }
            Event::StepsInherited(inherited) => {
                self.change_run(inherited.run, |run| run.inherit(&inherited));
            }
        }
    }

    /// Runs `change` on a run and updates its first timer in [`State::due`]. All changes of timers
    /// use this method.
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

    fn change_run(&mut self, run: RunId, change: impl FnOnce(&mut Run)) {
        self.change(run, change);
    }

    fn start_run(&mut self, started: RunStarted, time: Timestamp) {
        if self.runs.contains_key(&started.run) || self.summaries.contains_key(&started.run) {
            return;
        }
        let mut run = Run::new(started.run, &started.name, started.policy, time);
        run.capped_tags = self.capped_tags();
        self.names.entry(started.name).or_insert(started.run);
        self.runs.insert(started.run, run);
    }

    fn change_cap(&mut self, changed: CapChanged) {
        let is_of_tag = matches!(changed.scope, CapScope::Tag { .. });
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
            CapScope::Tag { tag } => Some(tag.clone()),
            _ => None,
        };
        self.caps.keys().filter_map(tag).collect()
    }

    fn apply_step(&mut self, seq: u64, time: Timestamp, record: StepRecord) {
        let StepRecord { run: id, step: number, event, .. } = record;
        let may_catch_up = self.has_lost_events_before(id, number, &event);
        let changed = self.change(id, |run| {
            let before = run.indexed_parts(number);
            let caught_up = if may_catch_up && !mutant!(EventAfterLossIgnored) {
                run.catch_up(time, number, &event)
            } else {
                AccountDelta::default()
            };
            let delta = run.apply_step(seq, time, number, event);
            let after = run.indexed_parts(number);
            if before.in_flight_attempt != after.in_flight_attempt {
                run.replace_in_flight(&before.in_flight_attempt, &after.in_flight_attempt);
            }
            ([caught_up, delta], before, after)
        });
        let Some((deltas, before, after)) = changed else { return };
        for delta in deltas {
            self.account.apply_delta(delta);
        }
        if before.question != after.question {
            before.question.map(|question| self.questions.remove(&question));
            after.question.map(|question| self.questions.insert(question, id));
        }
        if before.in_flight_attempt != after.in_flight_attempt {
            self.replace_in_flight(&before.in_flight_attempt, &after.in_flight_attempt);
        }
    }

    /// Whether events of a step may have been lost before this one. If the state does not know the
    /// attempt of the event, the record of its dispatch must have been lost.
    fn has_lost_events_before(&self, run: RunId, step: StepNumber, event: &StepEvent) -> bool {
        let is_lost = |token: AttemptToken| {
            self.lost.range(..=token.0).next_back().is_some_and(|(_, last)| token.0 <= *last)
        };
        let may_be_its_own = |token: AttemptToken| match self.dispatched.get(&token) {
            Some((of_run, of_step, _)) => (*of_run, *of_step) == (run, step),
            None => is_lost(token),
        };
        !self.lost.is_empty() && event.expected_attempt().is_none_or(may_be_its_own)
    }

    /// Runs `change`, which may change any attempt in flight and any question of the run, and
    /// updates the indexes.
    fn change_attempts(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        let changed = self.change(id, |run| {
            let (before, asked) = (run.in_flight_attempts(), run.open_questions());
            change(run);
            let after = run.in_flight_attempts();
            run.replace_in_flight(&before, &after);
            (before, after, asked, run.open_questions())
        });
        let Some((before, after, asked, asks)) = changed else { return };
        self.replace_questions(id, &asked, &asks);
        self.replace_in_flight(&before, &after);
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
            note: String::new(),
            provenance: proposed.provenance,
            commands: None,
            plan: Arc::new(plan.into()),
            step_hashes: Arc::default(),
            numbers: Vec::new(),
            step_count: proposed.step_count,
            part_hash: KeptHash::default(),
        });
    }

    fn add_plan_steps(&mut self, version: u32, added: &[HashedStep]) {
        let Some(version) = self.version_mut(version) else { return };
        let total = version.step_hashes.len().saturating_add(added.len());
        if u32::try_from(total).map_or(true, |total| total > version.step_count) {
            return;
        }
        version.part_hash.forget();
        let plan = Arc::make_mut(&mut version.plan);
        let hashes = Arc::make_mut(&mut version.step_hashes);
        hashes.extend(added.iter().map(|added| added.hash));
        plan.extend(added.iter().map(|added| &*added.step));
        // The version is complete.
        if u32::try_from(total) == Ok(version.step_count) {
            hashes.shrink_to_fit();
            plan.shrink_to_fit();
        }
    }

    fn set_variable(&mut self, set: VariableSet, time: Timestamp) {
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
            self.refresh_status(*number);
        }
    }

    fn indexed_parts(&self, number: StepNumber) -> IndexedParts {
        let question = self.step(number).and_then(|step| step.hold().question);
        IndexedParts { in_flight_attempt: self.in_flight_attempt(number), question }
    }

    fn open_questions(&self) -> Vec<QuestionId> {
        self.questions.keys().copied().collect()
    }

    /// When its first timer is due.
    fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }
}
