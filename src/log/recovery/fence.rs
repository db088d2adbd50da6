//! A fence: a new segment that starts with the surviving records of its predecessor's tail and a
//! recovery note.
//!
//! Invariants:
//! - Nothing changes until the segment is renamed. From then on the old tail is no longer part of
//!   the log.
//! - The segment is as large as necessary, and is written in chunks: memory does not depend on its
//!   size.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, ChainKey, HeadState, NewRecord, Placement, SegmentHeader, SegmentReason, Stamp,
    encode_frame, frame_size,
};
use crate::log::bytes::{len_u64, to_u64};
use crate::log::errors::damaged;
use crate::log::folder::{DATA_START, LedgerPaths};
use crate::log::notes::{RecoveryNote, RewrittenRecords};
use crate::log::options::{SegmentSizes, UidSource};
use crate::log::record::{Ack, LoggedRecord};
use crate::log::segment::{
    ActiveSegment, CreateError, PublishGuard, Scan, SegmentBytes, WritePosition,
    create_segment_with, low_bits, open_segment, write,
};
use crate::storage::{Storage, StorageFile};

use super::evidence::Tail;
use super::table::{RecoveryRow, TailVerdict};

/// Size of a write in bytes, or of one frame if that is larger.
const CHUNK: usize = 1 << 20;

/// Space after the content of the smallest fence: on a full disk, what makes room must be able to
/// append its note.
const FENCE_SLACK: u64 = 16 << 10;

/// The inputs of a fence.
pub(crate) struct Fence<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) paths: &'a LedgerPaths,
    /// The segment that the fence closes.
    pub(crate) before: &'a SegmentHeader,
    pub(crate) tail: &'a Tail,
    /// Why it is closed.
    pub(crate) row: &'a RecoveryRow,
    pub(crate) sizes: SegmentSizes,
    pub(crate) publish_guard: PublishGuard<'a>,
}

/// The segment from which the log continues.
#[derive(Debug)]
pub(crate) struct FenceResult {
    pub(crate) active: ActiveSegment,
    pub(crate) position: WritePosition,
    pub(crate) survivors: Option<RewrittenRecords>,
}

