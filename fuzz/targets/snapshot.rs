//! Any bytes as a snapshot: as a header, and as the body of a state. No panic, no memory beyond the
//! limits; a body that decodes is written as one of the same state.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::format::SnapshotHeader;
use plan_ledger::{Projection, State};

fn check(data: &[u8]) {
    if let Ok(header) = SnapshotHeader::decode(data) {
        assert_eq!(SnapshotHeader::decode(&header.encode()), Ok(header));
    }
    let mut rest = data;
    if let Ok(state) = State::decode(&mut rest) {
        let mut written = Vec::new();
        if state.encode(&mut written).is_ok() {
            let again = State::decode(&mut written.as_slice()).expect("what was just written");
            assert_eq!(again.hash(), state.hash());
        }
    }
}

plan_ledger_fuzz::target!(check);
