//! A run in the reference model: its questions, requests, budgets and end.

use std::collections::{BTreeMap, BTreeSet};

use super::{RunModel, StepModel, StepPhase, Value, sum};
use crate::plan::*;

impl RunModel {
    pub(super) fn new(started: &RunStarted, time: Timestamp) -> Self {
        Self {
            name: started.name.clone(),
            policy: started.policy,
            started: time,
            status: RunStatus::Proposed,
            is_paused: false,
            is_complete: false,
            versions: Vec::new(),
            active: 0,
            numbers: Vec::new(),
            works: Vec::new(),
            request: None,
            replans: 0,
            questions: BTreeMap::new(),
            released: BTreeSet::new(),
            late: BTreeSet::new(),
            barrier_answers: BTreeMap::new(),
            values: BTreeMap::new(),
            plan_verdicts: BTreeMap::new(),
            effects: BTreeMap::new(),
            limits: None,
            spent: Cost::default(),
            reserved: Cost::default(),
            attempts: 0,
            estimates: BTreeMap::new(),
            decisions: BTreeMap::new(),
            keys: BTreeSet::new(),
            is_forked: false,
        }
    }

    pub(super) fn read(&mut self, seq: u64, time: Timestamp, event: &Event) {
        match event {
            Event::PlanProposed(proposed) => {
                let plan = (*proposed.header).clone();
                self.versions.push((proposed.hash, plan, Vec::new(), None));
                assert_eq!(usize::try_from(proposed.version).unwrap(), self.versions.len());
            }
            Event::PlanSteps(steps) => {
                let place = usize::try_from(steps.version).unwrap() - 1;
                let (_, plan, hashes, _) = &mut self.versions[place];
                plan.steps.extend(steps.steps.iter().map(|each| (*each.step).clone()));
                hashes.extend(steps.steps.iter().map(|each| each.hash));
            }
            Event::PlanReviewed(reviewed) => {
                let place = usize::try_from(reviewed.version).unwrap() - 1;
                let version = &mut self.versions[place];
                assert_eq!(version.0, reviewed.hash);
                version.3 = Some(reviewed.review);
            }
            Event::PlanActivated(change) => self.activated(change),
            Event::PlanVerdict(judged) => self.plan_judged(judged),
            Event::VariableSet(set) => self.set(set),
            Event::BarrierChanged(changed) => self.barrier(time, changed),
            Event::RunEnded(ended) => self.ended(ended),
            Event::RunReopened(_) => {
                assert_eq!(self.status, RunStatus::Ended(Ending::Failed));
                self.status = RunStatus::Running;
                self.plan_verdicts.clear();
            }
            Event::HelperEnded(ended) => self.spent = self.spent.plus(ended.cost),
            Event::RunPaused(_) => self.is_paused = true,
            Event::RunResumed(_) => self.is_paused = false,
            Event::QuestionAsked(event) => {
                self.questions.insert(QuestionId(seq), (None, event.asked.clone()));
            }
            Event::QuestionAnswered(event) => {
                if let QuestionSubject::Barrier { barrier: id } =
                    self.answered(&event.answered).subject
                {
                    self.barrier_answers.insert(id, event.answered.answer.clone());
                }
            }
            Event::QuestionExpired(event) => drop(self.expired(time, &event.expired)),
            Event::ReplanRequested(requested) => {
                let request = (seq, requested.trigger.clone(), requested.from);
                let before = self.request.replace(request);
                let gives_way =
                    before.is_none_or(|(_, trigger, _)| trigger == ReplanTrigger::Extension);
                assert!(gives_way, "two replan requests");
            }
            Event::ReplanWithdrawn(_) => {
                let (_, trigger, _) = self.request.take().expect("a request to withdraw");
                self.is_complete |= trigger == ReplanTrigger::Extension;
            }
            Event::RunForked(_) => self.is_forked = true,
            Event::StepsInherited(inherited) => self.inherited(inherited),
            _ => unreachable!("events about no run, or about a step, are read elsewhere"),
        }
    }

    fn inherited(&mut self, inherited: &StepsInherited) {
        for each in &inherited.steps {
            let phase = match each.status {
                StepStatus::Accepted => StepPhase::Accepted,
                StepStatus::Skipped => StepPhase::Skipped,
                StepStatus::Failed => StepPhase::Failed,
                _ => StepPhase::Open,
            };
            self.work_mut(each.step).phase = phase;
        }
    }

    fn set(&mut self, set: &VariableSet) {
        let before = self.values.get(&set.name).map_or(0, |value| value.version);
        assert!(self.is_forked || set.version == before + 1, "a variable update was lost");
        let writer = match &set.origin {
            Origin::Step { step, .. } | Origin::Fallback { step } => Some(*step),
            Origin::Person { .. } | Origin::Agent { .. } => None,
        };
        let value = Value { json: set.value.clone(), version: set.version, writer };
        self.values.insert(set.name.clone(), value);
    }

    fn plan_judged(&mut self, judged: &PlanVerdict) {
        assert_eq!(judged.version, self.active);
        let Verdict { criterion, ruling, by, .. } = &judged.verdict;
        let place = usize::try_from(*criterion).unwrap();
        if let Criterion::Cel(body) = &self.plan().test_criteria[place]
            && by == "policy:cel"
        {
            assert_eq!(*ruling == Ruling::Pass, super::holds(body, &self.values, None));
        } else {
            assert!(!by.starts_with("policy:"), "{by} judged the plan");
        }
        assert!(self.plan_verdicts.insert(*criterion, *ruling).is_none());
    }

