//! The inputs of an explanation, shared by the files that look for reasons.

use super::reason::BlockingAttempt;
use crate::plan::state::State;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{StepNumber, Timestamp};

/// The state to explain, a run in it, and the time.
pub(crate) struct Context<'a> {
    pub(super) state: &'a State,
    pub(super) run: &'a Run,
    pub(super) now: Timestamp,
}

/// The current attempt of a step.
pub(crate) fn active_attempt(run: &Run, number: StepNumber) -> Option<BlockingAttempt> {
    let step = run.step(number)?;
    let attempt = step.attempt()?;
    Some(BlockingAttempt {
        run: run.id,
        step: number,
        id: step.id().to_owned(),
        token: attempt.token,
        worker: attempt.worker.clone(),
        second_owner: attempt.second_owner.clone(),
        lease_until: attempt.lease_until,
    })
}
