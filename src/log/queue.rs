//! What the threads of a log share: how far records are encoded, written and durable, and whose
//! turn it is at the disk.
//!
//! Invariants:
//! - `durable` <= `written` <= `encoded`, all three in the active segment; `written` <= `begun` <=
//!   `taken` <= `encoded`.
//! - The arena holds exactly the frames between `written` (or, while a group is being written, the
//!   end of that group) and `encoded`.
//! - What is not durable spans at most [`UNSYNCED_MAX`] bytes, or one batch.
//! - Nothing here touches the disk, and no lock is held for longer than copying a batch takes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    ChainKey, Head, HeadState, HeadSync, Seeds, SegmentHeader, Stamp, append_frame, stamp_frame,
};
use crate::storage::StorageFile;

use super::batch::{Ack, DigestedBatch, Request, Ticket, to_u64};
use super::keys::KeyWindow;
use super::options::SegmentSizes;
use super::prepare::Prepared;
use super::waiting::Waiters;

/// How many bytes of the file may wait for a sync, if they are more than one batch. Recovery
/// relies on it.
pub(super) const UNSYNCED_MAX: u64 = 4 << 20;

/// For whom a turn failed, though the log says nothing of it.
const STOPPED: &str = "a turn at the disk failed";

/// A place between two records of the active segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tip {
    /// The record before it.
    pub(super) ack: Ack,
    /// Its offset.
    pub(super) end: u64,
    /// The time of the record before it.
    pub(super) time: u64,
}

/// The segment that is being written to.
#[derive(Debug, Clone)]
pub(super) struct Active {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn StorageFile>,
}

/// Frames, one behind the other, that have no stamps yet.
#[derive(Debug, Default)]
struct Arena {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
    /// How much of both belongs to whole batches: bytes and frames.
    whole: (usize, usize),
}

impl Arena {
    /// All that was appended belongs to whole batches.
    fn complete(&mut self) {
        self.whole = (self.bytes.len(), self.sizes.len());
    }

    /// Forget the beginning of a batch whose encoding ended in a panic.
    fn drop_halves(&mut self) {
        let (bytes, frames) = self.whole;
        self.bytes.truncate(bytes);
        self.sizes.truncate(frames);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.sizes.clear();
        self.whole = (0, 0);
        // A large batch is an exception, and no reason to keep its room for ever.
        self.bytes.shrink_to(usize::try_from(UNSYNCED_MAX).unwrap_or(0));
    }
}

/// Whose turn it is at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody's.
    Free,
    /// Somebody's who writes or syncs a group. Others may encode.
    Commit,
    /// Somebody's who goes on in a new segment. Nobody may encode.
    Rotate,
}

/// Whether the log may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// A write or sync failed: this is what happened.
    Poisoned(String),
    /// The right to write is lost: this is how.
    Fenced(String),
    Closed,
}

/// Whether HEAD as it is in the file has been synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadOnDisk {
    Synced,
    Written,
}

/// What the thread that can wait does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// It works, looks again within a second, or does not exist.
    Busy,
    /// It has nothing to do until it is told.
    Asleep,
    /// It is to end.
    Dismissed,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) active: Active,
    arena: Arena,
    /// Room of the last group, for the next one.
    spare: Arena,
    pub(super) encoded: Tip,
    pub(super) written: Tip,
    pub(super) durable: Tip,
    /// The last record of which a write was begun: nobody can say that it is not in the file.
    pub(super) begun: u64,
    /// The last record that a turn took.
    pub(super) taken: u64,
    pub(super) turn: Turn,
    pub(super) health: Health,
    pub(super) head: HeadOnDisk,
    pub(super) keys: Option<KeyWindow>,
    pub(super) prepared: Prepared,
    pub(super) helper: Helper,
    /// Segments that a rotation closed, for the log's own thread to seal.
    pub(super) to_seal: VecDeque<Sealable>,
    /// The time that came with the last batch, as it came: records' times never go back, and stand
    /// still for as long as a clock is behind them.
    pub(super) clock: u64,
    /// How often something was submitted or made durable: stands still when nobody writes.
    pub(super) activity: u64,
    pub(super) sizes: SegmentSizes,
    /// Who waits for a turn to end.
    pub(super) waiters: Waiters,
    /// How many records the next group may be worth waiting for: one from each thread that the last
    /// turn answered, or that waits; none if there was only one.
    pub(super) expected: usize,
}

