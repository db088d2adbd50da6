//! Renews the lease of an attempt.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::Token;
use plan_ledger::{Command, State, Timestamp};

use crate::protocol::{Failure, LEASE_HELP, parse_lease};

use super::answer_line::AnswerLine;
use super::claim::lease;
use super::context::RequestContext;
use super::find::{StepOfRun, attempt_of};
use super::kind::RequestKind;
use super::rules::{HttpMethod, Role, Rules, TokenRule};

const EXAMPLES: &str = "\
Examples:
  ledger renew $TOKEN                              the lease starts again
  ledger renew $TOKEN --lease 2h                   with another length
  ledger renew                                     in a worker: $LEDGER_TOKEN

Renew when half of the lease is over. When a lease expires, the step is dispatched again.";

/// Renew the lease of a claimed step.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The attempt's token, as `claim` printed it.
    #[arg(value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    pub token: Token,
    /// The length of the lease; that of the plan by default.
    #[arg(long = "lease", value_name = "DURATION", value_parser = parse_lease, help = LEASE_HELP)]
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub lease_seconds: Option<u32>,
}

/// A lease was renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RenewAnswer {
    /// The step.
    #[serde(flatten)]
    pub step: StepOfRun,
    /// The number of the attempt's token.
    pub token: u64,
    /// The end of the lease.
    pub lease_until_micros: Timestamp,
}

impl RequestKind for RenewRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .token(TokenRule::Required)
        .with_attempts()
        .at(HttpMethod::Patch, "/v1/claims/{token}");

    type Answer = RenewAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<RenewAnswer, Failure> {
        let (token, proof) = (self.token.seq, self.token.into());
        let lease = lease(self.lease_seconds)?;
        let make = |_: &State| Ok(Command::Renew { token, proof, lease });
        context.execute(&make, |state, _| {
            let (run, number, step) = attempt_of(state, token)?;
            Ok(RenewAnswer {
                step: StepOfRun::new(run, number),
                token: token.0,
                lease_until_micros: step.attempt().map_or(0, |attempt| attempt.lease_until),
            })
        })?
    }
}

impl AnswerLine for RenewAnswer {
    const WORD: &'static str = "renewed";
}

impl fmt::Display for RenewAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = time_text(self.lease_until_micros);
        write!(f, "{}: attempt {} until {until}", self.step, self.token)
    }
}
