//! The shared state of a writer: how far records are encoded, written and durable, and whether a
//! flush is in progress.
//!
//! Invariants:
//! - `durable` <= `written` <= `encoded`, all in the active segment; `written` <=
//!   `write_started_seq` <= `taken_seq` <= `encoded`.
//! - The frame buffer holds exactly the frames between `written` (during a flush: the end of its
//!   group) and `encoded`.
//! - At most [`UNSYNCED_MAX`] bytes, or one batch, are not durable.
//! - No method does I/O, and the lock is held no longer than copying a batch takes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ChainKey, SegmentHeader, SegmentSeed, Stamp, append_frame, stamp_frame};
use crate::log::bytes::to_u64;
use crate::log::errors::{fenced, poisoned};
use crate::log::folder::DATA_START;
use crate::log::notes::BatchKey;
use crate::log::options::{NotKept, SegmentSizes};
use crate::log::record::Ack;
use crate::log::segment::{ActiveSegment, SegmentDraft, WritePosition, low_bits};
use crate::storage::StorageFile;

use super::batch::{Batch, DigestedBatch, Durability, Ticket};
use super::idempotency::KeyWindow;
use super::waiters::{Parker, WaitFor, Waiters, Wakeup};

/// Maximum number of bytes in the file that wait for a sync, unless one batch is larger. Recovery
/// examines only this many bytes after a torn write (`format/recovery.md`, section 2).
pub(crate) const UNSYNCED_MAX: u64 = 4 << 20;

/// Consecutive frames without stamps.
#[derive(Debug, Default)]
struct FrameBuffer {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
    /// Number of bytes and frames that belong to complete batches.
    complete: (usize, usize),
}

impl FrameBuffer {
    /// Mark everything appended as complete batches.
    fn end_batch(&mut self) {
        self.complete = (self.bytes.len(), self.sizes.len());
    }

    /// Discard a partial batch after its encoding panicked.
    fn discard_partial_batch(&mut self) {
        let (bytes, frames) = self.complete;
        self.bytes.truncate(bytes);
        self.sizes.truncate(frames);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.sizes.clear();
        self.complete = (0, 0);
        // Do not keep the memory of an exceptionally large batch.
        self.bytes.shrink_to(usize::try_from(UNSYNCED_MAX).unwrap_or(0));
    }
}

/// Whether a flush is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushState {
    /// No flush: a thread may become the leader.
    Idle,
    /// A leader is writing or syncing a group; others may encode.
    Flushing,
    /// A leader is rotating the segment; encoding is paused.
    Rotating,
}

/// Whether the log accepts batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriterStatus {
    Open,
    /// A write or sync failed, with this error.
    Poisoned(String),
    /// The right to write is lost, for this reason.
    Fenced(String),
    /// The keeper does not have the last group.
    NotKept(NotKept),
    Closed,
}

/// Whether the content of HEAD is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadDurability {
    Synced,
    Written,
}

/// The state of the background thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundState {
    /// Working, checking again within a second, or not started.
    Busy,
    /// Waiting to be woken.
    Idle,
    /// Asked to end.
    ShuttingDown,
}

/// The state that all threads share, under one lock.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) active: ActiveSegment,
    buffer: FrameBuffer,
    /// Buffer of the last group, reused for the next one.
    spare: FrameBuffer,
    pub(crate) encoded: WritePosition,
    pub(crate) written: WritePosition,
    pub(crate) durable: WritePosition,
    /// The last record with a started write: it may be in the file.
    pub(crate) write_started_seq: u64,
    /// The last record that a flush took.
    pub(crate) taken_seq: u64,
    pub(crate) flush: FlushState,
    pub(crate) status: WriterStatus,
    pub(crate) head: HeadDurability,
    pub(crate) keys: Option<KeyWindow>,
    pub(crate) next_segment: NextSegment,
    pub(crate) background: BackgroundState,
    /// Rotated segments that the background thread is to seal.
    pub(crate) to_seal: VecDeque<SealTask>,
    /// The time of the last batch as the caller passed it. Record times never go back, so they stay
    /// constant while the caller's clock is behind them.
    pub(crate) caller_time: u64,
    /// Counts submissions and flushes: unchanged while the log is idle.
    pub(crate) activity: u64,
    pub(crate) sizes: SegmentSizes,
    /// The threads that wait for a flush to end.
    pub(crate) waiters: Waiters,
    /// Number of records worth waiting for before the next group is written: one for each thread
    /// that the last flush woke or that waits; 0 if there was only one.
    pub(crate) expected_records: usize,
}

/// A rotated segment and its successor.
#[derive(Debug)]
pub(crate) struct SealTask {
    pub(crate) header: SegmentHeader,
    pub(crate) successor: SegmentHeader,
}

