//! The difference between two states of a run, field by field. Derived lists (queues, lanes,
//! timers, due dates) are not compared.
//!
//! Invariant: applying all reported changes in order leads from an empty run to its current state.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::{Run, State, StepState};

/// The change of a field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValueChange {
    /// The path of the field: the names of the enclosing fields and entries, then its own.
    pub path: Vec<String>,
    /// Its old value, any JSON; `None` if it did not exist.
    pub before: Option<Value>,
    /// Its new value, any JSON; `None` if it no longer exists.
    pub after: Option<Value>,
}

/// The last compared state of a run, as values.
#[derive(Debug, Clone)]
pub(crate) struct ComparedRun {
    /// The fields that are not maps, then each map.
    fields: Vec<Value>,
    steps: Vec<StepState>,
}

impl Default for ComparedRun {
    fn default() -> Self {
        // The maps of an empty run exist, so that each of their entries is a change.
        let maps = MAPS.map(|name| json!({ (name): {} }));
        Self { fields: [json!({})].into_iter().chain(maps).collect(), steps: Vec::new() }
    }
}

impl ComparedRun {
    /// The changes since the previous call.
    pub(crate) fn update(&mut self, run: &Run) -> Vec<ValueChange> {
        let mut changes = Vec::new();
        let fields = fields(run);
        for (before, after) in self.fields.iter().zip(&fields) {
            compare(&[], Some(before), Some(after), &mut changes);
        }
        self.fields = fields;
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
    // A value that has no JSON form is shown as null.
    serde_json::to_value(of).unwrap_or_default()
}

/// The fields that are maps.
const MAPS: [&str; 6] =
    ["barriers", "variables", "questions", "effects", "plan_verdicts", "estimates"];

/// The compared fields: those that are not maps, then each map.
fn fields(run: &Run) -> Vec<Value> {
    let scalars = json!({
        "name": run.name,
        "status": value(&run.status),
        "pause": value(&run.pause),
        "abort": run.abort_reason,
        "active": run.active,
        "request": value(&run.request),
        "is_complete": run.is_complete,
        "replans": run.replans,
        "in_flight": run.in_flight,
        "account": value(&run.account),
        "tally": value(&run.counters),
        "counts": value(&run.counts),
        "versions": run.versions.iter().map(|version| json!({
            "hash": version.hash.to_string(),
            "review": value(&version.review),
        })).collect::<Vec<_>>(),
    });
    let maps = [
        value(&run.barriers),
        value(&run.variables),
        value(&run.questions),
        value(&run.effects),
        value(&run.plan_verdicts),
        value(&run.estimates),
    ];
    let maps = MAPS.into_iter().zip(maps).map(|(name, map)| json!({ (name): map }));
    [scalars].into_iter().chain(maps).collect()
}

fn compare(
    path: &[String],
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<ValueChange>,
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
    changes.push(ValueChange { path, before, after });
}

/// The ledger-wide fields of a state.
pub(crate) fn ledger_fields(state: &State) -> Value {
    let caps = state.caps.iter().map(|(scope, limit)| (scope.to_string(), json!(limit)));
    json!({
        "account": value(&state.account),
        "caps": Value::Object(caps.collect()),
        "names": value(&state.names),
    })
}

/// The differences between two values.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    compare(&[], Some(before), Some(after), &mut changes);
    changes
}

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        write!(f, "{}: {} -> {}", self.path.join("."), shown(&self.before), shown(&self.after))
    }
}
