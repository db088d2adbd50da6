//! Whether the work of a failed or lost attempt took effect.

use crate::plan::event::receipt::Outcome;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::Idempotence;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::StepNumber;

/// Whether the work of a failed attempt took effect, as far as is known.
pub(crate) fn disposition_of(run: &Run, number: StepNumber, attempt: &Attempt) -> Disposition {
    let receipt = attempt.receipt.as_ref();
    if let Some(disposition) = receipt.and_then(|receipt| receipt.disposition) {
        return disposition;
    }
    if !must_not_repeat(run, number) {
        return Disposition::DidNotHappen;
    }
    if receipt.is_some_and(|receipt| receipt.outcome == Outcome::Succeeded) {
        // A worker that reports success did the work, even if a criterion failed.
        return Disposition::Landed;
    }
    // Side effects in the receipt count for this attempt, even if another attempt announced them.
    let reported = receipt.into_iter().flat_map(|receipt| &receipt.side_effects);
    let keys = attempt.effects.iter().chain(reported);
    let mut own = keys.filter_map(|key| run.effects.get(key)).peekable();
    if own.peek().is_none() {
        Disposition::DidNotHappen
    } else if own.all(|effect| effect.committed != 0) {
        Disposition::Landed
    } else {
        Disposition::Unknown
    }
}

/// Whether a step must not be repeated.
pub(crate) fn must_not_repeat(run: &Run, number: StepNumber) -> bool {
    let step = run.plan().zip(run.plan_step(number));
    step.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No)
}

#[doc(hidden)]
impl Run {
    /// Whether the worker of a failed attempt reported that its work took effect.
    #[must_use]
    pub fn worker_reported_landed(&self, number: StepNumber) -> bool {
        let attempt = self.step(number).and_then(|step| step.attempt());
        attempt.is_some_and(|attempt| {
            attempt.receipt.is_some()
                && disposition_of(self, number, attempt) == Disposition::Landed
        })
    }
}

/// Whether the failed attempt of a step may have done work that must not be repeated, and waits for
/// a decision.
pub(crate) fn may_have_landed(run: &Run, number: StepNumber) -> bool {
    let step = run.step(number);
    step.and_then(|step| Some((step, step.attempt()?))).is_some_and(|(step, attempt)| {
        let is_open = match step.status {
            StepStatus::Gated => true,
            StepStatus::Reported => run.failure_of(number).is_some(),
            _ => false,
        };
        is_open
            && must_not_repeat(run, number)
            && disposition_of(run, number, attempt) != Disposition::DidNotHappen
    })
}
