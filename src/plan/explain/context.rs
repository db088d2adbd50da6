//! TODO

use super::reason::Holder;
use crate::plan::state::State;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{Micros, StepNumber};

/// What is asked.
pub(crate) struct Asked<'a> {
    pub(super) state: &'a State,
    pub(super) run: &'a Run,
    pub(super) now: Micros,
}

/// Who has an attempt of a step.
pub(crate) fn holder(run: &Run, number: StepNumber) -> Option<Holder> {
    let step = run.step(number)?;
    let attempt = step.attempt()?;
    Some(Holder {
        run: run.id,
        step: number,
        id: step.id().to_owned(),
        token: attempt.token,
        worker: attempt.worker.clone(),
        lease_until: attempt.lease_until,
    })
}
