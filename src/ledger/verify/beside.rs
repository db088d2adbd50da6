//! What lies beside the log: snapshots, which can be made again, and large outputs, which cannot.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE};
use crate::log::{BlobState, Class, Finding, LogReader, SnapshotList, SnapshotNote};
use crate::storage::Access;

use super::super::blobs::BlobCheck;
use super::super::environment::Environment;
use super::super::replay::LedgerView;
use super::super::snapshots;
use super::VerifyReport;
use super::claim::Claim;

/// Check every snapshot; what the good ones say.
pub(super) fn snapshots(
    reader: &LogReader,
    list: SnapshotList,
    environment: &Environment,
    report: &mut VerifyReport,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for name in list.names {
        let path = list.folder.join(name.to_string());
        report.snapshots += 1;
        match snapshots::check(reader, &name) {
            Ok(header) => {
                let place = finding(Class::Derived, path, 0..HEADER, "the snapshot".to_owned());
                claims.push(Claim { place, said: SnapshotNote::of(&header) });
            }
            Err(error) => {
                let length = environment.storage.open(&path, Access::Read);
                let length = length.and_then(|file| file.length());
                // A writer may have removed it in the meantime, when it made a newer one.
                let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
                if !length.as_ref().is_err_and(is_gone) {
                    report.log.keep([bad_snapshot(path, length.unwrap_or(0), &error)]);
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
/// A chunk and its sum, likewise.
const CHUNK: u64 = (1 << 20) + 4;
const _: () = assert!(
    SNAPSHOT_HEADER_SIZE == 512 && SNAPSHOT_CHUNK_SIZE + SNAPSHOT_CRC_SIZE == (1 << 20) + 4,
    "HEADER and CHUNK are the format's"
);

/// Damage is known to the header or to the chunk, or else to be somewhere in the file.
fn bad_snapshot(path: PathBuf, length: u64, error: &Error) -> Finding {
    let range = match error.location().offset {
        None => 0..length,
        Some(offset) if offset < HEADER => 0..HEADER,
        Some(offset) => offset..offset.saturating_add(CHUNK).min(length).max(offset),
    };
    let is_newer = error.kind() == ErrorKind::Unsupported;
    let class = if is_newer { Class::Newer } else { Class::Derived };
    finding(class, path, range, error.message().to_owned())
}

/// Whether every output that a record names is there, as it was acknowledged. An output that is
/// not is damage: it cannot be had again. Folding, and everything else, goes on without it.
pub(super) fn blobs(
    dir: &Path,
    environment: &Environment,
    report: &mut VerifyReport,
) -> Result<()> {
    let survey = LedgerView::open(dir, environment)?.blobs(BlobCheck::Content)?;
    for blob in survey.blobs.into_iter().filter(|blob| blob.records > 0) {
        report.blobs += 1;
        if let (state, Some(seq)) = (blob.state, blob.first_seq)
            && state != BlobState::Intact
        {
            let length = blob.id.length;
            let what = format!("the output that record {seq} names, {length} bytes: {state}");
            report.log.keep([finding(Class::Damage, blob.path, 0..length, what)]);
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
