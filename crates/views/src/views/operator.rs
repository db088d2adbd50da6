//! A run for its operator: its numbers, what stops it, its attempts in flight, its questions and barriers.

use std::collections::BTreeMap;

use plan_ledger::plan::{
    Account, Micros, PauseCause, Remaining, RunCounters, UtcTime, VersionSummary,
};
use plan_ledger::{Cost, FailureClass, Run, RunId, StepNumber, StepState, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::barriers::{BarrierLine, Barriers};
use super::execution_state::remaining_text;
use crate::json::{FlightJson, QuestionLine, ReplanRequestJson, RunStatusJson};
use crate::layout::{Document, Paint, Table};
use crate::words::{
    cost_text, counted, moment, paused_text, progress_text, question_subject_text, span,
    spent_text, step_name, variant_words,
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
    barriers: Vec<BarrierLine<'a>>,
    /// The number of steps by status, without zeros.
    counts: &'a BTreeMap<StepStatus, u32>,
    /// The time of its next timer.
    due: Option<UtcTime>,
    /// The time since its start, until its end.
    elapsed_micros: Micros,
    /// The attempts in flight, by the end of their lease.
    in_flight: Vec<FlightJson<'a>>,
    /// The last failure of a step.
    last_failure: Option<LastFailureJson<'a>>,
    /// Its name.
    name: &'a str,
    /// The first few steps that may be dispatched.
    next: Vec<StepNumber>,
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
    stopping: Option<String>,
    /// Counters since its start.
    tally: RunCounters,
    /// The versions of its plan.
    versions: Vec<VersionSummary>,
    #[serde(skip)]
    of: &'a Run,
    #[serde(skip)]
    now: Timestamp,
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

/// The largest number of ready steps that is shown.
const NEXT_MAX: usize = 10;

impl<'a> OperatorViewLine<'a> {
    /// The run at that time.
    #[must_use]
    pub fn of(run: &'a Run, now: Timestamp) -> Self {
        let mut in_flight = flights(run, StepStatus::Dispatched);
        in_flight.sort_by_key(|flight| (flight.lease_until.micros, flight.token));
        let failure = |(step, class, message)| LastFailureJson { class, message, step };
        Self {
            account: *run.account(),
            active: run.active,
            barriers: Barriers::closed(run).lines,
            counts: run.step_counts(),
            due: run.next_timer().map(UtcTime::from),
            elapsed_micros: run.elapsed(now),
            in_flight,
            last_failure: run.newest_failure().map(failure),
            name: &run.name,
            next: run.ready().take(NEXT_MAX).map(|(_, number)| number).collect(),
            outcome_unknown: flights(run, StepStatus::OutcomeUnknown),
            pause: run.pause.as_ref(),
            questions: QuestionLine::of_run(run),
            remaining: run.remaining(now),
            request: run.plan_request().map(ReplanRequestJson::from),
            run: run.id,
            status: run.status.into(),
            stopping: run.why_stopping().map(String::from),
            tally: run.counters,
            versions: VersionSummary::of_run(run),
            of: run,
            now,
        }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        document.cut(2, progress_text(self.of));
        document.table(2, self.numbers());
        self.describe_stops(&mut document);
        document.table(2, self.flights("in flight", &self.in_flight));
        document.table(2, self.flights("outcome unknown", &self.outcome_unknown));
        document.table(2, self.question_table());
        document.table(2, Barriers::closed(self.of).table());
        if !self.next.is_empty() {
            let names: Vec<_> = self.next.iter().map(|step| step_name(self.of, *step)).collect();
            document.cut(2, format!("next  {}", names.join(", ")));
        }
        if let Some(due) = &self.due {
            document.indented(2, format!("next timer  {}", moment(due.micros, self.now)));
        }
        document
    }

    fn numbers(&self) -> Table {
        let run = self.of;
        let RunCounters { failures, retries, exhausted, invalidated, preserved } = self.tally;
        let attempts = self.account.attempts;
        let mut table = Table::default();
        let mut add = |name: &str, text: String| {
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
        };
        add("elapsed", span(self.elapsed_micros / 1_000_000 * 1_000_000));
        let replans = match run.replans {
            0 => "no replans".to_owned(),
            count => counted(count.into(), "replan"),
        };
        add("plan", format!("version {} of {}, {replans}", self.active, self.versions.len()));
        add(
            "attempts",
            format!(
                "{attempts}; {failures} failed, {retries} retried, {exhausted} steps out of attempts"
            ),
        );
        add("spent", spent_text(run));
        add("remaining", remaining_text(run.limits(), self.remaining));
        if self.last_failure.is_none() {
            add("last failure", "none".to_owned());
        }
        if invalidated + preserved > 0 {
            add("replans", format!("invalidated {invalidated} steps, preserved {preserved}"));
        }
        table
    }

    /// What stops the dispatch of steps, and the last failure.
    fn describe_stops(&self, document: &mut Document) {
        let mut notice = |text: String| document.indented(2, (Paint::Notice, text));
        if let Some(cause) = self.pause {
            notice(paused_text(cause));
        }
        if let Some(reason) = &self.stopping {
            notice(format!("no more steps are dispatched: {reason}"));
        }
        if let Some(request) = self.of.plan_request() {
            let (seq, since) = (request.seq, moment(request.time, self.now));
            notice(format!("replan requested by record {seq}, {since}: {}", request.reason));
        }
        if let Some(LastFailureJson { step, class, message }) = &self.last_failure {
            let class = variant_words(class, ' ');
            document.cut(2, (Paint::Bad, format!("last failure  #{step} {class}: {message}")));
        }
    }

    fn flights(&self, what: &str, flights: &[FlightJson<'_>]) -> Table {
        if flights.is_empty() {
            return Table::default();
        }
        let headings = [what, "attempt", "token", "worker", "reserved", "since", "lease"];
        let mut table = Table::with_headings(&headings);
        for flight in flights {
            let FlightJson { step, id, token, attempt, worker, .. } = flight;
            let lease_until = flight.lease_until.micros;
            let end = moment(lease_until, self.now);
            let lease = if lease_until <= self.now {
                (Paint::Bad, format!("expired {end}"))
            } else {
                (Paint::None, format!("until {end}"))
            };
            let reserved = flight.reserved.filter(|cost| *cost != Cost::default());
            let max_attempts = flight.max_attempts.unwrap_or_default();
            table.row([
                (Paint::None, format!("#{step} {}", id.unwrap_or_default())),
                (Paint::None, format!("{attempt}/{max_attempts}")),
                (Paint::None, format!("@{token}")),
                (Paint::None, (*worker).to_owned()),
                (Paint::None, reserved.map_or_else(|| "-".to_owned(), cost_text)),
                (Paint::None, moment(flight.since.micros, self.now)),
                lease,
            ]);
        }
        table
    }

    fn question_table(&self) -> Table {
        if self.questions.is_empty() {
            return Table::default();
        }
        let mut table = Table::with_headings(&["question", "about", "of whom", "due", "asked"]);
        for (id, question) in self.of.asked_questions() {
            let about = match question.step {
                Some(step) => step_name(self.of, step),
                None => question_subject_text(&question.asked.subject),
            };
            let due = question.asked.deadline.map(|at| moment(at, self.now));
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

/// The attempts at steps with that status.
fn flights<'a>(run: &'a Run, status: StepStatus) -> Vec<FlightJson<'a>> {
    let flight = |(number, step): (StepNumber, &'a StepState)| {
        let attempt = step.attempt()?;
        Some(FlightJson::of(run, number, step.attempts, attempt).with_limits(run, attempt))
    };
    run.numbered_steps().filter(|(_, step)| step.status == status).filter_map(flight).collect()
}
