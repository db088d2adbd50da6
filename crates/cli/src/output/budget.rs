//! Budgets, costs and warnings as text.

use plan_ledger::Run;
use plan_ledger::plan::{BudgetPart, Micros, PauseCause, Warning};

use crate::protocol::{BudgetUse, StepName, counted, slow_text};

use super::render::escape_control;

/// The pause of a run with its cause: `paused by ana`, `paused: its token budget is exhausted`.
pub(crate) fn paused_text(cause: &PauseCause) -> String {
    escape_control(&plan_ledger_views::paused_text(cause))
}

pub(crate) use plan_ledger_views::{cost_text, limits_text, money_text};

/// A warning in one line.
pub(crate) fn warning_text(run: &Run, warning: &Warning) -> String {
    match warning {
        Warning::BudgetUsed { part, used, limit } => {
            let amount = |number: u64| match part {
                BudgetPart::Money => money_text(number),
                BudgetPart::Tokens => counted(number, "token"),
                BudgetPart::Attempts => counted(number, "attempt"),
                BudgetPart::Wall => format!("{number} s"),
            };
            if used > limit {
                let over = amount(used.saturating_sub(*limit));
                return format!(
                    "the run's {} budget is overrun by {over}: {} of {}",
                    part.adjective(),
                    amount(*used),
                    amount(*limit)
                );
            }
            let share = BudgetUse::of(*part, *used, *limit);
            format!("{share}: {} of {}", amount(*used), amount(*limit))
        }
        Warning::SlowStep { step, elapsed, estimate_seconds } => {
            let name = escape_control(&StepName::of(run, *step).to_string());
            format!("{name} {}", slow_text(*elapsed, *estimate_seconds))
        }
        Warning::Stalled { elapsed, ready, in_flight } => {
            let time = rough_time(*elapsed);
            let ready = counted((*ready).into(), "step");
            let flights = counted((*in_flight).into(), "attempt");
            format!("stalled: nothing has begun for {time}; {ready} ready, {flights} in flight")
        }
    }
}

/// A time that is long, in one unit.
fn rough_time(elapsed: Micros) -> String {
    match elapsed / 60_000_000 {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes @ 120..2_880 => format!("{} h", minutes / 60),
        minutes => format!("{} days", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use plan_ledger::Cost;

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
