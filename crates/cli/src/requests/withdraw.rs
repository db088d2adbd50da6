//! Withdraws the request for another plan version.

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

/// Withdraw the request for another plan version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
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
    const RULES: Rules = Rules::of(Role::Operator).of_person();

    type Answer = WithdrawAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<WithdrawAnswer, Failure> {
        let make =
            |run| Command::WithdrawReplan { run, by: self.by.clone(), reason: self.reason.clone() };
        context.execute_on_run(&self.run, make, |run, status| WithdrawAnswer { run, status })
    }
}

impl AnswerLine for WithdrawAnswer {
    const WORD: &'static str = "withdrawn";
}

impl fmt::Display for WithdrawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, status } = self;
        write!(f, "run {run}: the replan request is withdrawn; the run is {status}")
    }
}
