//! Steps in the reference model: claims, receipts, verdicts, failures, questions and costs.

use super::{RunModel, StepModel, StepPhase, holds, repeats_work};
use crate::plan::*;

fn plus(a: Cost, b: Cost) -> Cost {
    super::sum([a, b].into_iter())
}

fn less(a: Cost, b: Cost) -> Cost {
    assert!(a.money_micros >= b.money_micros && a.tokens >= b.tokens, "{a:?} less {b:?}");
    Cost { money_micros: a.money_micros - b.money_micros, tokens: a.tokens - b.tokens }
}

impl StepModel {
    /// Whether its attempt failed and no decision has been made.
    fn has_failed(&self) -> bool {
        let failed = |receipt: &Receipt| receipt.outcome != Outcome::Succeeded;
        self.phase == StepPhase::Reported
            && (self.receipt.as_ref().is_some_and(failed)
                || self.verdicts.values().any(|verdict| verdict.ruling == Ruling::Fail))
    }

    fn end(&mut self, phase: StepPhase) {
        self.phase = phase;
        (self.token, self.answer, self.delay, self.waiting_for_fallback) = (None, None, None, None);
        (self.has_landed, self.stands_for_value) = (false, false);
    }
}

impl RunModel {
    pub(super) fn idempotence(&self, number: StepNumber) -> Idempotence {
        self.text(number).idempotent.unwrap_or(Idempotence::Yes)
    }

    /// Whether nothing holds back an open step. Invariant 4.
    fn is_dispatchable(&self, number: StepNumber) -> bool {
        let (work, text) = (self.work(number), self.text(number));
        work.phase == StepPhase::Open
            && text.after.iter().all(|name| self.is_met(name))
            && (text.condition.is_none() || work.run_if == Some(true))
            && text.preconditions.iter().all(|each| holds(each, &self.values, None))
            && ((text.gate.is_none() && !work.is_repetition) || work.yes == Some(self.hash(number)))
            && work.delay.is_none()
            && work.waiting_for_fallback.is_none()
            && !work.is_uncalled_fallback
    }

    /// Whether the open replan request holds a step, or one that waits for it. Invariant 9.
    fn is_held(&self, number: StepNumber) -> bool {
        let is_named = match &self.request {
            None | Some((_, ReplanTrigger::Extension, _)) => false,
            Some((_, _, None)) => self.idempotence(number) == Idempotence::No,
            Some((_, _, Some(from))) => self.follows(number, *from),
        };
        let waiting = |each: &StepNumber| {
            let work = self.work(*each);
            self.waits_to_request(work) && self.follows(number, self.requested_from(*each, work))
        };
        is_named || self.numbers.iter().any(waiting)
    }

    /// Whether a step waits until the open request is resolved, since its worker requested a plan, too.
    fn waits_to_request(&self, work: &StepModel) -> bool {
        let is_open =
            self.request.as_ref().is_some_and(|(_, it, _)| *it != ReplanTrigger::Extension);
        let is_requested = |it: &Receipt| matches!(it.outcome, Outcome::ReplanRequested { .. });
        is_open
            && work.phase == StepPhase::Reported
            && work.receipt.as_ref().is_some_and(is_requested)
    }

    /// The step from which the worker of a step wants work to be redone.
    fn requested_from(&self, number: StepNumber, work: &StepModel) -> StepNumber {
        let outcome = work.receipt.as_ref().map(|receipt| &receipt.outcome);
        let Some(Outcome::ReplanRequested { from: Some(from), .. }) = outcome else {
            return number;
        };
        let found = self.numbers.iter().find(|each| self.work(**each).id == **from);
        found.copied().unwrap_or(number)
    }

