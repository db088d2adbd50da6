//! Budgets and costs, as JSON and as text.

use serde_json::{Value, json};

use plan_ledger::plan::{BudgetPart, Cost, Limits, PauseCause};

use crate::protocol::{count, counted};

use super::escape::escape_control;

/// Why a run is paused, as `format/inspect-json.md` describes it.
pub(crate) fn pause_cause_json(cause: &PauseCause) -> Value {
    match cause {
        PauseCause::Person(by) => json!({ "is": "person", "by": by }),
        PauseCause::RunBudget(part) => json!({ "is": "run_budget", "part": part_name(*part) }),
        PauseCause::LedgerBudget(part) => {
            json!({ "is": "ledger_budget", "part": part_name(*part) })
        }
        PauseCause::StepLimit(step) => json!({ "is": "step_limit", "step": step }),
    }
}

/// That a run is paused, and why: `paused by ana`, `paused: its token budget is exhausted`.
pub(crate) fn paused_text(cause: &PauseCause) -> String {
    match cause {
        PauseCause::Person(by) => format!("paused by {}", escape_control(by)),
        PauseCause::RunBudget(part) => {
            format!("paused: its {} budget is exhausted", part_adjective(*part))
        }
        PauseCause::LedgerBudget(part) => {
            format!("paused: the ledger's {} budget is exhausted", part_adjective(*part))
        }
        PauseCause::StepLimit(step) => {
            format!("paused: an attempt of step #{step} cost more than allowed")
        }
    }
}

fn part_adjective(part: BudgetPart) -> &'static str {
    match part {
        BudgetPart::Money => "money",
        BudgetPart::Tokens => "token",
        BudgetPart::Attempts => "attempt",
        BudgetPart::Wall => "wall-time",
    }
}

fn part_name(part: BudgetPart) -> &'static str {
    match part {
        BudgetPart::Money => "money",
        BudgetPart::Tokens => "tokens",
        BudgetPart::Attempts => "attempts",
        BudgetPart::Wall => "wall",
    }
}

/// The limits of a budget; null is no limit.
pub(crate) fn limits_json(limits: Limits) -> Value {
    let Limits { money_micros, tokens, attempts, wall_seconds } = limits;
    json!({
        "money_micros": money_micros, "tokens": tokens, "attempts": attempts,
        "wall_seconds": wall_seconds,
    })
}

/// The limits of a budget.
pub(crate) fn limits_text(limits: Limits) -> String {
    let parts = [
        limits.money_micros.map(|micros| format!("{} micros", count(micros))),
        limits.tokens.map(|tokens| counted(tokens, "token")),
        limits.attempts.map(|attempts| counted(attempts, "attempt")),
        limits.wall_seconds.map(|wall| counted(wall, "second")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// Money and tokens. Money has no currency here.
pub(crate) fn cost_text(cost: Cost) -> String {
    let Cost { money_micros, tokens } = cost;
    let money = format!("{}.{:06}", money_micros / 1_000_000, money_micros % 1_000_000);
    format!("{money} and {}", counted(tokens, "token"))
}
