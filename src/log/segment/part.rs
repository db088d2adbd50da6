//! Parts of segments, byte for byte, as a copy of the log receives or sends them.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{Chain, SegmentHeader};
use crate::log::errors::damaged;
use crate::log::notes::KIND_WRITER_NOTE;
use crate::log::record::Ack;

use super::scan::{FramePosition, Scan};

/// Complete batches of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPart {
    /// The segment.
    pub segment: SegmentHeader,
    /// Offset of the first frame.
    pub offset: u64,
    /// The frames.
    pub frames: Vec<u8>,
    /// The record before.
    pub before: Ack,
    /// The last record.
    pub last: Ack,
    /// Its time.
    pub time: u64,
}

impl FolderPart {
    /// Complete batches from a position on, up to the end of a scan: as many as fit into a number
    /// of bytes, and at least one. A writer note ends the part, since it begins another epoch.
    /// `None` if there is no complete batch.
    ///
    /// # Errors
    /// `Corrupt` with the place of damage; `Io`.
    pub(crate) fn read(
        scan: &mut Scan,
        path: &Path,
        segment: SegmentHeader,
        start: FramePosition,
        size_max: u64,
    ) -> Result<Option<Self>> {
        let mut at = start;
        let (mut end, mut time) = (None, 0);
        while at.offset < scan.end {
            let record = next_record(scan, &mut at, path)?;
            if record.batch_left == 0 {
                if end.is_some() && at.offset - start.offset > size_max {
                    break;
                }
                (end, time) = (Some(at), record.time);
                if record.kind == KIND_WRITER_NOTE {
                    break;
                }
            }
        }
        let Some(end) = end else { return Ok(None) };
        let length = usize::try_from(end.offset - start.offset).unwrap_or(usize::MAX);
        let bytes = scan.source.at(start.offset, length);
        let frames = bytes.map_err(|error| Error::io("read the records", path, error))?.to_vec();
        let ack = |at: &FramePosition| Ack {
            seq: at.next_seq - 1,
            chain: at.chain.unwrap_or(Chain::GENESIS),
        };
        let (before, last) = (ack(&start), ack(&end));
        Ok(Some(Self { segment, offset: start.offset, frames, before, last, time }))
    }
}

/// The relevant facts about the next record in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    pub(crate) time: u64,
    pub(crate) kind: u16,
    pub(crate) batch_left: u16,
}

/// Go over the next record.
///
/// # Errors
/// `Corrupt` with the place of damage; `Io`.
pub(crate) fn next_record(scan: &mut Scan, at: &mut FramePosition, path: &Path) -> Result<Passed> {
    let (offset, seq) = (at.offset, at.next_seq);
    let found = scan.next(at).map_err(|error| Error::io("read a record", path, error))?;
    let found = found.map_err(|fault| damaged(path, offset, seq, fault.describe()))?;
    Ok(Passed { time: found.time, kind: found.kind, batch_left: found.batch_left })
}
