//! The changes of a ledger between two records, field by field, with the records that made them.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::{ChangedField, ValueChange};
use plan_ledger::{RunId, State, StepNumber};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::layout::{Block, Document, Paint, Text};
use crate::render::cut;
use crate::words::{counted, step_name};

/// A field that changed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ChangeLine<'a> {
    /// The records that changed it.
    by: &'a [u64],
    #[serde(flatten)]
    change: &'a ValueChange,
    /// The run; null for the ledger as a whole.
    run: Option<RunId>,
}

/// The changes between two records.
#[derive(Debug)]
pub struct Changes<'a> {
    changes: &'a [ChangedField],
    state: &'a State,
    from: u64,
    to: u64,
}

impl<'a> Changes<'a> {
    /// The changes from one record to another, after which the ledger has that state.
    #[must_use]
    pub fn of(changes: &'a [ChangedField], state: &'a State, from: u64, to: u64) -> Self {
        Self { changes, state, from, to }
    }

    /// A line for each field.
    pub fn lines(&self) -> impl Iterator<Item = ChangeLine<'a>> {
        self.changes.iter().map(|ChangedField { run, change, by, .. }| ChangeLine {
            by,
            change,
            run: *run,
        })
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let count = u64::try_from(self.changes.len()).unwrap_or(u64::MAX);
        let fields = counted(count, "field");
        let text = format!("from record {} to {}: {fields} changed", self.from, self.to);
        document.painted(Paint::Heading, text);
        let mut groups: BTreeMap<Group, Vec<(&[String], &ChangedField)>> = BTreeMap::new();
        for changed in self.changes {
            let (group, rest) = group(changed, self.state);
            groups.entry(group).or_default().push((rest, changed));
        }
        let mut shown = None;
        for ((run, _, what), fields) in &groups {
            if shown != Some(*run) {
                shown = Some(*run);
                document.painted(Paint::Heading, self.name(*run));
            }
            if !what.is_empty() {
                document.indented(2, what.as_str());
            }
            for (path, changed) in fields {
                document.push(field(path, changed));
            }
        }
        document
    }

    fn name(&self, run: Option<RunId>) -> String {
        let Some(id) = run else { return "the ledger".to_owned() };
        let name = self.state.runs.get(&id).map(|run| run.name.clone());
        format!("run {} ({id})", name.unwrap_or_default())
    }
}

/// The subject of a change: a run or the ledger, and in it a step, a variable, or the whole.
type Group = (Option<RunId>, (u8, u64), String);

fn group<'a>(changed: &'a ChangedField, state: &State) -> (Group, &'a [String]) {
    let path = changed.change.path.as_slice();
    let run = changed.run;
    match path {
        [list, number, rest @ ..] if list == "steps" => {
            let place = number.parse().unwrap_or(0);
            let of_run = run.and_then(|run| state.runs.get(&run));
            let step = u32::try_from(place).ok().map(StepNumber);
            let name = of_run.zip(step).map(|(run, step)| format!("step {}", step_name(run, step)));
            ((run, (2, place), name.unwrap_or_else(|| format!("step #{number}"))), rest)
        }
        [list, name, rest @ ..]
            if ["variables", "barriers", "questions", "effects"].contains(&list.as_str()) =>
        {
            let what = list.strip_suffix('s').unwrap_or(list);
            ((run, (1, 0), format!("{what} {name}")), rest)
        }
        all => ((run, (0, 0), String::new()), all),
    }
}

fn field(path: &[String], changed: &ChangedField) -> Block {
    let name = if path.is_empty() { "(all of it)".to_owned() } else { path.join(".") };
    let (before, after) =
        (shown(changed.change.before.as_ref()), shown(changed.change.after.as_ref()));
    let by: Vec<String> = changed.by.iter().take(BY_MAX).map(u64::to_string).collect();
    let more = if changed.by.len() > BY_MAX { ", ..." } else { "" };
    let by = format!("  (record {}{more})", by.join(", "));
    let text = format!("{name}: {before} -> {after}");
    let (start, end) = (Text::default(), Text::painted(Paint::Faint, by));
    Block::Cut { indent: 4, start, text: text.into(), end }
}

/// The maximum number of records in a line.
const BY_MAX: usize = 5;
/// The maximum width of a value in a line.
const VALUE_MAX: usize = 72;

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    match value {
        Value::String(text) => cut(text, VALUE_MAX),
        other => cut(&other.to_string(), VALUE_MAX),
    }
}
