//! The frames of a slot or of a segment object, verified one after the other.

use crate::format::{
    Chain, ChainKey, CheckedHeader, FrameFault, Record, SegmentHeader, SegmentSeed, Uid, to_u64,
};
use crate::log::{KIND_WRITER_NOTE, WriterNote};

use super::header::{DATA_START, SlotFault};

/// A position between two frames of a segment, and the known facts about the earlier records.
#[derive(Debug, Clone)]
pub(in crate::store) struct FrameWalk {
    /// The sequence number of the next record.
    pub(in crate::store) next_seq: u64,
    /// Chain value of the record before.
    pub(in crate::store) chain: Chain,
    /// Time of the record before.
    pub(in crate::store) time: u64,
    /// Offset of the next frame in the segment.
    pub(in crate::store) offset: u64,
    /// The last writer note, and its sequence number.
    pub(in crate::store) note: Option<(u64, WriterNote)>,
}

impl FrameWalk {
    /// A position with only these facts known.
    pub(in crate::store) fn at(next_seq: u64, chain: Chain, offset: u64) -> Self {
        Self { next_seq, chain, time: 0, offset, note: None }
    }

    /// Before the first frame of a segment.
    pub(in crate::store) fn at_start(header: &SegmentHeader) -> Self {
        Self::at(header.base_seq, header.prev_chain, DATA_START)
    }

    /// Whether the last record opens this epoch for this process.
    pub(in crate::store) fn opens(&self, epoch: u64, node: &Uid) -> bool {
        let last = self.note.as_ref().filter(|(seq, _)| seq.checked_add(1) == Some(self.next_seq));
        last.is_some_and(|(_, note)| note.opens(epoch, node))
    }
}

/// Verify frames up to the end of the bytes, or up to record `until`, and pass each record to `take`.
/// They begin at the position `walk`, and end with a complete batch.
pub(in crate::store) fn walk_frames(
    frames: &[u8],
    segment: &SegmentHeader,
    mut walk: FrameWalk,
    until: u64,
    take: &mut dyn FnMut(&Record<'_>),
) -> Result<FrameWalk, SlotFault> {
    let key = ChainKey::new(&segment.genesis);
    let seeds = SegmentSeed::new(&segment.segment);
    let (mut rest, mut batch_left) = (frames, None);
    while !rest.is_empty() && walk.next_seq <= until {
        let seq = walk.next_seq;
        let bad = |fault| SlotFault::Frame(seq, fault);
        let seed = seeds.at(walk.offset);
        let checked = CheckedHeader::check(rest, &seed).map_err(bad)?;
        let frame = checked.frame(rest, &seed, segment.ordinal).map_err(bad)?;
        let record = frame.verify(seq, &key, &walk.chain).map_err(bad)?;
        let header = &record.header;
        let inflight = u64::from(header.stamp.inflight);
        let left = header.stamp.batch_left;
        let is_next_in_batch = match batch_left {
            None | Some(0) => true,
            Some(before) => before == left + 1,
        };
        let is_note = header.kind == KIND_WRITER_NOTE;
        let note = WriterNote::from_record(header, record.payload);
        let is_valid = header.kind != 0
            && header.schema != 0
            && header.stamp.time >= walk.time
            && (1..=seq).contains(&inflight)
            && is_next_in_batch
            && is_note == note.is_some()
            && !(is_note && batch_left.is_some_and(|before| before > 0));
        if !is_valid {
            return Err(bad(FrameFault::Malformed));
        }
        if is_note && walk.offset != DATA_START {
            return Err(SlotFault::Place("a writer note is not the first record of it"));
        }
        take(&record);
        batch_left = Some(left);
        walk.note = note.map(|note| (seq, note)).or(walk.note);
        (walk.chain, walk.time) = (record.chain, header.stamp.time);
        walk.next_seq = seq.checked_add(1).ok_or(bad(FrameFault::Seq))?;
        walk.offset += to_u64(frame.size());
        rest = rest.get(frame.size()..).unwrap_or_default();
    }
    match batch_left {
        Some(left) if left > 0 => Err(SlotFault::Frame(walk.next_seq, FrameFault::Truncated)),
        _ => Ok(walk),
    }
}
