//! Deletes the oldest segments.

use std::fmt;
use std::path::PathBuf;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::{PrunePreview, RetentionLimit};
use plan_ledger::log::{Anchor, ArchiveReference};

use crate::protocol::{Failure, counted, size};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{Role, Rules};

/// Delete the oldest segments. A client that archives them does so first, without the lock, and then
/// requests to prune only the archived segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// The segments that may be deleted.
    pub extent: RetentionLimit,
    /// The archive that contains them, if any.
    #[serde(default)]
    pub archive: Option<ArchiveReference>,
    /// The author, for the record.
    pub by: Author,
}

/// The oldest segments were deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PruneAnswer {
    /// The deleted segments.
    #[serde(flatten)]
    pub pruned: PrunedSegments,
}

/// The segments and snapshots that a prune deletes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PrunedSegments {
    /// The first deleted record.
    pub first_seq: u64,
    /// The last deleted record.
    pub last_seq: u64,
    /// The chain value of the last deleted record, in hexadecimal.
    pub chain: String,
    /// The deleted segments.
    pub segments: Vec<String>,
    /// Their total size.
    pub bytes: u64,
    /// Deleted snapshots below `last_seq`, which are useless without the log.
    pub snapshots: Vec<String>,
    /// The two snapshots at the start of the pruned log.
    pub anchors: Vec<Anchor>,
    /// Names of runs that have not ended, and lose a part of their history.
    pub open_runs: Vec<String>,
}

impl RequestKind for PruneRequest {
    const RULES: Rules = Rules::of(Role::Operator).idempotent().long();

    type Answer = PruneAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PruneAnswer, Failure> {
        let extent = match self.extent {
            RetentionLimit::Record(_) if plan_ledger::mutant!(PruneLimitIgnored) => {
                RetentionLimit::Record(u64::MAX)
            }
            extent => extent,
        };
        context.ledger.prepare_prune(extent)?;
        let pruned = context.ledger.prune(extent, self.archive.clone(), &self.by)?;
        Ok(PruneAnswer { pruned: PrunedSegments::of(&pruned.preview) })
    }
}

impl PrunedSegments {
    pub(crate) fn of(preview: &PrunePreview) -> Self {
        let texts =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        Self {
            first_seq: preview.first_seq,
            last_seq: preview.last_seq,
            chain: preview.chain.to_string(),
            segments: texts(&preview.segments),
            bytes: preview.bytes,
            snapshots: texts(&preview.snapshots),
            anchors: preview.anchors.clone(),
            open_runs: preview.open_runs.clone(),
        }
    }

    /// Writes the list after a verb: `pruned` or `would prune`.
    pub(crate) fn write_text(&self, f: &mut dyn fmt::Write, verb: &str) -> fmt::Result {
        let count = counted(u64::try_from(self.segments.len()).unwrap_or(u64::MAX), "segment");
        let (first, last, bytes) = (self.first_seq, self.last_seq, size(self.bytes));
        write!(f, "{verb}: records {first} to {last}, {count}, {bytes}")?;
        for path in self.segments.iter().chain(&self.snapshots) {
            write!(f, "\n  {path}")?;
        }
        write!(f, "\nthe log then starts at record {}, from these snapshots", last + 1)?;
        for anchor in &self.anchors {
            write!(f, "\n  record {}: snap/{}", anchor.seq, anchor.file)?;
        }
        if !self.open_runs.is_empty() {
            let runs = self.open_runs.join(", ");
            write!(f, "\nruns that have not ended and lose part of their history: {runs}")?;
        }
        Ok(())
    }
}

impl AnswerLine for PruneAnswer {
    const WORD: &'static str = "pruned";
}

impl fmt::Display for PruneAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pruned.write_text(f, "pruned")
    }
}
