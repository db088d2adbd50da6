//! The events of a run since a time. What went wrong is listed: failures, limits, hangs, lost attempts
//! and claims that a check rejected. What went well is counted.

use plan_ledger::plan::{StepEvent, StepRecord, UsageLimit, UtcTime};
use plan_ledger::{Cost, Event, Outcome, RecordedEvent, Ruling, Run, RunId, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint};
use crate::records::{outcome_text, verdict_text};
use crate::words::{cost_text, counted, moment, step_name};

/// How many events that went wrong are listed: the last ones.
const LISTED_MAX: usize = 10;

/// The events of a run since a time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SinceLine {
    /// The number of steps that were accepted.
    accepted: u64,
    /// The cost of the attempts that reported.
    cost: Cost,
    /// The number of attempts that reported a failure.
    failed_attempts: u64,
    /// The number of attempts that met a usage limit, which are not among the failed ones.
    limited_attempts: u64,
    /// The number of attempts that were lost.
    lost_attempts: u64,
    /// The number of verdicts that a criterion does not hold.
    rejected: u64,
    /// The run.
    run: RunId,
    /// The time.
    since: UtcTime,
    /// The number of steps that were skipped.
    skipped: u64,
}

/// The records of a run since a time.
#[derive(Debug)]
pub struct Since<'a> {
    /// The line of them.
    pub line: SinceLine,
    run: &'a Run,
    records: Vec<&'a RecordedEvent>,
}

impl<'a> Since<'a> {
    /// Those of a run since that time.
    #[must_use]
    pub fn of(run: &'a Run, since: Timestamp, records: &'a [RecordedEvent]) -> Self {
        let records: Vec<_> = records.iter().filter(|record| record.time >= since).collect();
        Self { line: SinceLine::of(run.id, since, &records), run, records }
    }

    /// Its document at that time. `time_of_day` says when an event was, where the reader is.
    #[must_use]
    pub fn document(&self, now: Timestamp, time_of_day: fn(Timestamp) -> String) -> Document {
        let mut document = Document::default();
        let since = moment(self.line.since.micros, now);
        document.indented(2, format!("since {since}: {}", self.line.text()));
        let shown = |record: &&'a RecordedEvent| Some((record.time, self.shown(record)?));
        let events: Vec<_> = self.records.iter().filter_map(shown).collect();
        let hidden = events.len().saturating_sub(LISTED_MAX);
        if hidden > 0 {
            let text = format!("{hidden} earlier ones: ledger inspect records");
            document.indented(4, (Paint::Faint, text));
        }
        for (time, (paint, text)) in events.into_iter().skip(hidden) {
            document.indented(4, (paint, format!("{}  {text}", time_of_day(time))));
        }
        document
    }

    /// The text of an event that went wrong, and whether its step was done since; `None` for the others.
    fn shown(&self, record: &RecordedEvent) -> Option<(Paint, String)> {
        let Some(Event::Step(StepRecord { step, event, .. })) = &record.event else { return None };
        let (paint, text) = match event {
            StepEvent::Skipped(event) => (Paint::None, format!("skipped by {}", event.by)),
            StepEvent::AttemptLost(_) => (Paint::Notice, "attempt lost".to_owned()),
            StepEvent::ReceiptRecorded(event) => match &event.receipt.outcome {
                Outcome::Succeeded => return None,
                outcome if has_met_limit(outcome) => {
                    (Paint::Notice, format!("usage limit: {}", first_line(outcome)))
                }
                outcome => (Paint::Bad, outcome_text(outcome)),
            },
            StepEvent::VerdictRecorded(event) if event.verdict.ruling == Ruling::Fail => {
                (Paint::Bad, verdict_text(&event.verdict))
            }
            _ => return None,
        };
        let is_done = self.run.step(*step).is_some_and(|step| step.status == StepStatus::Accepted);
        let (paint, since) = if is_done { (Paint::None, "; accepted since") } else { (paint, "") };
        Some((paint, format!("{}: {text}{since}", step_name(self.run, *step))))
    }
}

impl SinceLine {
    fn of(run: RunId, since: Timestamp, records: &[&RecordedEvent]) -> Self {
        let (cost, since) = (Cost::default(), since.into());
        let mut line = Self {
            accepted: 0,
            cost,
            failed_attempts: 0,
            limited_attempts: 0,
            lost_attempts: 0,
            rejected: 0,
            run,
            since,
            skipped: 0,
        };
        for record in records {
            let Some(Event::Step(record)) = &record.event else { continue };
            match &record.event {
                StepEvent::Accepted(_) => line.accepted += 1,
                StepEvent::AttemptLost(_) => line.lost_attempts += 1,
                StepEvent::Skipped(_) => line.skipped += 1,
                StepEvent::VerdictRecorded(event) => {
                    line.rejected += u64::from(event.verdict.ruling == Ruling::Fail);
                }
                StepEvent::ReceiptRecorded(event) => {
                    let Cost { money_micros, tokens } = event.receipt.cost;
                    line.cost.money_micros = line.cost.money_micros.saturating_add(money_micros);
                    line.cost.tokens = line.cost.tokens.saturating_add(tokens);
                    let outcome = &event.receipt.outcome;
                    let is_limit = has_met_limit(outcome);
                    let has_failed = matches!(outcome, Outcome::Failed { .. }) && !is_limit;
                    line.limited_attempts += u64::from(is_limit);
                    line.failed_attempts += u64::from(has_failed);
                }
                _ => {}
            }
        }
        line
    }

    fn text(&self) -> String {
        let problems = [
            (self.failed_attempts, "failed attempt"),
            (self.rejected, "failed check"),
            (self.lost_attempts, "lost attempt"),
            (self.limited_attempts, "usage limit"),
            (self.skipped, "skipped step"),
        ];
        let problems = problems.iter().filter(|it| it.0 > 0);
        let mut parts: Vec<String> = problems.map(|(count, what)| counted(*count, what)).collect();
        parts.push(format!("{} accepted", counted(self.accepted, "step")));
        parts.push(format!("cost {}", cost_text(self.cost)));
        parts.join(", ")
    }
}

/// Whether an attempt met a limit that waiting ends: it counts as no failure.
fn has_met_limit(outcome: &Outcome) -> bool {
    matches!(UsageLimit::of(outcome), Some(UsageLimit::Worker | UsageLimit::Output))
}

fn first_line(outcome: &Outcome) -> &str {
    let Outcome::Failed { message, .. } = outcome else { return "" };
    message.lines().next().unwrap_or_default()
}
