//! A run for its operator: its numbers, what stops it, its attempts in flight, its questions and barriers.

use std::collections::BTreeMap;

use plan_ledger::plan::{
    Account, AttemptSummary, BarrierSummary, Micros, OperatorView, PauseCause, Remaining,
    RunCounters, VersionSummary,
};
use plan_ledger::{Cost, FailureClass, Run, RunId, StepNumber, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::execution_state::remaining_text;
use crate::json::{FlightJson, QuestionLine, ReplanRequestJson, RunStatusJson, TimeJson};
use crate::layout::{Document, Paint, Table};
use crate::words::{
    barrier_paint, barrier_word, cost_text, counted, moment, paused_text, progress_text,
    question_subject_text, span, spent_text, step_name, variant_words,
};

/// A run for its operator.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OperatorViewLine<'a> {
    /// The spending, and the limits that a record set.
    account: Account,
    /// The active version.
    active: u32,
    /// The barriers that are not released.
    barriers: &'a [BarrierSummary],
    /// The number of steps by status, without zeros.
    counts: &'a BTreeMap<StepStatus, u32>,
    /// The time of its next timer.
    due: Option<TimeJson>,
    /// The time since its start, until its end.
    elapsed_micros: Micros,
    /// The attempts in flight, by the end of their lease.
    in_flight: Vec<FlightJson<'a>>,
    /// The last failure of a step.
    last_failure: Option<LastFailureJson<'a>>,
    /// Its name.
    name: &'a str,
    /// The first few steps that may be dispatched.
    next: &'a [StepNumber],
    /// The attempts with an unknown outcome.
    outcome_unknown: Vec<FlightJson<'a>>,
    /// Why it is paused; null if it is not.
    pause: Option<&'a PauseCause>,
    /// The open questions.
    questions: Vec<QuestionLine>,
    /// The rest of the budget.
    remaining: Remaining,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// Its number.
    run: RunId,
    /// Its status.
    status: RunStatusJson,
    /// Why no more steps are dispatched although the run continues.
    stopping: Option<&'a str>,
    /// Counters since its start.
    tally: RunCounters,
    /// The versions of its plan.
    versions: &'a [VersionSummary],
}

/// The last failure of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct LastFailureJson<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
    /// The step.
    step: StepNumber,
}

/// A run at a time, for its operator.
#[derive(Debug)]
pub struct OperatorStatus<'a> {
    run: &'a Run,
    view: OperatorView,
    now: Timestamp,
}

impl<'a> OperatorStatus<'a> {
    /// The run at that time.
    #[must_use]
    pub fn of(run: &'a Run, now: Timestamp) -> Self {
        Self { run, view: run.operator_view(now), now }
    }