    /// Whether a step is another one, or depends on it, directly or through others.
    fn follows(&self, number: StepNumber, other: StepNumber) -> bool {
        let named = |name: &String| {
            self.numbers.iter().copied().filter(|each| self.work(*each).id == *name).collect()
        };
        let members = |name: &String| -> Vec<StepNumber> {
            let barrier = self.plan().barriers.iter().find(|each| each.id == *name);
            barrier.map_or_else(|| named(name), |it| it.members.iter().flat_map(named).collect())
        };
        number == other
            || self.numbers.contains(&number)
                && self
                    .text(number)
                    .after
                    .iter()
                    .flat_map(members)
                    .any(|it| self.follows(it, other))
    }

    pub(super) fn dispatched(
        &mut self,
        seq: u64,
        time: Timestamp,
        number: StepNumber,
        dispatched: &Dispatched,
    ) {
        assert_eq!(self.status, RunStatus::Running);
        assert!(!self.is_paused, "a paused run dispatched a step");
        assert!(self.is_dispatchable(number), "{:?} is blocked", self.work(number));
        assert!(!self.is_held(number), "9: {:?} is held by {:?}", self.work(number), self.request);
        let text = self.text(number);
        let expected = text.cost_estimate.or(text.cost_limit).unwrap_or_default();
        assert_eq!(dispatched.reserved, expected);
        assert!(dispatched.lease_until > time);
        let is_new = self.keys.insert(dispatched.idempotency_key.clone());
        assert!(is_new || self.idempotence(number) == Idempotence::WithKey, "one key per attempt");
        self.reserved = plus(self.reserved, dispatched.reserved);
        self.attempts += 1;
        let work = self.work_mut(number);
        work.phase = StepPhase::Dispatched;
        work.token = Some(AttemptToken(seq));
        work.worker.clone_from(&dispatched.worker);
        work.reserved = dispatched.reserved;
        work.receipt = None;
        work.verdicts.clear();
    }

    /// The step, which must have that attempt and be in that phase.
    fn with(
        &mut self,
        number: StepNumber,
        token: AttemptToken,
        phase: StepPhase,
    ) -> &mut StepModel {
        let work = self.work_mut(number);
        assert_eq!((work.token, work.phase), (Some(token), phase), "a stale token");
        work
    }

