//! Applies the activation of a plan version.
//!
//! All derived data of the run is rebuilt from the statuses of its steps: an activation is rare,
//! and a version may change any dependency.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::counts::count_up;
use crate::plan::event::plan_event::PlanActivated;
use crate::plan::event::question::{Question, QuestionId, QuestionSubject, RELEASE, WAIT};
use crate::plan::event::run_event::ReplanTrigger;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::{Barrier, BarrierNeeds, OnBreak};
use crate::plan::model::step::{FailureClass, Fallback, Idempotence};
use crate::plan::state::barrier_state::{BarrierState, BarrierStatus};
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::links::Links;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::{Hold, StepState};
use crate::plan::value::ids::{Micros, StepNumber, Timestamp};
use crate::plan::value::rare_field::RareField;
use crate::plan::value::text::Text;

impl Run {
    pub(super) fn activate(&mut self, activated: &PlanActivated, time: Timestamp) {
        let Some(plan) = self.valid_plan(activated) else { return };
        let invalidated: BTreeSet<StepNumber> = activated.invalidated.iter().copied().collect();
        let held: BTreeSet<StepNumber> = activated.held.iter().copied().collect();
        let changed = self.changed_steps(&plan, activated);
        // The workers of steps that are done again get the reason.
        let request = self.request.as_ref();
        let request = request.filter(|request| request.trigger != ReplanTrigger::Extension);
        let why =
            request.map(|request| Text::concat([&"to be done again: ".into(), &request.reason]));
        for (step, number) in plan.steps().zip(&activated.numbers) {
            match self.steps.get_mut(number.index()) {
                Some(state) if held.contains(number) => state.keep_attempt(),
                // A new plan does not resolve an unknown outcome.
                Some(state)
                    if invalidated.contains(number)
                        && state.status != StepStatus::OutcomeUnknown =>
                {
                    let was_done = state.status.is_closed();
                    let accepted = state.accepted().cloned();
                    state.restart_or_hold();
                    // Work that must not be done twice is done again only if a person says so.
                    if plan.idempotence_of(step) == Idempotence::No
                        && !mutant!(UnrepeatableStepRepeated)
                    {
                        state.accept(accepted);
                    }
                    if let Some(why) = why.as_ref().filter(|_| was_done) {
                        let why = Some(Box::new((FailureClass::AssumptionBroken, why.clone())));
                        state.change(|detail| detail.last_failure = why);
                    }
                }
                Some(state) if changed.contains(number) => state.carry_over(Definition::Changed),
                Some(state) => state.carry_over(Definition::Same),
                None => self.steps.push(StepState::new(step.id())),
            }
            if let Some(state) = self.steps.get_mut(number.index()) {
                state.copy_plan_fields(&plan, step);
            }
        }
        self.steps.shrink_to_fit();
        self.remove_other_steps(&activated.numbers, &held);
        self.drop_stale_verdicts(&plan, &activated.numbers);
        if let Some(version) = self.version_mut(activated.version) {
            version.numbers.clone_from(&activated.numbers);
        }
        self.active = activated.version;
        self.activated_at = if activated.since == 0 { time } else { activated.since.min(time) };
        self.is_complete = false;
        self.plan_verdicts.clear();
        self.count_replan(activated);
        for name in &activated.untrusted {
            if let Some(variable) = self.variables.get_mut(name) {
                variable.is_trusted = false;
            }
        }
        if self.status == RunStatus::Proposed {
            self.status = RunStatus::Running;
        }
        self.links = Arc::new(Links::new(&plan, &activated.numbers, self.steps.len()));
        self.rebuild(&plan, activated);
        self.close_obsolete_questions();
        self.set_timers();
    }

    /// Steps whose definition differs from the active version. Questions and evaluations about them
    /// are discarded.
    fn changed_steps(&self, plan: &CompactPlan, activated: &PlanActivated) -> BTreeSet<StepNumber> {
        let version = usize::try_from(activated.version).ok().and_then(|n| n.checked_sub(1));
        let hashes = version.and_then(|place| self.versions.get(place));
        let hashes = hashes.map_or(&[][..], |version| &version.step_hashes);
        let is_changed = |(place, number): (usize, &StepNumber)| {
            let (Some(before), Some(after)) = (self.plan_step(*number), plan.step(place)) else {
                return false;
            };
            self.step_hash(*number).as_ref() != hashes.get(place) || !before.is_held_like(after)
        };
        let numbers = activated.numbers.iter().enumerate();
        numbers.filter(|each| is_changed(*each)).map(|(_, number)| *number).collect()
    }

