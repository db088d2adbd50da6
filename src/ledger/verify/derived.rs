//! Checks snapshots and blobs and folds the log, as tasks that several threads share.
//!
//! Invariants:
//! - The findings and their order are the same for any number of threads.
//! - The fold does not know the claimed state hashes: it records its own, and they are compared at the
//!   end.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::format::SnapshotName;
use crate::ledger::blobs::{self, BlobSurvey, BlobUse, NamedBlobs};
use crate::ledger::snapshot::load;
use crate::log::{BlobState, Completion, ProgressCounter, VerifyFinding, parallel_map};
use crate::plan::State;

use super::claims::StateClaim;
use super::files::{SnapshotCheck, SnapshotVerifier, blob_finding, unknown_file};
use super::replay::{ReplayResult, replay};
use super::report::{VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest};

/// A task, with its size in bytes for progress.
enum VerifyTask<'a> {
    Replay(BTreeSet<u64>),
    Snapshot(&'a SnapshotName, u64),
    Blob(&'a BlobUse),
}

/// The result of a task.
enum TaskResult<'a> {
    Replay(Result<ReplayResult>),
    Snapshot(SnapshotCheck),
    Blob(&'a BlobUse, BlobState),
    /// The verification was stopped before.
    Skipped,
}

/// Check the snapshots and blobs, fold the log if requested, and compare the claimed state hashes.
/// `claims` are those of the log's snapshot notes.
///
/// # Errors
/// `Io`.
pub(crate) fn check(
    snapshots: &SnapshotVerifier<'_>,
    survey: &BlobSurvey,
    mut claims: Vec<StateClaim>,
    request: VerifyRequest<'_>,
    report: &mut VerifyReport,
) -> Result<()> {
    let (names, mut tasks) = (&snapshots.list.names, Vec::new());
    let mut total = 0_u64;
    if request.level == VerifyLevel::Replay {
        tasks.push(VerifyTask::Replay(claimed_seqs(&claims, names)));
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
        |done, total| (request.watch)(VerifyProgress { phase: VerifyPhase::Derived, done, total });
    let tally = ProgressCounter::new(&watch, total);
    let results = parallel_map(request.jobs, tasks, |task| run(task, snapshots, &tally));
    let (mut replayed, mut bad) = (ReplayResult::default(), Vec::new());
    for result in results {
        match result {
            TaskResult::Replay(result) => replayed = result?,
            TaskResult::Snapshot(check) => {
                report.snapshots += 1;
                match check {
                    SnapshotCheck::Valid(claim) => claims.push(claim),
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
    report.log.add_findings(lost_blobs(bad, snapshots, &tally)?);
    report.log.add_findings(snapshots.unknown_files());
    report.log.add_findings(survey.unknown_files.iter().cloned().map(unknown_file));
    claims.sort_by_key(|claim| claim.claimed.seq);
    report.log.add_findings(claims.iter().filter_map(|claim| claim.compare(&replayed.hashes)));
    report.log.add_findings(replayed.fault);
    report.state = replayed.state;
    if tally.is_stopped() {
        report.log.completion = Completion::Stopped;
    }
    Ok(())
}

/// The findings about bad blobs that are still named. Since the log was read, a prune may have removed
/// the records that named a blob, and the blob may have been collected or stored again: each is checked
/// once more.
fn lost_blobs(
    bad: Vec<(&BlobUse, BlobState)>,
    snapshots: &SnapshotVerifier<'_>,
    tally: &ProgressCounter<'_>,
) -> Result<Vec<VerifyFinding>> {
    mutant!(MissingBlobTreatedAsPruned => return Ok(Vec::new()));
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let reader = snapshots.reader_now()?;
    let anchored = NamedBlobs::anchored(&reader);
    let is_named =
        |blob: &BlobUse| blob.first_seq >= Some(reader.first_seq()) || anchored.may_have(&blob.id);
    let bad = bad.into_iter().map(|(blob, _)| blob);
    let (mut named, pruned): (Vec<_>, Vec<_>) = bad.partition(|blob| is_named(blob));
    // If the first record that named a blob is gone, another one may name it: read the log again.
    if !pruned.is_empty() && !tally.is_stopped() {
        let by_any = blobs::named(&reader)?;
        named.extend(pruned.into_iter().filter(|blob| by_any.may_have(&blob.id)));
        named.sort_by_key(|blob| blob.id);
    }
    let again = named.into_iter().map(|blob| (blob, reader.blobs().check(&blob.id)));
    Ok(again.filter_map(|(blob, state)| blob_finding(&reader, blob, &state)).collect())
}

/// The records for which a note or a snapshot claims a state hash. Some of the snapshots may turn
/// out to be unreadable.
fn claimed_seqs(claims: &[StateClaim], names: &[SnapshotName]) -> BTreeSet<u64> {
    let of_names =
        names.iter().filter(|name| load::is_supported::<State>(name)).map(|name| name.seq);
    claims.iter().filter_map(StateClaim::state_seq).chain(of_names).collect()
}

fn run<'a>(
    task: VerifyTask<'a>,
    snapshots: &SnapshotVerifier<'_>,
    tally: &ProgressCounter<'_>,
) -> TaskResult<'a> {
    if tally.is_stopped() {
        return TaskResult::Skipped;
    }
    match task {
        VerifyTask::Replay(wanted) => TaskResult::Replay(replay(snapshots.reader, wanted, tally)),
        VerifyTask::Snapshot(name, length) => {
            let check = snapshots.check(name);
            tally.advance(length);
            TaskResult::Snapshot(check)
        }
        VerifyTask::Blob(blob) => {
            let state = snapshots.reader.blobs().check(&blob.id);
            tally.advance(blob.id.length);
            TaskResult::Blob(blob, state)
        }
    }
}
