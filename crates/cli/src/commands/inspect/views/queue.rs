//! `ledger inspect DIR queue`: the ready steps in the order of dispatch, and their blockers.

use std::collections::BTreeSet;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{BlockReason, Explanation, explain};
use plan_ledger::{Run, RunId, StepNumber, StepState, StepStatus};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::explanation::ReasonJson;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::name_and_title;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::moment;
use crate::json::TimeJson;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::counted;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger queue                     the next steps, and what a cap blocks
  ledger inspect .ledger queue my-plan --at 900
  ledger inspect .ledger queue --json | jq -r 'select(.type == \"ready\") | .id'";

/// Number of steps listed in text.
const SHOWN: usize = 40;

/// The ready steps in the order of dispatch, and what still blocks them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn queue(
    args: &QueueArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let run = ledger.run(id)?;
    match context.form {
        Form::Json => print_json(&ledger, run, out)?,
        Form::Text => print(&ledger, run, out)?,
    }
    ledger.finish(out)
}

/// The blockers of a ready step.
fn held(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> Vec<BlockReason> {
    let found = explain(&ledger.state, run.id, number, ledger.now).ok();
    found.map_or_else(Vec::new, |found: Explanation| found.run_reasons)
}

fn print_json(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    for ((priority, number), place) in run.ready().zip(1_u64..) {
        let step = run.step(number);
        let held = held(ledger, run, number);
        out.json(&ReadyLine {
            held: held.iter().map(ReasonJson::from).collect(),
            id: step.map(StepState::id),
            owner: step.and_then(|step| step.owner()),
            place,
            priority: priority.0,
            run: run.id,
            step: number,
            tags: step.map(StepState::tags),
        })?;
    }
    for (number, until) in delayed(run) {
        out.json(&DelayedLine {
            id: run.step(number).map(StepState::id),
            run: run.id,
            step: number,
            until: until.map(TimeJson::from),
        })?;
    }
    Ok(())
}

/// A ready step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReadyLine<'a> {
    /// The reasons that block its dispatch nevertheless.
    held: Vec<ReasonJson<'a>>,
    /// Its id.
    id: Option<&'a str>,
    /// Its owner.
    owner: Option<&'a str>,
    /// Its place in the queue, from 1.
    place: u64,
    /// Its priority.
    priority: i32,
    /// The run.
    run: RunId,
    /// Its number.
    step: StepNumber,
    /// Its tags.
    tags: Option<&'a BTreeSet<String>>,
}

/// A step that waits after a failure.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DelayedLine<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// The run.
    run: RunId,
    /// Its number.
    step: StepNumber,
    /// The end of the delay.
    until: Option<TimeJson>,
}

fn delayed(run: &Run) -> impl Iterator<Item = (StepNumber, Option<plan_ledger::Timestamp>)> {
    let steps = (1..).map(StepNumber).zip(&run.steps);
    let delayed = steps.filter(|(_, step)| step.status == StepStatus::Delayed);
    delayed.map(|(number, step)| (number, step.hold().delay))
}

fn print(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    ledger.heading("queue", run, out)?;
    if run.lanes.is_empty() {
        out.line("no step can be dispatched; `why RUN STEP` shows what blocks a step")?;
    } else {
        let mut table =
            Table::with_headings(&["place", "step", "priority", "owner", "held by", ""]);
        for ((priority, number), place) in run.ready().zip(1_u64..).take(SHOWN) {
            let (name, title) = name_and_title(run, number);
            let owner = run.step(number).and_then(|step| step.owner()).unwrap_or("-");
            let held = held(ledger, run, number);
            let (paint, held) = match held.first() {
                None => (Paint::Faint, "-".to_owned()),
                Some(reason) => (Paint::Notice, block_text(reason).to_owned()),
            };
            table.row([
                (Paint::None, place.to_string()),
                (Paint::Heading, name),
                (Paint::None, priority.0.to_string()),
                (Paint::None, escape_control(owner)),
                (paint, held),
                (Paint::Faint, title),
            ]);
        }
        out.table(&table, 2)?;
        let rest = run.ready_count().saturating_sub(SHOWN);
        if rest > 0 {
            out.line(&format!("  and {rest} more"))?;
        }
    }
    for (number, until) in delayed(run) {
        let (name, _) = name_and_title(run, number);
        let until = until.map_or_else(String::new, |at| format!(", {}", moment(at, ledger.now)));
        out.line(&format!("  delayed: {name}{until}"))?;
    }
    let in_flight = counted(run.in_flight.into(), "attempt");
    out.painted(Paint::Faint, &format!("  {in_flight} in flight"))
}

/// The blocker of a ready step, in a few words.
fn block_text(reason: &BlockReason) -> &'static str {
    match reason {
        BlockReason::RunEnded(_) => "the run's end",
        BlockReason::Paused(_) => "a pause",
        BlockReason::Stopping(_) => "the run stops",
        BlockReason::Replan { .. } => "a request for a new plan",
        BlockReason::Cap { .. } => "a cap",
        BlockReason::Budget(_) => "the budget",
        _ => "see why",
    }
}
