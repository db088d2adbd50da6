//! The checks that a run takes on the word of its workers: the text criteria of steps in a run whose
//! policy trusts them.
//!
//! They are a function of the state, so that each report of a run can name them, even long after
//! the verdicts.

use crate::plan::event::run_event::TextPolicy;
use crate::plan::event::step_event::AcceptedBasis;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::criterion::Criterion;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::value::ids::StepNumber;

/// A text criterion that holds, or will hold, on the word of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCheck {
    pub step: StepNumber,
    /// The criterion's 0-based index in the list of the step.
    pub criterion: u32,
    /// The text of the criterion.
    pub text: String,
}

#[doc(hidden)]
impl Run {
    /// The checks of accepted steps that were taken on the worker's word.
    #[must_use]
    pub fn trusted_checks(&self) -> Vec<TrustedCheck> {
        let is_trusted = |number: StepNumber| {
            self.step(number)
                .is_some_and(|step| step.accepted() == Some(&AcceptedBasis::WorkersWord))
        };
        texts_of(self, is_trusted)
    }
}

#[doc(hidden)]
impl Run {
    /// The checks of the steps that are left which the run will take on the worker's word.
    #[must_use]
    pub fn checks_to_trust(&self) -> Vec<TrustedCheck> {
        if self.policy.text != TextPolicy::Trust {
            return Vec::new();
        }
        let is_left = |number: StepNumber| {
            let closed = [StepStatus::Accepted, StepStatus::Skipped, StepStatus::Failed];
            self.step(number).is_some_and(|step| !closed.contains(&step.status))
        };
        texts_of(self, is_left)
    }
}

fn texts_of(run: &Run, is_selected: impl Fn(StepNumber) -> bool) -> Vec<TrustedCheck> {
    let Some(version) = run.active_version() else { return Vec::new() };
    let numbers = version.numbers.iter().copied().filter(|number| is_selected(*number));
    let texts = numbers.flat_map(|step| {
        let criteria = run.plan_step(step).map(CompactStep::acceptance).unwrap_or_default();
        (0..).zip(criteria).filter_map(move |(criterion, each)| match each {
            Criterion::Text(text) => Some(TrustedCheck { step, criterion, text }),
            Criterion::Command(_) | Criterion::Cel(_) => None,
        })
    });
    texts.collect()
}
