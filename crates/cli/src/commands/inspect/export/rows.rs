//! Converts records and states to table rows.
//!
//! Invariants: a run's rows are those of the state at the record that ended it, or of the last
//! state; every event struct with its own table is destructured field by field.

use std::collections::BTreeMap;

use crate::output::Failure;
use plan_ledger::ledger::{Fold, LedgerView, state_hash};
use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::plan::{
    AfterLoss, AttemptToken, Dispatched, Event, FailureDecided, Outcome, Output, Receipt,
    ResolvedOutcome, Run, RunId, RunSummary, StepEvent, StepNumber, StepRecord, StepStatus,
    Verdict,
};

use super::table::TableWriter;
use super::value::row;
use crate::commands::inspect::health::any_header;
use crate::commands::inspect::json::event::{basis_json, decision_json, event_json};
use crate::commands::inspect::json::run::status_word;
use crate::commands::inspect::lookup::text_of;
use crate::commands::inspect::record_content::{RecordContent, kind_name, proof_word};
use crate::commands::inspect::style::{hex, words};
use crate::commands::inspect::text::event::event_subject;

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
        proof: RecordStatus,
        fold: &Fold,
        sink: &mut TableWriter<'_>,
    ) -> Result<(), Failure> {
        let content = RecordContent::of(record);
        let event = match &content {
            RecordContent::Event(event) => Some(event),
            _ => None,
        };
        let (run, step) = event.map_or((None, None), event_subject);
        let kind = kind_name(record.kind);
        sink.put(
            "records",
            row![
                record.seq,
                record.time,
                kind,
                run.map(|run| run.0),
                step.map(|step| step.0),
                proof_word(proof),
                record.chain.to_string(),
                event.map(event_json),
            ],
        )?;
        match event {
            Some(Event::Step(step)) => self.step(record, step, sink),
            Some(Event::PlanVerdict(judged)) => {
                verdict(record.seq, None, (judged.run, None), &judged.verdict, sink)
            }
            Some(Event::RunEnded(ended)) => {
                // A later state may no longer have the run.
                let run = fold.state.runs.get(&ended.run).filter(|_| fold.is_current());
                self.current.retain(|(run, _), _| *run != ended.run);
                run.map_or(Ok(()), |run| run_rows(run, sink))
            }
            _ => Ok(()),
        }
    }

    fn step(
        &mut self,
        record: &LoggedRecord,
        of: &StepRecord,
        sink: &mut TableWriter<'_>,
    ) -> Result<(), Failure> {
        let (seq, at) = (record.seq, (of.run, Some(of.step)));
        let outcome = |sink: &mut TableWriter<'_>, token: AttemptToken, outcome: &str| {
            sink.outcome(outcome, seq, token.0)
        };
        match &of.event {
            StepEvent::Dispatched(dispatch) => {
                self.current.insert((of.run, of.step), AttemptToken(seq));
                dispatched(record, of, dispatch, sink)
            }
            StepEvent::ReceiptRecorded(event) => {
                receipt(record, (of, event.token), &event.receipt, None, sink)?;
                outcome(sink, event.token, "reported")
            }
            StepEvent::ReceiptRefused(event) => {
                receipt(record, (of, event.token), &event.receipt, Some(&event.reason), sink)
            }
            StepEvent::VerdictRecorded(event) => {
                verdict(seq, Some(event.token), at, &event.verdict, sink)
            }
            StepEvent::Accepted(_) => match self.current.remove(&(of.run, of.step)) {
                Some(token) => outcome(sink, token, "accepted"),
                None => Ok(()),
            },
            StepEvent::AttemptLost(event) => match event.then {
                AfterLoss::Redispatch => outcome(sink, event.token, "lost"),
                AfterLoss::OutcomeUnknown => outcome(sink, event.token, "outcome_unknown"),
            },
            StepEvent::OutcomeResolved(event) => match event.finding {
                ResolvedOutcome::Landed => outcome(sink, event.token, "landed"),
                ResolvedOutcome::DidNotHappen => outcome(sink, event.token, "did_not_happen"),
            },
            StepEvent::FailureDecided(event) => {
                decision(seq, of, event, sink)?;
                outcome(sink, event.token, "failed")
            }
            _ => Ok(()),
        }
    }

    /// Writes the rows of the final state.
    pub(super) fn end(
        view: &LedgerView,
        fold: &Fold,
        sink: &mut TableWriter<'_>,
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
        let ledger = any_header(view.log()).map(|header| hex(&header.ledger));
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

fn dispatched(
    record: &LoggedRecord,
    of: &StepRecord,
    dispatch: &Dispatched,
    sink: &mut TableWriter<'_>,
) -> Result<(), Failure> {
    let Dispatched { attempt, worker, lease_until, idempotency_key, reserved: _ } = dispatch;
    sink.put(
        "attempts",
        row![
            record.seq,
            of.run.0,
            of.step.0,
            *attempt,
            worker,
            record.time,
            *lease_until,
            idempotency_key,
            "in_flight",
            None::<u64>,
        ],
    )
}

fn receipt(
    record: &LoggedRecord,
    (of, token): (&StepRecord, AttemptToken),
    receipt: &Receipt,
    refused: Option<&String>,
    sink: &mut TableWriter<'_>,
) -> Result<(), Failure> {
    let (outcome, class, message) = match &receipt.outcome {
        Outcome::Succeeded => ("succeeded", None, None),
        Outcome::Failed { class, message, payload: _ } => {
            ("failed", Some(words(class, '_')), Some(message))
        }
        Outcome::ReplanRequested { reason } => ("replan_requested", None, Some(reason)),
    };
    let blob = match &receipt.output {
        Output::Inline(_) => None,
        Output::Blob(blob) => Some(blob.hash.to_string()),
    };
    let output = receipt.output.inline().map(|value| value.as_str().to_owned());
    sink.put(
        "receipts",
        row![
            record.seq,
            token.0,
            of.run.0,
            of.step.0,
            record.time,
            outcome,
            class,
            message,
            output,
            blob,
            receipt.cost.money_micros,
            receipt.cost.tokens,
            receipt.duration,
            refused,
        ],
    )
}

fn verdict(
    seq: u64,
    token: Option<AttemptToken>,
    (run, step): (RunId, Option<StepNumber>),
    verdict: &Verdict,
    sink: &mut TableWriter<'_>,
) -> Result<(), Failure> {
    let Verdict { criterion, ruling, by, evidence } = verdict;
    let (token, step) = (token.map(|token| token.0), step.map(|step| step.0));
    let ruling = words(ruling, '_');
    sink.put("verdicts", row![seq, token, run.0, step, *criterion, ruling, by, evidence])
}

fn decision(
    seq: u64,
    of: &StepRecord,
    decided: &FailureDecided,
    sink: &mut TableWriter<'_>,
) -> Result<(), Failure> {
    let FailureDecided { token, class, decision, rule, reason, disposition, then } = decided;
    sink.put(
        "decisions",
        row![
            seq,
            token.0,
            of.run.0,
            of.step.0,
            words(class, '_'),
            decision_json(decision),
            rule,
            reason,
            words(disposition, '_'),
            words(then, '_'),
        ],
    )
}

fn run_rows(run: &Run, sink: &mut TableWriter<'_>) -> Result<(), Failure> {
    sink.put(
        "runs",
        row![
            run.id.0,
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
                run.id.0,
                number,
                version.hash.to_string(),
                &version.plan.header().title,
                &version.reason,
                version.review.map(|review| words(&review, '_')),
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
                run.id.0,
                number.0,
                step.id(),
                text_of(run, number).map(|(_, step)| step.title()),
                step.owner(),
                words(&step.status, '_'),
                step.attempts,
                step.failures,
                step.accepted().map(basis_json),
                failure.map(|(class, _)| words(class, '_')),
                failure.map(|(_, message)| message),
            ],
        )?;
    }
    for (name, variable) in &run.variables {
        let value = variable.value.as_str();
        let values = row![run.id.0, name, value, variable.version, variable.time];
        sink.put("variables", values)?;
    }
    Ok(())
}

/// The row of a run of which only a summary is left, unless its final state was already written.
fn summary_row(
    number: RunId,
    summary: &RunSummary,
    sink: &mut TableWriter<'_>,
) -> Result<(), Failure> {
    sink.put_missing(
        "runs",
        row![
            number.0,
            &summary.name,
            words(&summary.ending, '_'),
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
