//! A fence: going on in a new segment that holds what survives of the old one's end, and a note.
//!
//! Invariants:
//! - Until it has its name nothing has changed; from then on the old end is logically dead, and
//!   stays.
//! - It is as large as it need be, and is written piece by piece: its size asks for no memory.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    Chain, ChainKey, HeadState, NewRecord, Placement, Reason, SegmentHeader, Stamp, encode_frame,
    frame_size,
};
use crate::storage::{Storage, StorageFile};

use super::batch::{Ack, to_u64};
use super::build::{BuildError, MayName, build_with, length, write};
use super::evidence::Tail;
use super::layout::{DATA_START, Layout};
use super::note::{RecoveryNote, Survivors};
use super::open::{damaged, open_segment};
use super::options::{SegmentSizes, UidSource};
use super::queue::{Active, Tip, low_bits};
use super::recovery::{Row, Verdict};
use super::scan::{Scan, Source};

/// How much is written at a time, or a frame if that is more.
const PIECE: usize = 1 << 20;

/// What a fence is made from.
pub(super) struct Fence<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) layout: &'a Layout,
    /// The segment that ends.
    pub(super) before: &'a SegmentHeader,
    pub(super) tail: &'a Tail,
    /// Why it ends.
    pub(super) row: &'a Row,
    pub(super) sizes: SegmentSizes,
    pub(super) may_name: MayName<'a>,
}

/// What the log goes on with.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) active: Active,
    pub(super) tip: Tip,
    pub(super) survivors: Option<Survivors>,
}

impl Fence<'_> {
    /// Make it. `state` is what HEAD said of itself, `time` is not before the last record's.
    pub(super) fn build(
        &self,
        uids: &UidSource,
        epoch: u64,
        state: Option<HeadState>,
        time: u64,
    ) -> Result<Fenced> {
        let (durable, whole) = (self.tail.durable_end, self.tail.whole_end);
        bug!(TornTailCut => open_segment(self.storage, self.layout, self.before)?.1
            .set_length(whole.offset).ok());
        let survivors = (durable.next_seq < whole.next_seq)
            .then(|| Survivors { first: durable.next_seq, last: whole.next_seq - 1 });
        let note = self.note(survivors).record();
        // The survivors take as much room as before; the note comes behind them.
        let size = whole.offset - durable.offset + to_u64(frame_size(note.payload.len()));
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
            prealloc_len: self.sizes.fitting(0, size),
            reason: match state {
                Some(HeadState::Poisoned) => Reason::FenceAfterIoError,
                _ => Reason::FenceAfterCrash,
            },
            born_last: whole.next_seq,
            born_end: DATA_START + size,
            ..self.before.clone()
        };
        let mut ack = Ack { seq: header.prev_last_seq, chain: header.prev_chain };
        let file = build_with(self.storage, self.layout, &header, self.may_name, |file, path| {
            let mut pieces = Pieces::new(&header, ack, file, path);
            self.rewrite_survivors(&mut pieces)?;
            pieces.push(&note, time, 0)?;
            ack = pieces.ack;
            pieces.flush()
        })
        .map_err(BuildError::into_error)?;
        let tip = Tip { ack, end: header.born_end, time };
        Ok(Fenced { active: Active { header, file: file.into() }, tip, survivors })
    }

    fn note(&self, survivors: Option<Survivors>) -> RecoveryNote {
        let verdict = match self.row.verdict {
            Verdict::Unproven => "unproven_tail",
            Verdict::Ambiguous => "ambiguous_forced",
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

    /// The survivors with the same seq, time and payload, and so the same chain.
    fn rewrite_survivors(&self, pieces: &mut Pieces<'_>) -> Result<()> {
        let (path, file) = open_segment(self.storage, self.layout, self.before)?;
        let mut scan = Scan::new(Source::windowed(file), self.before, self.before.prealloc_len);
        let mut at = self.tail.durable_end;
        while at.next_seq < self.tail.whole_end.next_seq {
            let found = scan
                .next(&mut at)
                .map_err(|error| Error::io("read a record", &path, error).at_offset(at.offset))?
                .map_err(|fault| damaged(&path, at.offset, at.next_seq, fault.describe()))?;
            let stamp = found.header.stamp;
            let record = NewRecord {
                kind: found.header.kind,
                codec: found.header.codec,
                schema: found.header.schema,
                payload: found.payload.to_vec(),
            };
            pieces.push(&record, stamp.time, stamp.batch_left)?;
        }
        Ok(())
    }
}

/// Frames one behind the other, written when a piece is full.
struct Pieces<'a> {
    header: &'a SegmentHeader,
    key: ChainKey,
    file: &'a dyn StorageFile,
    path: &'a Path,
    bytes: Vec<u8>,
    /// Where `bytes` goes.
    start: u64,
    ack: Ack,
}

impl<'a> Pieces<'a> {
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
        let offset = self.start + length(&self.bytes);
        let placement = Placement { segment: self.header.segment, offset };
        let previous = self.ack.chain;
        let chain = encode_frame(&mut self.bytes, record, stamp, placement, &self.key, &previous);
        self.ack = Ack { seq, chain };
        if self.bytes.len() >= PIECE {
            self.flush()?;
        }
        Ok(())
    }

    /// Write what is there; where it ends.
    fn flush(&mut self) -> Result<u64> {
        write(self.file, self.path, &self.bytes, self.start)?;
        self.start += length(&self.bytes);
        self.bytes.clear();
        Ok(self.start)
    }
}
