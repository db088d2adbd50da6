//! The debugger's view: every record of a run, and what it changed.
//!
//! Invariants:
//! - The changes of all records, one after the other, lead from nothing to the run as it is.
//! - The costs of all steps add up to what the run spent.
//!
//! Left out on purpose: lists that follow from the rest (queues, lanes, timers, what is due).

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Result;
use crate::log::LogReader;
use crate::plan::{
    AttemptToken, Cost, Event, Micros, PlanDiff, Rejection, Run, RunId, StepEvent, StepNumber, diff,
};

use super::Ledger;
use super::history::beginning;
use super::replay::{LedgerView, fold, recorded};

/// All that happened to a run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its records, in order.
    pub records: Vec<Traced>,
    /// What each step cost.
    pub costs: BTreeMap<StepNumber, StepCost>,
}

/// A record of a run.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Sequence number.
    pub seq: u64,
    /// When.
    pub time: Micros,
    /// What happened.
    pub event: Event,
    /// What that changed in the run.
    pub changes: Vec<Change>,
    /// Of an activation, what differs from the version before.
    pub replan: Option<PlanDiff>,
}

/// A field that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Where it is: the names of the fields and entries that lead there.
    pub path: Vec<String>,
    /// What it was; `None` if it was not there.
    pub before: Option<Value>,
    /// What it is; `None` if it is gone.
    pub after: Option<Value>,
}

/// What a step cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StepCost {
    /// Attempts that were dealt.
    pub attempts: u64,
    /// What they cost.
    pub spent: Cost,
    /// The part of it that nobody vouched for.
    pub estimated: Cost,
}

impl Ledger {
    /// All that happened to a run.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if it began before what is left of the log;
    /// `Corrupt` and `Io`.
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace(&self.reader()?, run)
    }
}

impl LedgerView {
    /// All that happened to a run.
    ///
    /// # Errors
    /// As [`Ledger::trace`].
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace(self.log(), run)
    }
}

fn trace(reader: &LogReader, id: RunId) -> Result<Trace> {
    let (first, mut state) = beginning(reader, id)?;
    let mut shadow = Shadow { head: json!({}), ..Shadow::default() };
    let mut books = Books::default();
    let mut records = Vec::new();
    for record in reader.records(first) {
        let record = recorded(&record?)?;
        let event = record.event.as_ref().filter(|event| event.run() == Some(id)).cloned();
        let replan = event.as_ref().and_then(|event| replan(state.runs.get(&id)?, event));
        fold(&mut state, &record);
        let Some(event) = event else { continue };
        books.note(record.seq, &event);
        let changes = state.runs.get(&id).map(|run| shadow.follow(run)).unwrap_or_default();
        records.push(Traced { seq: record.seq, time: record.time, event, changes, replan });
    }
    if records.is_empty() {
        return Err(Rejection::NoSuchRun.into());
    }
    Ok(Trace { records, costs: books.steps })
}

/// What differs between the version that an event activates and the one before.
fn replan(run: &Run, event: &Event) -> Option<PlanDiff> {
    let Event::PlanActivated(activated) = event else { return None };
    let place = usize::try_from(activated.version).ok()?.checked_sub(1)?;
    Some(diff(run.plan()?, &run.versions.get(place)?.plan))
}

/// A run as it was, in the form in which it is compared.
#[derive(Debug, Default)]
struct Shadow {
    head: Value,
    lists: BTreeMap<&'static str, BTreeMap<String, Value>>,
    steps: Vec<crate::plan::StepState>,
}

impl Shadow {
    /// What changed since the last time.
    fn follow(&mut self, run: &Run) -> Vec<Change> {
        let mut changes = Vec::new();
        let head = head(run);
        compare(&[], Some(&self.head), Some(&head), &mut changes);
        self.head = head;
        for (name, after) in lists(run) {
            let before = self.lists.insert(name, after.clone()).unwrap_or_default();
            for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
                let path = [name.to_owned(), key.clone()];
                compare(&path, before.get(key), after.get(key), &mut changes);
            }
        }
        for (place, step) in run.steps.iter().enumerate() {
            if self.steps.get(place) == Some(step) {
                continue;
            }
            let before = self.steps.get(place).map(value);
            let path = ["steps".to_owned(), place.saturating_add(1).to_string()];
            compare(&path, before.as_ref(), Some(&value(step)), &mut changes);
            match self.steps.get_mut(place) {
                Some(own) => own.clone_from(step),
                None => self.steps.push(step.clone()),
            }
        }
        changes
    }
}

