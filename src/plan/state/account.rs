//! The account of a run or of the whole ledger: what was spent, what is reserved, and the limits.
//!
//! Invariants:
//! - A dispatch reserves its cost in the same record. The receipt releases the reservation and
//!   charges the actual cost. A lost attempt stays charged with its reservation, marked as
//!   estimated, until its cost is corrected.
//! - The actual cost is always charged, even if it exceeds a limit.

use serde::{Deserialize, Serialize};

use crate::plan::model::budget::{BudgetPart, Cost, Limits};

/// Spending, reservations and limits of a run or of the whole ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// The limits set by the last budget record; `None` uses the plan's budget.
    pub limits: Option<Limits>,
    /// Costs from receipts, and the charges for lost attempts.
    pub spent: Cost,
    /// The part of `spent` that is estimated: charged for lost attempts.
    pub estimated: Cost,
    /// The cost reserved for attempts in flight.
    pub reserved: Cost,
    /// Attempts dispatched so far.
    pub attempts: u64,
}

impl Account {
    /// The first part of the budget that is overspent, if any.
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
