//! Waves of tasks, as Kiro writes them into a JSON block: the tasks of a wave run in parallel, after
//! all tasks of the wave before.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::draft::{Concurrency, ImplicitOrder};
use plan_ledger::plan::Barrier;

/// The meaning of the waves of a file for its tasks.
pub(super) struct Waves {
    /// The dependencies of each task.
    pub(super) before: BTreeMap<String, Vec<String>>,
    /// The barriers between large waves.
    pub(super) barriers: Vec<Barrier>,
}

/// Reads the waves of a text, if it has any.
pub(super) fn dependencies(text: &str) -> Option<Waves> {
    let start = text.find("\"waves\"")?;
    let block = text.get(..start)?.rfind("```")?;
    let (_, block) = text.get(block..)?.split_once('\n')?;
    let (block, _) = block.split_once("```")?;
    let value: Value = serde_json::from_str(block).ok()?;
    let mut order = ImplicitOrder::new();
    let mut before = BTreeMap::new();
    for wave in value.get("waves")?.as_array()? {
        let tasks = wave.get("tasks").or_else(|| wave.get("taskIds")).unwrap_or(wave);
        for id in tasks.as_array()?.iter().filter_map(|id| match id {
            Value::String(id) => Some(id.trim().to_owned()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        }) {
            before.insert(id.clone(), order.add(&id, Concurrency::Parallel));
        }
        order.begin_phase(Concurrency::Sequential);
    }
    Some(Waves { before, barriers: order.barriers })
}
