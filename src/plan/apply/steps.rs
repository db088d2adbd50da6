//! Applies step events.

use std::collections::{BTreeMap, BTreeSet};

use super::money::AccountDelta;
use super::transition::{Next, transition};
use crate::plan::event::step_event::{
    AcceptedBasis, AfterFailure, AfterLoss, Condition, ConditionJudged, Decision, Dispatched,
    FailureDecided, ResolvedOutcome, Ruling, Verdict,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::Fallback;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::{Attempt, Hold, StepState};
use crate::plan::value::ids::{AttemptToken, StepNumber, Timestamp};
use crate::plan::value::rare_field::{RareField, StaticDefault};

impl Run {
    /// Applies an event and returns its change of the account.
    pub(super) fn apply_step(
        &mut self,
        seq: u64,
        time: Timestamp,
        number: StepNumber,
        event: StepEvent,
    ) -> AccountDelta {
        let Some(step) = self.steps.get_mut(number.index()) else { return AccountDelta::default() };
        step.last_seq = seq;
        let Some(next) = transition(step.status, event.trigger()) else {
            return AccountDelta::default();
        };
        if event.expected_attempt().is_some_and(|token| !step.has_attempt(token)) {
            return AccountDelta::default();
        }
        let delay = step.hold().delay;
        let delta = self.charge(number, &event);
        self.apply_details(seq, time, number, event);
        if self.step(number).is_some_and(|step| step.hold().delay != delay) {
            self.remove_delay_timer(number, delay);
        }
        match next {
            Next::Same => {}
            Next::Open => self.set_status(number, self.open_status(number)),
            Next::To(status) => self.set_status(number, status),
        }
        self.refresh_pending(number);
        delta
    }

    /// Applies all changes of an event except the change of the status.
    fn apply_details(&mut self, seq: u64, time: Timestamp, number: StepNumber, event: StepEvent) {
        let failure = match event {
            StepEvent::FailureDecided(_) => self.failure_of(number),
            _ => None,
        };
        let criteria = match event {
            StepEvent::FailureDecided(_) => self.failed_criteria(number),
            _ => Vec::new(),
        };
        let is_loss = matches!(event, StepEvent::AttemptLost(_));
        let counts_losses = is_loss && self.states_retry(number);
        self.apply_effect(seq, number, &event);
        self.apply_question(seq, time, number, &event);
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        match event {
            StepEvent::Dispatched(dispatched) => step.start_attempt(seq, time, dispatched),
            StepEvent::LeaseRenewed(renewed) => {
                step.change_attempt(|attempt| attempt.lease_until = renewed.lease_until);
            }
            StepEvent::AttemptLost(lost) => {
                if lost.cause.is_failure() && counts_losses {
                    step.failures = step.failures.saturating_add(1);
                }
                if lost.then == AfterLoss::Redispatch {
                    step.take_attempt();
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                step.change_attempt(|attempt| {
                    attempt.receipt = Some(recorded.receipt);
                    attempt.reserved = Cost::default();
                });
            }
            StepEvent::VerdictRecorded(judged) => {
                step.change_attempt(|attempt| attempt.record_verdict(judged.verdict));
            }
            StepEvent::Accepted(accepted) => step.complete(accepted.basis),
            StepEvent::FailureDecided(decided) => {
                let message = failure.map_or_else(|| decided.reason.clone(), |(_, what)| what);
                step.change(|detail| {
                    detail.last_failure = Some((decided.class, message).into());
                    detail.failed_criteria = criteria.into();
                });
                self.apply_decision(number, &decided);
            }
            StepEvent::StepFailed(failed) => {
                if failed.aborts_run() {
                    let reason = failed.reason.clone();
                    self.abort_reason = self.abort_reason.take().or(Some(reason));
                }
                let failure = (failed.class, failed.reason);
                step.change(|detail| detail.last_failure = Some(failure.into()));
                step.end_work();
            }
            StepEvent::Skipped(_) => step.end_work(),
            StepEvent::Reopened(_) => step.reopen(),
            StepEvent::OutcomeResolved(resolved) => {
                if resolved.finding == ResolvedOutcome::DidNotHappen {
                    step.take_attempt();
                }
            }
            StepEvent::ConditionJudged(judged) => {
                step.change_hold(|hold| hold.record_ruling(&judged));
            }
            StepEvent::DelayElapsed(_) => step.change_hold(|hold| hold.delay = None),
            StepEvent::ReceiptRefused(_)
            | StepEvent::StepAsked(_)
            | StepEvent::StepAnswered(_)
            | StepEvent::StepQuestionExpired(_)
            | StepEvent::EffectIntended(_)
            | StepEvent::EffectCommitted(_)
            | StepEvent::CostCorrected(_) => {}
        }
    }

    fn failed_criteria(&self, number: StepNumber) -> Vec<Verdict> {
        let attempt = self.step(number).and_then(|step| step.attempt());
        let verdicts = attempt.into_iter().flat_map(|attempt| attempt.verdicts.values());
        verdicts.filter(|verdict| verdict.ruling == Ruling::Fail).cloned().collect()
    }

    /// Applies all changes of a decision about a failure except the change of the status.
    fn apply_decision(&mut self, number: StepNumber, decided: &FailureDecided) {
        let fallback = self.plan_step(number).and_then(CompactStep::fallback);
        let fallback_step = self.links.fallback_of(number);
        let abort = (decided.decision == Decision::Abort).then(|| decided.reason.clone());
        self.abort_reason = self.abort_reason.take().or(abort);
        if decided.is_exhausted() {
            self.counters.exhausted = self.counters.exhausted.saturating_add(1);
        }
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        // Count a failure once: a decision after an answer must not count it again.
        if step.status == StepStatus::Reported {
            step.failures = step.failures.saturating_add(u32::from(!decided.is_usage_limit()));
            self.counters.failures = self.counters.failures.saturating_add(1);
        }
        step.change_hold(|hold| hold.answer = None);
        match &decided.decision {
            Decision::Escalate | Decision::OutcomeUnknown => return,
            Decision::Retry | Decision::RetryAt { .. } => {
                self.counters.retries = self.counters.retries.saturating_add(1);
                let delay = match decided.decision {
                    Decision::RetryAt { due } => Some(due),
                    _ => None,
                };
                step.change_hold(|hold| hold.delay = delay);
            }
            Decision::Fail | Decision::Replan | Decision::Abort => {}
            Decision::Fallback => {
                step.has_fallen_back = true;
                match fallback {
                    Some(Fallback::Owner(owner)) => {
                        step.failures = 0;
                        step.change(|detail| detail.owner = Some(owner.into()));
                    }
                    Some(Fallback::Step(_)) => {
                        step.change_hold(|hold| hold.fallback_step = fallback_step);
                    }
                    // The acceptance that follows sets the value.
                    _ => {}
                }
            }
        }
        if decided.then == AfterFailure::Over {
            step.take_attempt();
        }
        let fallback_step = step.hold().fallback_step;
        if let Some(fallback) = fallback_step.and_then(|number| self.steps.get_mut(number.index()))
        {
            fallback.change_hold(|hold| hold.is_standby = false);
        }
        if let Some(fallback) = fallback_step {
            self.refresh_status(fallback);
        }
    }
}

impl StepState {
    pub(super) fn has_attempt(&self, token: AttemptToken) -> bool {
        self.attempt().is_some_and(|attempt| attempt.token == token)
    }

    fn start_attempt(&mut self, seq: u64, time: Timestamp, dispatched: Dispatched) {
        self.attempts = self.attempts.saturating_add(1);
        let attempt = Box::new(Attempt {
            token: AttemptToken(seq),
            worker: dispatched.worker,
            dispatched: time,
            lease_until: dispatched.lease_until,
            reserved: dispatched.reserved,
            receipt: None,
            verdicts: BTreeMap::new(),
            effects: BTreeSet::new(),
            secret_hash: dispatched.secret_hash,
            process: dispatched.process,
            second_owner: dispatched.second_owner,
        });
        self.change(|detail| detail.attempt = Some(attempt));
    }

    fn complete(&mut self, basis: AcceptedBasis) {
        self.accept(Some(basis));
        if self.last_failure().is_some() || !self.failed_criteria().is_empty() {
            self.change(|detail| {
                (detail.last_failure, detail.failed_criteria) = (None, RareField::NONE);
            });
        }
        self.end_work();
    }

    /// Ends the work of the step: removes its attempt and everything that blocks it.
    fn end_work(&mut self) {
        self.take_attempt();
        if self.hold() != Hold::STATIC_DEFAULT {
            self.change_hold(|hold| {
                hold.answer = None;
                hold.delay = None;
                hold.fallback_step = None;
            });
        }
    }

    /// Reopens the step as if it had not failed.
    fn reopen(&mut self) {
        self.failures = 0;
        // Evaluate the conditions again, since they may hold now.
        self.change_hold(|hold| {
            hold.delay = None;
            hold.condition = None;
            hold.preconditions.clear();
            hold.is_gate_open = false;
        });
    }
}

impl Hold {
    fn record_ruling(&mut self, judged: &ConditionJudged) {
        match judged.which {
            Condition::RunIf => self.condition = Some(judged.ruling),
            Condition::Pre(place) => drop(self.preconditions.insert(place, judged.ruling)),
        }
    }
}

impl Attempt {
    fn record_verdict(&mut self, verdict: Verdict) {
        self.verdicts.entry(verdict.criterion).or_insert(verdict);
    }
}

impl StepEvent {
    /// The attempt that must be the current one of the step; the event is ignored otherwise.
    pub(super) fn expected_attempt(&self) -> Option<AttemptToken> {
        match self {
            Self::LeaseRenewed(renewed) => Some(renewed.token),
            Self::AttemptLost(lost) => Some(lost.token),
            Self::ReceiptRecorded(recorded) => Some(recorded.token),
            Self::VerdictRecorded(judged) => Some(judged.token),
            Self::FailureDecided(decided) => Some(decided.token),
            Self::OutcomeResolved(resolved) => Some(resolved.token),
            Self::EffectIntended(effect) => Some(effect.token),
            Self::EffectCommitted(effect) => Some(effect.token),
            // The first starts an attempt; the others concern the step.
            Self::Dispatched(_)
            | Self::ReceiptRefused(_)
            | Self::Accepted(_)
            | Self::Skipped(_)
            | Self::Reopened(_)
            | Self::ConditionJudged(_)
            | Self::DelayElapsed(_)
            | Self::StepAsked(_)
            | Self::StepAnswered(_)
            | Self::StepQuestionExpired(_)
            | Self::CostCorrected(_)
            | Self::StepFailed(_) => None,
        }
    }
}
