//! Any bytes as a snapshot: as a header, as the body of a state, and as a delta body. No panic, no memory
//! over the limits; a decoded body encodes to a body of the same state.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::internals::format::SnapshotHeader;
use plan_ledger::{Projection, State};

fn check(data: &[u8]) {
    if let Ok(header) = SnapshotHeader::decode(data) {
        assert_eq!(SnapshotHeader::decode(&header.encode()), Ok(header));
    }
    if let Ok(state) = State::decode(&mut &*data) {
        written_is_read(&state, &State::default());
    }
    changed(data);
}

/// The first two bytes are the length of the base.
fn changed(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes(*length));
    let (base, mut changes) = rest.split_at(length.min(rest.len()));
    let base = || State::decode(&mut &*base).unwrap_or_default();
    if let Ok(state) = State::decode_changes(base(), &mut changes) {
        written_is_read(&state, &base());
    }
}

fn written_is_read(state: &State, base: &State) {
    let mut written = Vec::new();
    if state.encode_changes(base, &mut written).is_ok() {
        let again = State::decode_changes(base.clone(), &mut written.as_slice());
        assert_eq!(again.expect("what was just written").hash(), state.hash());
    }
    // Read the state.
    let _ = state.validate();
}

plan_ledger_fuzz::target!(check);
