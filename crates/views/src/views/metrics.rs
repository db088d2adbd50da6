//! How well the plan and the policies work: shares of a run, or of all runs, and their marks.

use std::collections::BTreeMap;

use plan_ledger::RunId;
use plan_ledger::internals::ledger::{Ratio, RunMetrics};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::span;

/// How well the plan and the policies work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// As it should be.
    Healthy,
    /// A first sign of trouble.
    Degrading,
    /// It does not work.
    Broken,
}

/// A metric: its name, its value, the counted items, and its mark.
#[derive(Debug)]
struct Metric {
    name: String,
    ratio: Ratio,
    what: &'static str,
    mark: Option<Mark>,
}

/// The mark of a share that should be low, or high, in thousandths: it is healthy up to the first limit, and
/// degrading up to the second.
fn mark(ratio: Ratio, healthy: u64, degrading: u64) -> Option<Mark> {
    let share = ratio.per_mille()?;
    let is_within = |limit: u64| if healthy <= degrading { share <= limit } else { share >= limit };
    Some(match share {
        _ if is_within(healthy) => Mark::Healthy,
        _ if is_within(degrading) => Mark::Degrading,
        _ => Mark::Broken,
    })
}

/// The metrics of a run, or of all.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MetricsLine<'a> {
    #[serde(flatten)]
    metrics: &'a RunMetrics,
    /// The run; null for all runs together.
    run: Option<RunId>,
    /// The marks, by metric; those of budgets by `budget_` and their part.
    marks: BTreeMap<String, Mark>,
    #[serde(skip)]
    rows: Vec<Metric>,
}

impl<'a> MetricsLine<'a> {
    /// The metrics of a run, or of all runs together.
    #[must_use]
    pub fn of(metrics: &'a RunMetrics, run: Option<RunId>) -> Self {
        let rows = rows(metrics);
        let mark = |row: &Metric| Some((row.name.replace("budget of ", "budget_"), row.mark?));
        Self { metrics, run, marks: rows.iter().filter_map(mark).collect(), rows }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let headings = ["metric", "share", "mark", "counts", "what is counted"];
        let mut table = Table::with_headings(&headings);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        let mut document = Document::default();
        document.table(2, table);
        document
    }
}

fn rows(found: &RunMetrics) -> Vec<Metric> {
    let row = |name: &str, ratio: Ratio, what, (healthy, degrading)| Metric {
        name: name.to_owned(),
        ratio,
        what,
        mark: mark(ratio, healthy, degrading),
    };
    let mut rows = vec![
        row(
            "plan_generation",
            found.plan_generation,
            "microseconds of planners / plans",
            (2_000_000_000, 10_000_000_000),
        ),
        row(
            "replan_frequency",
            found.replan_frequency,
            "later versions that became active / runs",
            (200, 1000),
        ),
        row(
            "retry_exhaustion",
            found.retry_exhaustion,
            "steps out of attempts / steps with a failure",
            (200, 500),
        ),
        row(
            "first_classification",
            found.first_classification,
            "first classes not contradicted / first classes",
            (800, 500),
        ),
        row(
            "replan_precision",
            found.replan_precision,
            "replans that solved their problem / replans for one",
            (800, 500),
        ),
        row(
            "state_trust",
            found.state_trust,
            "variables that replans trusted / variables",
            (500, 250),
        ),
        row("step_time", found.step_time, "microseconds taken / estimated", (2000, 4000)),
    ];
    rows.extend(found.budget_use.iter().map(|(part, ratio)| Metric {
        name: format!("budget of {part}"),
        ratio: *ratio,
        what: "spent / limit",
        mark: mark(*ratio, 800, 1000),
    }));
    rows
}

impl Metric {
    fn cells(&self) -> [(Paint, String); 5] {
        let share = self.ratio.per_mille().map(|share| match self.name.as_str() {
            // Its whole is a number, and its part a time.
            "plan_generation" => span(share / 1000),
            _ => format!("{}.{} %", share / 10, share % 10),
        });
        let (paint, mark) = match self.mark {
            None => (Paint::None, "-"),
            Some(Mark::Healthy) => (Paint::Good, "healthy"),
            Some(Mark::Degrading) => (Paint::Notice, "degrading"),
            Some(Mark::Broken) => (Paint::Bad, "broken"),
        };
        [
            (Paint::None, self.name.replace('_', " ")),
            (Paint::Heading, share.unwrap_or_else(|| "-".to_owned())),
            (paint, mark.to_owned()),
            (Paint::None, self.ratio.to_string()),
            (Paint::Faint, self.what.to_owned()),
        ]
    }
}
