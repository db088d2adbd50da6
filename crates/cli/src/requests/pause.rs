//! Stops dispatch in a run.

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

/// Stop dispatch in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// The run's name or number.
    pub run: String,
    /// The author, for the record.
    #[serde(deserialize_with = "super::author::author")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub by: String,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// Whether the guards of a runner pause the run, and not a person.
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
    const RULES: Rules = Rules::of(Role::Operator);

    type Answer = PauseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PauseAnswer, Failure> {
        let make = |run| {
            let reason = self.reason.clone();
            if self.by_runner {
                Command::PauseByRunner { run, reason }
            } else {
                Command::Pause { run, by: self.by.clone(), reason }
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
