//! The next actions of runs, in groups, with the facts that a person needs for them.

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::ExecutedPart;
use plan_ledger::{Run, StepNumber, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::question_facts::{QuestionFact, facts, step_context};
use super::stale::stale_document;
use crate::json::StaleFilesJson;
use crate::layout::{Document, Paint};
use crate::next::KnownRun;
use crate::next::{NextAction, NextActionJson, NextGroup};
use crate::runner::waits_of;
use crate::waiting::WaitingItem;

/// A next action of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NextLine<'a> {
    #[serde(flatten)]
    action: NextActionJson,
    /// The facts about the step for a person.
    context: Vec<QuestionFact>,
    /// Everything that the answer lets the run execute: the commands come first.
    executes: Vec<ExecutedPart>,
    /// For a person, for a runner or a worker, or for the time to pass.
    group: NextGroup,
    /// The item that the run waits for; null for another action.
    item: Option<&'a WaitingItem>,
    /// The time of the run's next timer, or the end of its runner's wait.
    next_due_micros: Option<Timestamp>,
    /// The run.
    run: &'a str,
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known.
    stale_files: Option<Vec<StaleFilesJson>>,
}

/// The number of items that wait for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NextSummaryLine {
    /// The number of items that wait for a person, also on other pages.
    pub waiting: usize,
}

/// Actions of a run.
#[derive(Debug)]
pub struct RunActions<'a> {
    /// The run.
    pub run: &'a Run,
    /// The actions.
    pub actions: Vec<NextAction>,
    is_for_agent: bool,
    /// The time of its next timer, or the end of its runner's wait.
    next_due: Option<Timestamp>,
    stale: Option<Vec<(StepNumber, Vec<String>)>>,
}

impl<'a> RunActions<'a> {
    /// Actions of a run. `stale`: the steps with files that changed since the plan was made, if that is known.
    #[must_use]
    pub fn of(
        known: &KnownRun<'a>,
        actions: Vec<NextAction>,
        stale: Option<Vec<(StepNumber, Vec<String>)>>,
    ) -> Self {
        let run = known.run;
        let waits = waits_of(known.runner.waits, run).filter_map(|wait| wait.until);
        let next_due = run.next_timer().into_iter().chain(waits).min();
        Self { run, actions, is_for_agent: known.is_for_agent(), next_due, stale }
    }

    /// The lines of JSON.
    pub fn lines(&self) -> impl Iterator<Item = NextLine<'_>> {
        let Self { run, actions, next_due, stale, .. } = self;
        actions.iter().map(move |action| NextLine {
            action: action.into(),
            context: action.waiting().map(|item| step_context(run, item)).unwrap_or_default(),
            executes: action.waiting().map(|item| item.executes(run)).unwrap_or_default(),
            group: action.item.group(),
            item: action.waiting(),
            next_due_micros: *next_due,
            run: &run.name,
            stale_files: StaleFilesJson::of(stale.clone()),
        })
    }

    /// How many of the actions are items that wait for a person.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.actions.iter().filter(|action| action.item.is_item_of_person()).count()
    }

    /// Whether one of the actions can be taken now.
    #[must_use]
    pub fn is_possible_now(&self) -> bool {
        self.actions.iter().any(|action| action.item.is_possible_now())
    }

    /// The actions of a group, and the facts that a person needs for them.
    #[must_use]
    pub fn document_of(&self, group: NextGroup, indent: usize) -> Document {
        let mut document = Document::default();
        let start = format!("run {}: ", self.run.name);
        for action in self.of_group(group) {
            action.add_to(&mut document, indent, &start, 6);
            // Of many failures, each one is a line.
            let item = action.waiting().filter(|_| !action.lines.is_empty() || self.is_for_agent);
            for QuestionFact { name, value } in facts(self.run, item) {
                document.indented(indent + 6, format!("{name}: {value}"));
            }
        }
        document
    }

    fn of_group(&self, group: NextGroup) -> impl Iterator<Item = &NextAction> {
        self.actions.iter().filter(move |action| action.item.group() == group)
    }

    fn has(&self, group: NextGroup) -> bool {
        self.of_group(group).next().is_some()
    }
}

/// The actions of runs, in groups.
#[must_use]
pub fn next_document(of_runs: &[RunActions<'_>]) -> Document {
    let is_for_agent = of_runs.iter().any(|of| of.is_for_agent);
    let of_person = if is_for_agent { "waits for a person" } else { "needs you" };
    let groups =
        [(NextGroup::Person, of_person), (NextGroup::Next, "next"), (NextGroup::Wait, "waits")];
    let mut document = Document::default();
    for (group, heading) in groups {
        if !of_runs.iter().any(|of| of.has(group)) {
            continue;
        }
        document.heading((Paint::Heading, heading));
        for of in of_runs {
            document.append(of.document_of(group, 2));
            let due = of.next_due.filter(|_| group == NextGroup::Wait && of.has(group));
            if let Some(due) = due {
                document.indented(8, format!("until {}", time_text(due)));
            }
        }
    }
    for of in of_runs {
        document.append(stale_document(of.run, of.stale.as_deref().unwrap_or_default(), 0));
    }
    document
}