    pub(super) fn step(
        &mut self,
        seq: u64,
        time: Timestamp,
        number: StepNumber,
        event: &StepEvent,
    ) {
        match event {
            StepEvent::Dispatched(_) => unreachable!("read by `dispatched`"),
            StepEvent::LeaseRenewed(renewed) => {
                _ = self.with(number, renewed.token, StepPhase::Dispatched);
            }
            StepEvent::AttemptLost(lost) => self.lost(number, lost),
            StepEvent::ReceiptRecorded(recorded) => self.recorded(number, recorded),
            StepEvent::ReceiptRefused(refused) => {
                assert!(
                    !(self.work(number).phase == StepPhase::Dispatched
                        && self.work(number).token == Some(refused.token))
                );
                if let Some(estimate) = self.estimates.remove(&refused.token) {
                    self.spent = plus(less(self.spent, estimate), refused.receipt.cost);
                }
            }
            StepEvent::VerdictRecorded(judged) => self.judged(number, judged),
            StepEvent::Accepted(accepted) => self.accepted(number, &accepted.basis),
            StepEvent::FailureDecided(decided) => self.decided(number, decided),
            StepEvent::Skipped(_) => {
                let phase = self.work(number).phase;
                assert!(!matches!(
                    phase,
                    StepPhase::Dispatched | StepPhase::Accepted | StepPhase::Skipped
                ));
                self.close_question(number);
                self.work_mut(number).end(StepPhase::Skipped);
            }
            StepEvent::StepFailed(_) => {
                assert_eq!(self.work(number).phase, StepPhase::Open);
                self.close_question(number);
                self.work_mut(number).end(StepPhase::Failed);
            }
            StepEvent::Reopened(_) => {
                let work = self.work_mut(number);
                assert_eq!(work.phase, StepPhase::Failed);
                work.phase = if work.token.is_some() { StepPhase::Asked } else { StepPhase::Open };
                (work.yes, work.run_if, work.delay) = (None, None, None);
            }
            StepEvent::OutcomeResolved(resolved) => {
                let work = self.with(number, resolved.token, StepPhase::OutcomeUnknown);
                match resolved.finding {
                    ResolvedOutcome::Landed => work.has_landed = true,
                    ResolvedOutcome::DidNotHappen => {
                        (work.phase, work.token) = (StepPhase::Open, None);
                    }
                }
            }
            StepEvent::ConditionJudged(judged) => self.condition(number, judged),
            StepEvent::DelayElapsed(elapsed) => {
                let work = self.work_mut(number);
                let is_due = elapsed.by.is_some() || elapsed.due <= time;
                assert!(work.delay == Some(elapsed.due) && is_due, "too early");
                work.delay = None;
            }
            StepEvent::StepAsked(asked) => {
                self.close_question(number);
                assert_eq!(asked.shown, self.hash(number), "the question shows the current step");
                self.questions.insert(QuestionId(seq), (Some(number), asked.clone()));
            }
            StepEvent::StepAnswered(answered) => {
                let asked = self.answered(answered);
                let hash = self.hash(number);
                let work = self.work_mut(number);
                match asked.subject {
                    QuestionSubject::Gate if answered.answer == YES => {
                        assert_eq!(hash, asked.shown);
                        work.yes = Some(asked.shown);
                    }
                    _ => work.answer = Some(answered.answer.clone()),
                }
            }
            StepEvent::StepQuestionExpired(expired) => {
                if self.expired(time, expired).is_some() && expired.then == Some(OnTimeout::Abort) {
                    self.work_mut(number).answer = Some(ABORT.to_owned());
                }
            }
            StepEvent::EffectIntended(effect) => {
                self.with(number, effect.token, StepPhase::Dispatched);
                let before = self.effects.insert(effect.key.clone(), (effect.token, false));
                assert!(before.is_none_or(|(_, is_done)| !is_done), "never done twice");
            }
            StepEvent::EffectCommitted(effect) => {
                self.with(number, effect.token, StepPhase::Dispatched);
                let known = self.effects.get_mut(&effect.key).expect("an effect needs an intent");
                assert!(!std::mem::replace(&mut known.1, true), "done once");
            }
            StepEvent::CostCorrected(corrected) => {
                let estimate = self.estimates.remove(&corrected.token);
                assert!(estimate.is_none_or(|estimate| estimate == corrected.charged));
                // A correction may state a wrong earlier charge.
                let known = less(self.spent, super::sum(self.estimates.values().copied()));
                let charged = estimate.unwrap_or(Cost {
                    money_micros: corrected.charged.money_micros.min(known.money_micros),
                    tokens: corrected.charged.tokens.min(known.tokens),
                });
                self.spent = plus(less(self.spent, charged), corrected.cost);
            }
        }
    }

    fn close_question(&mut self, number: StepNumber) {
        self.questions.retain(|_, (step, _)| *step != Some(number));
    }

    fn lost(&mut self, number: StepNumber, lost: &AttemptLost) {
        let has_intent = self.effects.values().any(|(token, _)| *token == lost.token);
        let may_repeat = self.idempotence(number) != Idempotence::No
            || (lost.cause == LostCause::Released && !has_intent);
        let work = self.with(number, lost.token, StepPhase::Dispatched);
        let reserved = std::mem::take(&mut work.reserved);
        match lost.then {
            AfterLoss::Redispatch => (work.phase, work.token) = (StepPhase::Open, None),
            AfterLoss::OutcomeUnknown => work.phase = StepPhase::OutcomeUnknown,
        }
        let is_counted = matches!(lost.cause, LostCause::LeaseExpired | LostCause::RunnerDied);
        // A step that is lost again and again waits for a person.
        let is_redispatched = lost.then == AfterLoss::Redispatch;
        assert!(may_repeat || !is_redispatched, "5");
        assert!(!may_repeat || is_redispatched || is_counted, "5");
        self.reserved = less(self.reserved, reserved);
        self.spent = plus(self.spent, reserved);
        self.estimates.insert(lost.token, reserved);
    }

