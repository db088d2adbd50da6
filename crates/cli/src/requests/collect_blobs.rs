//! Deletes blobs that no record references.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::CollectedBlobs;

use crate::protocol::{Failure, counted, size};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::rules::{Role, Rules};

/// Delete blobs that no record references.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CollectBlobsRequest {}

/// Blobs were deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CollectBlobsAnswer {
    /// How many.
    pub blobs: u64,
    /// Their total size.
    pub bytes: u64,
    /// Files that were unfinished, or are being written.
    pub unfinished: u64,
}

impl RequestKind for CollectBlobsRequest {
    const RULES: Rules = Rules::of(Role::Operator).idempotent().long();

    type Answer = CollectBlobsAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<CollectBlobsAnswer, Failure> {
        let CollectedBlobs { blobs, bytes, unfinished } = context.ledger.collect_blobs()?;
        Ok(CollectBlobsAnswer { blobs, bytes, unfinished })
    }
}

impl AnswerLine for CollectBlobsAnswer {
    const WORD: &'static str = "collected";
}

impl fmt::Display for CollectBlobsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (counted(self.blobs, "blob"), size(self.bytes));
        write!(f, "removed {count}, {bytes}; {} unfinished", self.unfinished)
    }
}
