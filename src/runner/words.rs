//! Tasks and receipts in a few words, for whoever watches a loop.

use crate::ledger::Task;
use crate::plan::Outcome;

/// A step's title, or the first line of what it does.
pub(crate) fn title(task: &Task) -> String {
    let step = &task.step;
    [&step.title, &step.goal, step.command.as_ref().unwrap_or(&step.title)]
        .into_iter()
        .find_map(|text| text.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or_default()
        .to_owned()
}

/// How an attempt went, in a word, and why it failed.
pub(crate) fn describe(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Succeeded => ("succeeded", String::new()),
        Outcome::Failed { message, .. } => ("failed", message.clone()),
        Outcome::ReplanRequested { reason } => ("replan_requested", reason.clone()),
    }
}
