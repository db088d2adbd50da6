//! The answers to questions: what each of them does, and what it needs.

use plan_ledger::plan::{
    ABORT, BudgetPart, FAIL, NO, QuestionBody, QuestionSubject, RAISE, RELEASE, REPLAN, RETRY,
    SKIP, VALUE, WAIT, YES,
};

/// What an answer to a question does, in words that complete "this answer ...".
pub(super) fn effect_of_answer(asked: &QuestionBody, answer: &str) -> &'static str {
    match (&asked.subject, answer) {
        (_, ABORT) => "ends the run",
        (QuestionSubject::Failure { .. }, decision) => effect_of_decision(decision),
        (QuestionSubject::Gate, YES) => "dispatches the step",
        (QuestionSubject::Gate, NO) => "fails the step, which is not dispatched",
        (QuestionSubject::Gate, SKIP) => "continues without the step",
        (QuestionSubject::Gate, VALUE) => "accepts the step with this value",
        (QuestionSubject::Gate, _) => "accepts the step with this answer",
        (QuestionSubject::Plan { .. }, YES) => "activates the version",
        (QuestionSubject::Plan { .. }, _) => "rejects the version",
        (QuestionSubject::Budget, RAISE) => "raises the budget, and the run continues",
        (QuestionSubject::Budget, REPLAN) => "requests a new version of the plan",
        (QuestionSubject::Barrier { .. }, WAIT) => "waits on",
        (QuestionSubject::Barrier { .. }, RELEASE) => "opens the barrier without the missing steps",
        (QuestionSubject::Barrier { .. }, FAIL) => "fails the run",
        (QuestionSubject::Budget | QuestionSubject::Barrier { .. }, _) => "answers the question",
    }
}

/// What a decision about a failure does.
pub(super) fn effect_of_decision(decision: &str) -> &'static str {
    match decision {
        RETRY => "dispatches the step again",
        SKIP => "continues without the step",
        FAIL => "fails the step permanently, which blocks its dependents",
        "fallback" => "uses the fallback of the step",
        REPLAN => "requests a new version of the plan",
        "escalate" => "asks a person",
        ABORT => "ends the run",
        _ => "answers the question",
    }
}

/// What the same decision about several failures does.
pub(crate) fn effect_on_all(decision: &str) -> &'static str {
    match decision {
        RETRY => "dispatches the steps again",
        SKIP => "continues without the steps",
        FAIL => "fails the steps permanently, which blocks their dependents",
        other => effect_of_decision(other),
    }
}

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
