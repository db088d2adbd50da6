//! The body of snapshots of the state as they were before: version 2, which is only read.
//!
//! Invariants: what is read is the state that version 2 was of, with the hash that it had then.

use std::io;
use std::sync::Arc;

use crate::plan::{ContentHash, Plan, PlanVersion, State};

use super::codec::{take, write_state};
use super::hash::{hash_of_pieces, plan_hash};
use super::run_body::{self, VersionHead, expect_plan, plan_of, take_vec, version_of};
use super::state_body::{decode_state, expect_end};

/// So much is read at a time.
const PIECE: usize = 64 << 10;

/// The hash that a state had: of all of it, the plans left out.
pub(super) fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_state(out, state))
}

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let input = &mut io::BufReader::with_capacity(PIECE, input);
    let mut state = decode_state(input)?;
    let mut last = None;
    for _ in 0..take::<u64>(input)? {
        let mut run = run_body::decode(input, |input| decode_version(input, &mut last))?;
        run.relink(None);
        state.runs.insert(run.id, run);
    }
    expect_end(input)?;
    Ok(state)
}

/// A plan as it stands in a body: many runs have the same one, and it is made once.
struct PlanText {
    header: String,
    steps: Vec<String>,
    plan: Arc<Plan>,
    hash: ContentHash,
}

fn decode_version(
    input: &mut impl io::Read,
    last: &mut Option<PlanText>,
) -> io::Result<PlanVersion> {
    let head: VersionHead = take(input)?;
    let header = take::<String>(input)?;
    let (step_hashes, steps): (Vec<ContentHash>, Vec<String>) =
        take_vec::<(ContentHash, String)>(input)?.into_iter().unzip();
    let is_last = |last: &PlanText| last.header == header && last.steps == steps;
    let text = if let Some(same) = last.take().filter(is_last) {
        same
    } else {
        let plan = Arc::new(plan_of(&header, &steps)?);
        let hash = plan_hash(&plan);
        PlanText { header, steps, plan, hash }
    };
    let text = last.insert(text);
    expect_plan(&head, &text.plan, text.hash)?;
    Ok(version_of(head, step_hashes, &text.plan, take_vec(input)?))
}