/// A segment that a rotation closed, and the one that took its place.
pub(super) type Sealable = (SegmentHeader, SegmentHeader);

/// What one turn writes.
#[derive(Debug)]
pub(super) struct Group {
    arena: Arena,
    pub(super) file: Arc<dyn StorageFile>,
    /// Where it goes.
    pub(super) offset: u64,
    first: u64,
    /// The last durable record when the write starts.
    durable: u64,
    /// Behind it.
    pub(super) tip: Tip,
    pub(super) header: SegmentHeader,
}

/// Where there is room for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Here,
    /// Here, once what is pending has been synced.
    AfterSync,
    NextSegment,
}

impl Queue {
    pub(super) fn new(active: Active, tip: Tip, sizes: SegmentSizes) -> Self {
        Self {
            active,
            arena: Arena::default(),
            spare: Arena::default(),
            encoded: tip,
            written: tip,
            durable: tip,
            begun: tip.ack.seq,
            taken: tip.ack.seq,
            turn: Turn::Free,
            health: Health::Good,
            head: HeadOnDisk::Synced,
            keys: None,
            prepared: Prepared::None,
            helper: Helper::Busy,
            to_seal: VecDeque::new(),
            clock: tip.time,
            activity: 0,
            sizes,
            waiters: Waiters::default(),
            expected: 0,
        }
    }

    pub(super) fn room_for(&self, size: u64) -> Room {
        let pending = self.encoded.end - self.durable.end;
        if self.encoded.end + size > self.active.header.prealloc_len {
            Room::NextSegment
        } else if pending > 0 && pending + size > UNSYNCED_MAX {
            Room::AfterSync
        } else {
            Room::Here
        }
    }

    /// Add a batch for which there is room. Should it panic, nothing was added.
    pub(super) fn encode(
        &mut self,
        batch: &DigestedBatch<'_>,
        request: &Request<'_>,
        key: &ChainKey,
    ) -> Ticket {
        self.arena.drop_halves();
        let first = self.encoded.ack.seq + 1;
        let mut tip = self.encoded;
        self.clock = request.time;
        tip.time = tip.time.max(request.time);
        bug!(TimeGoesBack => tip.time = request.time);
        let left = (0..batch.records.len()).rev();
        for (record, left) in batch.records.iter().zip(left) {
            let stamp = Stamp {
                seq: tip.ack.seq + 1,
                time: tip.time,
                ordinal: low_bits(self.active.header.ordinal),
                inflight: 0,
                batch_left: u16::try_from(left).expect("the batch's limit was checked"),
            };
            let bytes = &mut self.arena.bytes;
            let chain = append_frame(bytes, record, stamp, key, &tip.ack.chain);
            tip.ack = Ack { seq: stamp.seq, chain };
            self.arena.sizes.push(record.frame_size());
        }
        tip.end += batch.size;
        self.arena.complete();
        self.encoded = tip;
        self.activity += 1;
        let ticket = Ticket { first, last: tip.ack };
        if let (Some(keys), Some(key)) = (&mut self.keys, request.key) {
            keys.add(key.clone(), &ticket);
        }
        ticket
    }

    /// How many records are pending.
    pub(super) fn pending(&self) -> usize {
        self.arena.whole.1
    }

    /// Everything that is pending, to be written now.
    pub(super) fn take_group(&mut self) -> Group {
        self.arena.drop_halves();
        self.taken = self.encoded.ack.seq;
        let spare = std::mem::take(&mut self.spare);
        Group {
            arena: std::mem::replace(&mut self.arena, spare),
            file: self.active.file.clone(),
            offset: self.written.end,
            first: self.written.ack.seq + 1,
            durable: self.durable.ack.seq,
            tip: self.encoded,
            header: self.active.header.clone(),
        }
    }

    /// Take back the room of a group that was written.
    pub(super) fn give_back(&mut self, group: Group) {
        self.spare = group.arena;
        self.spare.clear();
    }

