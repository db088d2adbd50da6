//! The next actions of a run, as views print them: each is an item of the package of views, with the commands for its
//! reader.

use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::plan::Route;
use plan_ledger::{Run, RunStatus, State, StepNumber, Timestamp};
use plan_ledger_views::{
    GoneClaim, KnownRunner, NextItem, RunActivity, RunnerWait, WaitingItem, next_items,
    waiting_items,
};

use crate::output::{
    Failure, effects_of, escape_control, escape_lines, is_for_agent, lines_of, lines_with_effects,
    shell_command,
};
use crate::runner::{may_ask_planner, misplaced};
use crate::server::RunnerStatus;

use super::output::Output;

/// One action that moves a run forward.
#[derive(Debug, Clone)]
pub(crate) struct NextAction {
    /// The item; for the rest of a long list, the first one of it.
    pub(crate) item: NextItem,
    pub(crate) text: String,
    /// Alternative commands: one of them is enough.
    pub(crate) commands: Vec<String>,
    /// What each command does.
    pub(crate) effects: Vec<String>,
    /// The commands as people read them; none if an earlier action has them.
    pub(crate) lines: Vec<String>,
    /// Whether it only counts more of its kind.
    pub(crate) is_rest: bool,
}

impl NextAction {
    pub(crate) fn of(item: NextItem, run: &Run, at: Surroundings<'_>) -> Self {
        let runner = at.known(run);
        let advice = item.advice(run, &runner, at.dir);
        let escaped = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| escape_control(line)).collect()
        };
        let (commands, effects) = (escaped(lines_of(&advice)), effects_of(&advice));
        let lines = escaped(lines_with_effects(&advice));
        let text = escape_lines(&item.text(at.now));
        let is_check = matches!(
            item.waiting(),
            Some(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. })
        );
        let missing = match is_check && !runner.is_checked() {
            false => "",
            true if is_for_agent() => "; none is at work until a person starts one",
            true => "; none is at work",
        };
        let text = format!("{text}{missing}");
        Self { item, text, commands, effects, lines, is_rest: false }
    }

    /// The item that the run waits for; `None` for another action.
    pub(crate) fn waiting(&self) -> Option<&WaitingItem> {
        self.item.waiting().filter(|_| !self.is_rest)
    }

    /// The step concerned.
    pub(crate) fn step(&self) -> Option<StepNumber> {
        self.item.step().filter(|_| !self.is_rest).map(|step| step.number)
    }

    /// The command that a script may run without asking: the first one, unless a person decides among
    /// them.
    pub(crate) fn command(&self) -> Option<&String> {
        self.commands.first().filter(|_| !self.item.is_decision())
    }

    /// Prints it and its commands.
    pub(crate) fn print(&self, indent: &str, out: &mut Output<'_>) -> Result<(), Failure> {
        let text = self.text.replace('\n', &format!("\n{indent}  "));
        out.line(&format!("{indent}{text}"))?;
        self.lines.iter().try_for_each(|line| out.line(&format!("{indent}  {line}")))
    }
}

/// One action that moves a run forward.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NextActionJson {
    /// The kind of the action.
    action: &'static str,
    /// The first of the commands; null without a command, or if a person chooses one.
    command: Option<String>,
    /// Alternative commands: one of them is enough.
    commands: Vec<String>,
    /// What each command does, in the order of `commands`.
    effects: Vec<String>,
    /// The step concerned.
    step: Option<StepNumber>,
    /// The action, for people.
    text: String,
}

impl From<NextAction> for NextActionJson {
    fn from(next: NextAction) -> Self {
        let (action, step, command) = (next.item.word(), next.step(), next.command().cloned());
        let NextAction { text, commands, effects, .. } = next;
        Self { action, command, commands, effects, step, text }
    }
}