    /// Ends the wait for a step that is no longer the fallback. A step that waits for its fallback
    /// and whose dependencies are no longer met starts again.
    fn drop_obsolete_fallbacks(&mut self, numbers: &[StepNumber]) {
        let links = Arc::clone(&self.links);
        for number in numbers {
            let Some(step) = self.step(*number) else { continue };
            let Some(fallback) = step.hold().fallback_step else { continue };
            let is_kept = links.fallback_of(*number) == Some(fallback);
            let has_unmet = self.count_unmet(&links, *number) > 0;
            let Some(step) = self.steps.get_mut(number.index()) else { continue };
            if !is_kept {
                step.change_hold(|hold| hold.fallback_step = None);
            } else if has_unmet {
                step.reset();
            }
        }
    }

    /// Closes questions whose subject the active version removed or changed.
    fn close_obsolete_questions(&mut self) {
        let is_obsolete = |(id, question): &(&QuestionId, &Question)| {
            let is_about = |open: Option<QuestionId>| open == Some(**id);
            match (&question.asked.subject, question.step) {
                (_, Some(step)) => {
                    !self.step(step).is_some_and(|step| is_about(step.hold().question))
                }
                (QuestionSubject::Plan { version }, None) => *version <= self.active,
                (QuestionSubject::Barrier { barrier }, None) => {
                    !self.barriers.get(barrier).is_some_and(|each| is_about(each.question))
                }
                (
                    QuestionSubject::Gate
                    | QuestionSubject::Failure { .. }
                    | QuestionSubject::Budget,
                    None,
                ) => false,
            }
        };
        let closed: Vec<_> = self.questions.iter().filter(is_obsolete).map(|(id, _)| *id).collect();
        for question in closed {
            self.close(question);
        }
    }

    /// Drops verdicts that name criteria by index if the list of criteria changed.
    fn drop_stale_verdicts(&mut self, plan: &CompactPlan, numbers: &[StepNumber]) {
        for (step, number) in plan.steps().zip(numbers) {
            if self.step(*number).is_none_or(|state| state.failed_criteria().is_empty()) {
                continue;
            }
            let before = self.plan_step(*number);
            if !before.is_some_and(|before| before.is_judged_like(step))
                && let Some(state) = self.steps.get_mut(number.index())
            {
                state.change(|detail| detail.failed_criteria = RareField::NONE);
            }
        }
    }

    fn count_replan(&mut self, activated: &PlanActivated) {
        let trigger = self.request.take().map(|request| request.trigger);
        let is_extension = trigger == Some(ReplanTrigger::Extension);
        let by_person = trigger.is_some_and(|trigger| trigger.is_change_of_scope());
        let is_copy = activated.since != 0;
        if activated.version > 1 && !is_extension && !by_person && !is_copy {
            self.replans = self.replans.saturating_add(1);
        }
        let count = |list: &[StepNumber]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        let counters = &mut self.counters;
        counters.invalidated = counters.invalidated.saturating_add(count(&activated.invalidated));
        counters.preserved = counters.preserved.saturating_add(count(&activated.preserved));
    }

    /// Marks the fallback steps that no step uses yet as standby.
    fn mark_standby_steps(&mut self, numbers: &[StepNumber]) {
        for number in numbers {
            let users = self.links.fallback_for(*number);
            let uses_it = |other: &StepNumber| {
                self.step(*other).is_some_and(|step| step.hold().fallback_step == Some(*number))
            };
            let is_standby = !users.is_empty() && !users.iter().any(uses_it);
            if let Some(step) = self.steps.get_mut(number.index())
                && step.hold().is_standby != is_standby
            {
                step.change_hold(|hold| hold.is_standby = is_standby);
            }
        }
    }

