//! Decides about a failed attempt: by the rules of the plan, then by the built-in ones.
//!
//! Invariants:
//! - The decision is a pure function of the failure and the state. Even the jitter of a delay is
//!   derived from the token of the attempt.
//! - A rule that cannot be applied, because no attempt or fallback is left, is skipped. The last
//!   built-in rule always applies.

use std::collections::BTreeMap;

use serde_json::json;

use super::backoff::planned_delay;
use super::criteria::{CEL, evaluate, evaluate_with, output_of};
use super::disposition::{disposition_of, must_not_repeat};
use super::fallback::may_fall_back;
use super::outcome::decision_events;
use super::reported::{ClassSource, given_class, is_decided_by_rules};
use crate::plan::event::Event;
use crate::plan::event::question::QuestionSubject;
use crate::plan::event::receipt::{Outcome, UsageLimit};
use crate::plan::event::run_event::Origin;
use crate::plan::event::step_event::{AfterFailure, Decision, FailureDecided, Ruling};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::{StepEvent, StepRecord};
use crate::plan::model::policy::{
    Disposition, FailureAction, FailureMatch, FailureRule, OnUnknown,
};
use crate::plan::model::step::{FailureClass, OnTimeout, RetryPolicy};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::detached::Salt;
use crate::plan::value::evaluator::{Evaluator, Exhausted};
use crate::plan::value::ids::{Micros, SECOND, StepNumber, Timestamp};
use crate::plan::value::json::Json;
use crate::plan::value::text::Text;

/// How long a usage limit is waited for if the receipt does not say.
const USAGE_LIMIT_WAIT: Micros = 300 * SECOND;

/// A failed attempt, with everything that a rule can match.
#[derive(Debug)]
pub(crate) struct FailedAttempt<'a> {
    run: &'a Run,
    number: StepNumber,
    attempt: &'a Attempt,
    class: FailureClass,
    message: Text,
    disposition: Disposition,
    /// Number of failures of the step, this one included.
    failures: u32,
    retry: RetryPolicy,
}

