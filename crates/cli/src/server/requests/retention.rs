//! What leaves a ledger: its oldest segments, outputs that no record names.
//!
//! Left out on purpose: archives. Whoever wants one makes it beside the holder, without the lock, and
//! has the holder prune no more than what is in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use plan_ledger::ledger::{CollectedBlobs, PrunePlan};
use plan_ledger::log::ArchiveReference;

use super::context::RequestContext;
use crate::protocol::{counted, size};
use crate::protocol::{Answer, Extent, Failure};

/// Whether a prune was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prune {
    Planned,
    Done,
}

/// Remove the oldest segments.
pub(crate) fn prune(
    context: RequestContext<'_>,
    extent: Extent,
    archive: Option<&ArchiveReference>,
    by: &str,
) -> Result<Answer, Failure> {
    let plan = context.ledger.prune(extent.into(), archive.cloned(), by)?.plan;
    let text = prune_text(&plan, Prune::Done).trim_end().to_owned();
    Ok(Answer::fine(prune_json(&plan, Prune::Done), text))
}

/// Remove the outputs that no record names.
pub(crate) fn collect_blobs(context: RequestContext<'_>) -> Result<Answer, Failure> {
    let CollectedBlobs { blobs, bytes, unfinished } = context.ledger.collect_blobs()?;
    let line = json!({
        "type": "collected", "blobs": blobs, "bytes": bytes, "unfinished": unfinished,
    });
    let count = counted(blobs, "blob");
    Ok(Answer::fine(line, format!("removed {count}, {}; {unfinished} unfinished", size(bytes))))
}

/// What goes, or went, for people.
pub(crate) fn prune_text(plan: &PrunePlan, prune: Prune) -> String {
    let mut text = String::new();
    let verb = match prune {
        Prune::Planned => "would go",
        Prune::Done => "pruned",
    };
    let count = counted(u64::try_from(plan.segments.len()).unwrap_or(u64::MAX), "segment");
    let (first, last) = (plan.first_seq, plan.last_seq);
    let bytes = size(plan.bytes);
    let _ = writeln!(text, "{verb}: records {first} to {last}, {count}, {bytes}");
    for path in plan.segments.iter().chain(&plan.snapshots) {
        let _ = writeln!(text, "  {}", path.display());
    }
    let _ = writeln!(text, "the log begins at record {} then, and stands on", last + 1);
    for anchor in &plan.anchors {
        let _ = writeln!(text, "  record {}: snap/{}", anchor.seq, anchor.file);
    }
    if !plan.open_runs.is_empty() {
        let runs = plan.open_runs.join(", ");
        let _ =
            writeln!(text, "runs that have not ended, and lose a part of their history: {runs}");
    }
    text
}

/// The same for programs.
pub(crate) fn prune_json(plan: &PrunePlan, prune: Prune) -> Value {
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
