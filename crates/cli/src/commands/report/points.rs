//! The cells of a page, and their values at each point of time.
//!
//! A cell has a key, such as `s12` for the status of step 12, and a value. A point is a record with the
//! cells that changed since the point before it. The number of points is bounded: in a long log, each
//! stands for several records.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use plan_ledger::{Run, StepStatus, Timestamp};

use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::text::run::{progress_text, run_status_text};
use crate::output::cost_text;

/// The longest value of a cell, in characters.
const VALUE_LENGTH_MAX: usize = 200;

/// A record, and the cells that it changed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Point {
    seq: u64,
    /// The time in microseconds.
    time: Timestamp,
    cells: BTreeMap<String, String>,
}

/// Collects points.
#[derive(Debug, Default)]
pub(super) struct Points {
    pub(super) points: Vec<Point>,
    /// The status and the attempts of each step at the last point.
    steps: Vec<(StepStatus, u32)>,
    /// The other cells at the last point.
    cells: BTreeMap<String, String>,
}

impl Points {
    /// Adds the point of a record.
    pub(super) fn add(&mut self, seq: u64, time: Timestamp, run: &Run) {
        let mut changed = BTreeMap::new();
        let steps: Vec<_> = run.steps.iter().map(|step| (step.status, step.attempts)).collect();
        for (index, step) in steps.iter().enumerate() {
            let before = self.steps.get(index);
            if before.is_none_or(|before| before.0 != step.0) {
                changed.insert(format!("s{}", index + 1), step.0.to_string());
            }
            if before.is_none_or(|before| before.1 != step.1) {
                changed.insert(format!("a{}", index + 1), step.1.to_string());
            }
        }
        self.steps = steps;
        let cells = cells(run);
        for (key, value) in &cells {
            if self.cells.get(key) != Some(value) {
                changed.insert(key.clone(), value.clone());
            }
        }
        self.cells = cells;
        self.points.push(Point { seq, time, cells: changed });
    }
}

/// The cells of a run that are not about a step.
fn cells(run: &Run) -> BTreeMap<String, String> {
    let mut cells = BTreeMap::new();
    let status =
        if run.pause.is_some() { "paused".to_owned() } else { run_status_text(run.status).1 };
    cells.insert("run".to_owned(), status);
    cells.insert("progress".to_owned(), plain_progress(run));
    cells.insert("share".to_owned(), share(run).to_string());
    cells.insert("spent".to_owned(), cost_text(run.spent()));
    cells.insert("version".to_owned(), run.active.to_string());
    cells.insert("questions".to_owned(), run.questions.len().to_string());
    for (name, variable) in &run.variables {
        cells.insert(format!("v:{name}"), shortened(&variable.value.to_string()));
    }
    for (id, barrier) in &run.barriers {
        let word = barrier_word(barrier.status);
        let text = format!("{word}, {} of {}", barrier.arrived.len(), barrier.needed);
        cells.insert(format!("b:{id}"), text);
    }
    cells
}

/// The share of the steps that are done, in percent.
pub(super) fn share(run: &Run) -> u64 {
    let total: u64 = run.active_version().map_or(0, |version| version.step_count.into());
    let done =
        u64::from(run.count(StepStatus::Accepted)) + u64::from(run.count(StepStatus::Skipped));
    (done * 100).checked_div(total).unwrap_or_default()
}

/// The progress without its bar.
pub(super) fn plain_progress(run: &Run) -> String {
    let text = progress_text(run);
    text.split_once("] ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

/// A text that fits into a cell.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= VALUE_LENGTH_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(VALUE_LENGTH_MAX).collect();
    format!("{kept}\u{2026}")
}

/// The data of the script. It stands in an element of the page, which it must not end.
pub(super) fn script_data(points: &[Point]) -> String {
    let rows: Vec<Value> = points
        .iter()
        .map(|point| {
            let cells = serde_json::to_value(&point.cells).unwrap_or_default();
            Value::Array(vec![point.seq.into(), point.time.into(), cells])
        })
        .collect();
    Value::Array(rows).to_string().replace('<', "\\u003c")
}
