//! What was spent, what is reserved, and what may be spent: of a run, or of the whole ledger.
//!
//! Invariants:
//! - A reservation is made with the dispatch, in the same record, and gone with the receipt, which
//!   says what it really was. A lost attempt stays charged with its reservation, marked as
//!   estimated, until somebody knows better.
//! - What is spent is settled truly, also over a limit.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Budget, Cost, Micros};

/// The books of a run, or of the whole ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What may be spent, as the last record about it says; `None`: as the plan says.
    pub limits: Option<Limits>,
    /// What receipts said, and what lost attempts are charged with.
    pub spent: Cost,
    /// The part of `spent` that nobody vouched for: charged for lost attempts.
    pub estimated: Cost,
    /// What attempts in flight may still cost.
    pub reserved: Cost,
    /// Attempts that were dealt.
    pub attempts: u64,
}

/// What may be spent, as a record holds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Money, in millionths of the currency unit.
    pub money_micros: Option<u64>,
    /// Tokens, in and out together.
    pub tokens: Option<u64>,
    /// Attempts.
    pub attempts: Option<u64>,
    /// Seconds of wall time since the start.
    pub wall_seconds: Option<u64>,
}

impl Account {
    /// The part of which more was spent than may be, if any.
    #[must_use]
    pub fn overrun(&self, limits: &Limits) -> Option<BudgetPart> {
        let over = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent > limit);
        if over(limits.money_micros, self.spent.money_micros) {
            Some(BudgetPart::Money)
        } else if over(limits.tokens, self.spent.tokens) {
            Some(BudgetPart::Tokens)
        } else {
            None
        }
    }
}

impl Limits {
    /// Until when a run that started then may go on.
    #[must_use]
    pub fn until(&self, started: Micros) -> Option<Micros> {
        let seconds = self.wall_seconds?;
        Some(started.saturating_add(seconds.saturating_mul(1_000_000)))
    }
}

impl From<Budget> for Limits {
    fn from(budget: Budget) -> Self {
        let Budget { money_micros, tokens, attempts, wall_seconds } = budget;
        Self { money_micros, tokens, attempts, wall_seconds }
    }
}

/// A part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BudgetPart {
    /// Money, in millionths of the currency unit.
    Money,
    /// Tokens.
    Tokens,
    /// Attempts.
    Attempts,
    /// Wall time, in seconds.
    Wall,
}

impl fmt::Display for BudgetPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Money => "money",
            Self::Tokens => "tokens",
            Self::Attempts => "attempts",
            Self::Wall => "wall time",
        })
    }
}

impl Cost {
    /// The sum, at most as much as can be counted.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.saturating_add(other.money_micros),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    /// The smaller of both, part by part.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.min(other.money_micros),
            tokens: self.tokens.min(other.tokens),
        }
    }

    /// The difference, at least nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.saturating_sub(other.money_micros),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }
}
