//! Any bytes as the payload of any kind of record: no panic, no memory beyond the limit, and
//! folding whatever comes out never fails.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::State;
use plan_ledger::format::{Chain, Codec};
use plan_ledger::ledger::{Kind, decode};
use plan_ledger::log::LoggedRecord;

fn check(data: &[u8]) {
    let mut state = State::default();
    let mut rest = data;
    let mut seq = 0;
    while let [kind, length, tail @ ..] = rest {
        let length = usize::from(*length).min(tail.len());
        let (payload, after) = tail.split_at(length);
        rest = after;
        seq += 1;
        let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
        for codec in [Codec::Bincode, Codec::Json, Codec::Raw] {
            let record = LoggedRecord {
                seq,
                time: seq,
                kind: kind.number(),
                codec,
                schema: 1,
                batch_left: 0,
                payload: payload.to_vec(),
                chain: Chain::GENESIS,
                segment: 0,
                offset: 4096,
                size: 128,
            };
            if let Ok(Some(event)) = decode(&record) {
                state.apply(seq, seq, &event);
            }
        }
    }
}

plan_ledger_fuzz::target!(check);