    /// The line of it.
    #[must_use]
    pub fn line(&self) -> OperatorViewLine<'_> {
        let view = &self.view;
        let questions = view.questions.iter();
        OperatorViewLine {
            account: view.account,
            active: view.active,
            barriers: &view.barriers,
            counts: &view.counts,
            due: view.due.map(TimeJson::from),
            elapsed_micros: view.elapsed,
            in_flight: view.in_flight.iter().map(FlightJson::from).collect(),
            last_failure: view.last_failure.as_ref().map(|(step, class, message)| {
                LastFailureJson { class: *class, message, step: *step }
            }),
            name: &view.name,
            next: &view.next,
            outcome_unknown: view.outcome_unknown.iter().map(FlightJson::from).collect(),
            pause: view.pause.as_ref(),
            questions: questions.map(|(id, each)| QuestionLine::of(view.run, *id, each)).collect(),
            remaining: view.remaining,
            request: view.request.as_ref().map(ReplanRequestJson::from),
            run: view.run,
            status: view.status.into(),
            stopping: view.stopping.as_deref(),
            tally: view.counters,
            versions: &view.versions,
        }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let Self { run, view, now } = self;
        let mut document = Document::default();
        document.cut(2, progress_text(run));
        document.table(2, self.numbers());
        self.describe_stops(&mut document);
        document.table(2, self.flights("in flight", &view.in_flight));
        document.table(2, self.flights("outcome unknown", &view.outcome_unknown));
        document.table(2, self.questions());
        document.table(2, barriers(&view.barriers));
        if !view.next.is_empty() {
            let names: Vec<_> = view.next.iter().map(|number| step_name(run, *number)).collect();
            document.cut(2, format!("next  {}", names.join(", ")));
        }
        if let Some(due) = view.due {
            document.indented(2, format!("next timer  {}", moment(due, *now)));
        }
        document
    }

    fn numbers(&self) -> Table {
        let Self { run, view, .. } = self;
        let RunCounters { failures, retries, exhausted, invalidated, preserved } = view.counters;
        let attempts = view.account.attempts;
        let mut table = Table::default();
        let mut add = |name: &str, text: String| {
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
        };
        add("elapsed", span(view.elapsed / 1_000_000 * 1_000_000));
        let replans = match run.replans {
            0 => "no replans".to_owned(),
            count => counted(count.into(), "replan"),
        };
        add("plan", format!("version {} of {}, {replans}", view.active, view.versions.len()));
        add(
            "attempts",
            format!(
                "{attempts}; {failures} failed, {retries} retried, {exhausted} steps out of attempts"
            ),
        );
        add("spent", spent_text(run));
        add("remaining", remaining_text(run.limits(), view.remaining));
        if view.last_failure.is_none() {
            add("last failure", "none".to_owned());
        }
        if invalidated + preserved > 0 {
            add("replans", format!("invalidated {invalidated} steps, preserved {preserved}"));
        }
        table
    }

    /// What stops the dispatch of steps, and the last failure.
    fn describe_stops(&self, document: &mut Document) {
        let Self { view, now, .. } = self;
        let mut notice = |text: String| document.indented(2, (Paint::Notice, text));
        if let Some(cause) = &view.pause {
            notice(paused_text(cause));
        }
        if let Some(reason) = &view.stopping {
            notice(format!("no more steps are dispatched: {reason}"));
        }
        if let Some(request) = &view.request {
            let (seq, since) = (request.seq, moment(request.time, *now));
            notice(format!("replan requested by record {seq}, {since}: {}", request.reason));
        }
        if let Some((step, class, message)) = &view.last_failure {
            let class = variant_words(class, ' ');
            document.cut(2, (Paint::Bad, format!("last failure  #{step} {class}: {message}")));
        }
    }

    fn flights(&self, what: &str, flights: &[AttemptSummary]) -> Table {
        if flights.is_empty() {
            return Table::default();
        }
        let now = self.now;
        let headings = [what, "attempt", "token", "worker", "reserved", "since", "lease"];
        let mut table = Table::with_headings(&headings);
        for flight in flights {
            let AttemptSummary { step, id, token, attempt, max_attempts, worker, .. } = flight;
            let AttemptSummary { dispatched, lease_until, reserved, .. } = flight;
            let end = moment(*lease_until, now);
            let lease = if *lease_until <= now {
                (Paint::Bad, format!("expired {end}"))
            } else {
                (Paint::None, format!("until {end}"))
            };
            let is_reserved = *reserved != Cost::default();
            let reserved = if is_reserved { cost_text(*reserved) } else { "-".to_owned() };
            table.row([
                (Paint::None, format!("#{step} {id}")),
                (Paint::None, format!("{attempt}/{max_attempts}")),
                (Paint::None, format!("@{token}")),
                (Paint::None, worker.clone()),
                (Paint::None, reserved),
                (Paint::None, moment(*dispatched, now)),
                lease,
            ]);
        }
        table
    }

    fn questions(&self) -> Table {
        let Self { run, view, now } = self;
        if view.questions.is_empty() {
            return Table::default();
        }
        let mut table = Table::with_headings(&["question", "about", "of whom", "due", "asked"]);
        for (id, question) in &view.questions {
            let about = match question.step {
                Some(step) => step_name(run, step),
                None => question_subject_text(&question.asked.subject),
            };
            let due = question.asked.deadline.map(|at| moment(at, *now));
            let to = question.asked.to.as_deref().unwrap_or("any person");
            table.row([
                (Paint::Notice, id.0.to_string()),
                (Paint::None, about),
                (Paint::None, to.to_owned()),
                (Paint::None, due.unwrap_or_else(|| "-".to_owned())),
                (Paint::None, question.asked.text.to_string()),
            ]);
        }
        table
    }
}

fn barriers(barriers: &[BarrierSummary]) -> Table {
    if barriers.is_empty() {
        return Table::default();
    }
    let mut table = Table::with_headings(&["barrier", "status", "arrived", "failed"]);
    for BarrierSummary { id, status, arrived, needed, failed } in barriers {
        table.row([
            (Paint::None, id.clone()),
            (barrier_paint(*status), barrier_word(*status).to_owned()),
            (Paint::None, format!("{arrived}/{needed}")),
            (Paint::None, failed.to_string()),
        ]);
    }
    table
}
