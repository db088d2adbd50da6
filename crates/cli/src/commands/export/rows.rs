//! Converts records and states to table rows.
//!
//! Invariants: a run's rows are those of the state at the record that ended it, or of the last
//! state; the columns about an event are members of its JSON form.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::output::Failure;
use plan_ledger::internals::ledger::{Fold, Kind};
use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::plan::{
    AfterLoss, ReceiptRecorded, ReceiptRefused, ResolvedOutcome, RunSummary, StepEvent, StepRecord,
};
use plan_ledger::{
    AttemptToken, Event, LedgerView, Outcome, Run, RunId, StepNumber, StepStatus, state_hash,
};

use super::table::TableWriter;
use super::value::{Value, row};
use crate::protocol::hex;
use plan_ledger_views::event_subject;
use plan_ledger_views::status_word;
use plan_ledger_views::text_of;
use plan_ledger_views::{RecordContent, RecordStatusWord, kind_name};

/// The version of the tables.
const SCHEMA: u64 = 1;

/// The state that is kept between records.
#[derive(Debug, Default)]
pub(super) struct TableExporter {
    /// The last attempt of each step.
    current: BTreeMap<(RunId, StepNumber), AttemptToken>,
}

impl TableExporter {
    pub(super) fn record(
        &mut self,
        record: &LoggedRecord,
        status: RecordStatus,
        fold: &Fold,
        sink: &mut TableWriter,
    ) -> Result<(), Failure> {
        let content = RecordContent::of(record);
        let event = match &content {
            RecordContent::Event(event) => Some(event),
            _ => None,
        };
        let (run, step) = event.map_or((None, None), event_subject);
        let json = |event| serde_json::to_value(event).expect("an event consists of JSON values");
        let fields = event.map(json);
        sink.put(
            "records",
            row![
                record.seq,
                record.time,
                kind_name(record.kind),
                run,
                step,
                RecordStatusWord::from(status).word(),
                record.chain.to_string(),
                fields.as_ref().map(ToString::to_string),
            ],
        )?;
        if let (Some(event), Some(fields)) = (event, fields) {
            event_row(record, event, fields, sink)?;
        }
        match event {
            Some(Event::Step(step)) => self.step(record.seq, step, sink),
            Some(Event::RunEnded(ended)) => {
                // A later state may no longer have the run.
                let run = fold.state.runs.get(&ended.run).filter(|_| fold.is_current());
                self.current.retain(|(run, _), _| *run != ended.run);
                run.map_or(Ok(()), |run| run_rows(run, sink))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the last attempt of each step, and writes the outcome of an attempt that the event ends.
    fn step(&mut self, seq: u64, of: &StepRecord, sink: &mut TableWriter) -> Result<(), Failure> {
        let (token, outcome) = match &of.event {
            StepEvent::Dispatched(_) => {
                self.current.insert((of.run, of.step), AttemptToken(seq));
                return Ok(());
            }
            StepEvent::Accepted(_) => match self.current.remove(&(of.run, of.step)) {
                Some(token) => (token, "accepted"),
                None => return Ok(()),
            },
            StepEvent::ReceiptRecorded(event) => (event.token, "reported"),
            StepEvent::AttemptLost(event) => match event.then {
                AfterLoss::Redispatch => (event.token, "lost"),
                AfterLoss::OutcomeUnknown => (event.token, "outcome_unknown"),
            },
            StepEvent::OutcomeResolved(event) => match event.finding {
                ResolvedOutcome::Landed => (event.token, "landed"),
                ResolvedOutcome::DidNotHappen => (event.token, "did_not_happen"),
            },
            StepEvent::FailureDecided(event) => (event.token, "failed"),
            _ => return Ok(()),
        };
        sink.outcome(outcome, seq, token.0)
    }

    /// Writes the rows of the final state.
    pub(super) fn end(
        view: &LedgerView,
        fold: &Fold,
        sink: &mut TableWriter,
    ) -> Result<(), Failure> {
        for run in fold.state.runs.values() {
            run_rows(run, sink)?;
        }
        for (number, summary) in &fold.state.summaries {
            summary_row(*number, summary, sink)?;
        }
        for damage in &fold.damage {
            let is_missing = damage.first_seq <= damage.last_seq;
            sink.put(
                "damage",
                row![
                    damage.path.display().to_string(),
                    damage.offset,
                    damage.end,
                    is_missing.then_some(damage.first_seq),
                    is_missing.then_some(damage.last_seq),
                    &damage.what,
                ],
            )?;
        }
        let ledger = view.log().uids().map(|(ledger, _)| hex(&ledger));
        let is_complete = fold.damage.is_empty() && fold.unreadable.is_none();
        sink.put("meta", row!["schema", SCHEMA])?;
        sink.put("meta", row!["ledger", ledger])?;
        sink.put("meta", row!["first_seq", view.log().first_seq()])?;
        sink.put("meta", row!["last_seq", fold.last.as_ref().map_or(0, |last| last.seq)])?;
        sink.put("meta", row!["chain", fold.last.as_ref().map(|last| last.chain.to_string())])?;
        sink.put("meta", row!["state_seq", fold.state.seq])?;
        sink.put("meta", row!["state_hash", state_hash(&fold.state).to_string()])?;
        sink.put("meta", row!["complete", if is_complete { "yes" } else { "no" }])
    }
}

/// The tables with a row for each event of a kind, and the place of each column in the event's JSON
/// form with the members that [`event_row`] adds.
const EVENT_TABLES: [(Kind, &str, &[&str]); 6] = [
    (Kind::Dispatched, "attempts", ATTEMPT),
    (Kind::ReceiptRecorded, "receipts", RECEIPT),
    (Kind::ReceiptRefused, "receipts", RECEIPT),
    (Kind::VerdictRecorded, "verdicts", VERDICT),
    (Kind::PlanVerdict, "verdicts", VERDICT),
    (Kind::FailureDecided, "decisions", DECISION),
];

const ATTEMPT: &[&str] = &[
    "/seq",
    "/run",
    "/step",
    "/attempt",
    "/worker",
    "/time",
    "/lease_until/micros",
    "/idempotency_key",
    "/outcome",
    "/ended_seq",
];

const RECEIPT: &[&str] = &[
    "/seq",
    "/token",
    "/run",
    "/step",
    "/time",
    "/receipt/outcome/is",
    "/receipt/outcome/class",
    "/message",
    "/output",
    "/receipt/output_blob/hash",
    "/receipt/cost/money_micros",
    "/receipt/cost/tokens",
    "/receipt/duration_micros",
    "/reason",
];

const VERDICT: &[&str] = &[
    "/seq",
    "/token",
    "/run",
    "/step",
    "/verdict/criterion",
    "/verdict/ruling",
    "/verdict/by",
    "/verdict/evidence",
];

const DECISION: &[&str] = &[
    "/seq",
    "/token",
    "/run",
    "/step",
    "/class",
    "/decision",
    "/rule",
    "/reason",
    "/disposition",
    "/then",
];

/// Writes the row of an event in the table of its kind, if it has a table.
fn event_row(
    record: &LoggedRecord,
    event: &Event,
    mut fields: Json,
    sink: &mut TableWriter,
) -> Result<(), Failure> {
    let kind = Kind::of(event);
    let Some((_, table, columns)) = EVENT_TABLES.iter().find(|(of, ..)| *of == kind) else {
        return Ok(());
    };
    let mut add = |name, value: Json| {
        if let Json::Object(fields) = &mut fields {
            fields.insert(name, value);
        }
    };
    add("seq".to_owned(), record.seq.into());
    add("time".to_owned(), record.time.into());
    if let Event::Step(StepRecord { event, .. }) = event {
        match event {
            StepEvent::Dispatched(_) => add("outcome".to_owned(), "in_flight".into()),
            StepEvent::ReceiptRecorded(ReceiptRecorded { receipt, .. })
            | StepEvent::ReceiptRefused(ReceiptRefused { receipt, .. }) => {
                let message = match &receipt.outcome {
                    Outcome::Succeeded => None,
                    Outcome::Failed { message, .. } => Some(message.as_str()),
                    Outcome::ReplanRequested { reason, .. } => Some(reason.as_str()),
                };
                add("message".to_owned(), message.into());
                add(
                    "output".to_owned(),
                    receipt.output.inline().map(plan_ledger::Json::as_str).into(),
                );
            }
            _ => {}
        }
    }
    let value = |place: &&str| fields.pointer(place).map_or(Value::Null, Value::of_json);
    sink.put(table, &columns.iter().map(value).collect::<Vec<_>>())
}

fn run_rows(run: &Run, sink: &mut TableWriter) -> Result<(), Failure> {
    sink.put(
        "runs",
        row![
            run.id,
            &run.name,
            status_word(run.status),
            run.started,
            run.end_record.map(|(_, time)| time),
            run.end_record.map(|(seq, _)| seq),
            run.active,
            run.active_version().map_or(0, |version| version.step_count),
            run.count(StepStatus::Accepted),
            run.count(StepStatus::Skipped),
            run.count(StepStatus::Failed),
            run.account.attempts,
            run.spent().money_micros,
            run.spent().tokens,
        ],
    )?;
    for (number, version) in (1_u32..).zip(&run.versions) {
        sink.put(
            "plan_versions",
            row![
                run.id,
                number,
                version.hash.to_string(),
                &version.plan.header().title,
                &version.reason,
                version.review,
                version.step_count,
                version.plan.decode().canonical(),
            ],
        )?;
    }
    for (number, step) in (1..).map(StepNumber).zip(&run.steps) {
        let failure = step.last_failure();
        sink.put(
            "steps",
            row![
                run.id,
                number,
                step.id(),
                text_of(run, number).map(|(_, step)| step.title()),
                text_of(run, number).map(|(_, step)| step.goal()),
                step.owner(),
                step.status,
                step.attempts,
                step.failures,
                step.accepted(),
                failure.map(|(class, _)| class),
                failure.map(|(_, message)| message),
            ],
        )?;
    }
    for (name, variable) in &run.variables {
        let value = variable.value.as_str();
        let values = row![run.id, name, value, variable.version, variable.time];
        sink.put("variables", values)?;
    }
    Ok(())
}

/// The row of a run that is only kept as a summary, unless its final state was already written.
fn summary_row(number: RunId, summary: &RunSummary, sink: &mut TableWriter) -> Result<(), Failure> {
    sink.put_missing(
        "runs",
        row![
            number,
            &summary.name,
            summary.ending,
            summary.started,
            summary.ended,
            summary.seq,
            summary.version.0,
            summary.steps,
            summary.accepted,
            summary.skipped,
            None::<u32>,
            summary.attempts,
            summary.spent.money_micros,
            summary.spent.tokens,
        ],
    )
}
