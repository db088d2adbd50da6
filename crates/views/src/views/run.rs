//! A run among those of its ledger: its plan and progress, what is in flight or has failed, and its next actions.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{Account, PauseCause, RunForked, UtcTime};
use plan_ledger::{
    ContentHash, Cost, Limits, Run, RunId, RunPolicy, StepNumber, StepState, StepStatus,
};

use super::barriers::{BarrierLine, Barriers};
use super::heading::run_heading;
use crate::activity::RunActivityJson;
use crate::criteria::{TrustedCheckJson, trusted_text};
use crate::json::{FlightJson, QuestionLine, ReplanRequestJson, RunStatusJson};
use crate::layout::{Block, Document, Paint, Table, Text};
use crate::next::KnownRun;
use crate::next::{NextAction, NextActionJson};
use crate::records::fork_text;
use crate::runner::steps_in_flight;
use crate::words::{moment, progress_text, spent_text, step_name, variant_words};

/// A run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunLine<'a> {
    /// The barriers of the active version.
    barriers: Vec<BarrierLine<'a>>,
    /// How it stands.
    activity: RunActivityJson,
    /// The limits of its budget, and their used parts.
    budget: BudgetJson,
    /// The spending.
    cost: Cost,
    /// The number of steps by status.
    counts: BTreeMap<StepStatus, u32>,
    /// Steps that wait after a failure.
    delayed: Vec<DelayedStepJson<'a>>,
    /// Steps that failed permanently.
    failed: Vec<StepNameJson<'a>>,
    /// The origin of a forked run.
    forked: Option<&'a RunForked>,
    /// Steps with an open question.
    gated: Vec<StepNameJson<'a>>,
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// The attempts in flight, in the order of dispatch.
    in_flight: Vec<FlightJson<'a>>,
    /// Its name.
    name: &'a str,
    /// The next actions, most urgent first.
    next: Vec<NextActionJson>,
    /// Steps with an unknown outcome.
    outcome_unknown: Vec<StepNameJson<'a>>,
    /// Why it is paused; null if it is not.
    pause: Option<&'a PauseCause>,
    /// How it handles approval, text criteria and failures.
    policy: RunPolicy,
    /// The open questions.
    questions: Vec<QuestionLine>,
    /// Steps that wait for verdicts.
    reported: Vec<StepNameJson<'a>>,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// Its number.
    run: RunId,
    /// The start time.
    started: UtcTime,
    /// Its status.
    status: RunStatusJson,
    /// The number of steps in the active version.
    steps: u32,
    /// The title of the active version.
    title: Option<&'a str>,
    /// The checks that were taken on the worker's word.
    trusted_checks: Vec<TrustedCheckJson>,
    /// The number of variables.
    variables: usize,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// The number of plan versions.
    versions: usize,
}

impl<'a> RunLine<'a> {
    /// The line of a run, with its next actions.
    fn of(known: &KnownRun<'a>, actions: &[NextAction]) -> Self {
        let KnownRun { state, run, .. } = *known;
        let flights = steps_in_flight(state, run).filter_map(|(number, step)| {
            Some(FlightJson::of(run, number, step.attempts, step.attempt()?))
        });
        let names = |status| run.steps_in(status).map(|number| StepNameJson::of(run, number));
        Self {
            barriers: Barriers::of(run).lines,
            activity: RunActivityJson::of(&known.activity()),
            budget: BudgetJson::of(run),
            cost: run.spent(),
            counts: COUNTED.into_iter().map(|status| (status, run.count(status))).collect(),
            delayed: run
                .steps_in(StepStatus::Delayed)
                .map(|number| DelayedStepJson::of(run, number))
                .collect(),
            failed: names(StepStatus::Failed).collect(),
            forked: run.fork.as_ref(),
            gated: names(StepStatus::Gated).collect(),
            hash: run.active_version().map(|version| version.hash),
            in_flight: flights.collect(),
            name: &run.name,
            next: actions.iter().map(NextActionJson::from).collect(),
            outcome_unknown: run
                .steps_of_unknown_outcome()
                .map(|number| StepNameJson::of(run, number))
                .collect(),
            pause: run.pause.as_ref(),
            policy: run.policy,
            questions: QuestionLine::of_run(run),
            reported: run.reported_steps().map(|number| StepNameJson::of(run, number)).collect(),
            request: run.plan_request().map(ReplanRequestJson::from),
            run: run.id,
            started: run.started.into(),
            status: run.status.into(),
            steps: run.active_version().map_or(0, |version| version.step_count),
            title: run.plan().map(|plan| plan.header().title.as_str()),
            trusted_checks: TrustedCheckJson::of_run(run),
            variables: run.named_variables().len(),
            version: run.active,
            versions: run.numbered_versions().len(),
        }
    }
}

/// The statuses that are counted.
const COUNTED: [StepStatus; 11] = [
    StepStatus::Waiting,
    StepStatus::Ready,
    StepStatus::Dispatched,
    StepStatus::OutcomeUnknown,
    StepStatus::Reported,
    StepStatus::Accepted,
    StepStatus::Failed,
    StepStatus::Skipped,
    StepStatus::Gated,
    StepStatus::Delayed,
    StepStatus::Cancelled,
];

/// A step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct StepNameJson<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// Its number.
    step: StepNumber,
}

impl<'a> StepNameJson<'a> {
    fn of(run: &'a Run, number: StepNumber) -> Self {
        Self { id: run.step(number).map(StepState::id), step: number }
    }
}

