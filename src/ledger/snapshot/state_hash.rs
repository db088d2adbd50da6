//! The state hash: it covers the whole state, and each run through the run's own hash
//! (`format/snapshot.md`, section 3).

use std::io;

use crate::ledger::codec::hash::hash_of_pieces;
use crate::ledger::codec::values::put;
use crate::plan::{ContentHash, Run, State};

use super::run_body::{self, put_count, put_many};

/// Hash of a state. At each record the live state has the same hash as a fold from the start or
/// from any snapshot.
#[must_use]
pub fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_values(state, out))
}

pub(crate) fn run_hash(run: &Run) -> ContentHash {
    hash_of_pieces(|out| run_body::encode_covered(run, out).map(drop))
}

fn write_values(state: &State, out: &mut impl io::Write) -> io::Result<()> {
    let State { seq, time, runs, names, ended, summaries, caps, account, .. } = state;
    let State {
        in_flight,
        in_flight_by_owner,
        in_flight_by_tag,
        due,
        questions,
        dispatched,
        lost,
        ..
    } = state;
    put(out, &(seq, time, account))?;
    put_many(out, names)?;
    put_many(out, ended)?;
    put_many(out, summaries)?;
    put_many(out, caps)?;
    put_many(out, in_flight)?;
    put_many(out, in_flight_by_owner)?;
    put_many(out, in_flight_by_tag)?;
    put_many(out, due)?;
    put_many(out, questions)?;
    put_many(out, dispatched)?;
    put_many(out, lost)?;
    put_count(out, runs.len())?;
    let mut rows = runs.hashes(run_hash).zip(runs.overviews());
    rows.try_for_each(|((id, hash), (_, overview))| put(out, &(id, hash, overview)))
}