    fn recorded(&mut self, number: StepNumber, recorded: &ReceiptRecorded) {
        let work = self.with(number, recorded.token, StepPhase::Dispatched);
        let reserved = std::mem::take(&mut work.reserved);
        work.phase = StepPhase::Reported;
        work.receipt = Some(recorded.receipt.clone());
        for key in &recorded.receipt.side_effects {
            self.effects.entry(key.clone()).or_insert((recorded.token, true)).1 = true;
        }
        self.reserved = less(self.reserved, reserved);
        self.spent = plus(self.spent, recorded.receipt.cost);
    }

    /// Invariant 6.
    fn judged(&mut self, number: StepNumber, judged: &VerdictRecorded) {
        let Verdict { criterion, ruling, by, .. } = &judged.verdict;
        let text = self.text(number).clone();
        let what = &text.acceptance[usize::try_from(*criterion).unwrap()];
        let policy = self.policy.text;
        let values = self.values.clone();
        let work = self.with(number, judged.token, StepPhase::Reported);
        assert_ne!(*by, work.worker, "a worker judged its own attempt");
        let output = work.receipt.as_ref().and_then(|receipt| receipt.output.inline());
        match (by.as_str(), what) {
            ("policy:cel", Criterion::Cel(body)) => {
                assert_eq!(*ruling == Ruling::Pass, holds(body, &values, output), "{body}");
            }
            ("policy:trust", Criterion::Text(_)) => assert_eq!(policy, TextPolicy::Trust),
            (by, _) => assert!(!by.starts_with("policy:"), "{by} judged {what:?}"),
        }
        assert!(work.verdicts.insert(*criterion, judged.verdict.clone()).is_none());
    }

    /// Invariant 6.
    fn accepted(&mut self, number: StepNumber, basis: &AcceptedBasis) {
        let count = self.text(number).acceptance.len();
        let work = self.work(number);
        let passed = |verdict: &Verdict| verdict.ruling == Ruling::Pass;
        let is_trusted = |verdict: &Verdict| verdict.by == "policy:trust";
        let all = work.verdicts.len() == count && work.verdicts.values().all(passed);
        let trusted = work.verdicts.values().any(is_trusted);
        let claims = work.receipt.as_ref().is_some_and(|each| each.outcome == Outcome::Succeeded);
        let is_reported = work.phase == StepPhase::Reported && claims;
        let is_right = match basis {
            AcceptedBasis::Receipt => is_reported && count == 0,
            AcceptedBasis::Verdicts => is_reported && count > 0 && all && !trusted,
            AcceptedBasis::WorkersWord => is_reported && all && trusted,
            AcceptedBasis::DoneBefore { .. } => work.phase == StepPhase::Open,
            AcceptedBasis::Landed { .. } => {
                work.phase == StepPhase::OutcomeUnknown && work.has_landed
            }
            AcceptedBasis::FallbackStep { step } => {
                work.waiting_for_fallback == Some(*step)
                    && self.work(*step).phase == StepPhase::Accepted
            }
            AcceptedBasis::Fallback { .. } => work.stands_for_value,
            AcceptedBasis::Answered { .. } => work.answer.is_some(),
        };
        assert!(is_right, "{basis:?} of {work:?}");
        assert!(!self.lacks_output(number, work), "6: {work:?}");
        self.close_question(number);
        self.work_mut(number).end(StepPhase::Accepted);
        self.work_mut(number).is_repetition = false;
    }

