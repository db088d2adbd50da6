//! The body of snapshots of the state as it was before: version 3, which is only read.
//!
//! Invariants: what is read is the state that version 3 was of, with the same hash; runs and plans
//! are kept as version 4 has them.

use std::io;
use std::sync::Arc;

use crate::plan::{ContentHash, Glance, PackedPlan, PackedRun, RunId, State};

use super::codec::Values;
use super::packed::pack;
use super::run_body::{self, expect_end, invalid};
use super::state_body::read_all;
use super::state_values;

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::of(&body);
    let mut state = state_values::decode(input)?;
    let rows: Vec<(RunId, ContentHash, Glance)> = input.take()?;
    let mut plans = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let key = input.take()?;
        plans.push(Arc::new(PackedPlan::new(key, pack(input.take()?)?)));
    }
    for (id, hash, glance) in rows {
        let places: Vec<u32> = input.take()?;
        let plan = |place| plans.get(usize::try_from(place).ok()?).cloned();
        let plans: Option<Vec<_>> = places.into_iter().map(plan).collect();
        let plans = plans.ok_or_else(|| invalid("a plan that is not there"))?;
        let (bytes, unpack) = (pack(input.take()?)?, run_body::unpack);
        state.runs.insert_packed(id, PackedRun { glance, hash, bytes, plans, unpack }.into());
    }
    expect_end(input)?;
    Ok(state)
}
