//! The execution state of a run as text, and the ticks of its finished steps.
//!
//! Invariant: the library computes the state ([`ExecutionState`]); this module only prints it.

use std::collections::BTreeMap;

use plan_ledger::plan::{ExecutionState, Remaining};
use plan_ledger::{Run, StepNumber, StepStatus};

use crate::commands::inspect::lookup::{name_and_title, numbered_steps};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::span;
use crate::output::render::Paint;
use crate::output::{Failure, escape_control, money_text};
use crate::protocol::counted;

/// Prints the execution state, one line for each member.
pub(crate) fn print_execution_state(
    run: &Run,
    state: &ExecutionState,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let ExecutionState { current, completed, pending, failed, retries_used, .. } = state;
    let ExecutionState { elapsed, budget_remaining, side_effects_committed, .. } = state;
    let retries = retries_used.iter().map(|(id, count)| format!("{}: {count}", escape_control(id)));
    let effects = side_effects_committed.keys().map(|key| escape_control(key));
    let mut lines = vec![
        ("current_step", listed(current)),
        ("completed", listed(completed)),
        ("pending", listed(pending)),
    ];
    if !failed.is_empty() {
        lines.push(("failed", listed(failed)));
    }
    lines.extend([
        ("retries_used", format!("{{{}}}", retries.collect::<Vec<_>>().join(", "))),
        ("elapsed", span(*elapsed)),
        ("budget_remaining", remaining_text(run, budget_remaining)),
        ("side_effects_committed", format!("[{}]", effects.collect::<Vec<_>>().join(", "))),
        ("plan_version", state.plan_version.to_string()),
    ]);
    lines.iter().try_for_each(|(name, text)| out.line(&format!("  {name}: {text}")))
}

fn listed(steps: &BTreeMap<StepNumber, String>) -> String {
    let ids = steps.values().map(|id| escape_control(id)).collect::<Vec<_>>();
    format!("[{}]", ids.join(", "))
}

/// The rest of each part of the budget with a limit: `$0.18 of $0.25`.
pub(crate) fn remaining_text(run: &Run, remaining: &Remaining) -> String {
    let limits = run.limits();
    let pair = |left: Option<u64>, limit: Option<u64>| Some((left?, limit?));
    let Remaining { money_micros, tokens, attempts, wall_seconds } = *remaining;
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

/// Prints a tick for each accepted step, and a dash for each skipped one, in step order.
pub(crate) fn print_finished(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    for (number, step) in numbered_steps(run) {
        let (paint, mark) = match step.status {
            StepStatus::Accepted => (Paint::Good, "\u{2713}"),
            StepStatus::Skipped => (Paint::Faint, "- skipped"),
            _ => continue,
        };
        let (name, title) = name_and_title(run, number);
        let what = if title.is_empty() { name } else { title };
        out.painted(paint, &format!("  {what} {mark}"))?;
    }
    Ok(())
}