    /// Invariant 8.
    fn decided(&mut self, number: StepNumber, decided: &FailureDecided) {
        let is_external = self.plan().failure.decider == Decider::External;
        let must_not_repeat = self.idempotence(number) == Idempotence::No;
        let fallback = self.text(number).fallback.clone();
        let work = self.work(number);
        assert_eq!(work.token, Some(decided.token));
        let is_answer = work.phase == StepPhase::Asked && work.answer.is_some();
        let has_failed = work.has_failed() || self.lacks_output(number, work);
        assert!(has_failed || is_answer, "nothing failed: {work:?}");
        assert!(!decided.rule.is_empty());
        assert_eq!(is_answer, decided.rule.starts_with("answer:"));
        if must_not_repeat
            && decided.disposition == Disposition::Unknown
            && !is_external
            && !is_answer
        {
            assert_eq!(decided.decision, Decision::OutcomeUnknown, "5");
        }
        let receipt = work.receipt.as_ref().filter(|_| must_not_repeat);
        if receipt.is_some_and(|it| it.outcome == Outcome::Succeeded && it.disposition.is_none()) {
            assert_eq!(decided.disposition, Disposition::Landed, "5: a success has landed");
        }
        let named =
            receipt.is_some_and(|it| it.disposition.is_none() && !it.side_effects.is_empty());
        assert!(
            !named || decided.disposition != Disposition::DidNotHappen,
            "5: the receipt names the effect"
        );
        let is_known = !must_not_repeat || decided.disposition == Disposition::DidNotHappen;
        let may_be_repeated = is_known || is_answer;
        assert!(may_be_repeated || !repeats_work(decided, fallback.as_deref()), "5");
        let made = self.decisions.entry(decided.token).or_default();
        // A landed attempt is asked about again until a person allows another one.
        let is_held = |made: &Decision| {
            matches!(made, Decision::Escalate | Decision::Replan | Decision::Fail | Decision::Abort)
        };
        assert!(made.is_empty() || (is_answer && made.iter().all(is_held)), "{made:?}");
        made.push(decided.decision);
        let waiting_for_fallback = match fallback.as_deref() {
            Some(Fallback::Step(id)) => self.named(id),
            _ => None,
        };
        let is_final =
            matches!(decided.decision, Decision::Fail | Decision::Replan | Decision::Abort);
        let may_have_landed = must_not_repeat && decided.disposition != Disposition::DidNotHappen;
        let is_held = decided.then == AfterFailure::Held;
        assert_eq!(is_held, is_final && may_have_landed, "5");
        let work = self.work_mut(number);
        work.answer = None;
        work.may_have_landed = may_have_landed;
        match decided.decision {
            Decision::Retry => (work.phase, work.delay) = (StepPhase::Open, None),
            Decision::RetryAt { due } => (work.phase, work.delay) = (StepPhase::Open, Some(due)),
            Decision::Fail | Decision::Replan | Decision::Abort => work.phase = StepPhase::Failed,
            Decision::Escalate => return work.phase = StepPhase::Asked,
            Decision::OutcomeUnknown => return work.phase = StepPhase::OutcomeUnknown,
            Decision::Fallback => {
                assert!(!work.has_used_fallback, "a fallback was used twice");
                work.phase = StepPhase::Open;
                work.has_used_fallback = true;
                work.waiting_for_fallback = waiting_for_fallback;
                match *fallback.expect("a fallback") {
                    Fallback::Owner(owner) => work.owner = Some(owner),
                    Fallback::Step(_) => {}
                    Fallback::Value { .. } | Fallback::Variable { .. } => {
                        work.stands_for_value = true;
                    }
                }
            }
        }
        work.token = work.token.filter(|_| is_held);
        if let Some(called) = work.waiting_for_fallback {
            self.work_mut(called).is_uncalled_fallback = false;
        }
    }

