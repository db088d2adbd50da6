//! Warnings for a person, and how much of a budget is used.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::Run;
use plan_ledger::plan::{BudgetPart, Micros, Warning};

use super::amounts::{counted, money_text};
use super::step_name::StepName;

/// A warning in one line.
#[must_use]
pub fn warning_text(run: &Run, warning: &Warning) -> String {
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
            let name = StepName::of(run, *step);
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

/// How an attempt compares with the estimate of its step.
#[must_use]
pub fn slow_text(elapsed: Micros, estimate_seconds: u32) -> String {
    let seconds = elapsed / 1_000_000;
    format!("takes {seconds} s so far, at least twice its estimate of {estimate_seconds} s")
}

/// A part of a run's budget that is mostly used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BudgetUse {
    /// The part.
    pub part: BudgetPart,
    /// How much of it is used, in percent: more than 100 after an overrun. Rounded down, and an overrun up.
    pub percent: u64,
}

impl BudgetUse {
    /// The used part of a limit.
    #[must_use]
    pub fn of(part: BudgetPart, used: u64, limit: u64) -> Self {
        let (hundredfold, whole) = (u128::from(used) * 100, u128::from(limit.max(1)));
        let percent = match (used, limit) {
            (0, 0) => 100,
            _ if used > limit => hundredfold.div_ceil(whole),
            _ => hundredfold / whole,
        };
        Self { part, percent: u64::try_from(percent).unwrap_or(u64::MAX) }
    }

    /// Whether more than the limit is used.
    #[must_use]
    pub fn is_overrun(self) -> bool {
        self.percent > 100
    }
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, percent } = self;
        let part = part.adjective();
        if self.is_overrun() {
            return write!(f, "the run's {part} budget is overrun: {percent} % is used");
        }
        write!(f, "{percent} % of the run's {part} budget is used")
    }
}
