//! The fold: what each event changes.
//!
//! Invariants:
//! - Total, infallible and deterministic. An event that makes no sense (only a forged log holds
//!   one) changes nothing but the sequence number and the time.
//! - Whatever is derived (ready queue, counts, barriers) is kept up to date here and nowhere
//!   else, by touching only what depends on the thing that changed.
//!
//! Left out on purpose: every judgement. Commands are judged in `decide`, consequences in
//! `settle`; both leave events, and only these are folded.

mod activation;
mod control;
mod money;
pub(super) mod questions;
mod status;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    AttemptToken, CapChanged, CapScope, Event, HashedStep, Micros, PlanProposed, PlanSteps,
    PlanVersion, QuestionId, Run, RunId, RunStarted, State, StepNumber, StepRecord, StepStatus,
    Timer, Variable, VariableSet, expression,
};

/// An attempt in flight, as the ledger-wide books hold it.
#[derive(Debug, PartialEq, Eq)]
struct Flight {
    run: RunId,
    step: StepNumber,
    token: AttemptToken,
    owner: Option<String>,
    tags: BTreeSet<String>,
    lease_until: Micros,
}

impl State {
    /// Pass over a record that concerns the log only.
    pub fn pass(&mut self, seq: u64, time: Micros) {
        self.seq = seq;
        self.time = self.time.max(time);
    }

    /// Folds in the event that is record `seq`, written at `time`.
    pub fn apply(&mut self, seq: u64, time: Micros, event: &Event) {
        self.pass(seq, time);
        let before = event.run().and_then(|run| self.first_timer(run));
        self.fold(seq, time, event);
        if let Some(run) = event.run() {
            self.note_timer(run, before);
        }
        self.retire();
    }

    /// The same, of an event that nobody needs afterwards: the steps of a plan are not copied.
    pub fn take(&mut self, seq: u64, time: Micros, event: Event) {
        let Event::PlanSteps(PlanSteps { run, version, steps }) = event else {
            return self.apply(seq, time, &event);
        };
        // They move no timer, and end no run.
        self.pass(seq, time);
        self.with(run, |run| run.add_plan_steps(version, steps.into_iter()));
    }

