//! Requests that delete data: the oldest segments, and blobs that no record references.
//!
//! The client makes an archive without the lock, and then requests to prune only the archived
//! segments.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use plan_ledger::ledger::{CollectedBlobs, PrunePreview};
use plan_ledger::log::ArchiveReference;

use super::context::RequestContext;
use crate::protocol::{Answer, Failure, PruneLimit};
use crate::protocol::{counted, size};

/// Whether a prune is planned or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prune {
    Planned,
    Done,
}

/// Deletes the oldest segments.
pub(crate) fn prune(
    context: RequestContext<'_, '_>,
    extent: PruneLimit,
    archive: Option<&ArchiveReference>,
    by: &str,
) -> Result<Answer, Failure> {
    let plan = context.ledger.prune(extent.into(), archive.cloned(), by)?.preview;
    let text = prune_text(&plan, Prune::Done).trim_end().to_owned();
    Ok(Answer::success(prune_json(&plan, Prune::Done), text))
}

/// Deletes blobs that no record references.
pub(crate) fn collect_blobs(context: RequestContext<'_, '_>) -> Result<Answer, Failure> {
    let CollectedBlobs { blobs, bytes, unfinished } = context.ledger.collect_blobs()?;
    let line = json!({
        "type": "collected", "blobs": blobs, "bytes": bytes, "unfinished": unfinished,
    });
    let count = counted(blobs, "blob");
    Ok(Answer::success(line, format!("removed {count}, {}; {unfinished} unfinished", size(bytes))))
}

/// The segments and snapshots that a prune deletes, as text.
pub(crate) fn prune_text(plan: &PrunePreview, prune: Prune) -> String {
    let mut text = String::new();
    let verb = match prune {
        Prune::Planned => "would prune",
        Prune::Done => "pruned",
    };
    let count = counted(u64::try_from(plan.segments.len()).unwrap_or(u64::MAX), "segment");
    let (first, last) = (plan.first_seq, plan.last_seq);
    let bytes = size(plan.bytes);
    let _ = writeln!(text, "{verb}: records {first} to {last}, {count}, {bytes}");
    for path in plan.segments.iter().chain(&plan.snapshots) {
        let _ = writeln!(text, "  {}", path.display());
    }
    let _ = writeln!(text, "the log then starts at record {}, from these snapshots", last + 1);
    for anchor in &plan.anchors {
        let _ = writeln!(text, "  record {}: snap/{}", anchor.seq, anchor.file);
    }
    if !plan.open_runs.is_empty() {
        let runs = plan.open_runs.join(", ");
        let _ = writeln!(text, "runs that have not ended and lose part of their history: {runs}");
    }
    text
}

/// The same as JSON.
pub(crate) fn prune_json(plan: &PrunePreview, prune: Prune) -> Value {
    let text = |paths: &[PathBuf]| {
        paths.iter().map(|path| Path::display(path).to_string()).collect::<Vec<_>>()
    };
    json!({
        "type": match prune { Prune::Planned => "prune_plan", Prune::Done => "pruned" },
        "first_seq": plan.first_seq,
        "last_seq": plan.last_seq,
        "chain": plan.chain.to_string(),
        "segments": text(&plan.segments),
        "bytes": plan.bytes,
        "snapshots": text(&plan.snapshots),
        "anchors": plan.anchors,
        "open_runs": plan.open_runs,
    })
}
