//! The body of snapshots of the state as they were before: version 2, which is only read.
//!
//! Invariants: what is read is the state that version 2 was of, with the hash that it had then.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::plan::{CompactPlan, ContentHash, PlanVersion, State};

use super::codec::{Values, write_state};
use super::hash::{hash_of_pieces, plan_hash};
use super::run_body::{self, VersionHead, expect_end, expect_plan, plan_of, version_of};
use super::state_body::read_all;
use super::state_values;

/// The hash that a state had: of all of it, the plans left out.
pub(super) fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_state(out, state))
}

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::of(&body);
    let mut state = state_values::decode(input)?;
    let mut last = None;
    for _ in 0..input.take::<u64>()? {
        let mut run = run_body::decode(input, |input| decode_version(input, &mut last))?;
        run.relink(&OnceLock::new());
        state.runs.insert(run.id, run);
    }
    expect_end(input)?;
    Ok(state)
}

/// A plan as it stands in a body: many runs have the same one, and it is made once.
struct PlanText<'a> {
    header: &'a str,
    steps: Vec<&'a str>,
    plan: Arc<CompactPlan>,
    hash: ContentHash,
}

fn decode_version<'a>(
    input: &mut Values<'a>,
    last: &mut Option<PlanText<'a>>,
) -> io::Result<PlanVersion> {
    let (head, header) = input.take::<(VersionHead, &str)>()?;
    let (step_hashes, steps): (Vec<ContentHash>, Vec<&str>) =
        input.take::<Vec<(ContentHash, &str)>>()?.into_iter().unzip();
    let is_last = |last: &PlanText<'_>| last.header == header && last.steps == steps;
    let text = if let Some(same) = last.take().filter(is_last) {
        same
    } else {
        let plan = plan_of(header, &steps)?;
        let hash = plan_hash(&plan);
        let plan = Arc::new(plan.into());
        PlanText { header, steps, plan, hash }
    };
    let text = last.insert(text);
    expect_plan(&head, text.steps.len(), text.hash)?;
    Ok(version_of(head, step_hashes, &text.plan, input.take()?))
}
