//! Cancels a run.

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
  ledger cancel my-plan --by ana --reason 'no longer needed'

Attempts in flight are cancelled, and their receipts are rejected. Their workers are ended: by the
runner that is at work, else by this command, if they are on this machine. A cancelled run cannot be
continued: fork it, or start another one.";

/// Cancel a run.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
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

/// A run was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CancelAnswer {
    /// The run.
    pub run: String,
    /// Its status.
    pub status: String,
}

impl RequestKind for CancelRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/cancel")
        .of_control();

    type Answer = CancelAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<CancelAnswer, Failure> {
        let make =
            |run| Command::CancelRun { run, by: self.by.to_string(), reason: self.reason.clone() };
        context.execute_on_run(&self.run, make, |run, status| CancelAnswer { run, status })
    }
}

impl AnswerLine for CancelAnswer {
    const WORD: &'static str = "cancelled";
}

impl fmt::Display for CancelAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}: the run is cancelled", self.run)
    }
}
