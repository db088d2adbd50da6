//! Requests another plan version.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{ReplanKind, Token};
use plan_ledger::{Command, Error, Event, Rejection, ReplanTrigger, State};

use crate::protocol::{Failure, StepName};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{attempt_of, run_of, run_status, step_of};
use super::kind::RequestKind;
use super::rules::{Role, Rules, TokenRule};

/// Request another plan version. The named step and the steps that follow from it are redone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequestPlanRequest {
    /// The run's name or number.
    pub run: String,
    /// Why another version is needed.
    #[serde(default)]
    pub kind: PlanRequestKind,
    /// The id or number of the first step to do again.
    #[serde(default)]
    pub from: Option<String>,
    /// The reason, for people and planners.
    pub reason: String,
    /// The author, for the record.
    #[serde(deserialize_with = "super::author::author")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub by: String,
    /// The attempt that requests it.
    #[serde(default)]
    pub token: Option<Token>,
}

/// Why another plan version is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanRequestKind {
    /// The plan does not work.
    #[default]
    Replan,
    /// Something was found out that the plan does not know.
    NewEvidence,
    /// The goal changed: work that is done stays done, and the version does not count as a replan.
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
    const RULES: Rules = Rules::of(Role::Worker).token(TokenRule::Optional).with_attempts();

    type Answer = RequestPlanAnswer;

    fn prepare(&self) -> Result<(), Failure> {
        if self.reason.trim().is_empty() {
            return Err(Failure::Usage("a request for a plan needs a reason".to_owned()));
        }
        Ok(())
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<RequestPlanAnswer, Failure> {
        let make = |state: &State| {
            let run = run_of(state, &self.run)?;
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
            let run = run_of(state, &self.run)?;
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
        let by = self.by.clone();
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
