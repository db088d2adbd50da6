//! The decisions of a run that wait for a person, for a form.

use std::path::Path;

use plan_ledger::plan::{RAISE, VALUE};
use plan_ledger::{Run, State};
use plan_ledger_views::{QuestionFact, WaitingItem, question_facts};

use crate::requests::run_or_only;
use crate::server::items;

/// A decision of a run that waits for a person.
#[derive(Debug)]
pub(crate) struct OpenDecision {
    /// The number of the question; `None` if it is decided in another way.
    pub(crate) question: Option<u64>,
    /// Whether a version of the plan waits for approval.
    pub(crate) is_review: bool,
    /// The id of its step, if it is about one.
    pub(crate) step: Option<String>,
    pub(crate) text: String,
    /// The facts that a person needs for the answer, in lines.
    pub(crate) facts: Vec<String>,
    /// The possible answers; empty for a value.
    pub(crate) options: Vec<String>,
    /// The hash of the content that the question shows.
    pub(crate) shown: String,
}

/// The decisions that wait for a person in the named run, or in the only active one.
pub(crate) fn open_decisions(state: &State, run: Option<&str>, dir: &Path) -> Vec<OpenDecision> {
    let Ok(run) = run_or_only(state, run) else { return Vec::new() };
    let items = items(run, dir, state.time).into_iter().filter(WaitingItem::needs_person);
    items.map(|item| open_decision(run, &item)).collect()
}

fn open_decision(run: &Run, item: &WaitingItem) -> OpenDecision {
    let text = item.to_string();
    let fact = |QuestionFact { name, value }| format!("{name}: {value}");
    let facts = question_facts(run, Some(item)).into_iter().map(fact).collect();
    let is_review = matches!(item, WaitingItem::Review { .. });
    let (mut question, mut options, mut shown) = (None, Vec::new(), String::new());
    if let WaitingItem::Question { id, asked, .. } = item {
        question = Some(id.0);
        shown = asked.shown.to_string();
        if !asked.options.iter().any(|option| option == VALUE) {
            // Tools of agents raise no budget by an answer: it needs an amount.
            let options_of = asked.options.iter().filter(|option| *option != RAISE);
            options.extend(options_of.cloned());
        }
    }
    let step = match item {
        WaitingItem::Question { step, .. } => step.as_ref().map(|step| step.id.clone()),
        _ => None,
    };
    OpenDecision { question, is_review, step, text, facts, options, shown }
}