/// A decision and the rule that made it.
struct RuleDecision {
    decision: Decision,
    rule: String,
    reason: Text,
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
    fn new(decision: Decision, rule: &str, reason: impl Into<Text>) -> Self {
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
        message: Text,
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

    pub(super) fn decision_events(
        &self,
        time: Timestamp,
        evaluator: &mut Evaluator,
    ) -> Result<Vec<Event>, Exhausted> {
        let mut decided = self.decide(time, evaluator)?;
        if let Some(source) = self.class_source() {
            decided.reason = Text::concat([&decided.reason, &source.evidence().into()]);
        }
        Ok(self.events(decided, time))
    }

    fn decide(
        &self,
        time: Timestamp,
        evaluator: &mut Evaluator,
    ) -> Result<RuleDecision, Exhausted> {
        match self.disposition {
            Disposition::Unknown if !self.is_idempotent() => {
                return Ok(RuleDecision::new(
                    Decision::OutcomeUnknown,
                    "outcome_unknown.disposition",
                    self.message.clone(),
                ));
            }
            Disposition::Landed if !self.is_idempotent() => {
                let what = Text::from("the work took effect, but the attempt failed: ");
                let reason = Text::concat([&what, &self.message]);
                return Ok(RuleDecision::new(Decision::Escalate, "escalate.landed", reason));
            }
            _ => {}
        }
        let limit = self.usage_limit();
        // A rule that names the words of a limit is about it; the others are about failures of the work.
        let is_meant = |rule: &&FailureRule| limit.is_none() || rule.when.message.is_some();
        for rule in self.matching_rules().filter(is_meant) {
            let Some(seen) = self.evidence(rule, time, evaluator)? else { continue };
            if let Some(mut decided) = self.apply_rule(&rule.id, &rule.then, time) {
                decided.reason = Text::concat([&decided.reason, &seen]);
                return Ok(decided);
            }
        }
        match limit {
            Some(limit) => Ok(self.limit_decision(limit, time)),
            None => self.built_in(time, evaluator),
        }
    }

    /// The source of the failure class if the worker reported none.
    fn class_source(&self) -> Option<ClassSource> {
        let is_reported = self.attempt.receipt.as_ref().is_some_and(|receipt| {
            matches!(receipt.outcome, Outcome::Failed { class, .. } if class == self.class)
        });
        if is_reported || self.class == FailureClass::Unknown {
            return None;
        }
        let given = given_class(self.run, self.number, &self.message);
        given.filter(|(class, _)| *class == self.class).map(|(_, source)| source)
    }

    /// Whether the failure gets its class only from words in its message, and the plan does not say
    /// how to retry the step: the words may be about something else.
    fn is_class_guessed(&self) -> bool {
        let is_by_words = matches!(self.class_source(), Some(ClassSource::Words(_)));
        is_by_words && !self.run.states_retry(self.number)
    }

    /// The usage limit that the attempt met, unless the step must not be repeated.
    fn usage_limit(&self) -> Option<UsageLimit> {
        UsageLimit::of(&self.attempt.receipt.as_ref()?.outcome).filter(|_| self.is_idempotent())
    }

    /// Whether a person is asked about the usage limit of another step of the same owner.
    fn is_limit_asked(&self) -> bool {
        let run = self.run;
        let owner = |number: StepNumber| run.step(number).and_then(|step| step.owner());
        let met_limit = |number: StepNumber| {
            let receipt = run.step(number)?.attempt()?.receipt.as_ref()?;
            UsageLimit::of(&receipt.outcome).filter(|limit| *limit == UsageLimit::Person)
        };
        let mut asked = run.questions.values().filter_map(|question| {
            let is_failure = matches!(question.asked.subject, QuestionSubject::Failure { .. });
            question.step.filter(|_| is_failure)
        });
        asked.any(|number| {
            number != self.number
                && owner(number) == owner(self.number)
                && met_limit(number).is_some()
        })
    }

    /// The decision about an attempt that met a usage limit: it is repeated when the limit ends, and a
    /// person is asked if no time ends it, once for all steps of an owner.
    fn limit_decision(&self, limit: UsageLimit, time: Timestamp) -> RuleDecision {
        let rule = |decision, rule| RuleDecision::new(decision, rule, self.message.clone());
        if limit == UsageLimit::Person && self.is_limit_asked() {
            let due = time.saturating_add(USAGE_LIMIT_WAIT);
            return rule(Decision::RetryAt { due }, "retry.usage_limit");
        }
        if limit == UsageLimit::Person {
            let fallback = self.fallback_decision("fallback.usage_limit", time);
            return fallback.unwrap_or_else(|| rule(Decision::Escalate, "escalate.usage_limit"));
        }
        let asked = self.attempt.receipt.as_ref().and_then(|receipt| receipt.outcome.delay());
        let asked = if mutant!(RetryAfterIgnored) { Some(0) } else { asked };
        match asked.unwrap_or(USAGE_LIMIT_WAIT) {
            0 => rule(Decision::Retry, "retry.usage_limit"),
            wait => {
                let due = time.saturating_add(wait);
                rule(Decision::RetryAt { due }, "retry.usage_limit")
            }
        }
    }

    /// The rules of the plan that match, apart from their expressions.
    fn matching_rules(&self) -> impl Iterator<Item = &'a FailureRule> {
        let rules = self.run.plan().map_or(&[][..], |plan| &plan.header().failure.rules);
        rules.iter().filter(|rule| self.matches(&rule.when))
    }

    /// The values that the expression of a rule read, for the record; `None` if the expression does
    /// not hold.
    fn evidence(
        &self,
        rule: &FailureRule,
        time: Timestamp,
        evaluator: &mut Evaluator,
    ) -> Result<Option<Text>, Exhausted> {
        let Some(body) = &rule.when.cel else { return Ok(Some(Text::default())) };
        let values = BTreeMap::from([
            ("failure".to_owned(), self.described()),
            ("budget".to_owned(), budget_left(self.run, time)),
        ]);
        let output = output_of(self.attempt).unwrap_or_default();
        let judged = evaluate_with(self.run, body, (&output, &values), evaluator)?;
        let before = Text::from(format!(" (`{body}` holds: "));
        let seen = || Text::concat([&before, &judged.evidence, &")".into()]);
        Ok((judged.holds || mutant!(FailureExpressionIgnored)).then(seen))
    }

    /// The failure as expressions read it.
    fn described(&self) -> Json {
        let payload = self.attempt.receipt.as_ref().and_then(|receipt| match &receipt.outcome {
            Outcome::Failed { payload, .. } => Some(payload),
            Outcome::Succeeded | Outcome::ReplanRequested { .. } => None,
        });
        let (payload_salt, payload) = (payload.map(Json::own_salt), payload.map(Json::value));
        let step = self.run.plan_step(self.number);
        let described = Json::new(&json!({
            "class": self.class,
            "message": self.message,
            "payload": payload,
            "number": self.failures,
            "failure_class": step.and_then(CompactStep::failure_class),
        }));
        // A text that quotes the failure is erased with the payload, or with the value that the
        // message quotes.
        let mut salts = payload_salt.into_iter().chain(self.message.salts());
        let salt = salts.find(|salt| salt.is_some() && *salt != Salt::ERASED);
        described.with_salt(salt.unwrap_or_default())
    }

