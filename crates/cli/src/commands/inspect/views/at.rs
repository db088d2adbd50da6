//! `ledger inspect DIR at SEQ`: the state after one record. Text shows a few runs in full and one
//! line for each other run, unless `--full` is given.

use std::collections::BTreeSet;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::LedgerTime;
use plan_ledger::plan::{Account, CapScope};
use plan_ledger::{ContentHash, Run, RunId, State, StepNumber, state_hash};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::run::RunStatusJson;
use crate::commands::inspect::json::state::{
    BarrierLine, QuestionLine, StepStateLine, VariableStateLine,
};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::{barrier_word, numbered_steps, step_name};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::record_content::{RecordContent, content_text, kind_name};
use crate::commands::inspect::text::run::{progress_text, run_status_text, spent_text};
use crate::commands::inspect::text::status::{barrier_paint, status_paint};
use crate::commands::inspect::text::units::{moment, words};
use crate::json::TimeJson;
use crate::options::OneRunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::counted;

use super::budget::{BudgetRow, elapsed};
use super::variables::origin_text;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger at 1200                   everything after record 1200
  ledger inspect .ledger at 1200 my-plan           of one run
  ledger inspect .ledger at 1200 --json | jq 'select(.type == \"step_state\") | .status'";

/// The state after one record: runs, steps, variables, barriers, questions, accounts
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AtArgs {
    /// The record
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    #[command(flatten)]
    run: OneRunArg,
    /// Print all runs in full, however many (JSON always has all)
    #[arg(long)]
    full: bool,
}

pub(crate) fn at(
    args: &AtArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let at = AtArg { at: Some(args.seq) };
    let (ledger, runs) = if let Some(name) = args.run.name() {
        let (ledger, id) = LedgerAt::of_run(context, at, Some(name))?;
        (ledger, vec![id])
    } else {
        let ledger = LedgerAt::of(context, at)?;
        let runs = match context.form {
            Form::Json => ledger.state.runs.keys().copied().collect(),
            Form::Text => shown(&ledger.state, if args.full { usize::MAX } else { SHOWN }),
        };
        (ledger, runs)
    };
    match context.form {
        Form::Json => print_json(&ledger, &runs, out)?,
        Form::Text => {
            print(&ledger, &runs, out)?;
            if args.run.name().is_none() {
                print_others(&ledger.state, &runs, out)?;
            }
        }
    }
    ledger.finish(out)
}

/// Number of runs that text shows in full without `--full`.
const SHOWN: usize = 8;

/// The runs that are shown in full: open runs, newest first, then the runs that ended last.
fn shown(state: &State, count: usize) -> Vec<RunId> {
    let open = state.runs.open().rev();
    let ended = state.ended.iter().rev().map(|(_, id)| *id);
    let shown: BTreeSet<RunId> = open.chain(ended).take(count).collect();
    shown.into_iter().collect()
}

/// The others, a line each.
fn print_others(state: &State, shown: &[RunId], out: &mut Output<'_>) -> Result<(), Failure> {
    let others: Vec<_> = state.runs.overviews().filter(|(id, _)| !shown.contains(id)).collect();
    if others.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::with_headings(&["other runs", "status", "steps"]);
    for (id, overview) in others {
        let (paint, status) = run_status_text(overview.status);
        table.row([
            (Paint::None, format!("{} ({id})", escape_control(&overview.name))),
            (paint, status),
            (Paint::None, format!("{}/{} accepted", overview.accepted, overview.steps)),
        ]);
    }
    out.table(&table, 0)?;
    out.painted(Paint::Faint, "name a run to see it in full, or use --full")
}

fn print_json(ledger: &LedgerAt<'_>, runs: &[RunId], out: &mut Output<'_>) -> Result<(), Failure> {
    let state = &ledger.state;
    let cap = |(scope, limit): (_, &u32)| CapJson { limit: *limit, scope };
    out.json(&StateLine {
        account: state.account,
        caps: state.caps.iter().map(cap).collect(),
        hash: state_hash(state),
        in_flight: state.in_flight.len(),
        next_due: state.next_due().map(TimeJson::from),
        runs: state.runs.len(),
        seq: state.seq,
        summaries: state.summaries.len(),
        time: state.time.into(),
    })?;
    for id in runs {
        let run = ledger.run(*id)?;
        out.json(&RunStateLine::of(run))?;
        for (number, step) in numbered_steps(run) {
            out.json(&StepStateLine::of(*id, number, step))?;
        }
        for (name, variable) in &run.variables {
            out.json(&VariableStateLine::of(*id, name, variable))?;
        }
        for (name, barrier) in &run.barriers {
            out.json(&BarrierLine::of(run, name, barrier))?;
        }
        for (question, asked) in &run.questions {
            out.json(&QuestionLine::of(*id, *question, asked))?;
        }
        for part in BudgetRow::all(&run.account, run.limits(), Some(elapsed(run, ledger.now))) {
            out.json(&part.line(Some(*id)))?;
        }
    }
    Ok(())
}

