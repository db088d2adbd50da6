//! The headers of new segments, and the statements of HEAD about a position in a segment.

use crate::format::{Chain, Head, HeadState, HeadSync, SegmentHeader, SegmentReason, Uid};
use crate::log::options::LogOptions;
use crate::log::record::Ack;

/// `writer_epoch` of a ledger that was created and never opened.
pub(crate) const CREATION_EPOCH: u64 = 0;

/// The header of the first segment of a new ledger.
pub(crate) fn first_header(options: &LogOptions, time: u64) -> SegmentHeader {
    let ledger = options.uids.next();
    SegmentHeader {
        ledger,
        segment: options.uids.next(),
        ordinal: 0,
        base_seq: 1,
        prev_chain: Chain::GENESIS,
        prev_segment: [0; 16],
        prev_data_end: 0,
        prev_last_seq: 0,
        writer_epoch: CREATION_EPOCH,
        created: time,
        prealloc_len: options.segments.size_for(0, 0),
        reason: SegmentReason::Create,
        born_last: 0,
        born_end: 0,
        genesis: ledger,
        ro_compat: 0,
    }
}

/// The header of a segment after a rotation, which continues a segment that ends with record `last`
/// at offset `end`.
pub(crate) fn next_header(
    previous: &SegmentHeader,
    segment: Uid,
    last: Ack,
    end: u64,
) -> SegmentHeader {
    SegmentHeader {
        segment,
        ordinal: previous.ordinal.saturating_add(1),
        base_seq: last.seq.saturating_add(1),
        prev_chain: last.chain,
        prev_segment: previous.segment,
        prev_data_end: end,
        prev_last_seq: last.seq,
        reason: SegmentReason::Rotate,
        born_last: 0,
        born_end: 0,
        ..previous.clone()
    }
}

/// The content of HEAD if the segment of `header` is durable up to record `last` at offset `end`.
/// The generation is set when it is written.
pub(crate) fn head_content(
    header: &SegmentHeader,
    epoch: u64,
    last: Ack,
    end: u64,
    mode: HeadSync,
    state: HeadState,
) -> Head {
    Head {
        ledger: header.ledger,
        generation: 0,
        writer_epoch: epoch,
        mode,
        durable_seq: last.seq,
        ordinal: header.ordinal,
        segment: header.segment,
        data_end: end,
        chain: last.chain,
        state,
        clock: None,
    }
}
