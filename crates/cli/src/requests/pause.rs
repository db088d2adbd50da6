//! Stops dispatch in a run.

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
  ledger unpause my-plan --by ana

Attempts in flight continue.";

/// Stop dispatching the steps of a run.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
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
    /// Whether the guards of a runner pause the run, and not a person.
    #[arg(skip)]
    #[serde(default)]
    pub by_runner: bool,
}

/// A run was paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PauseAnswer {
    /// The run.
    pub run: String,
    /// Its status.
    pub status: String,
}

impl RequestKind for PauseRequest {
    const RULES: Rules =
        Rules::of(Role::Operator).at(HttpMethod::Post, "/v1/runs/{run}/pause").of_control();

    type Answer = PauseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PauseAnswer, Failure> {
        let make = |run| {
            let reason = self.reason.clone();
            if self.by_runner {
                Command::PauseByRunner { run, reason }
            } else {
                Command::Pause { run, by: self.by.to_string(), reason }
            }
        };
        context.execute_on_run(&self.run, make, |run, status| PauseAnswer { run, status })
    }
}

impl AnswerLine for PauseAnswer {
    const WORD: &'static str = "paused";
}

impl fmt::Display for PauseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}: dispatch is paused", self.run)
    }
}
