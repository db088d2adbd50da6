//! Budgets and costs, as JSON and as text.

use plan_ledger::internals::plan::BudgetPart;
use plan_ledger::{Cost, Limits, PauseCause};

use crate::protocol::{count, counted};

use super::render::escape_control;

/// The pause of a run with its cause: `paused by ana`, `paused: its token budget is exhausted`.
pub(crate) fn paused_text(cause: &PauseCause) -> String {
    match cause {
        PauseCause::Person { by } => format!("paused by {}", escape_control(by)),
        PauseCause::RunBudget { part } => {
            format!("paused: its {} budget is exhausted", part_adjective(*part))
        }
        PauseCause::LedgerBudget { part } => {
            format!("paused: the ledger's {} budget is exhausted", part_adjective(*part))
        }
        PauseCause::StepLimit { step } => {
            format!("paused: an attempt of step #{step} cost more than allowed")
        }
        PauseCause::Runner { reason } => {
            format!("paused by its runner: {}", escape_control(reason))
        }
    }
}

/// Most of a part of a run's budget is spent.
pub(crate) fn budget_used_text(part: BudgetPart) -> String {
    format!("80 % of the run's {} budget is used", part_adjective(part))
}

fn part_adjective(part: BudgetPart) -> &'static str {
    match part {
        BudgetPart::Money => "money",
        BudgetPart::Tokens => "token",
        BudgetPart::Attempts => "attempt",
        BudgetPart::Wall => "wall-time",
    }
}

/// The limits of a budget.
pub(crate) fn limits_text(limits: Limits) -> String {
    let parts = [
        limits.money_micros.map(money_text),
        limits.tokens.map(|tokens| counted(tokens, "token")),
        limits.attempts.map(|attempts| counted(attempts, "attempt")),
        limits.wall_seconds.map(|wall| counted(wall, "second")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// Money, and tokens if there are any: `$1.05 and 7 tokens`.
pub(crate) fn cost_text(cost: Cost) -> String {
    let Cost { money_micros, tokens } = cost;
    let money = money_text(money_micros);
    if tokens == 0 { money } else { format!("{money} and {}", counted(tokens, "token")) }
}

/// Money with two to six decimals: `$1.50`, `$0.025`.
pub(crate) fn money_text(micros: u64) -> String {
    let decimals = format!("{:06}", micros % 1_000_000);
    let (cents, rest) = decimals.split_at(2);
    format!("${}.{cents}{}", count(micros / 1_000_000), rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_two_to_six_decimals() {
        let cost = |money_micros, tokens| cost_text(Cost { money_micros, tokens });
        assert_eq!(cost(0, 0), "$0.00");
        assert_eq!(cost(1_050_000, 7), "$1.05 and 7 tokens");
        assert_eq!(cost(25_000, 1), "$0.025 and 1 token");
        assert_eq!(cost(1_234_000_001, 0), "$1,234.000001");
    }
}
