//! A run, and all that its views know of it beside its records.
//!
//! Invariant: every interface computes how a run stands and what comes next here, from the same inputs. Nothing is
//! concluded from records that are missing.

use std::path::Path;

use plan_ledger::{Run, RunStatus, State, Timestamp};
use serde_json::Value;

use crate::activity::{RunActivity, RunProgress};
use crate::advice::{Advice, Audience};
use crate::approval::is_unapproved;
use crate::runner::KnownRunner;
use crate::shell::shell_command;
use crate::waiting::WaitingItem;

use super::action::NextAction;
use super::item::NextItem;
use super::list::{next_items, with_answer_to_all};

/// Maximum number of actions of one type.
const LISTED_MAX: usize = 5;

/// A run, and all that its views know of it.
#[derive(Debug, Clone)]
pub struct KnownRun<'a> {
    /// The state.
    pub state: &'a State,
    /// The run.
    pub run: &'a Run,
    /// What is known of its runner.
    pub runner: KnownRunner<'a>,
    /// All that it waits for; `None` if not all of its records can be read.
    pub waiting: Option<Vec<WaitingItem>>,
    /// The ledger, for commands.
    pub ledger: &'a Path,
    /// The time; of a past state, that of its last record.
    pub now: Timestamp,
    /// For whom the views are.
    pub reader: Audience,
    /// Whether the ledger is an archive, which is only read.
    pub is_archive: bool,
}

impl KnownRun<'_> {
    /// How the run stands.
    #[must_use]
    pub fn activity(&self) -> RunActivity {
        let of = (self.state, self.run);
        let stands = RunActivity::of(of, &self.runner, self.waiting.as_deref(), self.ledger);
        let stands = stands.for_reader(self.reader);
        if self.is_archive { stands.in_archive() } else { stands }
    }

    /// How far the run is.
    #[must_use]
    pub fn progress(&self, stands: &RunActivity) -> RunProgress {
        RunProgress::of(self.run, stands, self.now)
    }

    /// Whether the reader is no person: an agent, or a worker inside its attempt.
    #[must_use]
    pub fn is_for_agent(&self) -> bool {
        self.reader <= Audience::Agent
    }

    /// The heading over what only a person can do.
    #[must_use]
    pub fn heading_of_person(&self) -> &'static str {
        if self.is_for_agent() { "waits for a person" } else { "needs you" }
    }

    /// An item with the commands for the reader.
    #[must_use]
    pub fn action(&self, item: NextItem) -> NextAction {
        let advice = if self.is_archive {
            Vec::new()
        } else {
            item.advice(self.run, &self.runner, self.ledger)
        };
        let is_check = matches!(
            item.waiting(),
            Some(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. })
        );
        let missing = match is_check && !self.runner.is_checked() && !is_unapproved(self.run) {
            false => "",
            true if self.is_for_agent() => "; none is at work until a person starts one",
            true => "; none is at work",
        };
        NextAction {
            text: format!("{}{missing}", item.text(self.now)),
            commands: Advice::lines(&advice, self.reader),
            effects: Advice::effects(&advice, self.reader),
            lines: Advice::lines_with_effects(&advice, self.reader),
            item,
            is_rest: false,
        }
    }

    /// The most urgent next action.
    #[must_use]
    pub fn next_action(&self) -> NextAction {
        self.actions().into_iter().next().unwrap_or_else(|| self.action(NextItem::Over))
    }

    /// The next actions, most urgent first.
    #[must_use]
    pub fn actions(&self) -> Vec<NextAction> {
        let of = (self.state, self.run);
        let items = if self.is_archive {
            vec![NextItem::Archived]
        } else {
            next_items(of, &self.runner, self.waiting.clone(), self.now)
        };
        let mut actions = self.actions_of(items);
        if let (Some(first), Some(begin)) = (actions.first_mut(), first_action(self.run)) {
            first.text = format!("{}; the plan begins with: {begin}", first.text);
        }
        actions
    }

    /// The actions of items. Where one answer to several failures is among them, the failures have no lines of
    /// their own.
    fn actions_of(&self, items: Vec<NextItem>) -> Vec<NextAction> {
        let are_many = items.iter().any(|item| matches!(item, NextItem::AnswerAll { .. }));
        let action = |item: NextItem| {
            let is_told = are_many && item.waiting().is_some_and(WaitingItem::is_of_failure);
            let action = self.action(item);
            if is_told { NextAction { lines: Vec::new(), ..action } } else { action }
        };
        items.into_iter().map(action).collect()
    }

    /// The first of the next actions of each type, and how many more there are.
    #[must_use]
    pub fn first_actions(&self) -> Vec<NextAction> {
        let actions = self.actions();
        let type_of = |action: &NextAction| (action.item.word(), action.lines.is_empty());
        let types = actions.chunk_by(|one, other| type_of(one) == type_of(other));
        let limit = |actions: &[NextAction]| {
            let mut shown: Vec<_> = actions.iter().take(LISTED_MAX).cloned().collect();
            let rest = actions.len().saturating_sub(LISTED_MAX);
            if let (Some(first), true) = (actions.first(), rest > 0) {
                let list = shell_command("questions", self.ledger, &[&self.run.name]);
                let list = if first.item.is_item_of_person() {
                    format!(": `{list}` lists them")
                } else {
                    String::new()
                };
                let text = format!("and {rest} more of these{list}");
                let item = first.item.clone();
                let (commands, effects, lines) = (Vec::new(), Vec::new(), Vec::new());
                shown.push(NextAction { item, text, commands, effects, lines, is_rest: true });
            }
            shown
        };
        types.flat_map(limit).collect()
    }

    /// The items that wait for a person.
    #[must_use]
    pub fn items_of_persons(&self) -> Vec<NextItem> {
        let items = self.waiting.iter().flatten().filter(|item| item.needs_person());
        items.cloned().map(NextItem::Waiting).collect()
    }

    /// The actions for the items that wait for a person.
    #[must_use]
    pub fn actions_of_persons(&self) -> Vec<NextAction> {
        self.items_of_persons().into_iter().map(|item| self.action(item)).collect()
    }

    /// The actions for items, with one answer to all questions about failures before them, if there are several.
    #[must_use]
    pub fn grouped_actions(&self, items: Vec<NextItem>) -> Vec<NextAction> {
        self.actions_of(with_answer_to_all(items))
    }
}

/// The next action that the plan itself names, until the first dispatch.
fn first_action(run: &Run) -> Option<String> {
    let is_begun = run.account().attempts > 0 || matches!(run.status, RunStatus::Ended(_));
    let plan = run.plan().filter(|_| !is_begun)?;
    let mut tools = plan.header().extra.values();
    let value = tools.find_map(|fields| fields.get("next_action"))?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}
