//! Cancels a run.

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

/// Cancel a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// The run's name or number.
    pub run: String,
    /// The author, for the record.
    #[serde(deserialize_with = "super::author::author")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub by: String,
    /// The reason.
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
    const RULES: Rules = Rules::of(Role::Operator).of_person();

    type Answer = CancelAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<CancelAnswer, Failure> {
        let make =
            |run| Command::CancelRun { run, by: self.by.clone(), reason: self.reason.clone() };
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
