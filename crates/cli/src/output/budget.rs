//! Budgets and pauses as text.

use plan_ledger::plan::PauseCause;

use super::render::escape_control;

/// The pause of a run with its cause: `paused by ana`, `paused: its token budget is exhausted`.
pub(crate) fn paused_text(cause: &PauseCause) -> String {
    escape_control(&plan_ledger_views::paused_text(cause))
}

pub(crate) use plan_ledger_views::{cost_text, money_text};