    /// Whether a reported attempt lacks a declared output that is not optional.
    fn lacks_output(&self, number: StepNumber, work: &StepModel) -> bool {
        let text = self.text(number);
        let receipt = work.receipt.as_ref().filter(|_| work.phase == StepPhase::Reported);
        receipt.is_some_and(|receipt| {
            let output = receipt.output.inline().map(Json::value).unwrap_or_default();
            let arrived = |name: &String| {
                text.outputs.len() == 1
                    || output.get(name).is_some()
                    || receipt.variables.iter().any(|(set, _)| set == name)
                    || text.optional_outputs.contains(name)
            };
            !text.outputs.iter().all(arrived)
        })
    }

    fn condition(&mut self, number: StepNumber, judged: &ConditionJudged) {
        let text = self.text(number);
        let body = match judged.which {
            Condition::RunIf => text.condition.as_ref().unwrap(),
            Condition::Pre(place) => &text.preconditions[usize::try_from(place).unwrap()],
        };
        let is_so = holds(body, &self.values, None);
        assert_eq!(judged.ruling == Ruling::Pass, is_so, "{body}");
        let work = self.work_mut(number);
        assert_eq!(work.phase, StepPhase::Open);
        if judged.which == Condition::RunIf {
            work.run_if = Some(is_so);
        }
    }

    pub(super) fn compare_steps(&self, run: &Run) {
        assert_eq!(run.steps.len(), self.works.len());
        let is_running = self.status == RunStatus::Running;
        for (number, step) in (1..).map(StepNumber).zip(&run.steps) {
            let work = self.work(number);
            let phase = match step.status {
                StepStatus::Gated if step.attempt().is_some() => StepPhase::Asked,
                StepStatus::Waiting
                | StepStatus::Ready
                | StepStatus::Gated
                | StepStatus::Delayed => StepPhase::Open,
                StepStatus::Dispatched => StepPhase::Dispatched,
                StepStatus::OutcomeUnknown => StepPhase::OutcomeUnknown,
                StepStatus::Reported => StepPhase::Reported,
                StepStatus::Accepted => StepPhase::Accepted,
                StepStatus::Failed => StepPhase::Failed,
                StepStatus::Skipped => StepPhase::Skipped,
                StepStatus::Removed => StepPhase::Gone,
                StepStatus::Cancelled => StepPhase::Cancelled,
            };
            assert_eq!((step.id(), phase), (work.id.as_str(), work.phase));
            assert_eq!(step.attempt().map(|attempt| attempt.token), work.token);
            if work.phase == StepPhase::Gone {
                continue;
            }
            assert_eq!(step.owner(), work.owner.as_deref(), "owner of {}", work.id);
            if is_running {
                let is_ready = step.status == StepStatus::Ready;
                assert_eq!(
                    is_ready,
                    self.is_dispatchable(number),
                    "4: {} in {step:?} {work:?}",
                    work.id
                );
                self.check_decided(number, work);
            }
        }
    }

    /// No verdict or decision is pending.
    fn check_decided(&self, number: StepNumber, work: &StepModel) {
        let is_external = self.plan().failure.decider == Decider::External;
        if self.waits_to_request(work) {
            return;
        }
        let has_failed = work.has_failed() || self.lacks_output(number, work);
        assert!(is_external || !has_failed, "8: {work:?}");
        if work.phase == StepPhase::Reported && !has_failed {
            let criteria = &self.text(number).acceptance;
            let waits = |(place, criterion): (u32, &Criterion)| {
                let is_for_people = match criterion {
                    Criterion::Text(_) => self.policy.text == TextPolicy::Judge,
                    Criterion::Command(_) => true,
                    Criterion::Cel(_) => false,
                };
                is_for_people && !work.verdicts.contains_key(&place)
            };
            assert!((0..).zip(criteria).any(waits), "6: {work:?}");
        }
        if work.phase == StepPhase::Asked {
            let is_asked = self.questions.values().any(|(step, _)| *step == Some(number));
            assert!(is_asked, "no question about {work:?}");
        }
    }
}
