//! Any bytes as a frame: no panic, and whatever is accepted encodes to the same bytes again.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::format::{
    Chain, ChainKey, CheckedFrame, NewRecord, Placement, SegmentHeader, encode_frame, looks_torn,
    peek_payload_length,
};

const HERE: Placement = Placement { segment: [7; 16], offset: 4096 };

fn check(data: &[u8]) {
    let _ = (SegmentHeader::decode(data), looks_torn(data, HERE), peek_payload_length(data));
    if let Ok(frame) = CheckedFrame::check(data, HERE, 3) {
        reencode(data, &frame);
    }
    // Most inputs fail the CRCs: take the bytes as a payload too, and check the way back.
    let record = NewRecord {
        kind: 1,
        codec: plan_ledger::format::Codec::Raw,
        schema: 1,
        payload: data.to_vec(),
    };
    let mut bytes = Vec::new();
    let stamp =
        plan_ledger::format::Stamp { seq: 1, time: 2, ordinal: 3, inflight: 1, batch_left: 0 };
    let key = ChainKey::new(&[9; 16]);
    encode_frame(&mut bytes, &record, stamp, HERE, &key, &Chain::GENESIS);
    let frame = CheckedFrame::check(&bytes, HERE, 3).expect("what was encoded decodes");
    let back = frame.verify(1, &key, &Chain::GENESIS).expect("the chain that was written");
    assert_eq!(back.payload, data);
}

fn reencode(data: &[u8], frame: &CheckedFrame<'_>) {
    let record = frame.trust();
    let header = record.header;
    let again = NewRecord {
        kind: header.kind,
        codec: header.codec,
        schema: header.schema,
        payload: record.payload.to_vec(),
    };
    let mut bytes = Vec::new();
    let key = ChainKey::new(&[9; 16]);
    encode_frame(&mut bytes, &again, header.stamp, HERE, &key, &Chain::GENESIS);
    // The chain depends on the record before, which is not at hand: compare what precedes it.
    assert_eq!(bytes.get(48..bytes.len() - 32), data.get(48..bytes.len() - 32));
}

plan_ledger_fuzz::target!(check);
