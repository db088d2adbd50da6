//! Checks snapshots and blobs and folds the log, as tasks on several threads.
//!
//! Invariants:
//! - The findings and their order are the same for any number of threads.
//! - The fold does not know the expected state hashes: it records its own, and both are compared at
//!   the end.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::format::SnapshotName;
use crate::ledger::blobs::{self, BlobSurvey, BlobUse, ReferencedBlobs};
use crate::ledger::snapshot::load;
use crate::log::{BlobState, Completion, ProgressCounter, VerifyFinding, parallel_map};
use crate::plan::State;

use super::expected_hashes::ExpectedStateHash;
use super::files::{SnapshotCheck, SnapshotVerifier, blob_finding, unknown_file};
use super::replay::{ReplayResult, replay};
use super::report::{VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest};

/// A task, with its size in bytes for progress.
enum VerifyTask<'a> {
    Replay(BTreeSet<u64>),
    Snapshot(&'a SnapshotName, u64),
    Blob(&'a BlobUse),
}

enum TaskResult<'a> {
    Replay(Result<ReplayResult>),
    Snapshot(SnapshotCheck),
    Blob(&'a BlobUse, BlobState),
    /// The verification was stopped before this task.
    Skipped,
}

/// Check the snapshots and blobs, fold the log if requested, and compare the expected state hashes.
/// `expected` are those of the log's snapshot notes.
///
/// # Errors
/// `Io`.
pub(crate) fn check(
    snapshots: &SnapshotVerifier<'_>,
    survey: &BlobSurvey,
    mut expected: Vec<ExpectedStateHash>,
    request: VerifyRequest<'_>,
    report: &mut VerifyReport,
) -> Result<()> {
    let (names, mut tasks) = (&snapshots.list.names, Vec::new());
    let mut total = 0_u64;
    if request.level == VerifyLevel::Replay {
        tasks.push(VerifyTask::Replay(expected_seqs(&expected, names)));
        total = total.saturating_add(report.log.counts.frame_bytes);
    }
    for name in names {
        if snapshots.is_pruned(name) {
            report.log.add_findings([snapshots.pruned_finding(name)]);
            continue;
        }
        let length = snapshots.length(name);
        tasks.push(VerifyTask::Snapshot(name, length));
        total = total.saturating_add(length);
    }
    for blob in survey.blobs.iter().filter(|blob| blob.records > 0) {
        tasks.push(VerifyTask::Blob(blob));
        total = total.saturating_add(blob.id.length);
    }
    let watch =
        |done, total| (request.watch)(VerifyProgress { phase: VerifyPhase::Files, done, total });
    let progress = ProgressCounter::new(&watch, total);
    let results = parallel_map(request.jobs, tasks, |task| run(task, snapshots, &progress));
    let (mut replayed, mut bad) = (ReplayResult::default(), Vec::new());
    for result in results {
        match result {
            TaskResult::Replay(result) => replayed = result?,
            TaskResult::Snapshot(check) => {
                report.snapshots += 1;
                match check {
                    SnapshotCheck::Valid(hash) => expected.push(hash),
                    SnapshotCheck::Unnoted(hash, finding) => {
                        expected.push(hash);
                        report.log.add_findings([finding]);
                    }
                    SnapshotCheck::Bad(finding) => report.log.add_findings([finding]),
                    SnapshotCheck::Skipped => {}
                }
            }
            TaskResult::Blob(blob, state) => {
                report.blobs += 1;
                bad.extend((state != BlobState::Intact).then_some((blob, state)));
            }
            TaskResult::Skipped => {}
        }
    }
    report.log.add_findings(lost_blobs(bad, snapshots, &progress)?);
    report.log.add_findings(snapshots.unknown_files());
    report.log.add_findings(survey.unknown_files.iter().cloned().map(unknown_file));
    expected.sort_by_key(|hash| hash.expected.seq);
    report.log.add_findings(expected.iter().filter_map(|hash| hash.compare(&replayed.hashes)));
    report.log.add_findings(replayed.fault);
    report.state = replayed.state;
    if progress.is_stopped() {
        report.log.completion = Completion::Stopped;
    }
    Ok(())
}

/// The findings about bad blobs that are still referenced. Since the log was read, a prune may have
/// removed the references to a blob, and the blob may have been collected or stored again, so each
/// is checked again.
fn lost_blobs(
    bad: Vec<(&BlobUse, BlobState)>,
    snapshots: &SnapshotVerifier<'_>,
    progress: &ProgressCounter<'_>,
) -> Result<Vec<VerifyFinding>> {
    mutant!(MissingBlobTreatedAsPruned => return Ok(Vec::new()));
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let reader = snapshots.reader_now()?;
    let anchored = ReferencedBlobs::anchored(&reader);
    let is_named = |blob: &BlobUse| {
        blob.first_seq >= Some(reader.first_seq()) || anchored.may_reference(&blob.id)
    };
    let bad = bad.into_iter().map(|(blob, _)| blob);
    let (mut named, pruned): (Vec<_>, Vec<_>) = bad.partition(|blob| is_named(blob));
    // If the first record that referenced a blob was pruned, another record may reference it: read
    // the log again.
    if !pruned.is_empty() && !progress.is_stopped() {
        let by_any = blobs::referenced(&reader)?;
        named.extend(pruned.into_iter().filter(|blob| by_any.may_reference(&blob.id)));
        named.sort_by_key(|blob| blob.id);
    }
    let again = named.into_iter().map(|blob| (blob, reader.blobs().check(&blob.id)));
    Ok(again.filter_map(|(blob, state)| blob_finding(&reader, blob, &state)).collect())
}

/// The records for which a snapshot note or a snapshot has an expected state hash. Some of the
/// snapshots may be unreadable.
fn expected_seqs(expected: &[ExpectedStateHash], names: &[SnapshotName]) -> BTreeSet<u64> {
    let of_names =
        names.iter().filter(|name| load::is_supported::<State>(name)).map(|name| name.seq);
    expected.iter().filter_map(ExpectedStateHash::state_seq).chain(of_names).collect()
}

fn run<'a>(
    task: VerifyTask<'a>,
    snapshots: &SnapshotVerifier<'_>,
    progress: &ProgressCounter<'_>,
) -> TaskResult<'a> {
    if progress.is_stopped() {
        return TaskResult::Skipped;
    }
    match task {
        VerifyTask::Replay(wanted) => {
            TaskResult::Replay(replay(snapshots.reader, wanted, progress))
        }
        VerifyTask::Snapshot(name, length) => {
            let check = snapshots.check(name);
            progress.advance(length);
            TaskResult::Snapshot(check)
        }
        VerifyTask::Blob(blob) => {
            let state = snapshots.reader.blobs().check(&blob.id);
            progress.advance(blob.id.length);
            TaskResult::Blob(blob, state)
        }
    }
}
