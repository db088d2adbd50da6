//! Computes the activation of a plan version: which work is preserved and which is invalidated.
//!
//! A step is affected if it is new, if its work changed, if it failed, if the replan request begins
//! with it, or if a step that it depends on is affected. An affected step that had work is invalidated; all other work is preserved. Both
//! lists are part of the activation record.
//!
//! Invariants: steps are matched by id across all versions of the run, and a number is never reused
//! for another id. Cycles and unknown names do not prevent termination.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attempts::leaves_unknown_outcome;
use crate::plan::command::PlanDraft;
use crate::plan::event::plan_event::PlanActivated;
use crate::plan::event::question::{RELEASE, WAIT};
use crate::plan::event::run_event::Origin;
use crate::plan::event::step_event::{AcceptedBasis, LostCause};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::{Barrier, BarrierNeeds, OnBreak};
use crate::plan::settle::disposition::may_have_landed;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::links::{Dependency, Links};
use crate::plan::state::run::{Run, Variable};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{ContentHash, StepNumber};

/// The activation of a plan version. The step `redone` starts again even if its work is unchanged.
pub(crate) fn activation(
    run: &Run,
    version: u32,
    (plan, hashes): (&Arc<CompactPlan>, &[ContentHash]),
    redone: Option<StepNumber>,
) -> PlanActivated {
    let numbers = numbers(run, plan);
    let links = Links::new(plan, &numbers, step_total(run, &numbers));
    let mut walk = Walk::new(run, plan, &links, &numbers);
    let is_done =
        |number: &StepNumber| run.step(*number).is_some_and(|step| step.status.is_closed());
    walk.start(&numbers, hashes, redone.filter(is_done).filter(|_| !mutant!(RedoneStepKept)));
    let answers = walk.answers();
    let restarting = walk.restarting_steps(&numbers, hashes);
    let affected = walk.affected;
    let has_work = |number: &&StepNumber| run.step(**number).is_some_and(has_work);
    let present: BTreeSet<StepNumber> = numbers.iter().copied().collect();
    let is_gone = |number: &StepNumber| {
        let there = run.step(*number).is_some_and(|step| step.status != StepStatus::Removed);
        there && !present.contains(number)
    };
    let removed: Vec<StepNumber> = run.step_numbers().filter(is_gone).collect();
    let is_untrusted = |variable: &Variable| match variable.origin {
        Origin::Step { step, .. } | Origin::Fallback { step } => {
            affected.contains(&step) || removed.contains(&step)
        }
        Origin::Person { .. } | Origin::Agent { .. } => false,
    };
    let (mut trusted, mut untrusted) = (Vec::new(), Vec::new());
    for (name, variable) in &run.variables {
        let list = if is_untrusted(variable) { &mut untrusted } else { &mut trusted };
        list.push(name.clone());
    }
    let is_listed = |number: &&StepNumber| has_work(number) || restarting.contains(number);
    let is_discarded =
        |number: &&StepNumber| affected.contains(number) || restarting.contains(number);
    let (invalidated, preserved): (Vec<StepNumber>, Vec<StepNumber>) =
        numbers.iter().filter(is_listed).partition(is_discarded);
    let taken = invalidated.iter().chain(&removed);
    PlanActivated {
        run: run.id,
        version,
        trusted,
        untrusted,
        added: numbers.iter().filter(|number| run.step(**number).is_none()).copied().collect(),
        request: 0,
        held: taken.filter(|number| is_held(run, **number)).copied().collect(),
        answers,
        since: 0,
        preserved,
        invalidated,
        removed,
        numbers,
    }
}

impl Run {
    /// Previews the activation of a proposed version: the work that it would keep and discard.
    #[must_use]
    pub fn preview_activation(&self, version: u32) -> Option<PlanActivated> {
        let place = usize::try_from(version).ok()?.checked_sub(1)?;
        let proposed = self.versions.get(place)?;
        let redone = self.request.as_ref().and_then(|request| request.from);
        Some(activation(self, version, (&proposed.plan, &proposed.step_hashes), redone))
    }

    /// Previews the activation of a plan as the next version of this run: the work that it would
    /// keep and discard.
    #[must_use]
    pub fn preview_draft(&self, draft: &PlanDraft) -> PlanActivated {
        let version = u32::try_from(self.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
        let redone = self.request.as_ref().and_then(|request| request.from);
        let (plan, hashes) = draft.compact();
        activation(self, version, (&plan, &hashes), redone)
    }
}

/// Whether the last attempt of a step may have done work that must not be repeated. An attempt in
/// flight is lost first.
fn is_held(run: &Run, number: StepNumber) -> bool {
    match run.step(number).map(|step| step.status) {
        Some(StepStatus::OutcomeUnknown) => true,
        Some(StepStatus::Failed) => run.step(number).is_some_and(|step| step.attempt().is_some()),
        Some(StepStatus::Dispatched) => leaves_unknown_outcome(run, number, LostCause::Revoked),
        _ => may_have_landed(run, number),
    }
}

/// The answer about a barrier that is still valid in the active version.
fn valid_answer(run: &Run, barrier: &Barrier) -> Option<&'static str> {
    let before = run.plan()?.header().barriers.iter().find(|before| before.id == barrier.id)?;
    let state = run.barriers.get(&barrier.id).filter(|_| before == barrier)?;
    if state.is_force_released() {
        Some(RELEASE)
    } else {
        (state.on_break != barrier.on_break && state.on_break == OnBreak::Wait).then_some(WAIT)
    }
}

