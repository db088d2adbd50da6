//! Short texts for tasks, receipts and replan requests, for the progress display.

use serde_json::{Value, json};

use plan_ledger::ledger::Task;
use plan_ledger::plan::{Outcome, ReplanTrigger};

/// The title of a step, or the first line of its goal.
pub(crate) fn title(task: &Task) -> String {
    let step = &task.step;
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
        Outcome::ReplanRequested { reason } => ("replan_requested", reason.clone()),
    }
}

/// The trigger of a replan request as JSON.
pub(crate) fn trigger_json(trigger: &ReplanTrigger) -> Value {
    match trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            json!({ "is": "precondition_false", "step": step, "precondition": precondition })
        }
        ReplanTrigger::AssumptionBroken { token } => {
            json!({ "is": "assumption_broken", "token": token })
        }
        ReplanTrigger::RetriesExhausted { token } => {
            json!({ "is": "retries_exhausted", "token": token })
        }
        ReplanTrigger::ExecutorRequest { token } => {
            json!({ "is": "executor_request", "token": token })
        }
        ReplanTrigger::BudgetExhausted => json!({ "is": "budget_exhausted" }),
        ReplanTrigger::ScopeChange { by } => json!({ "is": "scope_change", "by": by }),
        ReplanTrigger::NewEvidence { by } => json!({ "is": "new_evidence", "by": by }),
        ReplanTrigger::Extension => json!({ "is": "extension" }),
        ReplanTrigger::Failure { token } => json!({ "is": "failure", "token": token }),
    }
}
