//! What lies beside the log: snapshots, which can be made again, and large outputs, which cannot.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE};
use crate::log::{Anchor, BlobState, Class, Finding, LogReader, SnapshotList, SnapshotNote};
use crate::storage::Access;

use super::super::blobs::BlobCheck;
use super::super::environment::Environment;
use super::super::load;
use super::super::replay::LedgerView;
use super::VerifyReport;
use super::claim::Claim;

/// Check every snapshot; what the good ones say. `bad` anchors were reported.
pub(super) fn snapshots(
    reader: &LogReader,
    list: SnapshotList,
    environment: &Environment,
    bad: &[Anchor],
    report: &mut VerifyReport,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for name in list.names {
        let path = list.folder.join(name.to_string());
        if name.seq.saturating_add(1) < reader.first_seq() {
            let what = "a snapshot of a record that was pruned: the log cannot vouch for it, and \
                        nothing can be folded on from it; it may be deleted";
            report.log.keep([finding(Class::Warning, path, 0..0, what.to_owned())]);
            continue;
        }
        report.snapshots += 1;
        let is_anchor = reader.first_seq() > 1
            && reader.retention().is_some_and(|retention| retention.is_anchor(&name));
        let class = if is_anchor { Class::Damage } else { Class::Derived };
        if bad.iter().any(|anchor| anchor.name().as_ref() == Some(&name)) {
            continue;
        }
        match load::check(reader, &name) {
            Ok(header) => {
                let place = finding(class, path, 0..HEADER, "the snapshot".to_owned());
                claims.push(Claim { place, said: SnapshotNote::of(&header) });
            }
            Err(error) => {
                let length = environment.storage.open(&path, Access::Read);
                let length = length.and_then(|file| file.length());
                // A writer may have removed it in the meantime, when it made a newer one.
                let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
                if !length.as_ref().is_err_and(is_gone) {
                    report.log.keep([bad_snapshot(class, path, length.unwrap_or(0), &error)]);
                }
            }
        }
    }
    for name in list.strangers {
        report.log.keep([stranger(list.folder.join(name))]);
    }
    claims
}

/// [`SNAPSHOT_HEADER_SIZE`] as lengths of files are counted.
const HEADER: u64 = 512;
/// The longest chunk with its length and its sum, likewise.
const CHUNK: u64 = (1 << 20) + 8;
const _: () = assert!(
    SNAPSHOT_HEADER_SIZE == 512 && SNAPSHOT_CHUNK_SIZE + SNAPSHOT_CRC_SIZE == (1 << 20) + 4,
    "HEADER and CHUNK are the format's"
);

/// Damage is known to the header or to the chunk, or else to be somewhere in the file.
fn bad_snapshot(class: Class, path: PathBuf, length: u64, error: &Error) -> Finding {
    let range = match error.location().offset {
        None => 0..length,
        Some(offset) if offset < HEADER => 0..HEADER,
        Some(offset) => offset..offset.saturating_add(CHUNK).min(length).max(offset),
    };
    let is_newer = error.kind() == ErrorKind::Unsupported;
    let class = if is_newer { Class::Newer } else { class };
    finding(class, path, range, error.message().to_owned())
}

/// Whether every output that a record names is there, as it was acknowledged. An output that is
/// not is damage: it cannot be had again. Folding, and everything else, goes on without it.
pub(super) fn blobs(
    dir: &Path,
    environment: &Environment,
    report: &mut VerifyReport,
) -> Result<()> {
    let view = LedgerView::open(dir, environment)?;
    let survey = view.blobs(BlobCheck::Content)?;
    // What an archive says was not there when it was made is no damage of the archive.
    let missing = view.log().manifest().map(|manifest| manifest.missing_blobs.as_slice());
    let missing = missing.unwrap_or_default();
    for blob in survey.blobs.into_iter().filter(|blob| blob.records > 0) {
        report.blobs += 1;
        if let (state, Some(seq)) = (blob.state, blob.first_seq)
            && state != BlobState::Intact
        {
            let length = blob.id.length;
            let what = format!("the output that record {seq} names, {length} bytes: {state}");
            let was_missing = missing.contains(&blob.id.hex());
            let class = if was_missing { Class::Warning } else { Class::Damage };
            report.log.keep([finding(class, blob.path, 0..length, what)]);
        }
    }
    report.log.keep(survey.strangers.into_iter().map(stranger));
    Ok(())
}

fn stranger(path: PathBuf) -> Finding {
    finding(Class::Warning, path, 0..0, "this does not belong here; it is left alone".to_owned())
}

fn finding(class: Class, path: PathBuf, range: std::ops::Range<u64>, what: String) -> Finding {
    Finding { class, path, offset: range.start, end: range.end, missing: None, what }
}
