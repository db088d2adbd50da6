//! The execution state of a run: its steps by progress, its retries, time, remaining budget and side
//! effects; and the ticks of its finished steps.

use std::collections::BTreeMap;

use plan_ledger::plan::{ExecutionState, Remaining};
use plan_ledger::{Limits, Run, RunId, StepNumber, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint};
use crate::words::{counted, money_text, span, step_name, step_title};

/// The execution state of a run: its steps by progress, and the used budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ExecutionStateLine {
    /// The time since its start, until its end, as people read it.
    elapsed: String,
    /// The run.
    run: RunId,
    #[serde(flatten)]
    state: ExecutionState,
    #[serde(skip)]
    limits: Limits,
}

impl ExecutionStateLine {
    /// The execution state of a run at that time.
    #[must_use]
    pub fn of(run: &Run, now: Timestamp) -> Self {
        let state = run.execution_state(now);
        Self { elapsed: span(state.elapsed), run: run.id, state, limits: run.limits() }
    }

    /// Its document: a line for each member.
    #[must_use]
    pub fn document(&self) -> Document {
        let Self { elapsed, state, limits, .. } = self;
        let ExecutionState { current, completed, pending, failed, retries_used, .. } = state;
        let retries = retries_used.iter().map(|(id, count)| format!("{id}: {count}"));
        let retries: Vec<String> = retries.collect();
        let effects: Vec<&str> = state.side_effects_committed.keys().map(String::as_str).collect();
        let mut lines = vec![
            ("current_step", listed(current)),
            ("completed", listed(completed)),
            ("pending", listed(pending)),
        ];
        if !failed.is_empty() {
            lines.push(("failed", listed(failed)));
        }
        lines.extend([
            ("retries_used", format!("{{{}}}", retries.join(", "))),
            ("elapsed", elapsed.clone()),
            ("budget_remaining", remaining_text(*limits, state.budget_remaining)),
            ("side_effects_committed", format!("[{}]", effects.join(", "))),
            ("plan_version", state.plan_version.to_string()),
        ]);
        let mut document = Document::default();
        for (name, text) in lines {
            document.indented(2, format!("{name}: {text}"));
        }
        document
    }
}

fn listed(steps: &BTreeMap<StepNumber, String>) -> String {
    let ids: Vec<&str> = steps.values().map(String::as_str).collect();
    format!("[{}]", ids.join(", "))
}

/// The rest of each part of the budget with a limit: `$0.18 of $0.25`.
pub(super) fn remaining_text(limits: Limits, remaining: Remaining) -> String {
    let pair = |left: Option<u64>, limit: Option<u64>| Some((left?, limit?));
    let Remaining { money_micros, tokens, attempts, wall_seconds } = remaining;
    let number =
        |what: &str, (left, limit): (u64, u64)| format!("{left} of {}", counted(limit, what));
    let parts = [
        pair(money_micros, limits.money_micros)
            .map(|(left, limit)| format!("{} of {}", money_text(left), money_text(limit))),
        pair(tokens, limits.tokens).map(|part| number("token", part)),
        pair(attempts, limits.attempts).map(|part| number("attempt", part)),
        pair(wall_seconds, limits.wall_seconds).map(|part| number("second", part)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// A tick for each accepted step, and a dash for each skipped one, in step order.
#[must_use]
pub fn finished_steps(run: &Run) -> Document {
    let mut document = Document::default();
    for (number, step) in run.numbered_steps() {
        let (paint, mark) = match step.status {
            StepStatus::Accepted => (Paint::Good, "\u{2713}"),
            StepStatus::Skipped => (Paint::Faint, "- skipped"),
            _ => continue,
        };
        let title = step_title(run, number);
        let what = if title.is_empty() { step_name(run, number) } else { title };
        document.indented(2, (paint, format!("{what} {mark}")));
    }
    document
}
