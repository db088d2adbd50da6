//! The progress and the spending of a run, each in one line.

use std::fmt::Write as _;

use plan_ledger::{Cost, Limits, Run, StepStatus};

use super::amounts::{cost_text, count, counted, limits_text};

/// The progress of a run: `[####------] 37/145 accepted, 2 failed`.
#[must_use]
pub fn progress_text(run: &Run) -> String {
    let total: u64 = run.active_version().map_or(0, |version| version.step_count.into());
    let number = |status| u64::from(run.count(status));
    let accepted = number(StepStatus::Accepted);
    let closed = accepted + number(StepStatus::Skipped);
    let filled = (closed * BAR).checked_div(total).unwrap_or(0).min(BAR);
    let cells = |number: u64, cell: &str| cell.repeat(usize::try_from(number).unwrap_or(0));
    let bar = format!("[{}{}]", cells(filled, "#"), cells(BAR - filled, "-"));
    let others = [
        (StepStatus::Failed, "failed"),
        (StepStatus::Skipped, "skipped"),
        (StepStatus::Dispatched, "in flight"),
        (StepStatus::Reported, "waiting for verdicts"),
        (StepStatus::OutcomeUnknown, "outcome unknown"),
        (StepStatus::Gated, "waiting for an answer"),
        (StepStatus::Delayed, "delayed"),
        (StepStatus::Cancelled, "cancelled"),
        (StepStatus::Ready, "ready"),
        (StepStatus::Waiting, "waiting"),
    ];
    let others = others.into_iter().filter(|(status, _)| number(*status) > 0);
    let others = others.map(|(status, word)| format!("{} {word}", count(number(status))));
    let first = format!("{}/{} accepted", count(accepted), count(total));
    let parts: Vec<_> = std::iter::once(first).chain(others).collect();
    format!("{bar} {}", parts.join(", "))
}

const BAR: u64 = 30;

/// The spending of a run, and its limits.
#[must_use]
pub fn spent_text(run: &Run) -> String {
    let variables = u64::try_from(run.named_variables().len()).unwrap_or(u64::MAX);
    let cost = cost_text(run.spent());
    let mut text = format!("{}, cost {cost}", counted(variables, "variable"));
    let limits = run.limits();
    if limits != Limits::default() {
        let attempts = counted(run.account().attempts, "attempt");
        let _ = write!(text, " in {attempts}; it may spend {}", limits_text(limits));
    }
    if run.account().reserved != Cost::default() {
        let _ = write!(text, "; {} reserved", cost_text(run.account().reserved));
    }
    if run.account().estimated != Cost::default() {
        let _ = write!(text, "; {} of it estimated", cost_text(run.account().estimated));
    }
    text
}