/// A step that waits after a failure.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct DelayedStepJson<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// Its number.
    step: StepNumber,
    /// The end of the delay.
    until: Option<UtcTime>,
}

impl<'a> DelayedStepJson<'a> {
    fn of(run: &'a Run, number: StepNumber) -> Self {
        let step = run.step(number);
        let until = step.and_then(|step| step.hold().delay).map(UtcTime::from);
        Self { id: step.map(StepState::id), step: number, until }
    }
}

/// The budget of a run, and its used part.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct BudgetJson {
    /// Attempts dispatched so far.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// The limits; null is no limit.
    limits: Limits,
    /// The cost reserved for attempts in flight.
    reserved: Cost,
    /// The spending.
    spent: Cost,
}

impl BudgetJson {
    fn of(run: &Run) -> Self {
        let Account { limits: _, spent, estimated, reserved, attempts } = *run.account();
        Self { attempts, estimated, limits: run.limits(), reserved, spent }
    }
}

/// A run among those of its ledger.
#[derive(Debug)]
pub struct RunView<'a> {
    known: KnownRun<'a>,
    actions: Vec<NextAction>,
}

/// How many names are listed.
const NAMES_MAX: usize = 8;

impl<'a> RunView<'a> {
    /// The view of a run.
    #[must_use]
    pub fn of(known: KnownRun<'a>) -> Self {
        Self { actions: known.first_actions(), known }
    }

    /// Its line of JSON.
    #[must_use]
    pub fn line(&self) -> RunLine<'a> {
        RunLine::of(&self.known, &self.actions)
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let run = self.known.run;
        let mut document = run_heading("", run, &self.known.activity());
        if let Some(forked) = &run.fork {
            document.indented(2, fork_text(forked));
        }
        if let Some(version) = run.active_version() {
            let title = &version.plan.header().title;
            let title = if title.is_empty() { String::new() } else { format!(": {title}") };
            let hash = version.hash.short();
            document.cut(2, format!("version {} of the plan ({hash}){title}", run.active));
        }
        document.indented(2, progress_text(run));
        document.indented(2, spent_text(run));
        self.add_in_flight(&mut document);
        let reported = run.reported_steps();
        add_steps(run, "wait for verdicts", StepStatus::Reported, reported, &mut document);
        let unknown = run.steps_of_unknown_outcome();
        add_steps(run, "outcome unknown", StepStatus::OutcomeUnknown, unknown, &mut document);
        add_failed(run, &mut document);
        document.table(2, Barriers::of(run).table());
        if let Some(text) = trusted_text(run) {
            document.indented(2, (Paint::Notice, text));
        }
        document.indented(2, (Paint::Faint, "next"));
        for action in &self.actions {
            action.add_to(&mut document, 4, "", 2);
        }
        document
    }

    fn add_in_flight(&self, document: &mut Document) {
        let KnownRun { state, run, now, ref runner, .. } = self.known;
        let mut table = Table::with_headings(&["in flight", "attempt", "worker", "since", "lease"]);
        for (number, step) in steps_in_flight(state, run) {
            let Some(attempt) = step.attempt() else { continue };
            let gone = runner.gone.iter().find(|gone| gone.token == attempt.token);
            let until = moment(attempt.lease_until, now);
            let (paint, lease) = match gone {
                Some(gone) => (Paint::Bad, format!("process {} is gone", gone.process)),
                None if attempt.lease_until <= now => (Paint::Bad, format!("expired {until}")),
                None => (Paint::None, format!("until {until}")),
            };
            table.row([
                (Paint::None, step_name(run, number)),
                (Paint::None, step.attempts.to_string()),
                (Paint::None, attempt.worker.clone()),
                (Paint::None, moment(attempt.dispatched, now)),
                (paint, lease),
            ]);
        }
        if !table.rows().is_empty() {
            document.table(2, table);
        }
    }
}

fn add_steps(
    run: &Run,
    what: &str,
    status: StepStatus,
    steps: impl Iterator<Item = StepNumber>,
    document: &mut Document,
) {
    let total = run.count(status);
    if total > 0 {
        let names = some(steps.map(|number| step_name(run, number)), total);
        let start = Text::painted(Paint::Notice, what).plain("  ");
        document.push(Block::Cut { indent: 2, start, text: names.into(), end: Text::default() });
    }
}

/// The first few of many names.
fn some(names: impl Iterator<Item = String>, total: u32) -> String {
    let shown: Vec<_> = names.take(NAMES_MAX).collect();
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    match total.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

fn add_failed(run: &Run, document: &mut Document) {
    let mut table = Table::with_headings(&["failed", "attempts", "class", "why"]);
    let failed: Vec<StepNumber> = run.steps_in(StepStatus::Failed).collect();
    for number in failed.iter().take(NAMES_MAX) {
        let Some(step) = run.step(*number) else { continue };
        let (class, message) = match step.last_failure() {
            Some((class, message)) => (variant_words(class, ' '), message.to_string()),
            None => (String::new(), String::new()),
        };
        table.row([
            (Paint::Bad, step_name(run, *number)),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, class),
            (Paint::None, message),
        ]);
    }
    if !table.rows().is_empty() {
        document.table(2, table);
    }
    let rest = failed.len().saturating_sub(NAMES_MAX);
    if rest > 0 {
        document.indented(2, format!("and {rest} more"));
    }
}
