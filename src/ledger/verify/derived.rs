//! What was derived from the log, or lies beside it, in pieces that several threads share: snapshots,
//! outputs, and the fold of everything.
//!
//! Invariants:
//! - What is found is the same for any number of jobs, and comes in the same order.
//! - The fold does not know what is said of the state: it notes hashes, and they are compared at the
//!   end.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::format::SnapshotName;
use crate::log::{BlobState, Completion, Finding, Tally, share_out};
use crate::plan::State;

use super::super::blobs::{self, BlobSurvey, BlobUse, Named};
use super::super::load;
use super::beside::{Checked, Snapshots, blob_finding, stranger};
use super::claim::Claim;
use super::replay::{Replayed, replay};
use super::{Level, Phase, Progress, VerifyReport, VerifyRequest};

/// A piece, and for whoever wants to know how far it is, how many bytes it is about.
enum Piece<'a> {
    Replay(BTreeSet<u64>),
    Snapshot(&'a SnapshotName, u64),
    Blob(&'a BlobUse),
}

/// What a piece came to.
enum Outcome<'a> {
    Replayed(Result<Replayed>),
    Snapshot(Checked),
    Blob(&'a BlobUse, BlobState),
    /// It was asked to stop before.
    Skipped,
}

/// Check the snapshots and outputs, fold the log if that is wanted, and hold what was said of the
/// state against it. `claims` are those of the log's notes.
///
/// # Errors
/// `Io`.
pub(super) fn check(
    snapshots: &Snapshots<'_>,
    survey: &BlobSurvey,
    mut claims: Vec<Claim>,
    request: VerifyRequest<'_>,
    report: &mut VerifyReport,
) -> Result<()> {
    let (names, mut pieces) = (&snapshots.list.names, Vec::new());
    let mut total = 0_u64;
    if request.level == Level::Replay {
        pieces.push(Piece::Replay(claimed_seqs(&claims, names)));
        total = total.saturating_add(report.log.counts.frame_bytes);
    }
    for name in names {
        if snapshots.is_pruned(name) {
            report.log.keep([snapshots.pruned(name)]);
            continue;
        }
        let length = snapshots.length(name);
        pieces.push(Piece::Snapshot(name, length));
        total = total.saturating_add(length);
    }
    for blob in survey.blobs.iter().filter(|blob| blob.records > 0) {
        pieces.push(Piece::Blob(blob));
        total = total.saturating_add(blob.id.length);
    }
    let watch = |done, total| (request.watch)(Progress { phase: Phase::Derived, done, total });
    let tally = Tally::new(&watch, total);
    let outcomes = share_out(request.jobs, pieces, |piece| work(piece, snapshots, &tally));
    let (mut replayed, mut bad) = (Replayed::default(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Replayed(outcome) => replayed = outcome?,
            Outcome::Snapshot(checked) => {
                report.snapshots += 1;
                match checked {
                    Checked::Good(claim) => claims.push(claim),
                    Checked::Bad(finding) => report.log.keep([finding]),
                    Checked::Nothing => {}
                }
            }
            Outcome::Blob(blob, state) => {
                report.blobs += 1;
                bad.extend((state != BlobState::Intact).then_some((blob, state)));
            }
            Outcome::Skipped => {}
        }
    }
    report.log.keep(lost(bad, snapshots, &tally)?);
    report.log.keep(snapshots.strangers());
    report.log.keep(survey.strangers.iter().cloned().map(stranger));
    claims.sort_by_key(|claim| claim.said.seq);
    report.log.keep(claims.iter().filter_map(|claim| claim.against(&replayed.hashes)));
    report.log.keep(replayed.fault);
    report.state = replayed.state;
    if tally.is_stopped() {
        report.log.completion = Completion::Stopped;
    }
    Ok(())
}

/// What is wrong with outputs that were found like this, and are still named: what was pruned since the
/// log was read may have been collected, too, and even stored again, so all are looked at once more.
fn lost(
    bad: Vec<(&BlobUse, BlobState)>,
    snapshots: &Snapshots<'_>,
    tally: &Tally<'_>,
) -> Result<Vec<Finding>> {
    bug!(BlobLossForgiven => return Ok(Vec::new()));
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let reader = snapshots.reader_now()?;
    let anchored = Named::anchored(&reader);
    let is_named =
        |blob: &BlobUse| blob.first_seq >= Some(reader.first_seq()) || anchored.may_have(&blob.id);
    let bad = bad.into_iter().map(|(blob, _)| blob);
    let (mut named, pruned): (Vec<_>, Vec<_>) = bad.partition(|blob| is_named(blob));
    // Where the record that named it first is gone, another one may name it. To find that out
    // takes reading the log once more.
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
fn claimed_seqs(claims: &[Claim], names: &[SnapshotName]) -> BTreeSet<u64> {
    let of_names = names.iter().filter(|name| load::is_read::<State>(name)).map(|name| name.seq);
    claims.iter().filter_map(Claim::state_seq).chain(of_names).collect()
}

fn work<'a>(piece: Piece<'a>, snapshots: &Snapshots<'_>, tally: &Tally<'_>) -> Outcome<'a> {
    if tally.is_stopped() {
        return Outcome::Skipped;
    }
    match piece {
        Piece::Replay(wanted) => Outcome::Replayed(replay(snapshots.reader, wanted, tally)),
        Piece::Snapshot(name, length) => {
            let checked = snapshots.check(name);
            tally.advance(length);
            Outcome::Snapshot(checked)
        }
        Piece::Blob(blob) => {
            let state = snapshots.reader.blobs().check(&blob.id);
            tally.advance(blob.id.length);
            Outcome::Blob(blob, state)
        }
    }
}