    /// Records an answer and returns its question.
    pub(super) fn answered(&mut self, answered: &QuestionAnswer) -> QuestionBody {
        let (_, asked) = self.questions.remove(&answered.question).expect("an open question");
        assert_eq!(asked.shown, answered.shown, "the answer is bound to what was shown");
        assert!(answered.answer == "withdrawn" || asked.options.contains(&answered.answer));
        asked
    }

    /// Records a timeout and returns the question if it is closed by it.
    pub(super) fn expired(
        &mut self,
        time: Timestamp,
        expired: &QuestionExpiry,
    ) -> Option<QuestionBody> {
        let (_, asked) = self.questions.get_mut(&expired.question).expect("an open question");
        assert!(asked.deadline.take().is_some_and(|deadline| deadline <= time), "too early");
        expired.then.as_ref()?;
        self.questions.remove(&expired.question).map(|(_, asked)| asked)
    }

    fn ended(&mut self, ended: &RunEnded) {
        let is_live = |phase: StepPhase| self.works.iter().any(|work| work.phase == phase);
        assert!(!matches!(self.status, RunStatus::Ended(_)));
        assert!(!is_live(StepPhase::Dispatched), "an ended run has nothing in flight");
        let is_rejudged = |trigger: &ReplanTrigger| matches!(trigger, ReplanTrigger::NewEvidence { by } if by == "policy:test_criteria");
        match (ended.ending, &self.request) {
            (Ending::Done, Some((_, trigger, _))) => assert_eq!(*trigger, ReplanTrigger::Extension),
            (Ending::Failed, Some((_, trigger, _))) => {
                assert!(*trigger == ReplanTrigger::Extension || is_rejudged(trigger), "9");
            }
            _ => {}
        }
        if ended.ending == Ending::Done {
            let closed = [StepPhase::Accepted, StepPhase::Skipped];
            assert!(self.numbers.iter().all(|number| closed.contains(&self.work(*number).phase)));
            let passed = |place: usize| {
                let verdict = self.plan_verdicts.get(&u32::try_from(place).unwrap());
                verdict == Some(&Ruling::Pass)
            };
            assert!((0..self.plan().test_criteria.len()).all(passed), "the plan's criteria");
            assert!(!self.plan().continues || self.is_complete, "the planner may add steps");
        }
        if matches!(ended.ending, Ending::Cancelled | Ending::Aborted) {
            let is_open =
                |work: &&mut StepModel| matches!(work.phase, StepPhase::Open | StepPhase::Asked);
            for work in self.works.iter_mut().filter(is_open) {
                (work.phase, work.token) = (StepPhase::Cancelled, None);
            }
        }
        self.status = RunStatus::Ended(ended.ending);
        self.questions.clear();
        self.request = None;
        self.is_paused = false;
    }

    /// Compares the model with the state.
    pub(super) fn compare(&self, run: &Run) {
        assert_eq!((run.status, run.active), (self.status, self.active), "{}", self.name);
        assert_eq!(run.pause.is_some(), self.is_paused);
        assert_eq!(run.is_complete, self.is_complete);
        assert_eq!(run.replans, self.replans);
        assert_eq!(run.request.as_ref().map(|request| request.seq), self.request_seq());
        assert_eq!(run.account.spent, self.spent);
        assert_eq!(run.account.reserved, self.reserved);
        assert_eq!(run.account.attempts, self.attempts);
        assert_eq!(run.estimates, self.estimates);
        assert_eq!(run.account.estimated, sum(self.estimates.values().copied()));
        let open: BTreeMap<QuestionId, (Option<StepNumber>, QuestionBody)> = run
            .questions
            .iter()
            .map(|(id, question)| (*id, (question.step, question.asked.clone())))
            .collect();
        assert_eq!(open, self.questions);
        let values: BTreeMap<&String, u64> =
            run.variables.iter().map(|(name, value)| (name, value.version)).collect();
        let expected: BTreeMap<&String, u64> =
            self.values.iter().map(|(name, value)| (name, value.version)).collect();
        assert_eq!(values, expected);
        let effects: BTreeMap<&String, bool> =
            run.effects.iter().map(|(key, effect)| (key, effect.committed != 0)).collect();
        let expected: BTreeMap<&String, bool> =
            self.effects.iter().map(|(key, (_, is_done))| (key, *is_done)).collect();
        assert_eq!(effects, expected);
        self.compare_steps(run);
        self.check_barriers();
        self.check_questions();
        if matches!(self.status, RunStatus::Ended(_)) {
            assert!(run.timers.is_empty() && run.questions.is_empty(), "11: {:?}", run.timers);
        }
    }

    pub(super) fn request_seq(&self) -> Option<u64> {
        self.request.as_ref().map(|(seq, ..)| *seq)
    }

    /// Invariant 12.
    fn check_questions(&self) {
        for (step, asked) in self.questions.values() {
            match (&asked.subject, step) {
                (QuestionSubject::Gate, Some(number)) => {
                    assert_eq!(self.work(*number).phase, StepPhase::Open);
                    assert_eq!(self.hash(*number), asked.shown, "a gate shows the current step");
                }
                (QuestionSubject::Failure { token }, Some(number)) => {
                    assert_eq!(self.work(*number).phase, StepPhase::Asked);
                    assert_eq!(self.work(*number).token, Some(*token));
                }
                (QuestionSubject::Plan { version }, None) => {
                    assert!(*version > self.active, "a version that may still become active");
                }
                (QuestionSubject::Barrier { barrier: id }, None) => {
                    assert!(!self.released.contains(id));
                }
                (QuestionSubject::Budget, None) => {}
                other => panic!("a question about {other:?}"),
            }
        }
    }
}
