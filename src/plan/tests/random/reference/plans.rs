//! Plan versions and barriers in the reference model.

use std::collections::{BTreeMap, BTreeSet};

use super::{RunModel, StepModel, StepPhase};
use crate::plan::*;

impl StepModel {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            phase: StepPhase::Open,
            owner: None,
            token: None,
            worker: String::new(),
            reserved: Cost::default(),
            receipt: None,
            verdicts: BTreeMap::new(),
            is_repetition: false,
            yes: None,
            run_if: None,
            delay: None,
            waiting_for_fallback: None,
            is_uncalled_fallback: false,
            has_used_fallback: false,
            answer: None,
            has_landed: false,
            stands_for_value: false,
            may_have_landed: false,
        }
    }

    /// A new version keeps the attempt of a step with its effects, but not its work.
    fn hold(&mut self) {
        if self.phase != StepPhase::Asked {
            self.phase = StepPhase::OutcomeUnknown;
        }
        (self.yes, self.run_if, self.waiting_for_fallback, self.delay) = (None, None, None, None);
        self.answer = None;
    }

    fn has_work(&self) -> bool {
        matches!(
            self.phase,
            StepPhase::Accepted
                | StepPhase::Skipped
                | StepPhase::Reported
                | StepPhase::Asked
                | StepPhase::Dispatched
                | StepPhase::OutcomeUnknown
        )
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, StepPhase::Accepted | StepPhase::Skipped)
    }
}

impl RunModel {
    pub(super) fn plan(&self) -> &Plan {
        &self.versions[usize::try_from(self.active).unwrap() - 1].1
    }

    pub(super) fn work(&self, number: StepNumber) -> &StepModel {
        &self.works[usize::try_from(number.0).unwrap() - 1]
    }

    pub(super) fn work_mut(&mut self, number: StepNumber) -> &mut StepModel {
        &mut self.works[usize::try_from(number.0).unwrap() - 1]
    }

    fn place(&self, number: StepNumber) -> usize {
        self.numbers.iter().position(|each| *each == number).unwrap()
    }

    pub(super) fn text(&self, number: StepNumber) -> &Step {
        &self.plan().steps[self.place(number)]
    }

    pub(super) fn hash(&self, number: StepNumber) -> ContentHash {
        self.versions[usize::try_from(self.active).unwrap() - 1].2[self.place(number)]
    }

    /// The number of a step of the active version.
    pub(super) fn named(&self, id: &str) -> Option<StepNumber> {
        self.numbers.iter().copied().find(|number| self.work(*number).id == id)
    }

    pub(super) fn is_met(&self, name: &str) -> bool {
        match self.named(name) {
            Some(number) => self.work(number).is_closed(),
            None => self.released.contains(name),
        }
    }