impl Fence<'_> {
    /// Create the segment. `state` is the state in HEAD, `time` is not before that of the last
    /// record.
    pub(crate) fn build(
        &self,
        uids: &UidSource,
        epoch: u64,
        state: Option<HeadState>,
        time: u64,
    ) -> Result<FenceResult> {
        let usual = |needed| self.sizes.size_for(0, needed);
        let built = self.build_with(uids, epoch, state, time, &usual);
        mutant!(FenceNeedsFullSegment => return built);
        match built {
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                let smallest = SegmentSizes { first: 0, largest: 0 };
                let size = |needed| smallest.size_for(0, needed + FENCE_SLACK);
                self.build_with(uids, epoch, state, time, &size)
            }
            built => built,
        }
    }

    fn build_with(
        &self,
        uids: &UidSource,
        epoch: u64,
        state: Option<HeadState>,
        time: u64,
        size_for: &dyn Fn(u64) -> u64,
    ) -> Result<FenceResult> {
        let (durable, batch_end) = (self.tail.durable_end, self.tail.batch_end);
        mutant!(TornTailTruncated => open_segment(self.storage, self.paths, self.before)?.1
            .set_length(batch_end.offset).ok());
        let survivors = (durable.next_seq < batch_end.next_seq)
            .then(|| RewrittenRecords { first: durable.next_seq, last: batch_end.next_seq - 1 });
        let note = self.note(survivors).record();
        // The survivors take as much space as before, followed by the note.
        let size = batch_end.offset - durable.offset + to_u64(frame_size(note.payload.len()));
        let header = SegmentHeader {
            segment: uids.next(),
            ordinal: self.before.ordinal + 1,
            base_seq: durable.next_seq,
            prev_chain: durable.chain.unwrap_or(Chain::GENESIS),
            prev_segment: self.before.segment,
            prev_data_end: durable.offset,
            prev_last_seq: durable.next_seq - 1,
            writer_epoch: epoch,
            created: time,
            prealloc_len: size_for(size),
            reason: match state {
                Some(HeadState::Poisoned) => SegmentReason::FenceAfterIoError,
                _ => SegmentReason::FenceAfterCrash,
            },
            born_last: batch_end.next_seq,
            born_end: DATA_START + size,
            ..self.before.clone()
        };
        let mut ack = Ack { seq: header.prev_last_seq, chain: header.prev_chain };
        let file = create_segment_with(
            self.storage,
            self.paths,
            &header,
            self.publish_guard,
            |file, path| {
                let mut frames = FrameWriter::new(&header, ack, file, path);
                self.rewrite_survivors(&mut frames)?;
                frames.push(&note, time, 0)?;
                ack = frames.ack;
                frames.flush()
            },
        )
        .map_err(CreateError::into_error)?;
        let position = WritePosition { ack, end: header.born_end, time };
        Ok(FenceResult { active: ActiveSegment { header, file: file.into() }, position, survivors })
    }

    fn note(&self, survivors: Option<RewrittenRecords>) -> RecoveryNote {
        let verdict = match self.row.verdict {
            TailVerdict::Unacknowledged => "unacknowledged_tail",
            TailVerdict::Ambiguous => "ambiguous_forced",
            _ => "torn",
        };
        RecoveryNote {
            verdict: verdict.to_owned(),
            evidence: self.tail.evidence.letters().chars().map(String::from).collect(),
            predecessor: self.before.ordinal,
            discarded: self.tail.discarded.clone(),
            survivors,
        }
    }

    /// Rewrite the survivors with the same seq, time and payload, and so with the same chain
    /// values.
    fn rewrite_survivors(&self, frames: &mut FrameWriter<'_>) -> Result<()> {
        let (path, file) = open_segment(self.storage, self.paths, self.before)?;
        let mut scan =
            Scan::new(SegmentBytes::windowed(file), self.before, self.before.prealloc_len);
        let mut at = self.tail.durable_end;
        while at.next_seq < self.tail.batch_end.next_seq {
            let found = scan
                .next(&mut at)
                .map_err(|error| Error::io("read a record", &path, error).at_offset(at.offset))?
                .map_err(|fault| damaged(&path, at.offset, at.next_seq, fault.describe()))?;
            let LoggedRecord { time, kind, codec, schema, batch_left, payload, .. } = found;
            let record = NewRecord { kind, codec, schema, payload: payload.to_vec() };
            frames.push(&record, time, batch_left)?;
        }
        Ok(())
    }
}

/// Writes consecutive frames in chunks.
struct FrameWriter<'a> {
    header: &'a SegmentHeader,
    key: ChainKey,
    file: &'a dyn StorageFile,
    path: &'a Path,
    bytes: Vec<u8>,
    /// Offset of `bytes` in the file.
    start: u64,
    ack: Ack,
}

impl<'a> FrameWriter<'a> {
    fn new(header: &'a SegmentHeader, ack: Ack, file: &'a dyn StorageFile, path: &'a Path) -> Self {
        let key = ChainKey::new(&header.genesis);
        Self { header, key, file, path, bytes: Vec::new(), start: DATA_START, ack }
    }

    fn push(&mut self, record: &NewRecord, time: u64, batch_left: u16) -> Result<()> {
        let seq = self.ack.seq + 1;
        let stamp = Stamp {
            seq,
            time,
            ordinal: low_bits(self.header.ordinal),
            inflight: u32::try_from(seq - self.header.prev_last_seq).unwrap_or(u32::MAX),
            batch_left,
        };
        let offset = self.start + len_u64(&self.bytes);
        let placement = Placement { segment: self.header.segment, offset };
        let previous = self.ack.chain;
        let chain = encode_frame(&mut self.bytes, record, stamp, placement, &self.key, &previous);
        self.ack = Ack { seq, chain };
        if self.bytes.len() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }

    /// Write the buffered frames, and return where they end.
    fn flush(&mut self) -> Result<u64> {
        write(self.file, self.path, &self.bytes, self.start)?;
        self.start += len_u64(&self.bytes);
        self.bytes.clear();
        Ok(self.start)
    }
}
