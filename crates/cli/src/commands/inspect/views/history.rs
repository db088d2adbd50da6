//! `ledger inspect DIR history RUN STEP`: the history of a step, one line for each record.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::Micros;
use plan_ledger::{Run, RunId, StepNumber, StepState, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::{seconds, span};
use crate::options::StepArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure};
use plan_ledger_views::{RecordLine, content_text};

use super::step::{HistoryEntry, history as step_entries};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger history my-plan deploy    every record of it, and how long it took
  ledger inspect .ledger history my-plan 37 --at 900
  ledger inspect .ledger history my-plan 37 --json | jq -c .event";

/// The history of a step: one line for each record, and the time between them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    of: StepArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn history(
    args: &HistoryArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let number = ledger.step(ledger.run(id)?, args.of.step())?;
    let found = step_entries(&mut ledger, id, number)?;
    let run = ledger.run(id)?;
    match context.form {
        Form::Json => {
            for HistoryEntry { record, status, content } in &found {
                out.json(&RecordLine::of(record, *status, content))?;
            }
            let id_of_step = run.step(number).map(StepState::id);
            out.json(&HistoryLine { id: id_of_step, records: found.len(), run: id, step: number })?;
        }
        Form::Text => {
            ledger.heading(&format!("history of #{number}"), run, out)?;
            ledger.print_first_record(out)?;
            print(run, &found, out)?;
        }
    }
    ledger.finish(out)
}

/// The last line of a history.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HistoryLine<'a> {
    /// The id of the step.
    id: Option<&'a str>,
    /// The number of lines of type `record`.
    records: usize,
    /// The run.
    run: RunId,
    /// The number of the step.
    step: StepNumber,
}

fn print(run: &Run, found: &[HistoryEntry], out: &mut Output<'_>) -> Result<(), Failure> {
    if found.is_empty() {
        return out.line("no events yet");
    }
    let mut table = Table::with_headings(&["record", "when", "after", "what"]);
    let mut last: Option<Timestamp> = None;
    for HistoryEntry { record, content, .. } in found {
        let after = match last {
            None => format!("{} in", gap(record.time.saturating_sub(run.started))),
            Some(last) => format!("+{}", gap(record.time.saturating_sub(last))),
        };
        last = Some(record.time);
        let (paint, text) = content_text(record, content);
        table.row([
            (Paint::None, record.seq.to_string()),
            (Paint::None, seconds(record.time)),
            (Paint::Faint, after),
            (paint, text),
        ]);
    }
    out.table(&table, 2)
}

/// A time between two records; microseconds are omitted if there are seconds.
fn gap(micros: Micros) -> String {
    span(if micros >= 1_000 { micros / 1_000 * 1_000 } else { micros })
}
