//! Skips a step.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Command, State, StepStatus};

use plan_ledger_views::recorded_text;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{
    StepOfRun, open_request, open_request_text, run_after, run_or_only, run_status, step_of,
    step_status, step_to_change,
};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger skip my-plan docs --reason 'already written'

Steps that depend on it continue as if it were done. A step in flight cannot be skipped.";

/// Skip a step.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[command(allow_missing_positional = true)]
#[serde(deny_unknown_fields)]
pub struct SkipRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The step's id or number (37 or #37), after the run's name if several runs are active.
    #[arg(value_name = "STEP")]
    pub step: String,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The reason.
    #[arg(long, value_name = "TEXT")]
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
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/steps/{step}/skip");

    type Answer = SkipAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<SkipAnswer, Failure> {
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?;
            let (by, reason) = (self.by.to_string(), self.reason.clone());
            Ok(Command::Skip { run: run.id, step: step_to_change(run, &self.step)?, by, reason })
        };
        context.execute(&make, |state, events| {
            let run = run_after(state, events, self.run.name())?;
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
        let run_status = recorded_text(run_status);
        write!(f, "{step}: the step is {status}; the run is {run_status}")
    }
}
