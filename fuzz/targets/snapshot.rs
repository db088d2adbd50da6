//! Any bytes as a snapshot: as a header, as the body of a state, and as a whole file that a
//! ledger finds. No panic, no memory beyond the limits; what decodes is written as it was read.
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
