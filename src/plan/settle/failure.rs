//! Decides about a failed attempt: by the rules of the plan, then by the built-in ones.
//!
//! Invariants:
//! - The decision is a pure function of the failure and the state. Even the jitter of a delay is
//!   derived from the token of the attempt.
//! - A rule that cannot be applied, because no attempt or fallback is left, is skipped. The last
//!   built-in rule always applies.

use super::disposition::{disposition_of, must_not_repeat};
use super::fallback::may_fall_back;
use super::outcome::decision_events;
use super::reported::is_decided_by_rules;
use crate::plan::event::Event;
use crate::plan::event::step_event::{AfterFailure, Decision, FailureDecided};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::{StepEvent, StepRecord};
use crate::plan::model::policy::{Disposition, FailureAction, FailureMatch, FailureRule};
use crate::plan::model::step::{FailureClass, OnTimeout, RetryPolicy};
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::{Micros, SECOND, StepNumber, Timestamp};

/// A failed attempt, with everything that a rule can match.
#[derive(Debug)]
pub(crate) struct FailedAttempt<'a> {
    run: &'a Run,
    number: StepNumber,
    attempt: &'a Attempt,
    class: FailureClass,
    message: String,
    disposition: Disposition,
    /// Number of failures of the step, this one included.
    failures: u32,
    retry: RetryPolicy,
}

/// A decision and the rule that made it.
struct RuleDecision {
    decision: Decision,
    rule: String,
    reason: String,
    from: Option<StepNumber>,
    escalation: Option<Escalation>,
}

/// The question of an `escalate` rule: addressee, deadline and timeout.
pub(super) struct Escalation {
    to: Option<String>,
    deadline_seconds: Option<u64>,
    on_timeout: Option<OnTimeout>,
}

impl Escalation {
    fn of(action: &FailureAction) -> Option<Self> {
        match action {
            FailureAction::Escalate { to, deadline_seconds, on_timeout } => Some(Self {
                to: to.clone(),
                deadline_seconds: *deadline_seconds,
                on_timeout: on_timeout.clone(),
            }),
            _ => None,
        }
    }

    /// Fills in the fields of the question in these events.
    pub(super) fn fill_question(self, events: &mut [Event], time: Timestamp) {
        let question = events.iter_mut().find_map(|event| match event {
            Event::Step(StepRecord { event: StepEvent::StepAsked(asked), .. }) => Some(asked),
            _ => None,
        });
        if let Some(asked) = question {
            let until = |seconds: u64| time.saturating_add(seconds.saturating_mul(SECOND));
            asked.to = self.to;
            asked.deadline = self.deadline_seconds.map(until);
            asked.on_timeout = self.on_timeout;
        }
    }
}

impl RuleDecision {
    fn new(decision: Decision, rule: &str, reason: impl Into<String>) -> Self {
        Self {
            decision,
            rule: rule.to_owned(),
            reason: reason.into(),
            from: None,
            escalation: None,
        }
    }
}

impl<'a> FailedAttempt<'a> {
    pub(crate) fn of(
        run: &'a Run,
        number: StepNumber,
        attempt: &'a Attempt,
        class: FailureClass,
        message: String,
    ) -> Self {
        let step = run.plan_step(number);
        let retry = run.plan().zip(step).map(|(plan, step)| plan.retry_of(step));
        let state = run.step(number);
        let is_counted = state.is_some_and(|step| step.status == StepStatus::Gated);
        let failures = state.map_or(0, |step| step.failures);
        Self {
            run,
            number,
            attempt,
            class,
            message,
            disposition: disposition_of(run, number, attempt),
            failures: if is_counted { failures } else { failures.saturating_add(1) },
            retry: retry.unwrap_or_default(),
        }
    }

    /// Whether the work of the attempt took effect, as far as is known.
    pub(crate) fn disposition(&self) -> Disposition {
        self.disposition
    }