/// The state after a record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StateLine<'a> {
    /// The accounts of all runs together.
    account: Account,
    /// The caps that were set by a record.
    caps: Vec<CapJson<'a>>,
    /// The hash of the state.
    hash: ContentHash,
    /// The number of attempts in flight.
    in_flight: usize,
    /// The time of the next timer.
    next_due: Option<TimeJson>,
    /// The number of complete runs in the state.
    runs: usize,
    /// The record.
    seq: u64,
    /// The number of runs of which only totals are kept.
    summaries: usize,
    /// The time of the record.
    time: TimeJson,
}

/// A cap on the number of attempts in flight.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct CapJson<'a> {
    /// The maximum number.
    limit: u32,
    /// The scope of the cap.
    scope: &'a CapScope,
}

/// The state of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RunStateLine<'a> {
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// The number of attempts in flight.
    in_flight: u32,
    /// Its name.
    name: &'a str,
    /// Whether it is paused.
    paused: bool,
    /// The steps that may be dispatched, in the order of dispatch.
    queue: Vec<StepNumber>,
    /// The number of later active versions that count towards the plan's limit.
    replans: u32,
    /// Its number.
    run: RunId,
    /// The start time.
    started: TimeJson,
    /// Its status.
    status: RunStatusJson,
    /// Why no more steps are dispatched although the run continues.
    stopping: Option<String>,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// The number of plan versions.
    versions: usize,
}

impl<'a> RunStateLine<'a> {
    fn of(run: &'a Run) -> Self {
        Self {
            hash: run.active_version().map(|version| version.hash),
            in_flight: run.in_flight,
            name: &run.name,
            paused: run.pause.is_some(),
            queue: run.ready().map(|(_, number)| number).collect(),
            replans: run.replans,
            run: run.id,
            started: run.started.into(),
            status: run.status.into(),
            stopping: run.why_stopping().map(String::from),
            version: run.active,
            versions: run.versions.len(),
        }
    }
}

fn print(ledger: &LedgerAt<'_>, runs: &[RunId], out: &mut Output<'_>) -> Result<(), Failure> {
    let state = &ledger.state;
    let now = LedgerTime::of(ledger.view.log(), ledger.context.environment).now;
    let text = format!("record {}, {}", state.seq, moment(state.time, now));
    out.painted(Paint::Heading, &text)?;
    if let Ok(Some(record)) = ledger.view.log().record(state.seq) {
        let content = RecordContent::of(&record);
        let (paint, text) = content_text(&record, &content);
        let text = format!("  {}: {text}", kind_name(record.kind));
        out.painted(paint, &out.style.fit(&text, 0))?;
    }
    out.line(&format!("  state {}", state_hash(state)))?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (whole, gone) = (counted(count(state.runs.len()), "run"), state.summaries.len());
    let flights = counted(count(state.in_flight.len()), "attempt");
    out.line(&format!("  {whole}, {gone} more as summaries only, {flights} in flight"))?;
    for (scope, limit) in &state.caps {
        out.line(&format!("  cap of {limit} for {}", escape_control(&scope.to_string())))?;
    }
    for id in runs {
        out.line("")?;
        print_run(ledger, ledger.run(*id)?, out)?;
    }
    Ok(())
}

fn print_run(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let (paint, status) = run_status_text(run.status);
    let status = out.style.paint(paint, &status);
    let name = out.style.paint(Paint::Heading, &format!("run {}", escape_control(&run.name)));
    out.line(&format!("{name} ({}): {status}", run.id))?;
    out.line(&format!("  {}", out.style.fit(&progress_text(run), 2)))?;
    out.line(&format!("  {}", out.style.fit(&spent_text(run), 2)))?;
    let mut table = Table::with_headings(&["step", "status", "attempts", "worker", "last failure"]);
    for (number, step) in numbered_steps(run) {
        let worker = step.attempt().map_or("-", |attempt| attempt.worker.as_str());
        let failure = step
            .last_failure()
            .map(|(class, message)| format!("{}: {}", words(class, ' '), escape_control(message)));
        table.row([
            (Paint::None, step_name(run, number)),
            (status_paint(step.status), step.status.to_string()),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, escape_control(worker)),
            (Paint::None, failure.unwrap_or_else(|| "-".to_owned())),
        ]);
    }
    out.table(&table, 2)?;
    print_rest(ledger, run, out)
}

fn print_rest(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    if !run.variables.is_empty() {
        let mut table = Table::with_headings(&["variable", "set by", "value"]);
        for (name, variable) in &run.variables {
            table.row([
                (Paint::None, escape_control(name)),
                (Paint::None, origin_text(run, &variable.origin)),
                (Paint::None, escape_control(variable.value.as_str())),
            ]);
        }
        out.table(&table, 2)?;
    }
    if !run.barriers.is_empty() {
        let mut table = Table::with_headings(&["barrier", "status", "arrived"]);
        for (id, barrier) in &run.barriers {
            table.row([
                (Paint::None, escape_control(id)),
                (barrier_paint(barrier.status), barrier_word(barrier.status).to_owned()),
                (Paint::None, format!("{}/{}", barrier.arrived.len(), barrier.needed)),
            ]);
        }
        out.table(&table, 2)?;
    }
    for (id, question) in &run.questions {
        let due = question.asked.deadline.map(|at| format!(", until {}", moment(at, ledger.now)));
        let (text, due) = (escape_control(&question.asked.text), due.unwrap_or_default());
        out.painted(Paint::Notice, &format!("  question {}{due}: {text}", id.0))?;
    }
    Ok(())
}
