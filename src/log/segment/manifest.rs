//! The manifest of an archive: its files, and the start and end of its log (`format/retention.md`,
//! section 5).
//!
//! The ledger makes and checks archives, because it knows the blobs that records reference.

use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, HEAD_SIZE, Head, HeadState, HeadSync, SegmentHeader, SegmentReason, Uid,
    is_sealed_length,
};
use crate::log::bytes::{hex, parse_hash};
use crate::log::folder::MANIFEST_NAME;
use crate::log::record::Ack;
use crate::storage::{Access, Storage, read_sectors};

use super::entry::{SegmentEntry, valid_segment};
use super::header::{head_content, next_header};
use super::start::LogStart;

/// The format that a manifest names.
pub const ARCHIVE_FORMAT: &str = "plan-ledger archive 1";
/// A longer manifest is rejected.
const MANIFEST_LENGTH_MAX: u64 = 256 << 20;

/// The contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveManifest {
    /// [`ARCHIVE_FORMAT`].
    pub format: String,
    /// The ledger's uid, in hexadecimal.
    pub ledger_uid: String,
    /// The uid of its genesis.
    pub genesis_uid: String,
    /// Ordinal of the first segment.
    pub first_ordinal: u64,
    /// Ordinal of the last segment.
    pub last_ordinal: u64,
    /// The first record.
    pub first_seq: u64,
    /// The last record.
    pub last_seq: u64,
    /// Chain value of the record before the first, in hexadecimal.
    pub chain_before: String,
    /// Chain value of the last record.
    pub chain: String,
    /// Every other file of the archive, in order.
    pub files: Vec<ArchivedFile>,
    /// Hashes of blobs that a record names and that were missing.
    pub missing_blobs: Vec<String>,
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedFile {
    /// Its path in the archive.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// BLAKE3 of it, in hexadecimal.
    pub blake3: String,
}

impl ArchiveManifest {
    /// Canonical JSON and a newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        bytes.push(b'\n');
        bytes
    }

    /// Read the manifest in the folder of an archive.
    ///
    /// # Errors
    /// `Corrupt` if it is not a manifest in its canonical form; `Unsupported` if a newer program
    /// wrote it; `Io`.
    pub fn read(storage: &dyn Storage, dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST_NAME);
        let io = |error| Error::io("read the manifest", &path, error);
        let file = storage.open(&path, Access::Read).map_err(io)?;
        let length = file.length().map_err(io)?;
        let bad = |what: &str| {
            let message = format!(
                "{what}; the archive is damaged: use another copy, or unpack it and delete this \
                 file to read the rest as a damaged ledger"
            );
            Error::new(ErrorKind::Corrupt, message).at_path(&path)
        };
        if length > MANIFEST_LENGTH_MAX {
            let limit = MANIFEST_LENGTH_MAX;
            return Err(bad(&format!("expected at most {limit} bytes, found {length}")));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = read_sectors(&*file, &mut bytes, 0).map_err(io)?;
        let count = read.complete().map_err(|error| bad(&error.to_string()))?;
        bytes.truncate(count);
        let manifest: Self = match serde_json::from_slice(&bytes) {
            Ok(manifest) => manifest,
            Err(error) => match format_of(&bytes) {
                Some(format) if format != ARCHIVE_FORMAT => {
                    let message = format!(
                        "expected archive format `{ARCHIVE_FORMAT}`, found `{format:.80}`; use a \
                         newer `ledger`"
                    );
                    return Err(Error::new(ErrorKind::Unsupported, message).at_path(&path));
                }
                _ => return Err(bad(&format!("not a manifest: {error}"))),
            },
        };
        if manifest.format != ARCHIVE_FORMAT || manifest.encode() != bytes {
            return Err(bad("the manifest is not canonical"));
        }
        Ok(manifest)
    }

    /// The start of the log in the archive.
    pub(crate) fn start(&self) -> LogStart {
        LogStart {
            ordinal: self.first_ordinal,
            seq: self.first_seq,
            // An invalid chain value must not match any record.
            chain: Some(Chain(parse_hash(&self.chain_before).unwrap_or([0xFF; 32]))),
        }
    }

    /// The header that a successor of the last segment would have. `None` if the last segment is
    /// missing or HEAD is not the archive's.
    pub(crate) fn end(
        &self,
        last: Option<&SegmentEntry>,
        head: Option<&Head>,
    ) -> Option<SegmentHeader> {
        let last = valid_segment(last?)?;
        let header = &last.header;
        let head = head.filter(|head| head.segment == header.segment)?;
        let is_told = (header.ordinal, head.durable_seq, head.chain.to_string())
            == (self.last_ordinal, self.last_seq, self.chain.clone());
        let is_sealed = is_sealed_length(last.length, header.prealloc_len);
        let last = Ack { seq: self.last_seq, chain: head.chain };
        is_told.then(|| SegmentHeader {
            reason: if is_sealed { SegmentReason::Rotate } else { SegmentReason::FenceAfterCrash },
            ..next_header(header, header.segment, last, head.data_end)
        })
    }
}

/// The format that the bytes name, if they are JSON with such a field.
fn format_of(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Any {
        format: String,
    }
    serde_json::from_slice(bytes).ok().map(|Any { format }| format)
}

/// The bytes of an archive's HEAD. Both slots state that the last segment, that of `header`, ends
/// where its successor `next` says.
#[must_use]
pub fn archive_head(header: &SegmentHeader, next: &SegmentHeader) -> Vec<u8> {
    let last = Ack { seq: next.prev_last_seq, chain: next.prev_chain };
    let (epoch, end, mode) = (header.writer_epoch, next.prev_data_end, HeadSync::Interval);
    let head = head_content(header, epoch, last, end, mode, HeadState::Clean);
    let bytes = Head { generation: 1, ..head }.encode().repeat(2);
    debug_assert_eq!(bytes.len(), HEAD_SIZE);
    bytes
}

/// A uid in hexadecimal, as a manifest holds it.
#[must_use]
pub fn uid_text(uid: &Uid) -> String {
    hex(uid)
}
