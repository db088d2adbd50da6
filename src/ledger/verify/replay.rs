//! Everything folded, up to the first damage, and the hash of the state wherever somebody says what
//! it was.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ErrorKind, Result};
use crate::log::{Finding, Item, LogReader, Proof, Tally};
use crate::plan::{ContentHash, State};

use super::super::hash::state_hash;
use super::super::replay::{fold_in, recorded};
use super::super::snapshots;
use super::at_record;

/// What folding came to.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// The hashes that were asked for, as far as folding came.
    pub(super) hashes: BTreeMap<u64, ContentHash>,
    /// The last record that was folded, and the hash of the state; none if it was asked to stop, or
    /// there is nothing to fold on.
    pub(super) state: Option<(u64, ContentHash)>,
    /// A record that is intact and means nothing, with which folding ended.
    pub(super) fault: Option<Finding>,
}

/// How many records are folded between two looks whether to stop.
const STEP: u64 = 1024;

/// Fold everything up to the first damage.
///
/// # Errors
/// `Io`.
pub(super) fn replay(
    reader: &LogReader,
    wanted: BTreeSet<u64>,
    tally: &Tally<'_>,
) -> Result<Replayed> {
    let mut replayed = Replayed::default();
    let Some(mut state) = ground(reader) else { return Ok(replayed) };
    let mut wanted = wanted.into_iter().peekable();
    let mut see = |state: &State, hashes: &mut BTreeMap<u64, ContentHash>| {
        while let Some(seq) = wanted.next_if(|seq| *seq <= state.seq) {
            // What came before the ground cannot be told any more.
            if seq == state.seq {
                hashes.insert(seq, state_hash(state));
            }
        }
    };
    see(&state, &mut replayed.hashes);
    let mut done = 0_u64;
    let mut walk = reader.walk(state.seq.saturating_add(1));
    while let Some(item) = walk.pass() {
        let record = match item? {
            Item::Record(record, Proof::Proven) => record,
            Item::Derived(_) => continue,
            // Damage was reported; behind it there is nothing to fold on.
            _ => break,
        };
        match recorded(&record) {
            Ok(recorded) => fold_in(&mut state, recorded),
            Err(error) => {
                // A newer program's record was found before.
                let is_news = error.kind() != ErrorKind::Unsupported;
                replayed.fault = is_news.then(|| at_record(reader, &record, error.to_string()));
                break;
            }
        }
        see(&state, &mut replayed.hashes);
        done = done.saturating_add(record.size);
        if record.seq.is_multiple_of(STEP) {
            tally.advance(std::mem::take(&mut done));
            if tally.is_stopped() {
                return Ok(replayed);
            }
        }
    }
    tally.advance(done);
    replayed.state = Some((state.seq, state_hash(&state)));
    Ok(replayed)
}

/// What folding begins with; `None` for a log that begins later without a state to go on from.
fn ground(reader: &LogReader) -> Option<State> {
    if reader.first_seq() == 1 {
        return Some(State::default());
    }
    // What is wrong with snapshots is reported by whoever checks them.
    Some(snapshots::ground(reader, u64::MAX).0?.0)
}
