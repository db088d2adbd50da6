//! The state of a ledger after one record, and one run of it in full.

use plan_ledger::plan::{Account, CapScope, UtcTime};
use plan_ledger::{ContentHash, Run, RunId, State, StepNumber, Timestamp, state_hash};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::barriers::{BarrierLine, Barriers};
use super::budget::{Budget, BudgetLine};
use super::variables::{VariableStateLine, origin_text};
use crate::json::{QuestionLine, RunStatusJson, StepStateLine};
use crate::layout::{Document, Paint, Table, Text};
use crate::words::{
    counted, moment, progress_text, run_status_text, spent_text, status_paint, step_name,
    variant_words,
};

/// The state after a record.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StateLine<'a> {
    /// The accounts of all runs together.
    account: Account,
    /// The caps that were set by a record.
    caps: Vec<CapJson<'a>>,
    /// The hash of the state.
    hash: ContentHash,
    /// The number of attempts in flight.
    in_flight: usize,
    /// The time of the next timer.
    next_due: Option<UtcTime>,
    /// The number of complete runs in the state.
    runs: usize,
    /// The record.
    seq: u64,
    /// The number of runs that are only kept as totals.
    summaries: usize,
    /// The time of the record.
    time: UtcTime,
}

/// A cap on the number of attempts in flight.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct CapJson<'a> {
    /// The maximum number.
    limit: u32,
    /// The scope of the cap.
    scope: &'a CapScope,
}

/// The state of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunStateLine<'a> {
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// The number of attempts in flight.
    in_flight: u32,
    /// Its name.
    name: &'a str,
    /// Whether the run is paused.
    paused: bool,
    /// The steps that may be dispatched, in the order of dispatch.
    queue: Vec<StepNumber>,
    /// The number of later active versions that count towards the plan's limit.
    replans: u32,
    /// Its number.
    run: RunId,
    /// The start time.
    started: UtcTime,
    /// Its status.
    status: RunStatusJson,
    /// Why no more steps are dispatched although the run continues.
    stopping: Option<String>,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// The number of plan versions.
    versions: usize,
}

impl<'a> RunStateLine<'a> {
    /// The state of a run.
    #[must_use]
    pub fn of(run: &'a Run) -> Self {
        Self {
            hash: run.active_version().map(|version| version.hash),
            in_flight: run.attempts_in_flight(),
            name: &run.name,
            paused: run.pause.is_some(),
            queue: run.ready().map(|(_, number)| number).collect(),
            replans: run.replans,
            run: run.id,
            started: run.started.into(),
            status: run.status.into(),
            stopping: run.why_stopping().map(String::from),
            version: run.active,
            versions: run.numbered_versions().len(),
        }
    }
}

impl<'a> StateLine<'a> {
    /// That state.
    #[must_use]
    pub fn of(state: &'a State) -> Self {
        let cap = |(scope, limit)| CapJson { limit, scope };
        Self {
            account: *state.account(),
            caps: state.ledger_caps().map(cap).collect(),
            hash: state_hash(state),
            in_flight: state.attempts_in_flight(),
            next_due: state.next_due().map(UtcTime::from),
            runs: state.runs.len(),
            seq: state.seq,
            summaries: state.ended_runs().len(),
            time: state.time.into(),
        }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let in_flight = counted(u64::try_from(self.in_flight).unwrap_or(u64::MAX), "attempt");
        let text = format!("state {} after record {}; {in_flight} in flight", self.hash, self.seq);
        document.painted(Paint::Faint, text);
        for CapJson { limit, scope } in &self.caps {
            document.line(format!("cap of {limit} for {scope}"));
        }
        document
    }
}

/// A run in full: its steps, variables, barriers and questions.
#[derive(Debug)]
pub struct RunState<'a> {
    /// The run.
    pub run: RunStateLine<'a>,
    /// Its steps.
    pub steps: Vec<StepStateLine<'a>>,
    /// Its variables.
    pub variables: Vec<VariableStateLine<'a>>,
    /// Its barriers.
    pub barriers: Vec<BarrierLine<'a>>,
    /// Its open questions.
    pub questions: Vec<QuestionLine>,
    /// The parts of its budget.
    pub budget: Vec<BudgetLine>,
    of: &'a Run,
    now: Timestamp,
}

impl<'a> RunState<'a> {
    /// The run at that time.
    #[must_use]
    pub fn of(run: &'a Run, now: Timestamp) -> Self {
        let steps =
            run.numbered_steps().map(|(number, step)| StepStateLine::of(run.id, number, step));
        let variables = run.named_variables();
        Self {
            run: RunStateLine::of(run),
            steps: steps.collect(),
            variables: variables.map(|(name, it)| VariableStateLine::of(run, name, it)).collect(),
            barriers: Barriers::of(run).lines,
            questions: QuestionLine::of_run(run),
            budget: Budget::of_run(run, now).lines().collect(),
            of: run,
            now,
        }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let run = self.of;
        let mut document = Document::default();
        let (paint, status) = run_status_text(run.status);
        let name = Text::painted(Paint::Heading, format!("run {}", run.name));
        document.line(name.plain(format!(" ({}): ", run.id)).and(paint, status));
        document.cut(2, progress_text(run));
        document.cut(2, spent_text(run));
        let headings = ["step", "status", "attempts", "worker", "last failure"];
        let mut table = Table::with_headings(&headings);
        for (number, step) in run.numbered_steps() {
            let worker = step.attempt().map_or("-", |attempt| attempt.worker.as_str());
            let failure = step
                .last_failure()
                .map(|(class, message)| format!("{}: {message}", variant_words(class, ' ')));
            table.row([
                (Paint::None, step_name(run, number)),
                (status_paint(step.status), step.status.to_string()),
                (Paint::None, step.attempts.to_string()),
                (Paint::None, worker.to_owned()),
                (Paint::None, failure.unwrap_or_else(|| "-".to_owned())),
            ]);
        }
        document.table(2, table);
        self.describe_rest(&mut document);
        document
    }

    fn describe_rest(&self, document: &mut Document) {
        let run = self.of;
        if run.named_variables().len() > 0 {
            let mut table = Table::with_headings(&["variable", "set by", "value"]);
            for (name, variable) in run.named_variables() {
                let author = origin_text(run, &variable.origin);
                table.row([name.to_owned(), author, variable.value.as_str().to_owned()]);
            }
            document.table(2, table);
        }
        self.barriers.iter().for_each(|line| line.describe(self.now, document));
        for (id, question) in run.asked_questions() {
            let due = question.asked.deadline.map(|at| format!(", until {}", moment(at, self.now)));
            let (text, due) = (&question.asked.text, due.unwrap_or_default());
            document.indented(2, (Paint::Notice, format!("question {}{due}: {text}", id.0)));
        }
    }
}
