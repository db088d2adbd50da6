//! The values that the hash of a state is taken over (`format/snapshot.md`, section 3).

use std::io;

use crate::plan::{ContentHash, Run, State};

use super::codec::put;
use super::hash::hash_of_pieces;
use super::run_body::{self, put_count, put_many};

/// Write the values.
pub(super) fn encode(state: &State, out: &mut impl io::Write) -> io::Result<()> {
    let State { seq, time, runs, names, ended, summaries, caps, account, .. } = state;
    let State { in_flight, in_flight_by_owner, in_flight_by_tag, due, questions, dealt, .. } =
        state;
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
    put_many(out, dealt)?;
    put_count(out, runs.len())?;
    let mut rows = runs.hashes(run_hash).zip(runs.glances());
    rows.try_for_each(|((id, hash), (_, glance))| put(out, &(id, hash, glance)))
}

/// The hash of a run.
pub(super) fn run_hash(run: &Run) -> ContentHash {
    hash_of_pieces(|out| run_body::encode(run, out))
}
