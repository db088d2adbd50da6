//! Releases an attempt.

use std::fmt;

use clap::builder::{BoolValueParser, TypedValueParser as _};
use clap::{ArgAction, Args};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{Secret, Token};
use plan_ledger::{AttemptToken, Command, LostCause, State};

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::attempt_status::AttemptStatus;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::rules::{HttpMethod, Role, Rules, TokenRule};

/// Release an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The attempt's token.
    // The command has it, or a step.
    #[arg(skip = Token { seq: AttemptToken(0), secret: Secret([0; 16]) })]
    pub token: Token,
    /// Whether its work had begun.
    #[arg(long = "begun", help = "The work has begun and may have had side effects")]
    #[arg(action = ArgAction::SetTrue, value_parser = BoolValueParser::new().map(Work::of_flag))]
    #[serde(default)]
    pub work: Work,
    /// The reason.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub reason: String,
}

/// Whether the work of a released attempt had begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// There were no side effects.
    #[default]
    NotBegun,
    /// There may have been side effects.
    Begun,
}

impl Work {
    /// The value of `--begun`.
    fn of_flag(begun: bool) -> Self {
        if begun { Self::Begun } else { Self::NotBegun }
    }
}

/// An attempt was released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReleaseAnswer {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: AttemptStatus,
}

impl RequestKind for ReleaseRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .token(TokenRule::Required)
        .with_attempts()
        .at(HttpMethod::Delete, "/v1/claims/{token}");

    type Answer = ReleaseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ReleaseAnswer, Failure> {
        let (token, proof) = (self.token.seq, self.token.into());
        let detail = if self.reason.is_empty() { "released" } else { &self.reason }.to_owned();
        let cause = match self.work {
            Work::NotBegun => LostCause::Released,
            // There may have been side effects, as after the death of a runner.
            Work::Begun => LostCause::RunnerDied,
        };
        let make =
            |_: &State| Ok(Command::ReportLost { token, proof, cause, detail: detail.clone() });
        context.execute(&make, |state, _| {
            AttemptStatus::of(state, token).map(|attempt| ReleaseAnswer { attempt })
        })?
    }
}

impl AnswerLine for ReleaseAnswer {
    const WORD: &'static str = "released";
}

impl fmt::Display for ReleaseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: released; the step is {}", self.attempt.step, self.attempt.status)
    }
}
