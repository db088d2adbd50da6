//! Records expired leases, delays and deadlines.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::Timestamp;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger tick                                      record expired leases, delays and deadlines
  ledger tick --json | jq .next_due_micros";

/// Record expired leases, delays and deadlines.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct TickRequest {}

/// Everything that was due is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct TickAnswer {
    /// The last record.
    pub seq: u64,
    /// The next time at which something is due; null if nothing is.
    pub next_due_micros: Option<Timestamp>,
}

impl RequestKind for TickRequest {
    const RULES: Rules = Rules::of(Role::Worker).idempotent().at(HttpMethod::Post, "/v1/ticks");

    type Answer = TickAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<TickAnswer, Failure> {
        context.tick()?;
        context.read(|state| TickAnswer { seq: state.seq, next_due_micros: state.next_due() })
    }
}

impl AnswerLine for TickAnswer {
    const WORD: &'static str = "ticked";
}

impl fmt::Display for TickAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: nothing more is due", self.seq)
    }
}