    pub(super) fn activated(&mut self, change: &PlanActivated) {
        let version = usize::try_from(change.version).unwrap() - 1;
        let (_, plan, hashes, review) = self.versions[version].clone();
        assert_eq!(review, Some(Review::Approved), "an unapproved version became active");
        assert_eq!(change.numbers.len(), plan.steps.len());
        assert_eq!(change.request, self.request_seq().unwrap_or(0));
        if !self.is_forked {
            self.check_invalidated(change, &plan, &hashes);
            self.check_held(change);
            self.check_answers(change, &plan);
        }
        let changed = self.changed(change, &plan, &hashes);
        for (step, number) in plan.steps.iter().zip(&change.numbers) {
            if usize::try_from(number.0).unwrap() > self.works.len() {
                assert_eq!(usize::try_from(number.0).unwrap(), self.works.len() + 1);
                self.works.push(StepModel::new(&step.id));
            }
            let is_invalidated = change.invalidated.contains(number);
            let is_held = change.held.contains(number);
            let is_once = step.idempotent == Some(Idempotence::No);
            let work = self.work_mut(*number);
            assert_eq!(work.id, step.id, "a step number changed its id");
            let was_done = work.is_repetition || work.phase == StepPhase::Accepted;
            let is_repetition = was_done && is_once && is_invalidated && !is_held;
            let is_unknown = work.phase == StepPhase::OutcomeUnknown;
            let is_out = matches!(work.phase, StepPhase::Failed | StepPhase::Gone);
            if is_held {
                work.hold();
            } else if is_out && work.token.is_some() {
                *work = StepModel {
                    phase: StepPhase::OutcomeUnknown,
                    token: work.token,
                    ..StepModel::new(&step.id)
                };
            } else if (is_out || work.phase == StepPhase::Cancelled || is_invalidated)
                && work.phase != StepPhase::OutcomeUnknown
            {
                *work = StepModel::new(&step.id);
            }
            if is_repetition && !is_unknown {
                work.is_repetition = true;
            }
            if changed.contains(number) {
                (work.yes, work.run_if, work.waiting_for_fallback) = (None, None, None);
            }
            work.owner = match step.fallback.as_deref() {
                Some(Fallback::Owner(owner)) if work.has_used_fallback => Some(owner.clone()),
                _ => step.owner.clone().or_else(|| plan.defaults.owner.clone()),
            };
        }
        if !self.is_forked {
            self.count_replan();
        }
        self.numbers.clone_from(&change.numbers);
        self.remove_others(change);
        self.active = change.version;
        self.request = None;
        self.is_complete = false;
        self.plan_verdicts.clear();
        if self.status == RunStatus::Proposed {
            self.status = RunStatus::Running;
        }
        let kept: BTreeSet<String> = plan
            .barriers
            .iter()
            .filter(|barrier| {
                let is_released_by_answer =
                    change.answers.contains(&(barrier.id.clone(), RELEASE.into()));
                self.released.contains(&barrier.id)
                    && (is_released_by_answer || self.has_enough(barrier))
            })
            .map(|barrier| barrier.id.clone())
            .collect();
        self.released = kept;
        self.barrier_answers = change.answers.iter().cloned().collect();
        let barrier_answers = &self.barrier_answers;
        self.late.retain(|id| barrier_answers.get(id).is_some_and(|answer| answer == WAIT));
        self.hold_back_fallbacks();
    }

    /// Counts an activated replan against the limit.
    fn count_replan(&mut self) {
        let trigger = self.request.as_ref().map(|(_, trigger, _)| trigger);
        let is_wanted =
            matches!(trigger, Some(ReplanTrigger::ScopeChange { .. } | ReplanTrigger::Extension));
        if self.active == 0 || is_wanted {
            return;
        }
        self.replans += 1;
        let max = self.plan().failure.max_replans;
        assert!(max.is_none_or(|max| self.replans <= max), "the replan limit is exceeded");
    }

    fn remove_others(&mut self, change: &PlanActivated) {
        for place in 1..=u32::try_from(self.works.len()).unwrap() {
            let number = StepNumber(place);
            if !self.numbers.contains(&number) && self.work(number).phase != StepPhase::Gone {
                let is_held = change.held.contains(&number);
                let work = self.work_mut(number);
                let token = work.token.filter(|_| is_held);
                *work = StepModel { phase: StepPhase::Gone, token, ..StepModel::new(&work.id) };
            }
        }
    }

    /// Steps that differ between two versions.
    fn changed(
        &self,
        change: &PlanActivated,
        plan: &Plan,
        hashes: &[ContentHash],
    ) -> BTreeSet<StepNumber> {
        let is_changed = |(step, (number, hash)): &(&Step, (&StepNumber, &ContentHash))| {
            self.numbers.contains(number) && {
                let before = self.text(**number);
                self.hash(**number) != **hash
                    || before.gate != step.gate
                    || before.condition != step.condition
                    || before.preconditions != step.preconditions
            }
        };
        let all = plan.steps.iter().zip(change.numbers.iter().zip(hashes));
        all.filter(is_changed).map(|(_, (number, _))| *number).collect()
    }

