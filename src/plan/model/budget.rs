//! Costs, budgets and their limits.
//!
//! Money is counted in millionths of the currency unit. Arithmetic saturates.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fields::is_default;
use crate::plan::value::ids::Timestamp;

/// Limits of a budget; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl Limits {
    /// The end of the wall-time budget for a run that started at `started`.
    #[must_use]
    pub fn until(&self, started: Timestamp) -> Option<Timestamp> {
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

/// A dimension of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
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

impl BudgetPart {
    /// The part as an adjective: `its token budget`.
    #[must_use]
    pub fn adjective(self) -> &'static str {
        match self {
            Self::Money => "money",
            Self::Tokens => "token",
            Self::Attempts => "attempt",
            Self::Wall => "wall-time",
        }
    }
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
    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.saturating_add(other.money_micros),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    /// The minimum of each part.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.min(other.money_micros),
            tokens: self.tokens.min(other.tokens),
        }
    }

    /// The difference, saturating at zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            money_micros: self.money_micros.saturating_sub(other.money_micros),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }
}

/// The budget of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Money, in millionths of the currency unit.
    #[serde(skip_serializing_if = "is_default")]
    pub money_micros: Option<u64>,
    /// Tokens, in and out together.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens: Option<u64>,
    /// Attempts.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts: Option<u64>,
    /// Seconds of wall time.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_seconds: Option<u64>,
}

/// Cost of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// Money, in millionths of the currency unit.
    pub money_micros: u64,
    /// Tokens, in and out together.
    pub tokens: u64,
}
