//! The fields of a plan that a form has no place for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::commands::as_written_commands;
use crate::plan_file::PlanFile;
use plan_ledger::plan::Plan;

/// Fields that a form may express differently: texts, and the fields in the outline of the plan.
const REWORDED: [&str; 8] =
    ["id", "title", "goal", "after", "phase", "phases", "barriers", "steps"];

impl PlanFile {
    /// The fields of the plan that differ after reading back its written form, each with the number
    /// of steps; 0 for a field of the plan itself.
    #[must_use]
    pub fn fields_lost_in(&self, read: &Self) -> Vec<(String, usize)> {
        let of = |file: &Self| as_written_commands(file.plan.clone());
        let (written, read) = (of(self), of(read));
        let mut lost: BTreeMap<String, usize> = BTreeMap::new();
        for name in different(&fields(&plan_only(&written)), &fields(&plan_only(&read))) {
            lost.insert(name, 0);
        }
        let others: BTreeMap<&str, Map<String, Value>> =
            read.steps.iter().map(|step| (step.id.as_str(), fields(step))).collect();
        for step in &written.steps {
            let other = others.get(step.id.as_str()).cloned().unwrap_or_default();
            for name in different(&fields(step), &other) {
                let count = lost.entry(name).or_default();
                *count = count.saturating_add(1);
            }
        }
        lost.into_iter().collect()
    }
}

fn plan_only(plan: &Plan) -> Plan {
    Plan { steps: Vec::new(), context: String::new(), ..plan.clone() }
}

fn fields(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The fields of one object that another one does not have with the same value.
fn different(of: &Map<String, Value>, other: &Map<String, Value>) -> BTreeSet<String> {
    let is_lost = |(name, value): &(&String, &Value)| {
        !REWORDED.contains(&name.as_str()) && other.get(*name) != Some(*value)
    };
    of.iter().filter(is_lost).map(|(name, _)| name.clone()).collect()
}
