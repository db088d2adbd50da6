//! Unpauses a run.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::Command;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger unpause my-plan --by ana";

/// Unpause a run.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct UnpauseRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
}

/// A run was unpaused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnpauseAnswer {
    /// The run.
    pub run: String,
    /// Its status.
    pub status: String,
}

impl RequestKind for UnpauseRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/unpause")
        .of_control();

    type Answer = UnpauseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<UnpauseAnswer, Failure> {
        let make = |run| Command::Unpause { run, by: self.by.to_string() };
        context.execute_on_run(&self.run, make, |run, status| UnpauseAnswer { run, status })
    }
}

impl AnswerLine for UnpauseAnswer {
    const WORD: &'static str = "unpaused";
}

impl fmt::Display for UnpauseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}: no longer paused", self.run)
    }
}
