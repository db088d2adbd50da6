//! Checks the files beside the log: snapshots, which can be made again, and blobs, which cannot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotName};
use crate::ledger::blobs::BlobUse;
use crate::ledger::snapshot::load;
use crate::log::{
    Anchor, BlobState, FindingClass, LogReader, SnapshotList, SnapshotNote, VerifyFinding,
};
use crate::storage::{Access, Storage};

use super::expected_hashes::ExpectedStateHash;

/// Checks the snapshots of a ledger one by one.
pub(crate) struct SnapshotVerifier<'a> {
    pub(crate) reader: &'a LogReader,
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) list: &'a SnapshotList,
    /// Bad anchors, which were already reported.
    pub(crate) bad: &'a [Anchor],
}

/// The result of checking a snapshot.
pub(crate) enum SnapshotCheck {
    Valid(ExpectedStateHash),
    /// It is valid, but no note in the log names it, so it is not used.
    Unnoted(ExpectedStateHash, VerifyFinding),
    Bad(VerifyFinding),
    /// It was already reported, or was removed in the meantime.
    Skipped,
}

impl SnapshotVerifier<'_> {
    /// The length of a snapshot's file, for progress.
    pub(crate) fn length(&self, name: &SnapshotName) -> u64 {
        self.length_of(&self.path(name)).unwrap_or(0)
    }

    fn length_of(&self, path: &Path) -> std::io::Result<u64> {
        self.storage.open(path, Access::Read)?.length()
    }

    fn path(&self, name: &SnapshotName) -> PathBuf {
        self.list.folder.join(name.to_string())
    }

    /// A new reader of the log in its current state.
    pub(crate) fn reader_now(&self) -> Result<LogReader> {
        LogReader::open(self.storage, self.reader.dir())
    }

    /// Whether the records after a snapshot were pruned, so that no fold can begin with it.
    pub(crate) fn is_pruned(&self, name: &SnapshotName) -> bool {
        name.seq.saturating_add(1) < self.reader.first_seq()
    }

    /// The finding about a snapshot after its record was pruned.
    pub(crate) fn pruned_finding(&self, name: &SnapshotName) -> VerifyFinding {
        let what =
            "the record of this snapshot was pruned, so the snapshot is useless; it may be deleted";
        VerifyFinding::new(FindingClass::Warning, self.path(name), 0..0, what)
    }

    pub(crate) fn check(&self, name: &SnapshotName) -> SnapshotCheck {
        let path = self.path(name);
        if self.bad.iter().any(|anchor| anchor.name().as_ref() == Some(name)) {
            return SnapshotCheck::Skipped;
        }
        let is_anchor = self.reader.first_seq() > 1
            && self.reader.retention().is_some_and(|retention| retention.is_anchor(name));
        let class = if is_anchor { FindingClass::Damage } else { FindingClass::DerivedDamage };
        match load::check(self.reader, name) {
            Ok(header) => {
                let place = VerifyFinding::new(class, path.clone(), 0..HEADER, "the snapshot");
                let expected = ExpectedStateHash { place, expected: SnapshotNote::of(&header) };
                // A writer appends the note after it made the snapshot, perhaps since the reader was
                // opened.
                let is_noted = |reader: &LogReader| reader.is_snapshot_noted(&header);
                let is_noted_now = || self.reader_now().and_then(|reader| is_noted(&reader));
                if is_noted(self.reader).unwrap_or(false) || is_noted_now().unwrap_or(false) {
                    return SnapshotCheck::Valid(expected);
                }
                let what =
                    format!("{}, so the snapshot is not used; it may be deleted", load::UNNOTED);
                let class = FindingClass::Warning;
                SnapshotCheck::Unnoted(expected, VerifyFinding::new(class, path, 0..HEADER, &what))
            }
            Err(_) if self.is_ahead(name) => {
                let what = "the record of this snapshot is after the durable end in HEAD, so it is \
                            not used before the next opening";
                let class = FindingClass::Warning;
                SnapshotCheck::Bad(VerifyFinding::new(class, path, 0..HEADER, what))
            }
            Err(error) => match self.length_of(&path) {
                // A writer may have removed it after making a newer snapshot.
                Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => SnapshotCheck::Skipped,
                length => {
                    SnapshotCheck::Bad(bad_snapshot(class, path, length.unwrap_or(0), &error))
                }
            },
        }
    }

    /// Whether HEAD does not cover the record of a snapshot yet.
    fn is_ahead(&self, name: &SnapshotName) -> bool {
        mutant!(SnapshotAheadIsDamage => return false);
        let header = self.reader.snapshot_folder().header(name).ok().flatten();
        header.is_some_and(|header| self.reader.is_snapshot_ahead(&header).unwrap_or(false))
    }

    /// Findings about unknown files.
    pub(crate) fn unknown_files(&self) -> impl Iterator<Item = VerifyFinding> {
        self.list.unknown.iter().map(|name| unknown_file(self.list.folder.join(name)))
    }
}

/// [`SNAPSHOT_HEADER_SIZE`] as a file length.
const HEADER: u64 = 512;
/// The longest chunk, with its length and checksum.
const CHUNK: u64 = (1 << 20) + 8;
const _: () = assert!(
    SNAPSHOT_HEADER_SIZE == 512 && SNAPSHOT_CHUNK_SIZE + SNAPSHOT_CRC_SIZE == (1 << 20) + 4,
    "HEADER and CHUNK are the format's"
);

/// The finding about a bad snapshot: in its header, in a chunk, or somewhere in the file.
fn bad_snapshot(class: FindingClass, path: PathBuf, length: u64, error: &Error) -> VerifyFinding {
    let range = match error.location().offset {
        None => 0..length,
        Some(offset) if offset < HEADER => 0..HEADER,
        Some(offset) => offset..offset.saturating_add(CHUNK).min(length).max(offset),
    };
    let is_newer = error.kind() == ErrorKind::Unsupported;
    let class = if is_newer { FindingClass::NewerFormat } else { class };
    VerifyFinding::new(class, path, range, error.message())
}

/// The finding about a blob that a record references, unless it is intact. A lost blob is damage,
/// since it cannot be made again, although a fold does not need it.
pub(crate) fn blob_finding(
    log: &LogReader,
    blob: &BlobUse,
    state: &BlobState,
) -> Option<VerifyFinding> {
    let seq = blob.first_seq.filter(|_| *state != BlobState::Intact)?;
    let length = blob.id.length;
    let what = format!("output of record {seq}, {length} bytes: {state}");
    // A blob that was already missing when an archive was made is not damage of the archive.
    let missing = log.manifest().map(|manifest| manifest.missing_blobs.as_slice());
    let was_missing = missing.unwrap_or_default().contains(&blob.id.hex());
    let class = if was_missing { FindingClass::Warning } else { FindingClass::Damage };
    Some(VerifyFinding::new(class, blob.path.clone(), 0..length, &what))
}

pub(crate) fn unknown_file(path: PathBuf) -> VerifyFinding {
    VerifyFinding::new(FindingClass::Warning, path, 0..0, "unknown file, ignored")
}
