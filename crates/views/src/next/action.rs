//! An item that moves a run forward, as its reader sees it: with the commands that the reader may type.

use plan_ledger::StepNumber;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::item::{NextGroup, NextItem};
use crate::layout::Document;
use crate::waiting::WaitingItem;
use crate::words::StepName;

/// One action that moves a run forward.
#[derive(Debug, Clone)]
pub struct NextAction {
    /// The item; for the rest of a long list, the first one of it.
    pub item: NextItem,
    /// The action, for people.
    pub text: String,
    /// Alternative commands: one of them is enough.
    pub commands: Vec<String>,
    /// What each command does.
    pub effects: Vec<String>,
    /// The commands as people read them; none if an earlier action has them.
    pub lines: Vec<String>,
    /// Whether it only counts more of its kind.
    pub is_rest: bool,
}

impl NextAction {
    /// The item that the run waits for; `None` for another action.
    #[must_use]
    pub fn waiting(&self) -> Option<&WaitingItem> {
        self.item.waiting().filter(|_| !self.is_rest)
    }

    /// The step concerned.
    #[must_use]
    pub fn step(&self) -> Option<StepNumber> {
        self.item.step().filter(|_| !self.is_rest).map(|step| step.number)
    }

    /// Whether only a person can do it.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        self.item.group() == NextGroup::Person
    }

    /// The command that a script may run without asking: the first one, unless a person decides among
    /// them.
    #[must_use]
    pub fn command(&self) -> Option<&String> {
        self.commands.first().filter(|_| !self.item.is_decision())
    }

    /// Its text after a start, the further lines after more columns, and its commands below.
    pub fn add_to(&self, document: &mut Document, indent: usize, start: &str, more: usize) {
        let mut lines = self.text.lines();
        document.indented(indent, format!("{start}{}", lines.next().unwrap_or_default()));
        for line in lines {
            document.indented(indent + more, line);
        }
        for line in &self.lines {
            document.command(indent + more, line);
        }
    }
}

/// One action that moves a run forward.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NextActionJson {
    /// The kind of the action.
    action: &'static str,
    /// The first of the commands; null without a command, or if a person chooses one.
    command: Option<String>,
    /// Alternative commands: one of them is enough. The first shows the commands that the answer lets the run
    /// execute, if any.
    commands: Vec<String>,
    /// What each command does, in the order of `commands`.
    effects: Vec<String>,
    /// The step concerned; absent for an action of the run.
    #[serde(flatten)]
    step: Option<StepName>,
    /// The action and the reason, for people.
    text: String,
}

impl From<&NextAction> for NextActionJson {
    fn from(next: &NextAction) -> Self {
        Self {
            action: next.item.word(),
            command: next.command().cloned(),
            commands: next.commands.clone(),
            effects: next.effects.clone(),
            step: next.item.step().filter(|_| !next.is_rest).cloned(),
            text: next.text.clone(),
        }
    }
}
