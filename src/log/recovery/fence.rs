//! A fence: a new segment that starts with the surviving records of its predecessor's tail and a
//! recovery note.
//!
//! Invariants:
//! - Nothing changes until the segment is renamed. From then on the old tail is no longer part of
//!   the log.
//! - The segment is as large as necessary, and is written in chunks: memory does not depend on its
//!   size.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, HeadState, NewRecord, SegmentHeader, SegmentReason, frame_size};
use crate::log::bytes::to_u64;
use crate::log::errors::damaged;
use crate::log::folder::{DATA_START, LedgerPaths};
use crate::log::notes::{RecoveryNote, RewrittenRecords};
use crate::log::options::{SegmentSizes, UidSource};
use crate::log::record::{Ack, LoggedRecord};
use crate::log::segment::{
    ActiveSegment, CreateError, PublishGuard, Scan, SegmentBytes, SegmentWriter, WritePosition,
    next_header, open_segment,
};
use crate::storage::Storage;

use super::evidence::Tail;
use super::table::{RecoveryRow, TailVerdict};

/// Space after the content of the smallest fence: on a full disk, an operation that frees space
/// must be able to append its note.
const FENCE_SLACK: u64 = 16 << 10;

/// The way out if the disk has no room even for the smallest fence.
const MAKE_ROOM: &str = "nothing was changed; free some space: snapshots are derived, so files in `snap` \
                         may be deleted, unless records were pruned";

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

/// The segment in which the log continues.
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
                let built = self.build_with(uids, epoch, state, time, &size);
                built.map_err(|error| match error.kind() {
                    ErrorKind::DiskFull => error.with_hint(MAKE_ROOM),
                    _ => error,
                })
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
        let last =
            Ack { seq: durable.next_seq - 1, chain: durable.chain.unwrap_or(Chain::GENESIS) };
        let header = SegmentHeader {
            writer_epoch: epoch,
            created: time,
            prealloc_len: size_for(size),
            reason: match state {
                Some(HeadState::Poisoned) => SegmentReason::FenceAfterIoError,
                _ => SegmentReason::FenceAfterCrash,
            },
            born_last: batch_end.next_seq,
            born_end: DATA_START + size,
            ..next_header(self.before, uids.next(), last, durable.offset)
        };
        let mut segment = SegmentWriter::create(self.storage, self.paths, header)?;
        self.rewrite_survivors(&mut segment)
            .and_then(|()| push(&mut segment, &note, time, 0))
            .inspect_err(|_| segment.discard(self.storage))?;
        let published = segment.publish(self.storage, self.paths, self.publish_guard);
        published.map_err(CreateError::into_error)?;
        let position = WritePosition { ack: segment.ack(), end: segment.end(), time };
        let header = segment.header.clone();
        let active = ActiveSegment { header, file: segment.into_file().into() };
        Ok(FenceResult { active, position, survivors })
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
    fn rewrite_survivors(&self, segment: &mut SegmentWriter) -> Result<()> {
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
            push(segment, &record, time, batch_left)?;
        }
        Ok(())
    }
}

/// Add a record. None of the segment's records is durable before all are.
fn push(segment: &mut SegmentWriter, record: &NewRecord, time: u64, batch_left: u16) -> Result<()> {
    let inflight = segment.ack().seq + 1 - segment.header.prev_last_seq;
    segment.push(record, time, u32::try_from(inflight).unwrap_or(u32::MAX), batch_left)
}
