//! Why a step is not dealt: the whole chain of what it waits for, down to the roots.
//!
//! Invariants:
//! - A step has no reason exactly if it may be dealt now, or its work is over.
//! - Every step that is reached stands in the answer once, with all of its own reasons; a reason
//!   that names steps or a barrier leads to their entries. Cycles end the walk, not the program.
//! - The answer is a function of the state and of the time that the caller gives.
//!
//! Left out on purpose: what to type to get on, which is the caller's language.

mod context;
pub(crate) mod explanation;
mod find;
mod limits;
pub(crate) mod reason;
#[cfg(test)]
pub(super) mod tests;
pub(crate) mod text;

use std::collections::BTreeMap;

use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::value::ids::{Micros, RunId, StepNumber};
use context::Asked;
use explanation::{Explanation, StepReasons};
use reason::Reason;

/// Why a step is not dealt at that time.
///
/// # Errors
/// [`Rejection::NoSuchRun`] and [`Rejection::NoSuchStep`].
pub fn explain(
    state: &State,
    run: RunId,
    step: StepNumber,
    now: Micros,
) -> Result<Explanation, Rejection> {
    let run = state.runs.get(&run).ok_or(Rejection::NoSuchRun)?;
    run.step(step).ok_or(Rejection::NoSuchStep(step))?;
    let now = now.max(state.time);
    let asked = Asked { state, run, now };
    let mut steps = BTreeMap::new();
    let mut open = vec![step];
    while let Some(number) = open.pop() {
        let Some(found) = run.step(number).filter(|_| !steps.contains_key(&number)) else {
            continue;
        };
        let reasons = asked.step(number, found);
        open.extend(reasons.iter().flat_map(Reason::leads_to));
        let (id, status) = (found.id().to_owned(), found.status);
        steps.insert(number, StepReasons { id, status, reasons });
    }
    let request = run.request.clone();
    Ok(Explanation { run: run.id, step, now, run_reasons: asked.whole(step), steps, request })
}
