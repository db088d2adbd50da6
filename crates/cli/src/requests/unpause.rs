//! Unpauses a run.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::Command;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::rules::{Role, Rules};

/// Unpause a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnpauseRequest {
    /// The run's name or number.
    pub run: String,
    /// The author, for the record.
    #[serde(deserialize_with = "super::author::author")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub by: String,
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
    const RULES: Rules = Rules::of(Role::Operator).of_person();

    type Answer = UnpauseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<UnpauseAnswer, Failure> {
        let make = |run| Command::Unpause { run, by: self.by.clone() };
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
