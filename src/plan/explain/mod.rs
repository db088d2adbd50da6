//! Explains why a step is blocked: the chain of its dependencies down to the root causes.
//!
//! Invariants:
//! - A step has no reasons if and only if it is ready or closed. It can be dispatched if it is
//!   ready and there is no reason of the run.
//! - Each step of the chain has one entry with all of its own reasons. A reason that names steps or
//!   a barrier adds entries for these steps. A dependency cycle ends the search.
//! - The explanation is a function of the state and of the caller's time.
//!
//! It does not suggest commands; the caller does.

mod context;
pub(crate) mod explanation;
mod limits;
pub(crate) mod reason;
mod step_reasons;
#[cfg(test)]
pub(super) mod tests;
pub(crate) mod text;

use std::collections::BTreeMap;

use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::value::ids::{RunId, StepNumber, Timestamp};
use context::Context;
use explanation::{Explanation, StepReasons};
use reason::BlockReason;

/// Explains why a step cannot be dispatched at that time.
///
/// # Errors
/// [`Rejection::NoSuchRun`] and [`Rejection::NoSuchStep`].
pub fn explain(
    state: &State,
    run: RunId,
    step: StepNumber,
    now: Timestamp,
) -> Result<Explanation, Rejection> {
    let run = state.runs.get(&run).ok_or(Rejection::NoSuchRun)?;
    run.step(step).ok_or(Rejection::NoSuchStep(step))?;
    let now = now.max(state.time);
    let context = Context { state, run, now };
    let mut steps = BTreeMap::new();
    let mut open = vec![step];
    while let Some(number) = open.pop() {
        let Some(found) = run.step(number).filter(|_| !steps.contains_key(&number)) else {
            continue;
        };
        let reasons = context.step_reasons(number, found);
        open.extend(reasons.iter().flat_map(BlockReason::leads_to));
        let (id, status) = (found.id().to_owned(), found.status);
        steps.insert(number, StepReasons { id, status, reasons });
    }
    let request = run.request.clone();
    Ok(Explanation {
        run: run.id,
        step,
        now,
        run_reasons: context.run_reasons(step),
        steps,
        request,
    })
}
