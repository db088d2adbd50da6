//! Short texts for tasks, receipts and replan requests, for the progress display.

use plan_ledger::{Outcome, Step};

/// The title of a step, or the first line of its goal.
pub(crate) fn title(step: &Step) -> String {
    [&step.title, &step.goal, step.command.as_ref().unwrap_or(&step.title)]
        .into_iter()
        .find_map(|text| text.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or_default()
        .to_owned()
}

/// The outcome of an attempt in one word, and the reason for a failure.
pub(crate) fn describe(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Succeeded => ("succeeded", String::new()),
        Outcome::Failed { message, .. } => ("failed", message.clone()),
        Outcome::ReplanRequested { reason, .. } => ("replan_requested", reason.clone()),
    }
}