    /// The question of the first matching `escalate` rule. Earlier rules did not apply when the
    /// failure was decided.
    pub(super) fn escalation(
        &self,
        time: Timestamp,
        evaluator: &mut Evaluator,
    ) -> Result<Option<Escalation>, Exhausted> {
        if !is_decided_by_rules(self.run) || !self.may_be_repeated() {
            return Ok(None);
        }
        for rule in self.matching_rules() {
            let Some(escalation) = Escalation::of(&rule.then) else { continue };
            if self.evidence(rule, time, evaluator)?.is_some() {
                return Ok(Some(escalation));
            }
        }
        Ok(None)
    }

    fn matches(&self, when: &FailureMatch) -> bool {
        let FailureMatch { class, disposition, step, owner, tag, message, failures, .. } = when;
        let own_class = || self.run.plan_step(self.number)?.failure_class();
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
            && when.failure_class.as_ref().is_none_or(|name| own_class() == Some(name.as_str()))
    }

    /// The decision of a rule, if it can be applied.
    fn apply_rule(
        &self,
        id: &str,
        action: &FailureAction,
        time: Timestamp,
    ) -> Option<RuleDecision> {
        let decided = |decision| RuleDecision::new(decision, id, self.message.clone());
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

    /// The decision of the built-in rules, in this order: retry a failure that a retry may repair,
    /// use the fallback, request another plan, or ask a person.
    fn built_in(
        &self,
        time: Timestamp,
        evaluator: &mut Evaluator,
    ) -> Result<RuleDecision, Exhausted> {
        let (_, no_retry_rule) = class_rule(self.class);
        // An explicit limit for a class overrides the built-in knowledge about it.
        let limit = match (self.class_limit(), no_retry_rule) {
            (Some(limit), _) => Some(limit),
            (None, Some(_)) => None,
            (None, None) => self.retries().then_some(self.retry.max_attempts),
        };
        if let Some(limit) = limit
            && self.failures < limit
        {
            return Ok(self.retry_decision("retry.attempts_left", limit, time));
        }
        // The limit of replans does not refuse a worker's request: a person decides about it then.
        if self.run.request_of_worker(self.number).is_some() {
            let rule = "replan.requested";
            return Ok(RuleDecision::new(Decision::Replan, rule, self.message.clone()));
        }
        if let Some(decided) = self.fallback_decision("fallback.attempts_exhausted", time) {
            return Ok(decided);
        }
        let rule = match (limit, no_retry_rule) {
            (None, Some(rule)) => rule,
            (None, None) => "fail.class_unknown",
            (Some(_), _) => "fail.attempts_exhausted",
        };
        let mut reason = match limit {
            Some(limit) => self.counted(limit),
            None => self.message.clone(),
        };
        let decided = |decision, word: &str, reason: Text| {
            RuleDecision::new(decision, &rule.replacen("fail", word, 1), reason)
        };
        let is_asked = self.run.failure_settings.on_unknown == OnUnknown::Ask;
        let is_unknown = self.class == FailureClass::Unknown && limit.is_none();
        if is_asked && (is_unknown || self.is_class_guessed()) {
            return Ok(decided(Decision::Escalate, "escalate", reason));
        }
        match self.run.max_replans() {
            Some(max) if self.run.replans < max => {
                let is_input_bad = limit.is_none() && self.class == FailureClass::Deterministic;
                let upstream = if is_input_bad { self.upstream(evaluator)? } else { None };
                if let Some((_, why)) = &upstream {
                    reason = Text::concat([&reason, &format!(" ({why})").into()]);
                }
                let from = upstream.map(|(step, _)| step);
                Ok(RuleDecision { from, ..decided(Decision::Replan, "replan", reason) })
            }
            max => {
                if let Some(max) = max.filter(|max| *max > 0) {
                    let used = format!(" (all {max} replans are used)");
                    reason = Text::concat([&reason, &used.into()]);
                }
                let is_used_up = limit.is_none() && self.class == FailureClass::BudgetExhausted;
                Ok(if is_used_up || is_asked && self.is_unexpected() {
                    decided(Decision::Escalate, "escalate", reason)
                } else {
                    decided(Decision::Fail, "fail", reason)
                })
            }
        }
    }

    /// Whether a failure whose class does not forbid a retry is retried. A failure of unknown class
    /// is retried only if the step or the run says so.
    fn retries(&self) -> bool {
        self.class != FailureClass::Unknown
            || self.run.states_retry(self.number)
            || self.run.failure_settings.on_unknown == OnUnknown::Retry
    }

    /// Whether an expression rejected the output: the plan does not expect the value and has no
    /// other class for it.
    fn is_unexpected(&self) -> bool {
        if self.class != FailureClass::CriterionFailed {
            return false;
        }
        let mut verdicts = self.attempt.verdicts.values();
        verdicts.any(|verdict| verdict.ruling == Ruling::Fail && verdict.by == CEL)
    }

    /// The step that caused a deterministic failure, and the reason: it set a variable of a
    /// precondition that no longer holds, or else an input. Work that must not be repeated is left
    /// alone.
    fn upstream(
        &self,
        evaluator: &mut Evaluator,
    ) -> Result<Option<(StepNumber, String)>, Exhausted> {
        let Some(step) = self.run.plan_step(self.number) else { return Ok(None) };
        let writer = |name: &str| match self.run.variables.get(name)?.origin {
            Origin::Step { step, .. } | Origin::Fallback { step } => Some(step),
            Origin::Person { .. } | Origin::Agent { .. } => None,
        };
        let may_redo = |number: &StepNumber| {
            *number != self.number
                && self.run.step(*number).is_some_and(|step| step.status == StepStatus::Accepted)
                && !must_not_repeat(self.run, *number)
        };
        for (place, body) in (0..).zip(step.preconditions()) {
            if evaluate(self.run, body, None, evaluator)?.holds {
                continue;
            }
            let names = self.run.links.variables_of(self.number, place).iter();
            let found = names.filter_map(|name| writer(name)).find(may_redo);
            let why = format!("precondition {} no longer holds", u64::from(place) + 1);
            return Ok(Some((found.unwrap_or(self.number), why)));
        }
        let found = step.inputs().find_map(|name| {
            let number = writer(name).filter(may_redo)?;
            let id = self.run.step(number).map_or("", |step| step.id());
            Some((number, format!("its input `{name}` comes from step #{number} ({id})")))
        });
        Ok(found)
    }

    /// The message, with the number of the failure.
    fn counted(&self, limit: u32) -> Text {
        let number = format!("failure {} of at most {limit}: ", self.failures);
        Text::concat([&number.into(), &self.message])
    }

    fn retry_decision(&self, rule: &str, limit: u32, time: Timestamp) -> RuleDecision {
        let reason = self.counted(limit);
        let asked = self.attempt.receipt.as_ref().and_then(|receipt| receipt.outcome.delay());
        let asked = asked.or_else(|| self.default_delay()).unwrap_or(0);
        let wait = planned_delay(&self.retry, self.failures, self.attempt.token.0);
        let wait = wait.max(if mutant!(RetryAfterIgnored) { 0 } else { asked });
        let decision = match wait {
            0 => Decision::Retry,
            wait => Decision::RetryAt { due: time.saturating_add(wait) },
        };
        RuleDecision::new(decision, rule, reason)
    }

    /// The delay after a failure that the ledger, not its worker, takes as a transient one, if the plan does not say
    /// how the step is retried.
    fn default_delay(&self) -> Option<Micros> {
        let is_due = self.class == FailureClass::Transient && self.class_source().is_some();
        let seed = self.attempt.token.0;
        (is_due && !self.run.states_retry(self.number))
            .then(|| RetryPolicy::default_delay_seconds(self.failures, seed).saturating_mul(SECOND))
    }

    fn fallback_decision(&self, rule: &str, time: Timestamp) -> Option<RuleDecision> {
        may_fall_back(self.run, self.number, time)
            .then(|| RuleDecision::new(Decision::Fallback, rule, self.message.clone()))
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
            by: String::new(),
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
        FailureClass::CriterionFailed => ("criterion_failed", None),
        FailureClass::Deterministic => ("deterministic", Some("fail.class_deterministic")),
        FailureClass::AssumptionBroken => {
            ("assumption_broken", Some("fail.class_assumption_broken"))
        }
        FailureClass::BudgetExhausted => ("budget_exhausted", Some("fail.class_budget_exhausted")),
    }
}

/// The rest of the budget of a run for expressions; null for parts without a limit.
fn budget_left(run: &Run, time: Timestamp) -> Json {
    let limits = run.limits();
    let used = run.account.spent.plus(run.account.reserved);
    let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
    Json::new(&json!({
        "money_micros": left(limits.money_micros, used.money_micros),
        "tokens": left(limits.tokens, used.tokens),
        "attempts": left(limits.attempts, run.account.attempts),
        "wall_seconds": left(limits.wall_seconds, time.saturating_sub(run.started) / SECOND),
    }))
}
