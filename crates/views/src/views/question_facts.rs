//! The facts that a person needs to answer a question.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::CompactStep;
use plan_ledger::{Json, Run};

use crate::waiting::WaitingItem;
use crate::words::{StepName, cost_text};

/// One fact for the answer to a question.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QuestionFact {
    /// The name of the fact.
    pub name: String,
    /// The fact, in one line.
    pub value: String,
}

/// The longest value of a fact, in characters.
const FACT_LENGTH_MAX: usize = 400;

/// The facts that a person needs for the answer, as text: the commands that it lets the run
/// execute, and the facts about the step.
#[must_use]
pub fn facts(run: &Run, item: Option<&WaitingItem>) -> Vec<QuestionFact> {
    let Some(item) = item else { return Vec::new() };
    let executes = item.executes(run).into_iter();
    let executes = executes.map(|each| QuestionFact { name: each.name(), value: each.text() });
    executes.chain(step_context(run, item)).collect()
}

/// The facts about the step of a question: its goal, the variables that it reads, and for a failure
/// its class, its output, its log and its cost.
pub(super) fn step_context(run: &Run, item: &WaitingItem) -> Vec<QuestionFact> {
    let (WaitingItem::Question { step: Some(step), .. }
    | WaitingItem::Decision { step, .. }
    | WaitingItem::OutcomeUnknown { step }
    | WaitingItem::Verdicts { step, .. }) = item
    else {
        return Vec::new();
    };
    let StepName { number, .. } = step;
    let (Some(state), Some(plan)) = (run.step(*number), run.plan_step(*number)) else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let mut add = |name: &str, value: &str| {
        let value: String = value.trim().chars().take(FACT_LENGTH_MAX).collect();
        if !value.is_empty() && value != "null" {
            facts.push(QuestionFact { name: name.to_owned(), value: value.replace('\n', " | ") });
        }
    };
    add("goal", if plan.goal().is_empty() { plan.title() } else { plan.goal() });
    for name in read_by(run, plan) {
        if let Some(variable) = run.variable(&name) {
            add(&name, variable.value.as_str());
        }
    }
    let attempts = state.attempts;
    if let Some((class, message)) = state.last_failure() {
        let class = serde_json::to_value(class).unwrap_or_default();
        add("failure", &format!("{}: {message}", class.as_str().unwrap_or_default()));
    }
    if let Some(receipt) = state.attempt().and_then(|attempt| attempt.receipt.as_ref()) {
        add("attempt", &attempts.to_string());
        add("output", receipt.output.inline().map_or("", Json::as_str));
        add("log", &receipt.log_tail);
        add("cost", &cost_text(receipt.cost));
    }
    facts
}

/// The variables that a step reads: its inputs, and those of its condition and its preconditions.
fn read_by(run: &Run, step: CompactStep<'_>) -> Vec<String> {
    let expressions: Vec<&str> = step.condition().into_iter().chain(step.preconditions()).collect();
    let words = |text: &str| -> Vec<String> {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        text.split(|char| !is_word(char)).map(str::to_owned).collect()
    };
    let named = expressions.into_iter().flat_map(words);
    let mut names: Vec<String> = step.inputs().map(str::to_owned).chain(named).collect();
    names.retain(|name| run.variable(name).is_some());
    names.sort();
    names.dedup();
    names
}
