//! The decisions of people in a run.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::RunHistory;
use plan_ledger::plan::UtcTime;
use plan_ledger::{Event, QuestionId, Run, StepNumber, StepState};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::records::{answered, asked_person, decided_by};
use crate::records::{event_subject, event_text};

/// A decision of a person.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DecisionLine<'a> {
    /// The addressee of the question; null if the addressee answered, or the question was for any
    /// person.
    asked: Option<&'a str>,
    /// The person.
    by: &'a str,
    /// The decision.
    #[cfg_attr(feature = "schema", schemars(with = "crate::json::EventSchema"))]
    event: &'a Event,
    /// The number of the step; null if it is about the run.
    number: Option<StepNumber>,
    /// The run.
    run: &'a str,
    /// The record.
    seq: u64,
    /// The id of the step; null if it is about the run.
    step: Option<&'a str>,
    /// The time.
    time: UtcTime,
}

/// The decisions of people in a run.
#[must_use]
pub fn decisions<'a>(run: &'a Run, history: &'a RunHistory) -> Vec<DecisionLine<'a>> {
    let events = || history.records.iter().filter_map(|it| Some((it.seq, it.event.as_ref()?)));
    let asked: BTreeMap<QuestionId, &str> =
        events().filter_map(|(seq, event)| asked_person(seq, event)).collect();
    let records = history.records.iter().filter_map(|it| Some((it, it.event.as_ref()?)));
    let decided = records.filter_map(|(record, event)| {
        let by = decided_by(event)?;
        let asked = answered(event).and_then(|question| asked.get(&question).copied());
        let number = event_subject(event).1;
        Some(DecisionLine {
            asked: asked.filter(|asked| *asked != by),
            by,
            event,
            number,
            run: &run.name,
            seq: record.seq,
            step: number.and_then(|number| run.step(number)).map(StepState::id),
            time: record.time.into(),
        })
    });
    decided.collect()
}

/// The decisions, for people.
#[must_use]
pub fn decisions_document(decisions: &[DecisionLine<'_>]) -> Document {
    let mut table = Table::with_headings(&["record", "when", "by", "step", "event"]);
    for DecisionLine { asked, by, event, number, seq, time, .. } in decisions {
        let step = number.map_or_else(|| "-".to_owned(), |step| format!("#{step}"));
        let asked = asked.map(|asked| format!("; it was for {asked}")).unwrap_or_default();
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time.utc.clone()),
            (Paint::Heading, (*by).to_owned()),
            (Paint::None, step),
            (Paint::None, format!("{}{asked}", event_text(event))),
        ]);
    }
    let mut document = Document::default();
    document.table(2, table);
    document
}
