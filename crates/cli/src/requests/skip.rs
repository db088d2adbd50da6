//! Skips a step.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Command, State, StepStatus};

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{
    StepOfRun, open_request, open_request_text, run_of, run_status, step_of, step_status,
    step_to_change,
};
use super::kind::RequestKind;
use super::rules::{Role, Rules};

/// Skip a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SkipRequest {
    /// The run's name or number.
    pub run: String,
    /// The step's id or number.
    pub step: String,
    /// The author, for the record.
    #[serde(deserialize_with = "super::author::author")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub by: String,
    /// The reason.
    pub reason: String,
}

/// A step was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SkipAnswer {
    /// The step.
    #[serde(flatten)]
    pub step: StepOfRun,
    /// Its status.
    pub status: StepStatus,
    /// The status of the run.
    pub run_status: String,
    /// The record of a request for a new plan that stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_request: Option<u64>,
}

impl RequestKind for SkipRequest {
    const RULES: Rules = Rules::of(Role::Operator).of_person();

    type Answer = SkipAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<SkipAnswer, Failure> {
        let make = |state: &State| {
            let run = run_of(state, &self.run)?;
            let (by, reason) = (self.by.clone(), self.reason.clone());
            Ok(Command::Skip { run: run.id, step: step_to_change(run, &self.step)?, by, reason })
        };
        context.execute(&make, |state, _| {
            let run = run_of(state, &self.run)?;
            let number = step_of(run, &self.step)?;
            Ok(SkipAnswer {
                step: StepOfRun::new(run, number),
                status: step_status(run, number),
                run_status: run_status(run),
                open_request: open_request(run),
            })
        })?
    }
}

impl AnswerLine for SkipAnswer {
    const WORD: &'static str = "skipped";

    fn messages(&self) -> Vec<String> {
        self.open_request.map(|seq| open_request_text(&self.step.run, seq)).into_iter().collect()
    }
}

impl fmt::Display for SkipAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, status, run_status, .. } = self;
        write!(f, "{step}: the step is {status}; the run is {run_status}")
    }
}
