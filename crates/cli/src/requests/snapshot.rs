//! Writes a snapshot of the state.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::State;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger snapshot                                  of .ledger, or of $LEDGER_DIR
  ledger snapshot work.ledger --json | jq -r .file

The program also writes snapshots automatically. Write one yourself before you prune a ledger, or to
make it open faster.";

/// Write a snapshot of the current state.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRequest {}

/// A snapshot was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SnapshotAnswer {
    /// The last record of the state.
    pub seq: u64,
    /// The path of the snapshot.
    pub file: String,
    /// The hash of the state, in hexadecimal.
    pub state_hash: String,
    /// The warnings of the ledger.
    #[serde(skip)]
    warnings: Vec<String>,
}

impl RequestKind for SnapshotRequest {
    const RULES: Rules =
        Rules::of(Role::Operator).idempotent().long().at(HttpMethod::Post, "/v1/snapshots");

    type Answer = SnapshotAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<SnapshotAnswer, Failure> {
        let before = context.ledger.warnings().len();
        let made = context.ledger.snapshot::<State>()?;
        Ok(SnapshotAnswer {
            seq: made.seq,
            file: made.path.display().to_string(),
            state_hash: made.state_hash.to_string(),
            warnings: context.ledger.warnings().into_iter().skip(before).collect(),
        })
    }
}

impl AnswerLine for SnapshotAnswer {
    const WORD: &'static str = "snapshot";

    fn messages(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

impl fmt::Display for SnapshotAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: state {}\n{}", self.seq, self.state_hash, self.file)
    }
}
