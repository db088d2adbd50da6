//! The decisions of people in a run: `ledger questions --decided`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{RunHistory, time_text};
use plan_ledger::{Event, QuestionId, Run, StepNumber, StepState};

use crate::commands::inspect::answers::{answered, asked_person, author};
use crate::commands::inspect::context::Form;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::output::Output;
use crate::json::TimeJson;
use crate::output::render::{Paint, Table};
use crate::output::{Failure, escape_control};
use plan_ledger_views::{event_subject, event_text};

use super::page::Page;

/// A decision of a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DecisionLine<'a> {
    /// The addressee of the question; null if the addressee answered, or the question was for any
    /// person.
    asked: Option<&'a str>,
    /// The person.
    by: &'a str,
    /// The decision.
    #[cfg_attr(test, schemars(with = "plan_ledger_views::EventSchema"))]
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
    time: TimeJson,
}

/// The decisions of people in a run.
fn decisions<'a>(run: &'a Run, history: &'a RunHistory) -> Vec<DecisionLine<'a>> {
    let events = || history.records.iter().filter_map(|it| Some((it.seq, it.event.as_ref()?)));
    let asked: BTreeMap<QuestionId, &str> =
        events().filter_map(|(seq, event)| asked_person(seq, event)).collect();
    let records = history.records.iter().filter_map(|it| Some((it, it.event.as_ref()?)));
    let decided = records.filter_map(|(record, event)| {
        let by = author(event)?;
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

pub(super) fn print_decisions(
    ledger: &LedgerAt<'_>,
    (run, history): (&Run, &RunHistory),
    page: &mut Page,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut decisions = decisions(run, history);
    let is_empty = decisions.is_empty();
    decisions.retain(|_| page.takes());
    if ledger.context.form == Form::Json {
        return decisions.iter().try_for_each(|decision| out.json(decision));
    }
    out.line("")?;
    out.painted(Paint::Heading, &format!("decided in run {}", escape_control(&run.name)))?;
    ledger.print_first_record(out)?;
    if is_empty {
        return out.line("no decision by a person");
    }
    let time_of = |seq| history.records.iter().find(|it| it.seq == seq).map(|it| it.time);
    let mut table = Table::with_headings(&["record", "when", "by", "step", "event"]);
    for DecisionLine { asked, by, event, number, seq, .. } in &decisions {
        let step = number.map_or_else(|| "-".to_owned(), |step| format!("#{step}"));
        let asked = asked.map(|asked| format!("; it was for {}", escape_control(asked)));
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_of(*seq).map(time_text).unwrap_or_default()),
            (Paint::Heading, escape_control(by)),
            (Paint::None, step),
            (Paint::None, format!("{}{}", event_text(event), asked.unwrap_or_default())),
        ]);
    }
    out.table(&table, 2)
}