    /// Invariant 10.
    fn check_invalidated(&self, change: &PlanActivated, plan: &Plan, hashes: &[ContentHash]) {
        let is_known = |number: &StepNumber| usize::try_from(number.0).unwrap() <= self.works.len();
        let had_work = |number: &StepNumber| is_known(number) && self.work(*number).has_work();
        let is_invalidated = |number: &StepNumber| change.invalidated.contains(number);
        let id_of = |id: &String| {
            let place = plan.steps.iter().position(|step| step.id == *id)?;
            Some(change.numbers[place])
        };
        for (place, number) in change.numbers.iter().enumerate() {
            if !had_work(number) {
                // A record before this one has revoked the attempt.
                assert!(!change.preserved.contains(number));
                let has_lost_fallback =
                    self.has_lost_fallback(*number, &plan.steps[place], hashes[place]);
                assert!(
                    !has_lost_fallback || is_invalidated(number),
                    "its fallback was used for another step"
                );
                continue;
            }
            assert_ne!(
                is_invalidated(number),
                change.preserved.contains(number),
                "kept and invalidated at once"
            );
            if is_invalidated(number) {
                assert_ne!(
                    self.work(*number).phase,
                    StepPhase::Dispatched,
                    "its attempt must be revoked first"
                );
                continue;
            }
            let step = &plan.steps[place];
            if self.numbers.contains(number) {
                assert_eq!(self.hash(*number), hashes[place], "changed work must be invalidated");
            }
            for on in step.after.iter().filter_map(id_of) {
                assert!(!is_invalidated(&on), "{} depends on {on}, which was invalidated", step.id);
            }
            for name in &step.inputs {
                let writer = self.values.get(name).and_then(|value| value.writer);
                let writer = writer.filter(|writer| writer != number);
                assert!(!writer.is_some_and(|writer| {
                    is_invalidated(&writer) || change.removed.contains(&writer)
                }));
            }
        }
        for number in &change.removed {
            assert_ne!(
                self.work(*number).phase,
                StepPhase::Dispatched,
                "its attempt must be revoked first"
            );
        }
    }

    /// Whether an open step has used its fallback, and the new version changes either.
    fn has_lost_fallback(&self, number: StepNumber, step: &Step, hash: ContentHash) -> bool {
        self.numbers.contains(&number) && {
            let (work, before) = (self.work(number), self.text(number));
            let is_other = self.hash(number) != hash || before.fallback != step.fallback;
            work.phase == StepPhase::Open && work.has_used_fallback && is_other
        }
    }

    /// Invariant 5 across versions.
    fn check_held(&self, change: &PlanActivated) {
        for number in change.invalidated.iter().chain(&change.removed) {
            let work = self.work(*number);
            let is_once = self.idempotence(*number) == Idempotence::No;
            let must = match work.phase {
                StepPhase::OutcomeUnknown => true,
                StepPhase::Asked => is_once && work.may_have_landed,
                StepPhase::Failed => work.token.is_some(),
                _ => false,
            };
            assert!(!must || change.held.contains(number), "5: {work:?}");
        }
        for number in &change.held {
            let work = self.work(*number);
            let held_phases = [
                StepPhase::OutcomeUnknown,
                StepPhase::Asked,
                StepPhase::Reported,
                StepPhase::Failed,
            ];
            assert!(held_phases.contains(&work.phase) && work.token.is_some(), "held: {work:?}");
        }
    }

    /// Answers about barriers are neither dropped nor invented.
    fn check_answers(&self, change: &PlanActivated, plan: &Plan) {
        let released = change.answers.iter().filter(|(_, answer)| answer == RELEASE);
        let released: Vec<String> = released.map(|(id, _)| id.clone()).collect();
        assert_eq!(released, self.still_released(change, plan));
    }

    /// Barriers that a person released and that have not changed since.
    fn still_released(&self, change: &PlanActivated, plan: &Plan) -> Vec<String> {
        if self.active == 0 {
            return Vec::new();
        }
        let stays = |id: &String| {
            let number = self.named(id).filter(|number| self.work(*number).is_closed());
            number.is_none_or(|number| {
                change.numbers.contains(&number) && !change.invalidated.contains(&number)
            })
        };
        let is_released_by_answer = |barrier: &&Barrier| {
            self.plan().barriers.contains(barrier)
                && self.released.contains(&barrier.id)
                && !self.has_enough(barrier)
                && barrier.members.iter().all(stays)
        };
        plan.barriers
            .iter()
            .filter(is_released_by_answer)
            .map(|barrier| barrier.id.clone())
            .collect()
    }

