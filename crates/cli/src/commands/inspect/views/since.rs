//! `ledger status --since TIME`: the events of a run since then. What went wrong is listed:
//! failures, limits, hangs, lost attempts and claims that a check rejected. What went well is
//! counted.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{StepEvent, StepRecord, UsageLimit};
use plan_ledger::{Cost, Event, Outcome, RecordedEvent, Ruling, Run, RunId, StepStatus, Timestamp};

use crate::commands::inspect::context::Form;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::lookup::step_name;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::moment;
use crate::json::TimeJson;
use crate::output::render::Paint;
use crate::output::{Failure, cost_text, escape_control, time_of_day};
use crate::protocol::counted;
use plan_ledger_views::{outcome_text, verdict_text};

/// How many events that went wrong are listed: the last ones.
const LISTED_MAX: usize = 10;

/// The events of a run since a time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SinceLine {
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
    since: TimeJson,
    /// The number of steps that were skipped.
    skipped: u64,
}

/// Prints the events of a run since a time.
pub(crate) fn show_since(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    since: Timestamp,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut records = ledger.run_history(id)?.records;
    records.retain(|record| record.time >= since);
    let line = SinceLine::of(id, since, &records);
    if ledger.context.form == Form::Json {
        return out.json(&line);
    }
    let heading = format!("  since {}", moment(since, ledger.now));
    out.line(&format!("{heading}: {}", line.text()))?;
    let run = ledger.run(id)?;
    let events: Vec<_> = records.iter().filter_map(|record| shown(run, record)).collect();
    let hidden = events.len().saturating_sub(LISTED_MAX);
    if hidden > 0 {
        out.painted(Paint::Faint, &format!("    {hidden} earlier ones: ledger inspect records"))?;
    }
    events.iter().skip(hidden).try_for_each(|(paint, text)| out.painted(*paint, text))
}

impl SinceLine {
    fn of(run: RunId, since: Timestamp, records: &[RecordedEvent]) -> Self {
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

/// The text of an event that went wrong, and whether its step was done since; `None` for the others.
fn shown(run: &Run, record: &RecordedEvent) -> Option<(Paint, String)> {
    let Some(Event::Step(StepRecord { step, event, .. })) = &record.event else { return None };
    let (paint, text) = match event {
        StepEvent::Skipped(event) => {
            (Paint::None, format!("skipped by {}", escape_control(&event.by)))
        }
        StepEvent::AttemptLost(_) => (Paint::Notice, "attempt lost".to_owned()),
        StepEvent::ReceiptRecorded(event) => match &event.receipt.outcome {
            Outcome::Succeeded => return None,
            outcome if has_met_limit(outcome) => {
                (Paint::Notice, format!("usage limit: {}", escape_control(first_line(outcome))))
            }
            outcome => (Paint::Bad, outcome_text(outcome)),
        },
        StepEvent::VerdictRecorded(event) if event.verdict.ruling == Ruling::Fail => {
            (Paint::Bad, verdict_text(&event.verdict))
        }
        _ => return None,
    };
    let is_done = run.step(*step).is_some_and(|step| step.status == StepStatus::Accepted);
    let (paint, since) = if is_done { (Paint::None, "; accepted since") } else { (paint, "") };
    let (time, name) = (time_of_day(record.time), step_name(run, *step));
    Some((paint, format!("    {time}  {name}: {text}{since}")))
}
