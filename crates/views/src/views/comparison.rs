//! Where two runs diverge, and how their results differ.

use plan_ledger::internals::ledger::{
    AttemptDifference, AttemptEnd, AttemptEndKind, Divergence, DivergenceCause, Pair,
    RunComparison, StepDifference,
};
use plan_ledger::{ContentHash, Cost, Json, RunId, StepStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::plan_diff::{PlanDiffJson, plan_diff_text};
use crate::json::RunStatusJson;
use crate::layout::{Document, Paint, Table};
use crate::render::cut;
use crate::words::{cost_text, run_status_text, status_paint, word};

/// A value of each of the two runs.
type PairJson<T> = [T; 2];

/// The differences between two runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ComparisonLine<'a> {
    /// The attempts that differ.
    attempts: Vec<AttemptDifferenceJson<'a>>,
    /// The first difference.
    parting: Option<DivergenceJson<'a>>,
    /// The differences between the active plans.
    plan: PlanDiffJson<'a>,
    /// The runs.
    runs: PairJson<RunId>,
    /// Their costs.
    spent: PairJson<Cost>,
    /// Their status.
    status: PairJson<RunStatusJson>,
    /// The steps that differ.
    steps: Vec<StepDifferenceJson<'a>>,
    /// The variables that differ.
    variables: Vec<VariableDifferenceJson<'a>>,
    /// The hashes of their plan versions, from the first that differs.
    versions: &'a [PairJson<Option<ContentHash>>],
}

impl<'a> From<&'a RunComparison> for ComparisonLine<'a> {
    fn from(found: &'a RunComparison) -> Self {
        let variables = found.variables.iter().map(|(name, values)| VariableDifferenceJson {
            name,
            values: values.each_ref().map(|value| value.as_ref().map(Json::as_str)),
        });
        Self {
            attempts: found.attempts.iter().map(AttemptDifferenceJson::from).collect(),
            parting: found.divergence.as_ref().map(DivergenceJson::from),
            plan: (&found.plan).into(),
            runs: found.runs,
            spent: found.spent,
            status: found.status.map(RunStatusJson::from),
            steps: found.steps.iter().map(StepDifferenceJson::from).collect(),
            variables: variables.collect(),
            versions: &found.versions,
        }
    }
}

/// The first difference between two runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
enum DivergenceJson<'a> {
    /// An attempt ended differently, or only one run had it.
    Attempt {
        /// The number of the attempt.
        attempt: u32,
        /// The records; null without any.
        seqs: PairJson<Option<u64>>,
        /// The id of the step.
        step: &'a str,
    },
    /// A version of the plan differs.
    Version {
        /// The records; null without any.
        seqs: PairJson<Option<u64>>,
        /// The version.
        version: u32,
    },
}

impl<'a> From<&'a Divergence> for DivergenceJson<'a> {
    fn from(Divergence { seqs, what }: &'a Divergence) -> Self {
        let seqs = *seqs;
        match what {
            DivergenceCause::Attempt { step, attempt } => {
                Self::Attempt { attempt: *attempt, seqs, step }
            }
            DivergenceCause::Version(version) => Self::Version { seqs, version: *version },
        }
    }
}

/// An attempt that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct AttemptDifferenceJson<'a> {
    /// The number of the attempt.
    attempt: u32,
    /// How it ended in each run; null if the run did not have it.
    ends: PairJson<Option<AttemptEndJson<'a>>>,
    /// The id of the step.
    step: &'a str,
}

/// The end of an attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct AttemptEndJson<'a> {
    /// How it ended: `in_flight`, succeeded, `replan_requested`, or `lost_` or `failed_` and the reason.
    end: String,
    /// The hash of its output, if it reported.
    output_hash: Option<ContentHash>,
    /// The record.
    seq: u64,
    /// The worker.
    worker: &'a str,
}

impl<'a> From<&'a AttemptDifference> for AttemptDifferenceJson<'a> {
    fn from(difference: &'a AttemptDifference) -> Self {
        let AttemptDifference { step, attempt, ends } = difference;
        let end = |end: &'a AttemptEnd| AttemptEndJson {
            end: end_word(end.kind),
            output_hash: end.output,
            seq: end.seq,
            worker: &end.worker,
        };
        Self { attempt: *attempt, ends: ends.each_ref().map(|each| each.as_ref().map(end)), step }
    }
}

/// A step that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct StepDifferenceJson<'a> {
    /// The number of its attempts.
    attempts: PairJson<u32>,
    /// Its cost.
    cost: PairJson<Cost>,
    /// Its status; null if the step does not exist.
    status: PairJson<Option<StepStatus>>,
    /// Its id.
    step: &'a str,
}

