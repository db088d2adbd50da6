//! Records the start or the end of a side effect.

use std::fmt;

use clap::builder::{BoolValueParser, TypedValueParser as _};
use clap::{ArgAction, Args};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::Token;
use plan_ledger::{Command, State};

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{StepOfRun, attempt_of};
use super::kind::RequestKind;
use super::rules::{HttpMethod, Role, Rules, TokenRule};

const EXAMPLES: &str = "\
Examples, in a worker that sends a mail exactly once:
  ledger effect mail:7 --what 'the monthly mail' && send-mail 7 && ledger effect mail:7 --done

Exit code 6: an earlier attempt has already done it, or may have. Do not do it again.";

/// Record the start or end of a side effect.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct EffectRequest {
    /// The attempt's token, as `claim` printed it.
    #[arg(long, value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    pub token: Token,
    /// The key that identifies the effect within the run.
    #[arg(value_name = "KEY")]
    pub key: String,
    /// A description for people [default: the key].
    #[arg(long = "what", value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub effect: String,
    /// The progress of the effect.
    #[arg(long = "done", help = "Record the end of the effect", action = ArgAction::SetTrue)]
    #[arg(value_parser = BoolValueParser::new().map(EffectState::of_flag))]
    pub state: EffectState,
}

/// The progress of a side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// The worker is about to perform it.
    Intended,
    /// The worker has performed it.
    Committed,
}

/// The progress of a side effect was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EffectAnswer {
    /// The step.
    #[serde(flatten)]
    pub step: StepOfRun,
    /// The number of the attempt's token.
    pub token: u64,
    /// The key of the effect.
    pub key: String,
    /// The progress of the effect.
    pub state: EffectState,
}

impl EffectState {
    fn of_flag(is_done: bool) -> Self {
        if is_done { Self::Committed } else { Self::Intended }
    }
}

impl RequestKind for EffectRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .token(TokenRule::Required)
        .with_attempts()
        .at(HttpMethod::Post, "/v1/claims/{token}/effects");

    type Answer = EffectAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<EffectAnswer, Failure> {
        let (token, proof) = (self.token.seq, self.token.into());
        let make = |_: &State| {
            let key = self.key.clone();
            Ok(match self.state {
                EffectState::Intended => {
                    let effect = if self.effect.is_empty() { &key } else { &self.effect };
                    Command::IntendEffect { token, proof, effect: effect.clone(), key }
                }
                EffectState::Committed => Command::CommitEffect { token, proof, key },
            })
        };
        context.execute(&make, |state, _| {
            let (run, number, _) = attempt_of(state, token)?;
            Ok(EffectAnswer {
                step: StepOfRun::new(run, number),
                token: token.0,
                key: self.key.clone(),
                state: self.state,
            })
        })?
    }
}

impl AnswerLine for EffectAnswer {
    const WORD: &'static str = "effect";
}

impl fmt::Display for EffectAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            EffectState::Intended => "intended",
            EffectState::Committed => "committed",
        };
        write!(f, "{}: side effect {} is {state}", self.step, self.key)
    }
}