fn value(of: &impl Serialize) -> Value {
    // What cannot be written as JSON shows as nothing; it still shows when it changes its form.
    serde_json::to_value(of).unwrap_or_default()
}

/// The fields that are single values.
fn head(run: &Run) -> Value {
    json!({
        "name": run.name,
        "status": value(&run.status),
        "pause": value(&run.pause),
        "abort": run.abort,
        "active": run.active,
        "request": value(&run.request),
        "is_complete": run.is_complete,
        "replans": run.replans,
        "in_flight": run.in_flight,
        "account": value(&run.account),
        "tally": value(&run.tally),
        "counts": value(&run.counts),
        "versions": run.versions.iter().map(|version| json!({
            "hash": version.hash.to_string(),
            "review": value(&version.review),
        })).collect::<Vec<_>>(),
    })
}

/// The fields that are lists by name.
fn lists(run: &Run) -> [(&'static str, BTreeMap<String, Value>); 6] {
    fn list<K, V: Serialize>(
        of: &BTreeMap<K, V>,
        name: impl Fn(&K) -> String,
    ) -> BTreeMap<String, Value> {
        of.iter().map(|(key, each)| (name(key), value(each))).collect()
    }
    [
        ("barriers", list(&run.barriers, String::clone)),
        ("variables", list(&run.variables, String::clone)),
        ("questions", list(&run.questions, |id| id.0.to_string())),
        ("effects", list(&run.effects, String::clone)),
        ("plan_verdicts", list(&run.plan_verdicts, u32::to_string)),
        ("estimates", list(&run.estimates, AttemptToken::to_string)),
    ]
}

fn compare(
    path: &[String],
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<Change>,
) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) {
        let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
        for key in keys {
            let path = [path, std::slice::from_ref(key)].concat();
            compare(&path, before.get(key), after.get(key), changes);
        }
        return;
    }
    let (path, before, after) = (path.to_vec(), before.cloned(), after.cloned());
    changes.push(Change { path, before, after });
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        write!(f, "{}: {} -> {}", self.path.join("."), shown(&self.before), shown(&self.after))
    }
}

/// What each step is charged with.
#[derive(Debug, Default)]
struct Books {
    steps: BTreeMap<StepNumber, StepCost>,
    reserved: BTreeMap<AttemptToken, Cost>,
    estimates: BTreeMap<AttemptToken, Cost>,
}

impl Books {
    fn note(&mut self, seq: u64, event: &Event) {
        let Event::Step(record) = event else { return };
        let step = self.steps.entry(record.step).or_default();
        match &record.event {
            StepEvent::Dispatched(dispatched) => {
                step.attempts = step.attempts.saturating_add(1);
                self.reserved.insert(AttemptToken(seq), dispatched.reserved);
            }
            StepEvent::ReceiptRecorded(recorded) => {
                step.spent = step.spent.plus(recorded.receipt.cost);
            }
            StepEvent::AttemptLost(lost) => {
                let reserved = self.reserved.get(&lost.token).copied().unwrap_or_default();
                step.spent = step.spent.plus(reserved);
                step.estimated = step.estimated.plus(reserved);
                self.estimates.insert(lost.token, reserved);
            }
            StepEvent::ReceiptRefused(refused) => {
                if let Some(estimate) = self.estimates.remove(&refused.token) {
                    step.spent = step.spent.minus(estimate).plus(refused.receipt.cost);
                    step.estimated = step.estimated.minus(estimate);
                }
            }
            StepEvent::CostCorrected(corrected) => {
                let estimate = self.estimates.remove(&corrected.token).unwrap_or_default();
                step.spent = step.spent.minus(corrected.charged).plus(corrected.cost);
                step.estimated = step.estimated.minus(estimate);
            }
            _ => {}
        }
    }
}
