//! What a file says about work that may run at the same time, apart from marks of single tasks.
//!
//! Waves of tasks, as Kiro writes them into a JSON block: the tasks of a wave run in parallel, after all tasks of
//! the wave before. Titles of phases that say in words what the mark `[P]` says.
//!
//! Invariant: only a remark beside a title counts (in brackets, or after a dash); a title about parallel work,
//! `Run workers in parallel`, says nothing about its phase.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::outline::Outline;
use crate::draft::{Concurrency, ImplicitOrder};
use plan_ledger::plan::{Barrier, Phase};

/// The meaning of the waves of a file for its tasks.
pub(super) struct Waves {
    /// The dependencies of each task.
    pub(super) before: BTreeMap<String, Vec<String>>,
    /// The barriers between large waves.
    pub(super) barriers: Vec<Barrier>,
}

/// Reads the waves of a text, if it has any.
pub(super) fn waves(outline: &Outline<'_>) -> Option<Waves> {
    let (block, ..) = outline.code_blocks(|block| block.contains("\"waves\"")).next()?;
    let value: Value = serde_json::from_str(&block).ok()?;
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

/// The phases whose titles say that they may run beside others: `Phase 2: API (can run concurrently)`, `Docs -
/// in parallel with Phase 2`, which means both.
pub(super) fn parallel_phases(list: &[Phase]) -> BTreeSet<String> {
    let mut parallel = BTreeSet::new();
    for phase in list {
        let title = phase.title.to_lowercase();
        let remarks = title.split(['(', ')', '[', ']', '\u{2014}', '\u{2013}', ';', ',']).skip(1);
        let remarks = remarks.flat_map(|part| part.split(" - "));
        for remark in remarks.chain(title.split(" - ").skip(1)).map(str::trim) {
            let Some(rest) = after_remark(remark) else { continue };
            parallel.insert(phase.id.clone());
            let other = rest.trim().strip_prefix("with phase ").and_then(|rest| {
                let name = rest.split_whitespace().next()?;
                list.iter().find(|other| other.id.eq_ignore_ascii_case(name))
            });
            parallel.extend(other.map(|other| other.id.clone()));
        }
    }
    parallel
}

/// The rest of a remark that begins with "can run in parallel", "concurrently" or the like.
fn after_remark(remark: &str) -> Option<&str> {
    let mut rest = remark;
    for words in [&["it ", "this "][..], &["can ", "may ", "could "], &["be "]] {
        rest = words.iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    }
    for verb in ["run ", "runs ", "done ", "worked on ", "executed ", "started "] {
        rest = rest.strip_prefix(verb).unwrap_or(rest);
    }
    let ways = [
        "in parallel",
        "concurrently",
        "simultaneously",
        "parallelizable",
        "parallelized",
        "parallel",
    ];
    let rest = ways.iter().find_map(|way| rest.strip_prefix(way))?;
    // `parallel workers` is about the work.
    let is_end = |rest: &str| {
        let rest = rest.trim_start();
        rest.is_empty()
            || rest.starts_with(['.', ':'])
            || rest.starts_with("with ")
            || rest.starts_with("to ")
    };
    is_end(rest).then_some(rest)
}
