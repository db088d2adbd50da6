//! Withdraws the request for another plan version.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::Command;

use plan_ledger_views::recorded_text;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger plan withdraw my-plan --by ana --reason 'it works after all'
  ledger plan withdraw my-plan --by planner --reason 'no more steps'";

/// Withdraw or reject a request for a new version or for more steps.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The reason.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub reason: String,
}

/// A request for another plan version was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WithdrawAnswer {
    /// The run.
    pub run: String,
    /// Its status.
    pub status: String,
}

impl RequestKind for WithdrawRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/plan/withdrawals")
        .of_control();

    type Answer = WithdrawAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<WithdrawAnswer, Failure> {
        let make = |run| Command::WithdrawReplan {
            run,
            by: self.by.to_string(),
            reason: self.reason.clone(),
        };
        context.execute_on_run(&self.run, make, |run, status| WithdrawAnswer { run, status })
    }
}

impl AnswerLine for WithdrawAnswer {
    const WORD: &'static str = "withdrawn";
}

impl fmt::Display for WithdrawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, status } = self;
        let status = recorded_text(status);
        write!(f, "run {run}: the replan request is withdrawn; the run is {status}")
    }
}