    /// Whether the work may be repeated: it was not done, or the step is idempotent.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.disposition == Disposition::DidNotHappen || self.is_idempotent()
    }

    fn is_idempotent(&self) -> bool {
        !must_not_repeat(self.run, self.number)
    }

    /// The events of the decision.
    pub(super) fn decision_events(&self, time: Timestamp) -> Vec<Event> {
        let decided = self.decide(time);
        self.events(decided, time)
    }

    fn decide(&self, time: Timestamp) -> RuleDecision {
        match self.disposition {
            Disposition::Unknown if !self.is_idempotent() => {
                return RuleDecision::new(
                    Decision::OutcomeUnknown,
                    "outcome_unknown.disposition",
                    &*self.message,
                );
            }
            Disposition::Landed if !self.is_idempotent() => {
                let reason =
                    format!("the work took effect, but the attempt failed: {}", self.message);
                return RuleDecision::new(Decision::Escalate, "escalate.landed", reason);
            }
            _ => {}
        }
        let mut answers =
            self.matching_rules().filter_map(|rule| self.apply_rule(&rule.id, &rule.then, time));
        answers.next().unwrap_or_else(|| self.built_in(time))
    }

    /// The matching rules of the plan.
    fn matching_rules(&self) -> impl Iterator<Item = &FailureRule> {
        let rules = self.run.plan().map_or(&[][..], |plan| &plan.header().failure.rules);
        rules.iter().filter(|rule| self.matches(&rule.when))
    }

    /// The question of the first matching `escalate` rule. Earlier rules did not apply when the
    /// failure was decided.
    pub(super) fn escalation(&self) -> Option<Escalation> {
        let is_ruled = is_decided_by_rules(self.run) && self.may_be_repeated();
        self.matching_rules().filter(|_| is_ruled).find_map(|rule| Escalation::of(&rule.then))
    }

    fn matches(&self, when: &FailureMatch) -> bool {
        let FailureMatch { class, disposition, step, owner, tag, message, failures } = when;
        let state = self.run.step(self.number);
        let own_id = state.map_or("", |step| step.id());
        let own_owner = state.and_then(|step| step.owner());
        class.is_none_or(|class| class == self.class)
            && disposition.is_none_or(|disposition| disposition == self.disposition)
            && step.as_ref().is_none_or(|step| step == own_id)
            && owner.as_ref().is_none_or(|owner| Some(owner.as_str()) == own_owner)
            && tag.as_ref().is_none_or(|tag| state.is_some_and(|step| step.tags().contains(tag)))
            && message.as_ref().is_none_or(|text| self.message.contains(text.as_str()))
            && failures.is_none_or(|failures| self.failures >= failures)
    }

    /// The decision of a rule, if it can be applied.
    fn apply_rule(
        &self,
        id: &str,
        action: &FailureAction,
        time: Timestamp,
    ) -> Option<RuleDecision> {
        let decided = |decision| RuleDecision::new(decision, id, &*self.message);
        match action {
            FailureAction::Retry => {
                let limit = self.class_limit().unwrap_or(self.retry.max_attempts);
                (self.failures < limit).then(|| self.retry_decision(id, limit, time))
            }
            FailureAction::Fallback => self.fallback_decision(id, time),
            FailureAction::Replan { from } => {
                let from = from.as_ref().and_then(|id| self.run.step_named(id));
                Some(RuleDecision { from, ..decided(Decision::Replan) })
            }
            FailureAction::Escalate { .. } => Some(RuleDecision {
                escalation: Escalation::of(action),
                ..decided(Decision::Escalate)
            }),
            FailureAction::Fail => Some(decided(Decision::Fail)),
            FailureAction::Abort => Some(decided(Decision::Abort)),
        }
    }

    /// The attempt limit that the retry policy sets for the class.
    fn class_limit(&self) -> Option<u32> {
        let (name, _) = class_rule(self.class);
        self.retry.per_class.get(name).copied()
    }

    fn built_in(&self, time: Timestamp) -> RuleDecision {
        let (_, no_retry_rule) = class_rule(self.class);
        // An explicit limit for a class overrides the built-in knowledge about it.
        let limit = match (self.class_limit(), no_retry_rule) {
            (Some(limit), _) => Some(limit),
            (None, Some(_)) => None,
            (None, None) => Some(self.retry.max_attempts),
        };
        if let Some(limit) = limit
            && self.failures < limit
        {
            return self.retry_decision("retry.attempts_left", limit, time);
        }
        if let Some(decided) = self.fallback_decision("fallback.attempts_exhausted", time) {
            return decided;
        }
        let rule = match (limit, no_retry_rule) {
            (None, Some(rule)) => rule,
            _ => "fail.attempts_exhausted",
        };
        let reason = match limit {
            Some(limit) => {
                format!("failure {} of at most {limit}: {}", self.failures, self.message)
            }
            None => self.message.clone(),
        };
        let max = self.run.plan().and_then(|plan| plan.header().failure.max_replans);
        match max {
            Some(max) if self.run.replans < max => {
                RuleDecision::new(Decision::Replan, &rule.replacen("fail", "replan", 1), reason)
            }
            _ => RuleDecision::new(Decision::Fail, rule, reason),
        }
    }

    fn retry_decision(&self, rule: &str, limit: u32, time: Timestamp) -> RuleDecision {
        let reason = format!("failure {} of at most {limit}: {}", self.failures, self.message);
        let asked = self.attempt.receipt.as_ref().and_then(|receipt| receipt.outcome.delay());
        let wait = backoff(&self.retry, self.failures, self.attempt.token.0);
        let wait = wait.max(if mutant!(RetryAfterIgnored) { 0 } else { asked.unwrap_or(0) });
        let decision = match wait {
            0 => Decision::Retry,
            wait => Decision::RetryAt { due: time.saturating_add(wait) },
        };
        RuleDecision::new(decision, rule, reason)
    }

    fn fallback_decision(&self, rule: &str, time: Timestamp) -> Option<RuleDecision> {
        may_fall_back(self.run, self.number, time)
            .then(|| RuleDecision::new(Decision::Fallback, rule, &*self.message))
    }

    fn events(&self, decision: RuleDecision, time: Timestamp) -> Vec<Event> {
        let decided = FailureDecided {
            token: self.attempt.token,
            class: self.class,
            decision: decision.decision,
            rule: decision.rule,
            reason: decision.reason,
            disposition: self.disposition,
            then: AfterFailure::Over,
        };
        let mut events = decision_events(self.run, self.number, decided, decision.from, time);
        if let Some(escalation) = decision.escalation {
            escalation.fill_question(&mut events, time);
        }
        events
    }
}