/// The inputs of the next actions, beside the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The ledger's folder, for commands.
    pub(crate) dir: &'a Path,
    pub(crate) now: Timestamp,
    pub(crate) runner: &'a RunnerStatus,
    /// The claims of processes that are gone.
    pub(crate) dead: &'a [GoneClaim],
    /// The waits of runners.
    pub(crate) waits: &'a [RunnerWait],
    /// Whether not all records can be read.
    pub(crate) is_damaged: bool,
}

impl<'a> Surroundings<'a> {
    /// What is known of the runner of a run.
    pub(crate) fn known(&self, run: &Run) -> KnownRunner<'a> {
        let known = self.runner.known(run, self.dir, self.dead, self.waits);
        KnownRunner { had_planner: known.had_planner && may_ask_planner(run), ..known }
    }

    /// All that a run waits for; `None` if not all of its records can be read.
    fn waiting(&self, run: &Run) -> Option<Vec<WaitingItem>> {
        (!self.is_damaged).then(|| items(run, self.dir))
    }

    /// How a run stands.
    pub(crate) fn activity(&self, state: &State, run: &Run) -> RunActivity {
        let waiting = self.waiting(run);
        RunActivity::of((state, run), &self.known(run), waiting.as_deref(), self.dir)
    }
}

/// The most urgent next action of a run.
pub(crate) fn next_action(state: &State, run: &Run, at: Surroundings<'_>) -> NextAction {
    let over = || NextAction::of(NextItem::Over, run, at);
    actions(state, run, at).into_iter().next().unwrap_or_else(over)
}

/// The next actions of a run, most urgent first.
pub(crate) fn actions(state: &State, run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let items = next_items((state, run), &at.known(run), at.waiting(run), at.now);
    let is_of_failure =
        |item: &NextItem| item.waiting().is_some_and(|item| item.answers_to_failure().is_some());
    let are_many = items.iter().any(|item| matches!(item, NextItem::AnswerAll { .. }));
    let action = |item: NextItem| {
        let is_told = are_many && is_of_failure(&item);
        let action = NextAction::of(item, run, at);
        if is_told { NextAction { lines: Vec::new(), ..action } } else { action }
    };
    let mut actions: Vec<_> = items.into_iter().map(action).collect();
    if let (Some(first), Some(begin)) = (actions.first_mut(), first_action(run)) {
        first.text = format!("{}; the plan begins with: {}", first.text, escape_control(&begin));
    }
    actions
}

/// The next action that the plan itself names, until the first dispatch.
fn first_action(run: &Run) -> Option<String> {
    let is_begun = run.account.attempts > 0 || matches!(run.status, RunStatus::Ended(_));
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

/// Every item that an open run waits for.
pub(crate) fn items(run: &Run, dir: &Path) -> Vec<WaitingItem> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    waiting_items(run, &Route::default()).into_iter().chain(misplaced(run, dir)).collect()
}

/// The actions for the items of a run that wait for a person.
pub(crate) fn items_of_persons(run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let items = at.waiting(run).unwrap_or_default().into_iter();
    items
        .filter(WaitingItem::needs_person)
        .map(|item| NextAction::of(NextItem::Waiting(item), run, at))
        .collect()
}

/// Maximum number of actions of one type.
const LISTED_MAX: usize = 5;

/// The first actions of each type, and how many more there are.
pub(crate) fn limited(actions: &[NextAction], run: &Run, dir: &Path) -> Vec<NextAction> {
    let type_of = |action: &NextAction| (action.item.word(), action.lines.is_empty());
    let types = actions.chunk_by(|one, other| type_of(one) == type_of(other));
    let limit = |actions: &[NextAction]| {
        let mut shown: Vec<_> = actions.iter().take(LISTED_MAX).cloned().collect();
        let rest = actions.len().saturating_sub(LISTED_MAX);
        if let (Some(first), true) = (actions.first(), rest > 0) {
            let list = escape_control(&shell_command("questions", dir, &[&run.name]));
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
