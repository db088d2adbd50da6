//! Decides about a failed attempt.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Command, Decision, State, StepStatus, Timestamp};

use crate::protocol::{Failure, parse_seconds};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{StepOfRun, run_after, run_or_only, step_of, step_status, step_to_change};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::rules::{HttpMethod, Role, Rules};

/// Decide about a failed attempt, if the plan leaves the decision to an external decider.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunOption,
    /// The step's id or number.
    #[arg(skip)]
    pub step: String,
    /// `retry`, `fail`, `fallback`, `replan`, `escalate`, `abort` or `outcome_unknown`.
    #[arg(skip)]
    pub decision: String,
    /// The delay of a retry.
    #[arg(long = "after", value_name = "DURATION", value_parser = parse_seconds)]
    #[arg(help = "The delay before the retry: `90s`, `5m`, or seconds")]
    #[serde(default)]
    pub after_seconds: Option<u64>,
    /// For a replan: the id or number of the first step to do again.
    #[arg(long, value_name = "STEP")]
    #[arg(
        help = "For a replan: the first step to do again, by id or number [default: the failed one]"
    )]
    #[serde(default)]
    pub from: Option<String>,
    /// The rule that decided, for the record.
    #[arg(skip = "decider")]
    pub rule: String,
    /// The reason.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub reason: String,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
}

/// A decision was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DecideAnswer {
    /// The step.
    #[serde(flatten)]
    pub step: StepOfRun,
    /// The decision.
    pub decision: String,
    /// The rule that decided.
    pub rule: String,
    /// The status of the step.
    pub status: StepStatus,
}

impl RequestKind for DecideRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/steps/{step}/decide");

    type Answer = DecideAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<DecideAnswer, Failure> {
        let decision = self.decision(context.ledger.now())?;
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?;
            let (rule, reason) = (self.rule.clone(), self.reason.clone());
            let step = step_to_change(run, &self.step)?;
            let from = self.from.as_ref().map(|from| step_of(run, from)).transpose()?;
            let (run, class, by) = (run.id, None, self.by.to_string());
            Ok(Command::DecideFailure { run, step, decision, class, from, rule, reason, by })
        };
        context.execute(&make, |state, events| {
            let run = run_after(state, events, self.run.name())?;
            let number = step_of(run, &self.step)?;
            Ok(DecideAnswer {
                step: StepOfRun::new(run, number),
                decision: self.decision.clone(),
                rule: self.rule.clone(),
                status: step_status(run, number),
            })
        })?
    }
}

impl DecideRequest {
    fn decision(&self, now: Timestamp) -> Result<Decision, Failure> {
        match (self.decision.as_str(), self.after_seconds) {
            ("retry", Some(seconds)) => {
                Ok(Decision::RetryAt { due: now.saturating_add(seconds.saturating_mul(1_000_000)) })
            }
            (word, Some(_)) => {
                let message = format!("`{word}` takes no delay; only `retry` does");
                Err(Failure::Usage(message))
            }
            ("outcome_unknown", None) => Ok(Decision::OutcomeUnknown),
            (word, None) => decision_of(word).ok_or_else(|| {
                Failure::Usage(format!(
                    "unknown decision `{word}`; expected one of: retry, fail, fallback, replan, \
                     escalate, abort, outcome_unknown"
                ))
            }),
        }
    }
}

/// The decision that a word names, for decisions of people.
pub(crate) fn decision_of(word: &str) -> Option<Decision> {
    match word {
        "retry" => Some(Decision::Retry),
        "fail" => Some(Decision::Fail),
        "fallback" => Some(Decision::Fallback),
        "replan" => Some(Decision::Replan),
        "escalate" => Some(Decision::Escalate),
        "abort" => Some(Decision::Abort),
        _ => None,
    }
}

impl AnswerLine for DecideAnswer {
    const WORD: &'static str = "decided";
}

impl fmt::Display for DecideAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; the step is {}", self.step, self.decision, self.status)
    }
}
