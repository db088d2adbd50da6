//! The answers to questions: what each of them does, and what it needs.

use std::path::Path;

use plan_ledger::plan::{
    ABORT, BudgetPart, FAIL, NO, QuestionBody, QuestionSubject, RAISE, RELEASE, REPLAN, RETRY,
    SKIP, VALUE, WAIT, YES,
};

use super::item::WaitingItem;
use crate::advice::{Advice, Audience};
use crate::words::counted_of;

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
fn effect_on_all(decision: &str) -> &'static str {
    match decision {
        RETRY => "dispatches the steps again",
        SKIP => "continues without the steps",
        FAIL => "fails the steps permanently, which blocks their dependents",
        other => effect_of_decision(other),
    }
}

/// How many of the items are questions about failures, and the answers that all of these take; no answer if there are
/// not several.
pub(crate) fn common_answers<'a>(
    items: impl Iterator<Item = &'a WaitingItem>,
) -> (u32, Vec<String>) {
    let of_failures: Vec<&[String]> = items.filter_map(WaitingItem::answers_to_failure).collect();
    let [one, others @ ..] = of_failures.as_slice() else { return (0, Vec::new()) };
    let is_common = |answer: &&String| others.iter().all(|other| other.contains(answer));
    let common = one.iter().filter(|_| !others.is_empty()).filter(is_common);
    (u32::try_from(of_failures.len()).unwrap_or(u32::MAX), common.cloned().collect())
}

/// The text about several questions about failures.
pub(crate) fn answer_all_text(questions: u32) -> String {
    format!(
        "{} about failures: one answer for all of them, or for each one by its number",
        counted_of(questions, "question is", "questions are")
    )
}

/// The commands that answer several questions about failures at once.
pub(crate) fn answer_all(answers: &[String], run: &str, ledger: &Path) -> Vec<Advice> {
    let answer = |answer: &String| {
        Advice::new("answer", ledger, &["--all", run, answer], effect_on_all(answer))
    };
    answers.iter().map(answer).collect()
}

/// The items that a run waits for, each followed by the commands that resolve it, for a reader. Of several questions
/// about failures, the common answers come once.
#[must_use]
pub fn waiting_texts(
    items: &[WaitingItem],
    run: &str,
    ledger: &Path,
    reader: Audience,
) -> Vec<String> {
    let text = |text: String, advice: &[Advice]| {
        let lines = Advice::lines_with_effects(advice, reader).into_iter();
        std::iter::once(text).chain(lines.map(|line| format!("\n      {line}"))).collect()
    };
    let (questions, answers) = common_answers(items.iter());
    let mut texts: Vec<String> = Vec::new();
    let mut is_first = !answers.is_empty();
    for item in items {
        let is_of_failure = item.is_of_failure() && !answers.is_empty();
        if is_of_failure && std::mem::take(&mut is_first) {
            texts.push(text(answer_all_text(questions), &answer_all(&answers, run, ledger)));
        }
        let advice = if is_of_failure { Vec::new() } else { item.resolve(run, ledger) };
        texts.push(text(item.to_string(), &advice));
    }
    texts
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
