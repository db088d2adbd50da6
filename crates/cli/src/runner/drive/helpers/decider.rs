//! Deciders: commands that classify a failed attempt and choose the next action, for plans with
//! `failure: {decider: external}` (`format/hand-off.md`).
//!
//! Invariants: a loop asks about each failed attempt once. A reply has no effect unless it is
//! exactly one decision that the ledger accepts; otherwise the failure waits for a person.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::plan::{Decider, Remaining};
use plan_ledger::{
    AttemptToken, Command, Decision, Disposition, FailureClass, Json, Outcome, Result, Ruling, Run,
    Step, StepNumber,
};

use crate::protocol::StepName;
use crate::protocol::hand_off::{FailedCriterion, SCHEMA};
use crate::runner::check::{Check, CheckAnswer, Subject};
use crate::runner::drive::checks::{environment, first_line};
use crate::runner::drive::state::Drive;
use crate::runner::helpers::commands::{FailureDecider, TIMEOUT_SECONDS};
use crate::runner::progress::StopRequest;

/// The input of a decider: the JSON on its standard input.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DeciderRequest<'a> {
    /// The version of this format.
    schema: u32,
    /// The name of the run.
    run: &'a str,
    /// The step as in the plan.
    step: Step,
    /// The step number.
    number: u32,
    /// The attempt, from 1.
    attempt: u32,
    /// The token of the attempt.
    token: u64,
    /// The failed attempt.
    failure: FailureJson<'a>,
    /// The output of the attempt.
    #[cfg_attr(test, schemars(with = "crate::json::AnyJson"))]
    output: Value,
    /// The end of the attempt's log.
    log_tail: &'a str,
    /// The criteria that do not hold.
    failed_criteria: Vec<FailedCriterion<'a>>,
    /// The variables of the run.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, crate::json::AnyJson>"))]
    variables: BTreeMap<&'a str, Value>,
    /// The rest of the budget; null means no limit.
    budget_remaining: Remaining,
    /// How many versions may still replace the plan; null without such a limit.
    replans_left: Option<u32>,
}

/// A failure.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct FailureJson<'a> {
    /// The class, as far as it is known.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
    /// Details of the worker.
    #[cfg_attr(test, schemars(with = "crate::json::AnyJson"))]
    payload: Value,
    /// Whether the work took effect.
    disposition: Option<Disposition>,
    /// The number of failures of the step, this one included.
    number: u32,
}

/// The reply of a decider.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeciderReply {
    /// The next action.
    decision: Word,
    /// The class of the failure, if the decider knows better.
    #[serde(default)]
    class: Option<FailureClass>,
    /// For a replan: the id of the first step to do again.
    #[serde(default)]
    from: Option<String>,
    /// For a retry: its delay.
    #[serde(default)]
    after_seconds: Option<u64>,
    /// The reason, for the record.
    #[serde(default)]
    reason: String,
}

/// The action after a failure.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Word {
    /// Dispatch the step again.
    Retry,
    /// Use its fallback.
    Fallback,
    /// Request another plan.
    Replan,
    /// Ask a person.
    Escalate,
    /// Fail the step.
    Fail,
    /// Abort the run.
    Abort,
}

