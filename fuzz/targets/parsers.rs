//! Differential test of two frame readers: the library and an independent slow one. On any bytes, and on
//! written frames that were changed, with or without corrected checksums, both find the same records
//! and stop at the same offset for the same class of reason. Encoded records decode.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::internals::format::{
    Chain, ChainKey, CheckedFrame, Codec, FrameFault, NewRecord, Placement, Stamp, encode_frame,
    looks_torn, peek_payload_length,
};
use plan_ledger_fuzz::Fields;
use plan_ledger_fuzz::slow::{
    SlowEnd, SlowRecord, SlowStart, crc, detached, frame_length, read, seed,
};

const START: SlowStart =
    SlowStart { segment: [7; 16], ordinal: 3, genesis: [9; 16], seq: 1, chain: [0; 32] };
const DATA_START: u64 = 4096;

fn check(data: &[u8]) {
    let bytes = match data.split_first() {
        Some((0xFF, rest)) => written(&mut Fields(rest)),
        _ => data.to_vec(),
    };
    let fast = library(&bytes);
    assert_eq!(fast, read(&bytes, START));
}

/// The result of the library.
fn library(bytes: &[u8]) -> (Vec<SlowRecord>, usize, SlowEnd) {
    let key = ChainKey::new(&START.genesis);
    let (mut records, mut at, mut before) = (Vec::new(), 0, Chain(START.chain));
    loop {
        let offset = DATA_START + u64::try_from(at).expect("a length");
        let placement = Placement { segment: START.segment, offset };
        let rest = bytes.get(at..).unwrap_or_default();
        let _ = (looks_torn(rest, placement), peek_payload_length(rest));
        let seq = START.seq + u64::try_from(records.len()).expect("a count");
        let frame = CheckedFrame::check(rest, placement, START.ordinal);
        match frame.and_then(|frame| frame.verify(seq, &key, &before)) {
            Ok(record) => {
                let stamp = record.header.stamp;
                records.push(SlowRecord {
                    seq: stamp.seq,
                    time: stamp.time,
                    kind: record.header.kind,
                    batch_left: stamp.batch_left,
                    payload: record.payload.to_vec(),
                    chain: record.chain.0,
                });
                at += frame_length(record.payload.len());
                before = record.chain;
            }
            Err(FrameFault::Empty) => return (records, at, SlowEnd::Zeros),
            Err(fault) if fault.is_intact() => return (records, at, SlowEnd::Broken),
            Err(_) => return (records, at, SlowEnd::NotHeld),
        }
    }
}

/// Frames that the library wrote and the input changed.
fn written(fields: &mut Fields<'_>) -> Vec<u8> {
    let key = ChainKey::new(&START.genesis);
    let (mut bytes, mut before, mut starts) = (Vec::new(), Chain(START.chain), Vec::new());
    for number in 0..u64::from(fields.u8() % 6) {
        // Mostly the next number, sometimes another one.
        let seq = START.seq + number + u64::from(fields.u8() == 0xFF);
        let mut record = NewRecord {
            kind: fields.u16(),
            codec: fields.pick(&[Codec::Bincode, Codec::Json, Codec::Raw, Codec::Detached]),
            schema: fields.u16(),
            payload: {
                let count = usize::from(fields.u8());
                fields.bytes(count)
            },
        };
        // Mostly as the codec says, and sometimes any bytes.
        if record.codec == Codec::Detached && fields.u8() != 0xFF {
            let count = fields.u8() % 3;
            let value = |_| {
                (fields.u8(), {
                    let count = usize::from(fields.u8() % 40);
                    fields.bytes(count)
                })
            };
            let values: Vec<(u8, Vec<u8>)> = (0..count).map(value).collect();
            record.payload = detached(record.payload, &values);
        }
        let time = u64::from(fields.u8());
        let stamp = Stamp { seq, time, ordinal: 3, inflight: 1, batch_left: fields.u8().into() };
        let offset = DATA_START + u64::try_from(bytes.len()).expect("a length");
        let placement = Placement { segment: START.segment, offset };
        starts.push(bytes.len());
        let start = bytes.len();
        before = encode_frame(&mut bytes, &record, stamp, placement, &key, &before);
        let frame = CheckedFrame::check(&bytes[start..], placement, START.ordinal);
        assert_eq!(frame.expect("what was encoded decodes").trust().payload, record.payload);
    }
    for _ in 0..fields.u8() % 4 {
        if bytes.is_empty() {
            break;
        }
        let place = usize::from(fields.u16()) % bytes.len();
        bytes[place] ^= fields.u8();
        if fields.u8() % 2 == 0 {
            mend(&mut bytes, &starts, place);
        }
    }
    bytes.resize(bytes.len() + 64 * usize::from(fields.u8() % 3), 0);
    bytes.truncate(bytes.len() - usize::from(fields.u8() % 96).min(bytes.len()));
    bytes
}

/// Correct the checksums of the frame at an offset, as an attacker would.
fn mend(bytes: &mut [u8], starts: &[usize], place: usize) {
    let Some(start) = starts.iter().copied().rfind(|start| *start <= place) else { return };
    let end = starts.iter().copied().find(|next| *next > place).unwrap_or(bytes.len());
    let seed = seed(START.segment, DATA_START + u64::try_from(start).expect("a length"));
    let body = crc(seed, &bytes[start + 48..end]);
    bytes[start + 40..start + 44].copy_from_slice(&body.to_le_bytes());
    let head = crc(seed, &bytes[start..start + 44]);
    bytes[start + 44..start + 48].copy_from_slice(&head.to_le_bytes());
}

plan_ledger_fuzz::target!(check);