    fn fold(&mut self, seq: u64, time: Micros, event: &Event) {
        match event {
            Event::RunStarted(started) => self.start_run(started, time),
            Event::PlanActivated(activated) => {
                let capped = self.capped_tags();
                self.with_flights(activated.run, |run| {
                    run.activate(activated, time);
                    run.cap_tags(&capped);
                });
            }
            Event::Step(record) => self.apply_step(seq, time, record),
            Event::CapChanged(changed) => self.change_cap(changed),
            Event::PlanProposed(proposed) => self.with(proposed.run, |run| run.propose(proposed)),
            Event::PlanSteps(steps) => self.with(steps.run, |run| {
                run.add_plan_steps(steps.version, steps.steps.iter().cloned());
            }),
            Event::PlanReviewed(reviewed) => self.with(reviewed.run, |run| {
                if let Some(version) = run.version_mut(reviewed.version) {
                    version.review = Some(reviewed.review);
                }
            }),
            Event::PlanVerdict(judged) => self.with(judged.run, |run| {
                if judged.version == run.active {
                    let verdict = judged.verdict.clone();
                    run.plan_verdicts.entry(verdict.criterion).or_insert(verdict);
                }
            }),
            Event::VariableSet(set) => self.with(set.run, |run| run.set_variable(set, time)),
            Event::Barrier(changed) => self.with(changed.run, |run| run.change_barrier(changed)),
            Event::RunEnded(ended) => self.end_run(seq, ended),
            Event::RunReopened(reopened) => self.reopen_run(reopened.run),
            Event::RunPaused(paused) => {
                self.with(paused.run, |run| run.set_pause(Some(paused.cause.clone())));
            }
            Event::RunResumed(resumed) => self.with(resumed.run, |run| run.set_pause(None)),
            Event::BudgetChanged(changed) => self.change_budget(changed),
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
                self.with(requested.run, |run| run.request_replan(seq, time, requested));
            }
            Event::ReplanWithdrawn(withdrawn) => self.with(withdrawn.run, Run::withdraw_replan),
            Event::RunForked(forked) => self.with(forked.run, |run| {
                run.forked = Some(forked.clone());
            }),
            Event::StepsInherited(inherited) => {
                self.with(inherited.run, |run| run.inherit(inherited));
            }
        }
    }

    fn with(&mut self, run: RunId, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.runs.get_mut(&run) {
            change(run);
        }
    }

    fn start_run(&mut self, started: &RunStarted, time: Micros) {
        if self.runs.contains_key(&started.run) || self.summaries.contains_key(&started.run) {
            return;
        }
        let mut run = Run::new(started.run, &started.name, started.policy, time);
        run.capped_tags = self.capped_tags();
        self.names.entry(started.name.clone()).or_insert(started.run);
        self.runs.insert(started.run, run);
    }

    fn change_cap(&mut self, changed: &CapChanged) {
        match changed.limit {
            Some(limit) => self.caps.insert(changed.scope.clone(), limit),
            None => self.caps.remove(&changed.scope),
        };
        if matches!(changed.scope, CapScope::Tag(_)) {
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

    fn apply_step(&mut self, seq: u64, time: Micros, record: &StepRecord) {
        let Some(run) = self.runs.get_mut(&record.run) else { return };
        let before = run.flight(record.step);
        let asked = run.step(record.step).and_then(|step| step.hold().question);
        let entry = run.apply_step(seq, time, record.step, &record.event);
        let after = run.flight(record.step);
        let asks = run.step(record.step).and_then(|step| step.hold().question);
        self.account.enter(entry);
        if asked != asks {
            asked.map(|question| self.questions.remove(&question));
            asks.map(|question| self.questions.insert(question, record.run));
        }
        if before != after {
            if let Some(flight) = before {
                self.land(&flight);
            }
            if let Some(flight) = after {
                self.take_off(&flight);
            }
        }
    }

    /// Changes a run in a way that may end or rename any of its attempts in flight.
    fn with_flights(&mut self, run: RunId, change: impl FnOnce(&mut Run)) {
        let id = run;
        let Some(run) = self.runs.get_mut(&id) else { return };
        let before = run.flights();
        let asked: Vec<_> = run.questions.keys().copied().collect();
        change(run);
        let after = run.flights();
        for question in asked {
            self.questions.remove(&question);
        }
        self.questions.extend(run.questions.keys().map(|question| (*question, id)));
        for flight in &before {
            self.land(flight);
        }
        for flight in &after {
            self.take_off(flight);
        }
    }

    fn take_off(&mut self, flight: &Flight) {
        self.in_flight.insert(flight.token, (flight.run, flight.step));
        self.dealt.insert(flight.token, (flight.run, flight.step));
        let run = self.runs.get_mut(&flight.run);
        if let Some(owner) = &flight.owner {
            count_up(&mut self.in_flight_by_owner, owner);
        }
        flight.tags.iter().for_each(|tag| count_up(&mut self.in_flight_by_tag, tag));
        if let Some(run) = run {
            run.timers.insert((flight.lease_until, Timer::Lease(flight.token)));
            run.dealt.insert(flight.token);
            run.in_flight = run.in_flight.saturating_add(1);
            if let Some(owner) = &flight.owner {
                count_up(&mut run.in_flight_by_owner, owner);
            }
            flight.tags.iter().for_each(|tag| count_up(&mut run.in_flight_by_tag, tag));
        }
    }

    fn land(&mut self, flight: &Flight) {
        self.in_flight.remove(&flight.token);
        let run = self.runs.get_mut(&flight.run);
        if let Some(owner) = &flight.owner {
            count_down(&mut self.in_flight_by_owner, owner);
        }
        flight.tags.iter().for_each(|tag| count_down(&mut self.in_flight_by_tag, tag));
        if let Some(run) = run {
            run.timers.remove(&(flight.lease_until, Timer::Lease(flight.token)));
            run.in_flight = run.in_flight.saturating_sub(1);
            if let Some(owner) = &flight.owner {
                count_down(&mut run.in_flight_by_owner, owner);
            }
            flight.tags.iter().for_each(|tag| count_down(&mut run.in_flight_by_tag, tag));
        }
    }
}

impl Run {
    fn version_mut(&mut self, version: u32) -> Option<&mut PlanVersion> {
        let index = usize::try_from(version).ok()?.checked_sub(1)?;
        self.versions.get_mut(index)
    }

    fn propose(&mut self, proposed: &PlanProposed) {
        let next = u32::try_from(self.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
        if proposed.version != next {
            return;
        }
        let mut plan = (*proposed.header).clone();
        plan.steps.clear();
        self.versions.push(PlanVersion {
            hash: proposed.hash,
            reason: proposed.reason.clone(),
            review: None,
            plan: Arc::new(plan.into()),
            step_hashes: Vec::new(),
            numbers: Vec::new(),
            step_count: proposed.step_count,
        });
    }

    fn add_plan_steps(&mut self, version: u32, added: impl ExactSizeIterator<Item = HashedStep>) {
        let Some(version) = self.version_mut(version) else { return };
        let total = version.step_hashes.len().saturating_add(added.len());
        if u32::try_from(total).map_or(true, |total| total > version.step_count) {
            return;
        }
        let plan = Arc::make_mut(&mut version.plan);
        version.step_hashes.reserve(added.len());
        for HashedStep { hash, step } in added {
            version.step_hashes.push(hash);
            plan.push(&step);
        }
        // All of them stay for long, and no more come.
        if u32::try_from(total) == Ok(version.step_count) {
            version.step_hashes.shrink_to_fit();
            plan.shrink_to_fit();
        }
    }

    fn set_variable(&mut self, set: &VariableSet, time: Micros) {
        let variable = Variable {
            value: set.value.clone(),
            version: set.version,
            origin: set.origin.clone(),
            time: if set.since == 0 { time } else { set.since.min(time) },
            is_trusted: true,
        };
        self.variables.insert(set.name.clone(), variable);
        // What was judged by the old value is judged again.
        let links = Arc::clone(&self.links);
        let all = links.watchers(expression::ALL);
        for (number, place) in links.watchers(&set.name).iter().chain(all) {
            if let Some(step) = self.steps.get_mut(number.index()) {
                step.change_hold(|hold| hold.preconditions.retain(|at, _| at != place));
            }
            self.reopen_step(*number);
        }
    }

    /// The step's attempt, if it is in flight.
    fn flight(&self, number: StepNumber) -> Option<Flight> {
        let step = self.step(number).filter(|step| step.status == StepStatus::Dispatched)?;
        let attempt = step.attempt()?;
        Some(Flight {
            run: self.id,
            step: number,
            token: attempt.token,
            owner: step.owner().map(str::to_owned),
            tags: step.tags().clone(),
            lease_until: attempt.lease_until,
        })
    }

    fn flights(&self) -> Vec<Flight> {
        self.step_numbers().filter_map(|number| self.flight(number)).collect()
    }

    /// The number of every step that the run ever had.
    pub(super) fn step_numbers(&self) -> impl Iterator<Item = StepNumber> + use<> {
        (1..=u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).map(StepNumber)
    }
}

// An entry that is down to 0 is dropped, so that equal states have equal maps.

fn count_up<K: Ord + Clone>(counts: &mut BTreeMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) => *count = count.saturating_add(1),
        None => drop(counts.insert(key.clone(), 1)),
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}