    /// The plan of the version, if it is complete and its numbers are valid: known numbers have the
    /// same id, new numbers follow without a gap, and no number occurs twice.
    fn valid_plan(&mut self, activated: &PlanActivated) -> Option<Arc<CompactPlan>> {
        let version = self.version_mut(activated.version)?;
        let plan = Arc::clone(&version.plan);
        let count = usize::try_from(version.step_count).ok()?;
        if plan.len() != count || activated.numbers.len() != count {
            return None;
        }
        let mut next = self.steps.len();
        let mut is_seen = vec![false; next.saturating_add(count)];
        for (step, number) in plan.steps().zip(&activated.numbers) {
            let fits = match self.step(*number) {
                Some(state) => state.id() == step.id(),
                None => number.index() == next,
            };
            // A valid number is a known or a new one.
            let is_seen = is_seen.get_mut(number.index()).filter(|_| fits)?;
            if std::mem::replace(is_seen, true) {
                return None;
            }
            next = next.max(number.index().saturating_add(1));
        }
        Some(plan)
    }

    /// Marks all other steps as removed. A step that an earlier version removed keeps its attempt.
    fn remove_other_steps(&mut self, numbers: &[StepNumber], held: &BTreeSet<StepNumber>) {
        let mut is_kept = vec![false; self.steps.len()];
        for number in numbers {
            if let Some(is_kept) = is_kept.get_mut(number.index()) {
                *is_kept = true;
            }
        }
        for (number, is_kept) in self.step_numbers().zip(is_kept) {
            if let Some(step) = self.steps.get_mut(number.index())
                && !is_kept
                && step.status != StepStatus::Removed
            {
                let attempt = step.take_attempt().filter(|_| held.contains(&number));
                step.reset();
                step.change(|detail| detail.attempt = attempt);
                step.status = StepStatus::Removed;
                step.unmet = 0;
            }
        }
    }

    /// Rebuilds all derived data from the statuses of the steps.
    fn rebuild(&mut self, plan: &CompactPlan, activated: &PlanActivated) {
        self.reported.clear();
        self.outcome_unknown.clear();
        self.counts.clear();
        self.pending_steps.clear();
        self.pending_barriers.clear();
        self.fatal_barriers.clear();
        let before = std::mem::take(&mut self.barriers);
        for barrier in &plan.header().barriers {
            let mut state = self.barrier_state(barrier);
            if let Some(before) = before.get(&barrier.id) {
                let answers = activated.answers.iter();
                let mut answers = answers.filter(|(id, _)| *id == barrier.id);
                state.carry_over(before, answers.next().map(|(_, answer)| answer.as_str()));
            }
            self.barriers.insert(barrier.id.clone(), state);
            self.refresh_pending_barrier(&barrier.id);
        }
        self.drop_obsolete_fallbacks(&activated.numbers);
        self.mark_standby_steps(&activated.numbers);
        let links = Arc::clone(&self.links);
        for number in &activated.numbers {
            self.rebuild_step(&links, *number);
        }
        self.rebuild_lanes();
    }

    fn count_unmet(&self, links: &Links, number: StepNumber) -> usize {
        let dependencies = links.dependencies(number).iter();
        dependencies.filter(|each| !self.is_target_met(**each)).count()
    }