    /// Holds back steps that only serve as a fallback and were not called.
    fn hold_back_fallbacks(&mut self) {
        for number in self.numbers.clone() {
            let fallback = match self.text(number).fallback.as_deref() {
                Some(Fallback::Step(id)) => self.named(id),
                _ => None,
            };
            let is_based = self.text(number).after.iter().all(|name| self.is_met(name));
            let work = self.work_mut(number);
            work.waiting_for_fallback =
                work.waiting_for_fallback.filter(|step| Some(*step) == fallback);
            if work.waiting_for_fallback.is_some() && !is_based {
                *work = StepModel { owner: work.owner.clone(), ..StepModel::new(&work.id) };
            }
        }
        for number in self.numbers.clone() {
            let id = self.work(number).id.clone();
            let named = Some(Fallback::Step(id).into());
            let callers: Vec<StepNumber> = self.numbers.clone();
            let mut callers = callers.into_iter().filter(|each| self.text(*each).fallback == named);
            let is_called =
                callers.clone().any(|each| self.work(each).waiting_for_fallback == Some(number));
            let is_uncalled = callers.next().is_some() && !is_called;
            self.work_mut(number).is_uncalled_fallback = is_uncalled;
        }
    }

    fn has_enough(&self, barrier: &Barrier) -> bool {
        let names: BTreeSet<&String> = barrier.members.iter().collect();
        let members: Vec<StepNumber> = names.iter().filter_map(|id| self.named(id)).collect();
        let known = |id: &&&String| self.works.iter().any(|work| work.id == ***id);
        let arrived = members.iter().filter(|each| self.work(**each).is_closed()).count();
        let needed = match barrier.needs {
            BarrierNeeds::Any => 1,
            BarrierNeeds::AtLeast(count) => usize::try_from(count).unwrap(),
            BarrierNeeds::All => members.len() + names.iter().filter(|id| !known(id)).count(),
        };
        arrived >= needed
    }

    pub(super) fn barrier(&mut self, time: Timestamp, changed: &BarrierChanged) {
        let barrier = self.plan().barriers.iter().find(|each| each.id == changed.barrier).unwrap();
        match changed.change {
            BarrierChange::Released => {
                assert!(self.has_enough(barrier), "released with too few");
                self.released.insert(changed.barrier.clone());
            }
            BarrierChange::Overruled => {
                let is_released_by_answer =
                    self.barrier_answers.get(&barrier.id).is_some_and(|answer| answer == RELEASE);
                let is_free = is_released_by_answer || self.is_forked || self.is_awaited(barrier);
                assert!(is_free, "{} was released by no answer", barrier.id);
                self.released.insert(changed.barrier.clone());
                self.late.remove(&changed.barrier);
            }
            BarrierChange::Broken => assert!(!self.has_enough(barrier)),
            BarrierChange::Late => {
                let seconds = u64::from(barrier.deadline_seconds.unwrap());
                assert!(time >= self.started + seconds * 1_000_000, "late too early");
                self.late.insert(changed.barrier.clone());
            }
        }
    }

    /// Whether a late barrier was to be waited for, and all members have arrived.
    fn is_awaited(&self, barrier: &Barrier) -> bool {
        let waits = match self.barrier_answers.get(&barrier.id).map(String::as_str) {
            Some(answer) => answer == WAIT,
            None => barrier.on_break == OnBreak::Wait,
        };
        waits && self.late.contains(&barrier.id) && self.has_enough(barrier)
    }

    /// No barrier waits for members that have arrived.
    pub(super) fn check_barriers(&self) {
        if self.status != RunStatus::Running {
            return;
        }
        let mut late = self.plan().barriers.iter().filter(|each| self.late.contains(&each.id));
        assert!(late.all(|barrier| !self.is_awaited(barrier)), "a late barrier is not released");
    }
}
