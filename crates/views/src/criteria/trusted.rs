//! The checks that a run takes on the word of its workers, in text and in JSON.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::TrustedCheck;
use plan_ledger::{Run, StepNumber};

use crate::words::{StepName, counted};

/// How many checks a text names.
const SHOWN_MAX: usize = 5;

/// A check that is taken on the worker's word.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TrustedCheckJson {
    /// The criterion, from 0.
    criterion: u32,
    /// The number of the step.
    number: StepNumber,
    /// The id of the step.
    step: String,
    /// The text of the criterion.
    text: String,
}

impl TrustedCheckJson {
    /// A check of a step.
    #[must_use]
    pub fn of(step: &StepName, check: &TrustedCheck) -> Self {
        let TrustedCheck { step: number, criterion, text } = check;
        Self { criterion: *criterion, number: *number, step: step.id.clone(), text: text.clone() }
    }

    /// The checks of a run that were taken on the worker's word.
    #[must_use]
    pub fn of_run(run: &Run) -> Vec<Self> {
        let checks = run.trusted_checks();
        checks.iter().map(|check| Self::of(&StepName::of(run, check.step), check)).collect()
    }
}

/// The checks that a run will take on the worker's word, before it begins.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TrustsLine<'a> {
    /// The checks.
    checks: Vec<TrustedCheckJson>,
    /// The run.
    run: &'a str,
}

impl<'a> TrustsLine<'a> {
    /// The checks of the steps that are left, except the steps that `is_closed` names.
    #[must_use]
    pub fn of(run: &'a Run, is_closed: impl Fn(&str) -> bool) -> Self {
        let named =
            |check: TrustedCheck| TrustedCheckJson::of(&StepName::of(run, check.step), &check);
        let checks = run.checks_to_trust().into_iter().map(named);
        Self { checks: checks.filter(|check| !is_closed(&check.step)).collect(), run: &run.name }
    }

    /// The checks in one line; `None` if there are none.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let checks = listed(&self.checks)?;
        Some(format!("run {}: taken on the worker's word: {checks}", self.run))
    }
}

/// The checks of a run that were taken on the worker's word, in one line; `None` if there are none.
#[must_use]
pub fn trusted_text(run: &Run) -> Option<String> {
    let checks = listed(&TrustedCheckJson::of_run(run))?;
    Some(format!("taken on the worker's word: {checks}"))
}

/// The number of checks, and the first of them.
fn listed(checks: &[TrustedCheckJson]) -> Option<String> {
    if checks.is_empty() {
        return None;
    }
    let count = u64::try_from(checks.len()).unwrap_or(u64::MAX);
    let shown = checks.iter().take(SHOWN_MAX).map(|check| {
        let text = check.text.lines().next().unwrap_or_default();
        format!("#{} ({}): {text}", check.number, check.step)
    });
    let mut shown: Vec<String> = shown.collect();
    if let Some(rest) = checks.len().checked_sub(SHOWN_MAX).filter(|rest| *rest > 0) {
        shown.push(format!("and {rest} more"));
    }
    Some(format!("{}: {}", counted(count, "check"), shown.join("; ")))
}
