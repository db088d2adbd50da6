//! What lies beside the log: snapshots, which can be made again, and large outputs, which cannot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotName};
use crate::log::{Anchor, BlobState, Class, Finding, LogReader, SnapshotList, SnapshotNote};
use crate::storage::{Access, Storage};

use super::super::blobs::BlobUse;
use super::super::load;
use super::claim::Claim;

/// The snapshots of a ledger, to be checked one by one.
pub(super) struct Snapshots<'a> {
    pub(super) reader: &'a LogReader,
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) list: &'a SnapshotList,
    /// Anchors of which it was reported that they do not hold.
    pub(super) bad: &'a [Anchor],
}

/// What a snapshot came to.
pub(super) enum Checked {
    /// It is good, and says this.
    Good(Claim),
    Bad(Finding),
    /// There is nothing new to be said of it.
    Nothing,
}

impl Snapshots<'_> {
    /// How many bytes there are to be read, for whoever wants to know how far it is.
    pub(super) fn length(&self, name: &SnapshotName) -> u64 {
        self.length_of(&self.path(name)).unwrap_or(0)
    }

    fn length_of(&self, path: &Path) -> std::io::Result<u64> {
        self.storage.open(path, Access::Read)?.length()
    }

    fn path(&self, name: &SnapshotName) -> PathBuf {
        self.list.folder.join(name.to_string())
    }

    /// The log as it is now.
    pub(super) fn reader_now(&self) -> Result<LogReader> {
        LogReader::open(self.storage, self.reader.dir())
    }

    /// Whether the log no longer has what could be folded on from it.
    pub(super) fn is_pruned(&self, name: &SnapshotName) -> bool {
        name.seq.saturating_add(1) < self.reader.first_seq()
    }

    /// What is said of one of which it has not.
    pub(super) fn pruned(&self, name: &SnapshotName) -> Finding {
        let what = "a snapshot of a record that was pruned: the log cannot vouch for it, and \
                    nothing can be folded on from it; it may be deleted";
        finding(Class::Warning, self.path(name), 0..0, what.to_owned())
    }

    pub(super) fn check(&self, name: &SnapshotName) -> Checked {
        let path = self.path(name);
        if self.bad.iter().any(|anchor| anchor.name().as_ref() == Some(name)) {
            return Checked::Nothing;
        }
        let is_anchor = self.reader.first_seq() > 1
            && self.reader.retention().is_some_and(|retention| retention.is_anchor(name));
        let class = if is_anchor { Class::Damage } else { Class::Derived };
        match load::check(self.reader, name) {
            Ok(header) => {
                let place = finding(class, path, 0..HEADER, "the snapshot".to_owned());
                Checked::Good(Claim { place, said: SnapshotNote::of(&header) })
            }
            Err(error) => match self.length_of(&path) {
                // A writer may have removed it in the meantime, when it made a newer one.
                Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => Checked::Nothing,
                length => Checked::Bad(bad_snapshot(class, path, length.unwrap_or(0), &error)),
            },
        }
    }

    /// Files that do not belong among them.
    pub(super) fn strangers(&self) -> impl Iterator<Item = Finding> {
        self.list.strangers.iter().map(|name| stranger(self.list.folder.join(name)))
    }
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

/// What is wrong with an output that a record names, if it was found like this. It is damage: it
/// cannot be had again. Folding, and everything else, goes on without it.
pub(super) fn blob_finding(log: &LogReader, blob: &BlobUse, state: &BlobState) -> Option<Finding> {
    let seq = blob.first_seq.filter(|_| *state != BlobState::Intact)?;
    let length = blob.id.length;
    let what = format!("the output that record {seq} names, {length} bytes: {state}");
    // What an archive says was not there when it was made is no damage of the archive.
    let missing = log.manifest().map(|manifest| manifest.missing_blobs.as_slice());
    let was_missing = missing.unwrap_or_default().contains(&blob.id.hex());
    let class = if was_missing { Class::Warning } else { Class::Damage };
    Some(finding(class, blob.path.clone(), 0..length, what))
}

pub(super) fn stranger(path: PathBuf) -> Finding {
    finding(Class::Warning, path, 0..0, "this does not belong here; it is left alone".to_owned())
}

fn finding(class: Class, path: PathBuf, range: std::ops::Range<u64>, what: String) -> Finding {
    Finding { class, path, offset: range.start, end: range.end, missing: None, what }
}