/// Name of a class in retry policies, and the built-in rule if a retry would fail in the same way.
fn class_rule(class: FailureClass) -> (&'static str, Option<&'static str>) {
    match class {
        FailureClass::Transient => ("transient", None),
        FailureClass::Unknown => ("unknown", None),
        FailureClass::Deterministic => ("deterministic", Some("fail.class_deterministic")),
        FailureClass::AssumptionBroken => {
            ("assumption_broken", Some("fail.class_assumption_broken"))
        }
        FailureClass::BudgetExhausted => ("budget_exhausted", Some("fail.class_budget_exhausted")),
    }
}

/// Delay after the `failures`-th failure.
fn backoff(policy: &RetryPolicy, failures: u32, token: u64) -> Micros {
    let mut wait = Micros::from(policy.backoff_seconds).saturating_mul(SECOND);
    let most = policy.backoff_max_seconds.map(|most| Micros::from(most).saturating_mul(SECOND));
    let growth = u64::from(policy.backoff_percent.unwrap_or(100));
    for _ in 1..failures.min(64) {
        wait = wait.saturating_mul(growth) / 100;
    }
    let wait = wait.min(most.unwrap_or(Micros::MAX));
    let Some(percent) = policy.jitter_percent.filter(|percent| *percent > 0) else { return wait };
    let span = wait / 100 * u64::from(percent.min(100));
    // Jitter only shortens the delay, so that the maximum holds.
    wait.saturating_sub(mix(token) % span.saturating_add(1))
}

/// The `SplitMix64` finalizer, which maps consecutive tokens to unrelated numbers.
fn mix(token: u64) -> u64 {
    let mut z = token.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