impl Drive<'_> {
    /// Queue the decider for the failed attempts that wait for a decision.
    pub(crate) fn queue_deciders(&mut self) {
        let Some(decider) = self.helpers.decider.clone() else { return };
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        let is_external =
            run.plan().is_some_and(|plan| plan.header().failure.decider == Decider::External);
        if !is_external {
            return;
        }
        let now = self.clock.now();
        for number in &run.reported {
            let attempt = run.step(*number).and_then(|step| step.attempt());
            let Some(token) = attempt.map(|attempt| attempt.token) else { continue };
            if self.decided.contains(&token) {
                continue;
            }
            let Some(output) = decider_input(run, *number, now) else { continue };
            self.decided.insert(token);
            let timeout = run.plan().and_then(|plan| plan.header().defaults.timeout_seconds);
            let check = Check {
                subject: Subject::Decision(token),
                criterion: 0,
                command: decider.command.clone(),
                answer: CheckAnswer::Reply,
                environment: environment(run, *number, token),
                output: Json::from(output),
                timeout_seconds: timeout.or(Some(TIMEOUT_SECONDS)),
            };
            self.queued.push_front((Some(StepName::of(run, *number)), check));
        }
    }

    /// Record the decision that the decider printed, or note the reason for none.
    pub(crate) fn handle_decider_reply(
        &mut self,
        step: StepName,
        token: AttemptToken,
        (ruling, printed): (Option<Ruling>, &str),
    ) {
        let Some(decider) = self.helpers.decider.clone() else { return };
        if ruling.is_none() && self.stop == StopRequest::Kill {
            self.decided.remove(&token);
            return;
        }
        let reply = match ruling {
            Some(Ruling::Pass) => serde_json::from_str::<DeciderReply>(printed)
                .map_err(|error| format!("it printed no decision: {error}")),
            Some(Ruling::Fail) | None => Err(first_line(printed).to_owned()),
        };
        let recorded = reply.and_then(|reply| match self.record_decision(&decider, &step, reply) {
            Ok(()) => Ok(()),
            Err(error) if error.rejection().is_some() => Err(error.to_string()),
            Err(error) => {
                self.fail(error);
                Ok(())
            }
        });
        if let Err(problem) = recorded {
            self.note(Some(step), format!("{} gave no usable decision: {problem}", decider.name()));
        }
        self.count();
    }

    fn record_decision(
        &mut self,
        decider: &FailureDecider,
        step: &StepName,
        reply: DeciderReply,
    ) -> Result<()> {
        let DeciderReply { decision, class, from, after_seconds, reason } = reply;
        let state = self.ledger.state()?;
        let run = state.runs.get(&self.run);
        let from = from.as_deref().and_then(|from| run?.find_step(from));
        let is_used_up = run.is_some_and(|run| is_last_attempt(run, step.number));
        let (decision, reason) = match decision {
            Word::Retry if is_used_up => {
                let why = "the decider answers `retry`, but no attempt is left";
                (Word::Escalate, [why, &reason].join(": ").trim_end_matches(": ").to_owned())
            }
            decision => (decision, reason),
        };
        let decision = match decision {
            Word::Retry => match after_seconds {
                Some(seconds) => {
                    let wait = seconds.saturating_mul(1_000_000);
                    Decision::RetryAt { due: self.clock.now().saturating_add(wait) }
                }
                None => Decision::Retry,
            },
            Word::Fallback => Decision::Fallback,
            Word::Replan => Decision::Replan,
            Word::Escalate => Decision::Escalate,
            Word::Fail => Decision::Fail,
            Word::Abort => Decision::Abort,
        };
        let (run, step, rule, by) = (self.run, step.number, decider.name(), decider.name());
        let command = Command::DecideFailure { run, step, decision, class, from, rule, reason, by };
        self.ledger.execute(&command).map(drop)
    }
}

/// Whether a failed attempt is the last one that the step's `retry` permits.
fn is_last_attempt(run: &Run, number: StepNumber) -> bool {
    let Some((plan, step)) = run.plan().zip(run.plan_step(number)) else { return false };
    let failures = run.step(number).map_or(0, |step| step.failures.saturating_add(1));
    failures >= plan.with_defaults(step).retry.unwrap_or_default().max_attempts
}

/// The facts that a decider gets about a failed attempt; `None` if the attempt does not wait for a decision.
fn decider_input(run: &Run, number: StepNumber, now: u64) -> Option<Value> {
    let (class, message) = run.failure_of(number)?;
    let step = run.step(number)?;
    let attempt = step.attempt()?;
    let receipt = attempt.receipt.as_ref()?;
    let payload = match &receipt.outcome {
        Outcome::Failed { payload, .. } => payload.value(),
        Outcome::Succeeded | Outcome::ReplanRequested { .. } => Value::Null,
    };
    let failed = attempt.verdicts.values().filter(|verdict| verdict.ruling == Ruling::Fail);
    let variables = run.variables.iter();
    let input = DeciderRequest {
        schema: SCHEMA,
        run: &run.name,
        step: run.plan().zip(run.plan_step(number)).map(|(plan, it)| plan.with_defaults(it))?,
        number: number.0,
        attempt: step.attempts,
        token: attempt.token.0,
        failure: FailureJson {
            class,
            message: &message,
            payload,
            disposition: receipt.disposition,
            number: step.failures.saturating_add(1),
        },
        output: receipt.output.inline().map(Json::value).unwrap_or_default(),
        log_tail: &receipt.log_tail,
        failed_criteria: failed.map(FailedCriterion::of).collect(),
        variables: variables.map(|(name, it)| (name.as_str(), it.value.value())).collect(),
        budget_remaining: run.execution_state(now).budget_remaining,
        replans_left: run.max_replans().map(|max| max.saturating_sub(run.replans)),
    };
    // Serialization fails only for map keys that are not strings, and there are none.
    serde_json::to_value(input).ok()
}