/// The frames of one flush.
#[derive(Debug)]
pub(crate) struct Group {
    buffer: FrameBuffer,
    pub(crate) file: Arc<dyn StorageFile>,
    /// The offset at which they are written.
    pub(crate) offset: u64,
    first: u64,
    /// The last durable record when the write starts. Between it and the group may be buffered records.
    pub(crate) durable: WritePosition,
    /// The position after them.
    pub(crate) position: WritePosition,
    pub(crate) header: SegmentHeader,
}

/// The segment that has space for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    Available,
    /// In this segment, after the pending bytes were synced.
    AfterSync,
    NextSegment,
}

impl WriterState {
    pub(crate) fn new(active: ActiveSegment, position: WritePosition, sizes: SegmentSizes) -> Self {
        Self {
            active,
            buffer: FrameBuffer::default(),
            spare: FrameBuffer::default(),
            encoded: position,
            written: position,
            durable: position,
            write_started_seq: position.ack.seq,
            taken_seq: position.ack.seq,
            flush: FlushState::Idle,
            status: WriterStatus::Open,
            head: HeadDurability::Synced,
            keys: None,
            next_segment: NextSegment::None,
            background: BackgroundState::Busy,
            to_seal: VecDeque::new(),
            caller_time: position.time,
            activity: 0,
            sizes,
            waiters: Waiters::default(),
            expected_records: 0,
        }
    }

    pub(crate) fn capacity_for(&self, size: u64) -> Capacity {
        let pending = self.encoded.end - self.durable.end;
        if self.encoded.end + size > self.active.header.prealloc_len {
            Capacity::NextSegment
        } else if pending > 0 && pending + size > UNSYNCED_MAX {
            Capacity::AfterSync
        } else {
            Capacity::Available
        }
    }

    /// Encode a batch that fits. If this panics, the partial batch is discarded before the next one
    /// is encoded.
    pub(crate) fn encode(
        &mut self,
        digested: &DigestedBatch<'_>,
        batch: &Batch,
        key: &ChainKey,
    ) -> Ticket {
        self.buffer.discard_partial_batch();
        let first = self.encoded.ack.seq + 1;
        let mut position = self.encoded;
        self.caller_time = batch.time;
        position.time = position.time.max(batch.time);
        mutant!(TimestampsGoBackwards => position.time = batch.time);
        let left = (0..digested.records.len()).rev();
        for (record, left) in digested.records.iter().zip(left) {
            let stamp = Stamp {
                seq: position.ack.seq + 1,
                time: position.time,
                ordinal: low_bits(self.active.header.ordinal),
                inflight: 0,
                batch_left: u16::try_from(left).expect("the limit of a batch was checked"),
            };
            let bytes = &mut self.buffer.bytes;
            let chain = append_frame(bytes, record, stamp, key, &position.ack.chain);
            position.ack = Ack { seq: stamp.seq, chain };
            self.buffer.sizes.push(record.frame_size());
        }
        position.end += digested.size;
        self.buffer.end_batch();
        self.encoded = position;
        self.activity += 1;
        let ticket = Ticket { first, last: position.ack };
        if let (Some(keys), Some(key)) = (&mut self.keys, &batch.key) {
            keys.add(key.clone(), &ticket);
        }
        ticket
    }

    /// Number of pending records.
    pub(crate) fn pending(&self) -> usize {
        self.buffer.complete.1
    }

    /// Take everything pending, to be written now.
    pub(crate) fn take_group(&mut self) -> Group {
        self.buffer.discard_partial_batch();
        self.taken_seq = self.encoded.ack.seq;
        let spare = std::mem::take(&mut self.spare);
        Group {
            buffer: std::mem::replace(&mut self.buffer, spare),
            file: self.active.file.clone(),
            offset: self.written.end,
            first: self.written.ack.seq + 1,
            durable: self.durable,
            position: self.encoded,
            header: self.active.header.clone(),
        }
    }

    /// Reuse the buffer of a group that was written.
    pub(crate) fn recycle(&mut self, group: Group) {
        self.spare = group.buffer;
        self.spare.clear();
    }