/// The number of each step of a plan: the one its id already has in the run, or the next.
fn numbers(run: &Run, plan: &CompactPlan) -> Vec<StepNumber> {
    let known: BTreeMap<&str, StepNumber> =
        run.steps.iter().map(StepState::id).zip(run.step_numbers()).collect();
    let mut last = u32::try_from(run.steps.len()).unwrap_or(u32::MAX);
    let mut number_of = |step: CompactStep<'_>| {
        known.get(step.id()).copied().unwrap_or_else(|| {
            last = last.saturating_add(1);
            StepNumber(last)
        })
    };
    plan.steps().map(&mut number_of).collect()
}

/// Number of steps of the run after the activation.
fn step_total(run: &Run, numbers: &[StepNumber]) -> usize {
    let last = numbers.iter().max().map_or(0, |number| number.index().saturating_add(1));
    run.steps.len().max(last)
}

/// Whether a step has work to lose.
fn has_work(step: &StepState) -> bool {
    // A question about a failed attempt may be open.
    let is_asked = step.status == StepStatus::Gated && step.attempt().is_some();
    is_asked
        || matches!(
            step.status,
            StepStatus::Accepted
                | StepStatus::Skipped
                | StepStatus::Reported
                | StepStatus::Dispatched
                | StepStatus::OutcomeUnknown
        )
}

/// For each step that set a variable, the steps that name it as an input.
fn readers(
    run: &Run,
    plan: &CompactPlan,
    numbers: &[StepNumber],
) -> BTreeMap<StepNumber, Vec<StepNumber>> {
    let mut readers: BTreeMap<StepNumber, Vec<StepNumber>> = BTreeMap::new();
    for (step, number) in plan.steps().zip(numbers) {
        for name in step.inputs() {
            let origin = run.variables.get(name).map(|variable| &variable.origin);
            if let Some(Origin::Step { step: writer, .. } | Origin::Fallback { step: writer }) =
                origin
                && writer != number
            {
                readers.entry(*writer).or_default().push(*number);
            }
        }
    }
    readers
}

struct Walk<'a> {
    run: &'a Run,
    links: &'a Links,
    plan: &'a CompactPlan,
    /// Barriers with enough arrived members.
    met_barriers: BTreeSet<&'a str>,
    /// Affected steps, as defined above.
    affected: BTreeSet<StepNumber>,
    /// Barriers whose dependents are affected because an arrived member is affected.
    passed_barriers: BTreeSet<&'a str>,
    /// The steps that read the variables of a step.
    readers: BTreeMap<StepNumber, Vec<StepNumber>>,
}

impl<'a> Walk<'a> {
    fn new(run: &'a Run, plan: &'a CompactPlan, links: &'a Links, numbers: &[StepNumber]) -> Self {
        let (affected, passed_barriers) = (BTreeSet::new(), BTreeSet::new());
        let readers = readers(run, plan, numbers);
        let mut walk = Self {
            run,
            links,
            plan,
            met_barriers: BTreeSet::new(),
            affected,
            passed_barriers,
            readers,
        };
        let is_met = |barrier: &&Barrier| {
            if valid_answer(run, barrier) == Some(RELEASE) {
                return true;
            }
            let members = links.members(&barrier.members);
            let needed = match barrier.needs {
                BarrierNeeds::All => members.len(),
                BarrierNeeds::Any => 1,
                BarrierNeeds::AtLeast(count) => usize::try_from(count).unwrap_or(usize::MAX),
            };
            members.iter().filter(|member| walk.is_closed(**member)).count() >= needed
        };
        let met_barriers = plan
            .header()
            .barriers
            .iter()
            .filter(is_met)
            .map(|barrier| barrier.id.as_str())
            .collect();
        walk.met_barriers = met_barriers;
        walk
    }

    fn start(
        &mut self,
        numbers: &[StepNumber],
        hashes: &[ContentHash],
        redone: Option<StepNumber>,
    ) {
        let before = self.hashes_before();
        let mut open: Vec<StepNumber> =
            redone.into_iter().filter(|number| numbers.contains(number)).collect();
        for ((step, number), hash) in self.plan.steps().zip(numbers).zip(hashes) {
            let state = self.run.step(*number).map(|state| state.status);
            let is_open_again = matches!(
                state,
                None | Some(StepStatus::Removed | StepStatus::Failed | StepStatus::Cancelled)
            );
            let is_changed = before.get(number).is_some_and(|before| before != hash);
            if is_open_again || is_changed || self.has_new_unmet_dependency(step, *number) {
                open.push(*number);
            }
        }
        // Steps that read variables of a removed step are affected.
        let present: BTreeSet<StepNumber> = numbers.iter().copied().collect();
        let gone = self.readers.iter().filter(|(writer, _)| !present.contains(writer));
        open.extend(gone.flat_map(|(_, readers)| readers));
        self.walk(open);
    }

