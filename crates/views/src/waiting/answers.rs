//! The answers to questions: what each of them does, and what it needs.

use plan_ledger::plan::BudgetPart;

/// The option that raises a part of a budget, and an amount as an example.
#[must_use]
pub fn raise_by(part: BudgetPart) -> [&'static str; 2] {
    match part {
        BudgetPart::Money => ["--money", "1.00"],
        BudgetPart::Tokens => ["--tokens", "100000"],
        BudgetPart::Attempts => ["--attempts", "10"],
        BudgetPart::Wall => ["--wall", "1h"],
    }
}