    fn rebuild_step(&mut self, links: &Links, number: StepNumber) {
        let unmet = self.count_unmet(links, number);
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.unmet = u32::try_from(unmet).unwrap_or(u32::MAX);
        }
        if self.step(number).is_some_and(|step| step.status.is_open()) {
            let status = self.open_status(number);
            if let Some(step) = self.steps.get_mut(number.index()) {
                step.status = status;
            }
        }
        match self.step(number).map(|step| step.status) {
            Some(StepStatus::Ready) => count_up(&mut self.counts, &StepStatus::Ready),
            _ => self.add_to_indexes(number),
        }
        self.refresh_pending(number);
    }

    fn barrier_state(&self, barrier: &Barrier) -> BarrierState {
        let members = self.links.members(&barrier.members);
        let mut state = BarrierState {
            needed: self.needed(barrier, members.len()),
            members,
            arrived: BTreeSet::new(),
            failed: BTreeSet::new(),
            on_break: barrier.on_break,
            deadline: barrier
                .deadline_seconds
                .map(|seconds| self.started.saturating_add(Micros::from(seconds) * 1_000_000)),
            is_late: false,
            question: None,
            status: BarrierStatus::Closed,
        };
        for member in state.members.clone() {
            if let Some(step) = self.step(member) {
                state.set_member_status(member, step.status);
            }
        }
        state
    }

    /// How many members must arrive. A member that this version removed does not count; an unknown
    /// name counts and never arrives.
    fn needed(&self, barrier: &Barrier, members: usize) -> u32 {
        match barrier.needs {
            BarrierNeeds::Any => 1,
            BarrierNeeds::AtLeast(count) => count,
            BarrierNeeds::All => {
                let known: BTreeSet<&str> = self.steps.iter().map(StepState::id).collect();
                let names: BTreeSet<&str> = barrier.members.iter().map(String::as_str).collect();
                let unknown = names.difference(&known).count();
                u32::try_from(members.saturating_add(unknown)).unwrap_or(u32::MAX)
            }
        }
    }
}

impl BarrierState {
    /// Carries over the release and the answer from the previous version. A release remains valid
    /// only if enough members have arrived or a person decided it.
    fn carry_over(&mut self, before: &Self, answer: Option<&str>) {
        let was_released = before.status == BarrierStatus::Released;
        if was_released && (self.has_enough() || answer == Some(RELEASE)) {
            self.status = BarrierStatus::Released;
        }
        if answer == Some(WAIT) {
            self.on_break = OnBreak::Wait;
            if before.is_late && !was_released {
                (self.is_late, self.status) = (true, BarrierStatus::Broken);
            }
        }
    }
}

/// Whether a version changed the definition of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Same,
    Changed,
}

impl StepState {
    /// Carries the step over into a version that keeps its work.
    fn carry_over(&mut self, definition: Definition) {
        // A new version reopens failed steps.
        if matches!(self.status, StepStatus::Failed | StepStatus::Removed | StepStatus::Cancelled) {
            self.restart_or_hold();
        }
        if definition == Definition::Changed {
            // A question about a failure stays open.
            let is_asked = self.attempt().is_some();
            self.change_hold(|hold| {
                let Hold { delay, question, answer, .. } = std::mem::take(hold);
                let (question, answer) = if is_asked { (question, answer) } else { (None, None) };
                *hold = Hold { question, answer, delay, ..Hold::default() };
            });
        }
    }

    /// Copies the fields of the plan that are read often.
    fn copy_plan_fields(&mut self, plan: &CompactPlan, step: CompactStep<'_>) {
        let fallback = if self.has_fallen_back { step.fallback() } else { None };
        let owner = match &fallback {
            Some(Fallback::Owner(owner)) => Some(owner.as_str()),
            _ => plan.owner_of(step),
        };
        let tags = step.tags().map(str::to_owned).collect();
        self.set_plan_fields((step.priority(), owner), tags);
    }

    /// Resets the step. If the step failed or was removed and the outcome of its attempt is
    /// unresolved, the step keeps this attempt, and its outcome must be resolved first.
    fn restart_or_hold(&mut self) {
        let has_unresolved_attempt =
            matches!(self.status, StepStatus::Failed | StepStatus::Removed);
        let held = self.take_attempt().filter(|_| has_unresolved_attempt);
        self.reset();
        if held.is_some() {
            self.change(|detail| detail.attempt = held);
            self.status = StepStatus::OutcomeUnknown;
        }
    }

    /// Carries the step over with its attempt. An open question about the attempt is asked again
    /// with the new definition; without one, the outcome of the attempt must be resolved.
    fn keep_attempt(&mut self) {
        if self.attempt().is_none() {
            self.reset();
            return;
        }
        self.change(|detail| detail.hold = RareField::NONE);
        if self.status != StepStatus::Gated {
            self.status = StepStatus::OutcomeUnknown;
        }
    }

    fn reset(&mut self) {
        self.status = StepStatus::Waiting;
        self.failures = 0;
        self.change(|detail| (detail.hold, detail.attempt) = (RareField::NONE, None));
        self.accept(None);
        self.has_fallen_back = false;
    }
}