    /// Go on in another segment. Everything is durable.
    pub(super) fn turn_to(&mut self, active: Active, data_start: u64) {
        self.active = active;
        for tip in [&mut self.encoded, &mut self.written, &mut self.durable] {
            tip.end = data_start;
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable.ack.seq == self.encoded.ack.seq
    }

    /// Why nothing may be submitted any more, if so.
    pub(super) fn expect_good(&self) -> Result<()> {
        match &self.health {
            Health::Good => Ok(()),
            Health::Poisoned(_) => Err(Error::new(
                ErrorKind::Poisoned,
                "an earlier write or sync failed; open the ledger again to go on",
            )),
            Health::Fenced(why) => Err(fenced(why)),
            Health::Closed => {
                Err(Error::new(ErrorKind::Poisoned, "the log is closed; open it again to go on"))
            }
        }
    }

    /// Why a batch gets no place any more.
    pub(super) fn no_place(&self) -> Error {
        self.expect_good().err().unwrap_or_else(|| fenced(STOPPED))
    }

    /// What becomes of records that were to be made durable by a turn that failed.
    pub(super) fn refusal(&self, first: u64, last: u64) -> Error {
        self.outcome(first, last).unwrap_or_else(|| fenced(STOPPED))
    }

    /// What becomes of records that were not durable when the log stopped; `None` if it goes on.
    pub(super) fn outcome(&self, first: u64, last: u64) -> Option<Error> {
        match &self.health {
            Health::Good => None,
            Health::Poisoned(cause) => Some(unknown(cause, first, last)),
            Health::Fenced(_) | Health::Closed => {
                let error = self.expect_good().err()?;
                // What is in the file, or on its way, may be found there by whoever opens it next.
                let is_begun = first <= self.begun;
                let error = error.at_seq(first);
                Some(if is_begun { unknown(&error.to_string(), first, last) } else { error })
            }
        }
    }
}

impl Group {
    /// Stamp the frames for the write that starts now. There may be none.
    pub(super) fn stamp(&mut self) -> &[u8] {
        let mut rest = self.arena.bytes.as_mut_slice();
        let (mut seq, mut offset) = (self.first, self.offset);
        let seeds = Seeds::new(&self.header.segment);
        for size in &self.arena.sizes {
            let (frame, behind) = rest.split_at_mut(*size);
            // At most 4 MiB, or one batch, are in flight.
            let inflight = u32::try_from(seq - self.durable).unwrap_or(u32::MAX);
            let inflight = if bug!(InflightNotCounted) { 1 } else { inflight };
            stamp_frame(frame, inflight, &seeds.at(offset));
            (seq, offset) = (seq + 1, offset + to_u64(*size));
            rest = behind;
        }
        &self.arena.bytes
    }
}

pub(super) fn unknown(cause: &str, first: u64, last: u64) -> Error {
    let records = if first < last {
        format!("records {first} to {last} are")
    } else {
        format!("record {first} is")
    };
    let message =
        format!("{cause}; whether {records} durable is unknown; open the ledger again to find out");
    Error::new(ErrorKind::OutcomeUnknown, message).at_seq(first)
}

pub(super) fn fenced(why: &str) -> Error {
    Error::new(ErrorKind::Fenced, format!("lock lost: {why}; open the ledger again to go on"))
}

/// What HEAD says about a place.
pub(super) fn head_content(
    header: &SegmentHeader,
    tip: &Tip,
    epoch: u64,
    mode: HeadSync,
    state: HeadState,
) -> Head {
    Head {
        ledger: header.ledger,
        generation: 0,
        writer_epoch: epoch,
        mode,
        durable_seq: tip.ack.seq,
        ordinal: header.ordinal,
        segment: header.segment,
        data_end: tip.end,
        chain: tip.ack.chain,
        state,
    }
}

pub(super) fn low_bits(ordinal: u64) -> u32 {
    u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of a batch whose encoding ended in a panic nothing is left, wherever it ended, and
    /// what was pending before stays.
    #[test]
    fn half_a_batch_is_forgotten() {
        for frames in [0, 1] {
            let mut arena = Arena::default();
            arena.bytes.extend([1; 128]);
            arena.sizes.extend([64, 64]);
            arena.complete();
            // A frame and a half of a second, or half of a first one.
            arena.bytes.extend([2; 100]);
            arena.sizes.extend(std::iter::repeat_n(64, frames));
            arena.drop_halves();
            assert_eq!((&arena.bytes, &arena.sizes), (&vec![1; 128], &vec![64, 64]));
            arena.clear();
            arena.drop_halves();
            assert!(arena.bytes.is_empty() && arena.sizes.is_empty());
        }
    }
}
