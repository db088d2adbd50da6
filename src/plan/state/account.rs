//! What was spent, what is reserved, and what may be spent: of a run, or of the whole ledger.
//!
//! Invariants:
//! - A reservation is made with the dispatch, in the same record, and gone with the receipt, which
//!   says what it really was. A lost attempt stays charged with its reservation, marked as
//!   estimated, until somebody knows better.
//! - What is spent is settled truly, also over a limit.

use serde::{Deserialize, Serialize};

use crate::plan::model::budget::{BudgetPart, Cost, Limits};

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
