//! Requests another plan version.

use std::fmt;

use clap::{Args, ValueEnum};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{ReplanKind, Token};
use plan_ledger::{Command, Error, Event, Rejection, ReplanTrigger, State};

use crate::protocol::{Failure, StepName};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{attempt_of, run_after, run_or_only, run_status, step_of};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules, TokenRule};

const EXAMPLES: &str = "\
Examples:
  ledger plan request my-plan --from diagnose --reason 'the bug is in another file'
  ledger plan request my-plan --kind scope-change --reason 'also check business credit'
  ledger plan request --kind new-evidence --from score --reason 'a fraud signal' --by ana

The step of --from and its dependents are done again; the worker of the step gets the reason. A planner
(`ledger run --planner`) or a person (`ledger plan propose`) answers with a new version, or rejects
the request (`ledger plan withdraw`). Until then the run does not end, and the step of --from and its
dependents are not dispatched; without --from, only idempotent steps are. In a worker, the request
belongs to its attempt: $LEDGER_RUN, $LEDGER_TOKEN.";

/// Request a new version: the plan does not work, or the goal changed.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct RequestPlanRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// Why a new version is needed.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = PlanRequestKind::Replan)]
    #[serde(default)]
    pub kind: PlanRequestKind,
    /// The first step to do again, by id or number (#37).
    #[arg(long, value_name = "STEP")]
    #[serde(default)]
    pub from: Option<String>,
    /// The reason, for the planner and for the workers of the steps that are done again.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The attempt that requests it.
    #[arg(long, value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    #[serde(default)]
    pub token: Option<Token>,
}

/// Why another plan version is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanRequestKind {
    /// The plan does not work.
    #[default]
    Replan,
    /// There is evidence that the plan does not take into account.
    NewEvidence,
    /// The goal changed; it does not count as a replan.
    ScopeChange,
}

/// Another plan version was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RequestPlanAnswer {
    /// The record of the request.
    pub seq: u64,
    /// The run.
    pub run: String,
    /// Why another version is needed.
    pub kind: PlanRequestKind,
    /// The id of the first step to do again.
    pub from: Option<String>,
    /// Its number.
    pub number: Option<u32>,
    /// The status of the run.
    pub status: String,
}

impl RequestKind for RequestPlanRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .token(TokenRule::Optional)
        .with_attempts()
        .at(HttpMethod::Post, "/v1/runs/{run}/plan/requests");

    type Answer = RequestPlanAnswer;

    fn prepare(&self) -> Result<(), Failure> {
        if self.reason.trim().is_empty() {
            return Err(Failure::Usage("a request for a plan needs a reason".to_owned()));
        }
        Ok(())
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<RequestPlanAnswer, Failure> {
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?;
            let from = self.from.as_ref().map(|step| step_of(run, step)).transpose()?;
            if let Some(token) = self.token {
                // A stale token is rejected.
                attempt_of(state, token.seq)?;
                if !state.is_proven(token.seq, token.into()) {
                    return Err(Error::from(Rejection::StaleToken(token.seq)).into());
                }
            }
            let trigger = self.trigger();
            Ok(Command::RequestReplan { run: run.id, trigger, from, reason: self.reason.clone() })
        };
        context.execute(&make, |state, events| {
            let run = run_after(state, events, self.run.name())?;
            let requested = events.iter().find_map(|(seq, event)| match event {
                Event::ReplanRequested(requested) => Some((*seq, requested.from)),
                _ => None,
            });
            let (seq, from) = requested.unwrap_or_default();
            let from = from.map(|from| StepName::of(run, from));
            Ok(RequestPlanAnswer {
                seq,
                run: run.name.clone(),
                kind: self.kind,
                number: from.as_ref().map(|from| from.number.0),
                from: from.map(|from| from.id),
                status: run_status(run),
            })
        })?
    }
}

impl PlanRequestKind {
    fn of_plan(self) -> ReplanKind {
        match self {
            Self::Replan => ReplanKind::Replan,
            Self::NewEvidence => ReplanKind::NewEvidence,
            Self::ScopeChange => ReplanKind::ScopeChange,
        }
    }
}

impl RequestPlanRequest {
    fn trigger(&self) -> ReplanTrigger {
        let by = self.by.to_string();
        match (self.kind, self.token) {
            (PlanRequestKind::ScopeChange, _) => ReplanTrigger::ScopeChange { by },
            (PlanRequestKind::NewEvidence, _) => ReplanTrigger::NewEvidence { by },
            (PlanRequestKind::Replan, Some(token)) => {
                ReplanTrigger::ExecutorRequest { token: token.seq }
            }
            (PlanRequestKind::Replan, None) => ReplanTrigger::Requested { by },
        }
    }
}

impl AnswerLine for RequestPlanAnswer {
    const WORD: &'static str = "plan_requested";
}

impl fmt::Display for RequestPlanAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, run, kind, from, .. } = self;
        let from = from.as_ref().map(|from| format!(" from step {from} on")).unwrap_or_default();
        let why = kind.of_plan().note();
        write!(f, "run {run}: another plan is requested{why}{from} (record {seq})")
    }
}