impl<'a> From<&'a StepDifference> for StepDifferenceJson<'a> {
    fn from(difference: &'a StepDifference) -> Self {
        let StepDifference { step, status, attempts, cost } = difference;
        Self { attempts: *attempts, cost: *cost, status: *status, step }
    }
}

/// A variable that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct VariableDifferenceJson<'a> {
    /// Its name.
    name: &'a str,
    /// Its values as JSON text; null if it is not set.
    values: PairJson<Option<&'a str>>,
}

/// The end of an attempt in one word.
fn end_word(kind: AttemptEndKind) -> String {
    match kind {
        AttemptEndKind::InFlight => "in_flight".to_owned(),
        AttemptEndKind::Lost(cause) => format!("lost_{}", word(&cause)),
        AttemptEndKind::Succeeded => "succeeded".to_owned(),
        AttemptEndKind::Failed(class) => format!("failed_{}", word(&class)),
        AttemptEndKind::ReplanRequested => "replan_requested".to_owned(),
    }
}

/// The differences between two runs with those names.
#[must_use]
pub fn comparison_document(found: &RunComparison, names: &[String; 2]) -> Document {
    let mut document = Document::default();
    describe(found, names, &mut document);
    document
}

fn describe(found: &RunComparison, names: &Pair<String>, document: &mut Document) {
    let [one, other] = names;
    document.painted(Paint::Heading, format!("run {one} and run {other}"));
    match &found.divergence {
        None => document.line("  no decision differs"),
        Some(Divergence { seqs, what }) => {
            let what = match what {
                DivergenceCause::Attempt { step, attempt } => {
                    format!("attempt {attempt} of {step}")
                }
                DivergenceCause::Version(version) => format!("version {version} of the plan"),
            };
            let seq = |seq: &Option<u64>| {
                seq.map_or_else(|| "never".to_owned(), |seq| format!("record {seq}"))
            };
            let [first, second] = seqs.each_ref().map(seq);
            document.painted(
                Paint::Notice,
                format!("  they diverge at {what}: {first} of {one}, {second} of {other}"),
            );
        }
    }
    describe_sides(found, names, document);
    describe_attempts(&found.attempts, document);
    describe_variables(found, document);
    if !found.plan.is_empty() {
        document.gap();
        document.painted(Paint::Faint, "  the active plans");
        let text = plan_diff_text(&found.plan);
        text.lines().for_each(|line| document.indented(2, line));
    }
}

/// Values of both runs, side by side.
fn describe_sides(found: &RunComparison, names: &Pair<String>, document: &mut Document) {
    let [one, other] = names;
    let mut table = Table::with_headings(&["", one.as_str(), other.as_str()]);
    let mut row = |what: String, [left, right]: Pair<(Paint, String)>| {
        table.row([(Paint::None, what), left, right]);
    };
    row("status".to_owned(), found.status.map(run_status_text));
    row("spent".to_owned(), found.spent.map(|cost| (Paint::None, cost_text(cost))));
    for StepDifference { step, status, attempts, cost } in &found.steps {
        let [left, right] = status.map(status_cell);
        row(step.clone(), [left, right]);
        if attempts.first() != attempts.last() {
            row("  attempts".to_owned(), attempts.map(|count| (Paint::None, count.to_string())));
        }
        if cost.first() != cost.last() {
            row("  cost".to_owned(), cost.map(|cost: Cost| (Paint::None, cost_text(cost))));
        }
    }
    document.table(2, table);
}

fn status_cell(status: Option<StepStatus>) -> (Paint, String) {
    match status {
        None => (Paint::Faint, "no such step".to_owned()),
        Some(status) => (status_paint(status), status.to_string()),
    }
}

fn describe_attempts(attempts: &[AttemptDifference], document: &mut Document) {
    if attempts.is_empty() {
        return;
    }
    document.gap();
    let mut table = Table::with_headings(&["attempts that differ", "", ""]);
    for AttemptDifference { step, attempt, ends } in attempts {
        let [left, right] = ends.each_ref().map(|end| match end {
            None => "not there".to_owned(),
            Some(end) => {
                format!("{} (record {})", end_word(end.kind).replace('_', " "), end.seq)
            }
        });
        let name = format!("{step} attempt {attempt}");
        table.row([(Paint::None, name), (Paint::None, left), (Paint::None, right)]);
    }
    document.table(2, table);
}

fn describe_variables(found: &RunComparison, document: &mut Document) {
    if found.variables.is_empty() {
        return;
    }
    document.gap();
    let mut table = Table::with_headings(&["variables that differ", "", ""]);
    for (name, values) in &found.variables {
        let [left, right] = values.each_ref().map(|value| {
            let text = value.as_ref().map_or("not set", |value| value.as_str());
            cut(text, 40)
        });
        table.row([(Paint::None, name.clone()), (Paint::None, left), (Paint::None, right)]);
    }
    document.table(2, table);
}