    /// Continue in another segment. Everything is durable.
    pub(crate) fn switch_to(&mut self, active: ActiveSegment, data_start: u64) {
        self.active = active;
        for position in [&mut self.encoded, &mut self.written, &mut self.durable] {
            position.end = data_start;
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable.ack.seq == self.encoded.ack.seq
    }

    /// Check that the log accepts batches.
    pub(crate) fn check_status(&self) -> Result<()> {
        match &self.status {
            WriterStatus::Open => Ok(()),
            WriterStatus::Poisoned(_) => Err(poisoned()),
            WriterStatus::Fenced(why) => Err(fenced(why)),
            WriterStatus::NotKept(why) => Err(not_kept(why)),
            WriterStatus::Closed => {
                let closed = Error::new(ErrorKind::Poisoned, "the log is closed");
                Err(closed.with_hint("open it again to continue"))
            }
        }
    }

    /// Why a batch cannot be appended.
    pub(crate) fn append_refusal(&self) -> Error {
        self.check_status().err().unwrap_or_else(poisoned)
    }

    /// The error for records in a failed flush.
    pub(crate) fn flush_error(&self, first: u64, last: u64) -> Error {
        self.stop_error(first, last).unwrap_or_else(poisoned)
    }

    /// The error for records that were not durable when the log stopped; `None` while it is
    /// running.
    pub(crate) fn stop_error(&self, first: u64, last: u64) -> Option<Error> {
        match &self.status {
            WriterStatus::Open => None,
            WriterStatus::Poisoned(cause) | WriterStatus::NotKept(NotKept::Unknown(cause)) => {
                Some(commit_unknown(cause, first, last))
            }
            // The keeper has none of the records, and will never get them.
            WriterStatus::NotKept(why @ NotKept::Fenced(_)) => Some(not_kept(why).at_seq(first)),
            WriterStatus::Fenced(_) | WriterStatus::Closed => {
                let error = self.check_status().err()?;
                // Records in the file, or on their way, may be found by the next opening.
                let is_begun = first <= self.write_started_seq;
                let error = error.at_seq(first);
                Some(if is_begun { commit_unknown(error.message(), first, last) } else { error })
            }
        }
    }
}

impl Group {
    /// Stamp the frames for the write that starts now. There may be no frames.
    pub(crate) fn stamp(&mut self) -> &[u8] {
        let mut rest = self.buffer.bytes.as_mut_slice();
        let (mut seq, mut offset) = (self.first, self.offset);
        let seeds = SegmentSeed::new(&self.header.segment);
        for size in &self.buffer.sizes {
            let (frame, behind) = rest.split_at_mut(*size);
            // At most 4 MiB, or one batch, are in flight.
            let inflight = u32::try_from(seq - self.durable.ack.seq).unwrap_or(u32::MAX);
            let inflight = if mutant!(InflightRecordsUncounted) { 1 } else { inflight };
            stamp_frame(frame, inflight, &seeds.at(offset));
            (seq, offset) = (seq + 1, offset + to_u64(*size));
            rest = behind;
        }
        &self.buffer.bytes
    }

    /// The frames, as they were stamped.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes
    }
}

/// The error of a log that stopped because its keeper does not have a group.
pub(crate) fn not_kept(why: &NotKept) -> Error {
    match why {
        NotKept::Fenced(why) => Error::new(ErrorKind::Fenced, why.clone()),
        NotKept::Unknown(why) => {
            let message = format!("an earlier commit is not confirmed: {why}");
            Error::new(ErrorKind::Poisoned, message)
        }
    }
    .with_hint("open the ledger again to continue")
}

pub(crate) fn commit_unknown(cause: &str, first: u64, last: u64) -> Error {
    let records = if first < last {
        format!("records {first} to {last} are")
    } else {
        format!("record {first} is")
    };
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!("{cause}; it is unknown whether {records} durable"),
    )
    .with_hint("open the ledger again to find out")
    .at_seq(first)
}

/// The state of the preallocated segment.
#[derive(Debug)]
pub(crate) enum NextSegment {
    /// The log has no preallocated segment.
    None,
    /// The background thread is creating it.
    InProgress,
    /// It could not be created while the segment with this ordinal was active.
    Failed(u64),
    /// A file of zeros.
    Ready(SegmentDraft),
}

impl WriterState {
    /// Ordinal and length of the segment to preallocate now, if any. Nothing is preallocated for a
    /// segment that is mostly empty, or in a log that was not written to since it was opened: they
    /// may never need a successor. During a rotation the preallocated file may be in use under the
    /// name that a new one would get.
    pub(crate) fn segment_to_preallocate(&self) -> Option<(u64, u64)> {
        if self.flush == FlushState::Rotating && !mutant!(SegmentPreallocatedTwice) {
            return None;
        }
        let header = &self.active.header;
        let is_missing = match &self.next_segment {
            NextSegment::None => true,
            NextSegment::InProgress | NextSegment::Ready(_) => false,
            NextSegment::Failed(ordinal) => *ordinal != header.ordinal,
        };
        let is_soon = self.encoded.end - DATA_START >= (header.prealloc_len - DATA_START) / 4;
        let usual = header.prealloc_len.saturating_mul(2);
        let is_in_use = self.activity > 0;
        (is_missing && is_soon && is_in_use)
            .then(|| (header.ordinal + 1, self.sizes.size_for(usual, 0)))
    }
}

impl WriterState {
    /// Register the current thread to be woken after a flush.
    pub(crate) fn register_waiter(&mut self, until: WaitFor) -> Parker {
        self.waiters.park(until, self.taken_seq)
    }