    fn walk(&mut self, mut open: Vec<StepNumber>) {
        while let Some(number) = open.pop() {
            if !self.affected.insert(number) {
                continue;
            }
            open.extend(self.links.dependents(number));
            open.extend(self.readers.get(&number).into_iter().flatten());
            open.extend(self.links.fallback_for(number).iter().filter(|other| {
                let basis = self.run.step(**other).and_then(|step| step.accepted());
                basis == Some(&AcceptedBasis::FallbackStep { step: number })
            }));
            open.extend(self.unused_fallback_of(number));
            if !self.is_closed(number) {
                continue;
            }
            // An arrived member affects the steps after the barrier; any other member does not.
            for id in self.links.memberships(number) {
                if self.passed_barriers.insert(id) {
                    open.extend(self.links.waiters(id));
                }
            }
        }
    }

    /// The fallback step of a step, if it was skipped without an attempt: it may be used now.
    fn unused_fallback_of(&self, number: StepNumber) -> Option<StepNumber> {
        let is_unused = |step: &StepState| step.status == StepStatus::Skipped && step.attempts == 0;
        let fallback = self.links.fallback_of(number);
        fallback.filter(|fallback| self.run.step(*fallback).is_some_and(is_unused))
    }

    /// Open steps that used their fallback, if the version changes their work or their fallback.
    /// They start again and may use a fallback once more.
    fn restarting_steps(
        &self,
        numbers: &[StepNumber],
        hashes: &[ContentHash],
    ) -> BTreeSet<StepNumber> {
        let before = self.hashes_before();
        let restarts = |number: StepNumber, step: CompactStep<'_>, hash: &ContentHash| {
            let Some(state) = self.run.step(number) else { return false };
            let Some(was) = self.run.plan_step(number) else { return false };
            let waits = state.hold().fallback_step.is_some();
            let is_kept = before.get(&number) == Some(hash)
                && was.fallback() == step.fallback()
                && (!waits || was.is_held_like(step));
            let has_fallen_back = state.has_fallen_back && state.attempt().is_none();
            has_fallen_back && state.status.is_open() && !is_kept
        };
        let steps = self.plan.steps().zip(numbers).zip(hashes);
        let taken = steps.filter(|((step, number), hash)| restarts(**number, *step, hash));
        taken.map(|((_, number), _)| *number).collect()
    }

    /// The answers that remain valid: the barrier is unchanged, and no arrived member is affected.
    fn answers(&self) -> Vec<(String, String)> {
        let is_unchanged = |barrier: &&Barrier| {
            let state = self.run.barriers.get(&barrier.id);
            let members = self.links.members(&barrier.members);
            state.is_some_and(|state| {
                let mut arrived = state.arrived.iter();
                arrived.all(|each| members.contains(each) && !self.affected.contains(each))
            })
        };
        let unchanged = self.plan.header().barriers.iter().filter(is_unchanged);
        let answer = |barrier: &Barrier| {
            Some((barrier.id.clone(), valid_answer(self.run, barrier)?.to_owned()))
        };
        unchanged.filter_map(answer).collect()
    }

    fn is_closed(&self, number: StepNumber) -> bool {
        self.run.step(number).is_some_and(|step| step.status.is_closed())
    }

    fn hashes_before(&self) -> BTreeMap<StepNumber, ContentHash> {
        let Some(active) = self.run.active_version() else { return BTreeMap::new() };
        active.numbers.iter().copied().zip(active.step_hashes.iter().copied()).collect()
    }

    /// Whether a step has a new unmet dependency: another name, or a barrier that now needs
    /// more. Dependencies that were unmet in the active version, too, are ignored: a step that
    /// was done before the run can have such dependencies.
    fn has_new_unmet_dependency(&self, step: CompactStep<'_>, number: StepNumber) -> bool {
        let Some(before) = self.run.plan_step(number) else { return false };
        let listed_before = OnceCell::new();
        let waited_before = |name: &str| {
            let input = self.run.links.dependency(name);
            let listed_before = listed_before.get_or_init(|| before.after().collect());
            BTreeSet::contains(listed_before, name) && !self.run.is_met(&input)
        };
        let is_met = |name: &str| match self.links.dependency(name) {
            Dependency::Step(on) => self.is_closed(on),
            Dependency::Barrier(id) => self.met_barriers.contains(id.as_str()),
            Dependency::Unknown(_) => false,
        };
        step.after().any(|name| !is_met(name) && !waited_before(name))
    }
}