    /// The threads to wake now, in this order.
    pub(crate) fn take_woken(&mut self) -> Vec<(Parker, Wakeup)> {
        if self.status != WriterStatus::Open && !mutant!(WaitersNotWokenOnPoison) {
            return self.waiters.take_all();
        }
        // Including the leader.
        let waiting = self.waiters.count();
        self.expected_records = if waiting > 0 { waiting + 1 } else { 0 };
        let (durable, written) = (self.durable.ack.seq, self.written.ack.seq);
        let is_free = self.flush == FlushState::Idle;
        let elect_leader = is_free && !mutant!(NextLeaderNotElected);
        self.waiters.take_woken(elect_leader, |until| match until {
            WaitFor::Durable(seq) => seq <= durable,
            WaitFor::Written(seq) => seq <= written,
            WaitFor::Idle => is_free,
        })
    }
}

impl WriterState {
    pub(crate) fn recent_ticket(&self, key: Option<&BatchKey>) -> Result<Option<Ticket>> {
        let (Some(keys), Some(key)) = (&self.keys, key) else { return Ok(None) };
        keys.find(key, self.encoded.ack.seq + 1)
    }

    pub(crate) fn check_expected_seq(&self, batch: &Batch) -> Result<()> {
        let next = self.encoded.ack.seq + 1;
        match batch.expected_seq {
            Some(expected) if expected != next => {
                let message = format!(
                    "batch: expected to start at record {expected}, but {next} is next; read what \
                     was recorded meanwhile and decide again"
                );
                Err(Error::new(ErrorKind::Conflict, message).at_seq(next))
            }
            _ => Ok(()),
        }
    }

    /// A ticket for no records: it is durable once everything before it is.
    pub(crate) fn empty_ticket(&self) -> Ticket {
        let last = self.encoded.ack;
        Ticket { first: last.seq + 1, last }
    }
}

impl WriterState {
    /// Stop the log. Only the first reason is kept.
    pub(crate) fn stop(&mut self, status: WriterStatus) {
        mutant!(PoisonIgnored => return);
        if self.status == WriterStatus::Open {
            self.status = status;
        }
    }

    pub(crate) fn publish(&mut self, group: Group, durability: Durability, head: HeadDurability) {
        self.written = group.position;
        // If another thread found that HEAD is unreliable, nothing more is proved durable.
        let is_durable = durability == Durability::Sync || mutant!(WaitersWokenBeforeSync);
        if is_durable && self.status == WriterStatus::Open {
            self.durable =
                if mutant!(AckCoversUnsyncedBatch) { self.encoded } else { group.position };
            self.head = head;
        }
        self.activity += 1;
        self.recycle(group);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::format::Chain;
    use crate::log::options::{LogOptions, UidSource};
    use crate::log::segment::first_header;
    use crate::sim::SimDisk;
    use crate::storage::Storage as _;

    /// A batch with a panic during its encoding leaves nothing behind, and pending batches stay.
    #[test]
    fn partial_batch_is_discarded() {
        for frames in [0, 1] {
            let mut buffer = FrameBuffer::default();
            buffer.bytes.extend([1; 128]);
            buffer.sizes.extend([64, 64]);
            buffer.end_batch();
            // One and a half frames, or half a frame.
            buffer.bytes.extend([2; 100]);
            buffer.sizes.extend(std::iter::repeat_n(64, frames));
            buffer.discard_partial_batch();
            assert_eq!((&buffer.bytes, &buffer.sizes), (&vec![1; 128], &vec![64, 64]));
            buffer.clear();
            buffer.discard_partial_batch();
            assert!(buffer.bytes.is_empty() && buffer.sizes.is_empty());
        }
    }

    /// A log that is opened but not written to gets no preallocated segment, however full its
    /// newest one is; a log that is written to gets one when a quarter of the newest segment is
    /// full.
    #[test]
    fn segment_is_preallocated_only_while_writing() {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/segment")).unwrap();
        let header = first_header(&LogOptions::new(Arc::new(disk), UidSource::new(|| [7; 16])), 5);
        let (length, ordinal) = (header.prealloc_len, header.ordinal);
        let active = ActiveSegment { header, file: file.into() };
        let ack = Ack { seq: 9, chain: Chain::GENESIS };
        let at = |end| WritePosition { ack, end, time: 5 };
        let quarter = DATA_START + (length - DATA_START) / 4;
        for (end, activity, is_wanted) in
            [(quarter, 0, false), (length, 0, false), (quarter - 64, 1, false), (quarter, 1, true)]
        {
            let mut state = WriterState::new(active.clone(), at(end), SegmentSizes::DEFAULT);
            state.activity = activity;
            let wanted = is_wanted.then_some((ordinal + 1, 2 * length));
            assert_eq!(state.segment_to_preallocate(), wanted, "{end}, {activity}");
        }
    }
}
