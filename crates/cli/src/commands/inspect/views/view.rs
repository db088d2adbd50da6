//! `ledger status`: a run for its user, its operator or debugging, or its execution state.
//!
//! Invariant: the views are values of `plan_ledger_views`; this module reads what they need, and prints them.

use clap::{Arg, Args, ValueEnum};

use plan_ledger::internals::ledger::{LedgerTime, PartialTrace};
use plan_ledger::{RunId, State, Timestamp};
use plan_ledger_views::{
    Block, Costs, Document, ExecutionStateLine, OperatorViewLine, Since, Trace, finished_steps,
    warnings_document,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
#[cfg(feature = "store")]
use crate::commands::store::store_health;
use crate::options::{AsJson, LedgerFolder, RunOption};
use crate::output::render::Paint;
use crate::output::{Code, Failure, print_error, print_message, time_of_day};
use crate::protocol::{RolledBackLine, error_line_of_view};
use crate::server::rollback_text;

use super::status::show_user;
use crate::commands::inspect::record_filter::time;

/// The audience of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Progress, current work, items for a person, expected end
    User,
    /// Attempts in flight, spending, problems
    Operator,
    /// Every record and its changes, and the cost of each step
    Debug,
    /// The current, completed and pending steps, retries, time, remaining budget and side effects
    ExecutionState,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  ledger status                                    all open runs, in the folder .ledger
  ledger status path/to/ledger --view operator     attempts in flight, spending, problems
  ledger status --view debug --run my-plan         every record, its changes, and what steps cost
  ledger status --view execution-state             current step, retries, remaining budget
  ledger status --at 900                           as it was after record 900
  ledger status --since 22:00                      also what happened since ten in the evening
  ledger status --watch                            again after every new record
  ledger status --run my-plan --json";

#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES, mut_arg("run", of_open_runs))]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) folder: LedgerFolder,
    /// The audience; `user` also ticks what is done [default: user, without the ticks]
    #[arg(long, value_name = "VIEW")]
    view: Option<View>,
    #[command(flatten)]
    run: RunOption,
    #[command(flatten)]
    pub(crate) json: AsJson,
    /// Also show the events since then: a time of day, a date and time, or how long ago (8h)
    #[arg(long, value_name = "TIME", conflicts_with = "at")]
    since: Option<String>,
    #[command(flatten)]
    at: AtArg,
    /// Print it again after every new record, until no run is open
    #[arg(long, conflicts_with = "at")]
    pub(crate) watch: bool,
}

fn of_open_runs(run: Arg) -> Arg {
    run.help("The run, by name or number (#3); without one: all open runs, or the newest")
}

impl StatusArgs {
    /// Whether the view continues until it is stopped.
    pub(crate) fn is_endless(&self) -> bool {
        self.watch
    }
}

pub(crate) fn status(
    args: &StatusArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    #[cfg(feature = "store")]
    if args.at.at.is_none() {
        report_store(context, out)?;
    }
    if let Some(name) = args.run.name() {
        let (mut ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
        ledger.announce_problems(out)?;
        report_clocks(&ledger);
        show_status(&mut ledger, id, args, out)?;
        return ledger.finish(out);
    }
    let mut ledger = LedgerAt::of(context, args.at)?;
    ledger.announce_problems(out)?;
    report_clocks(&ledger);
    let mut shown: Vec<RunId> = ledger.state.runs.open().collect();
    if let Some(since) = time(args.since.as_ref(), ledger.now)? {
        shown.extend(ended_since(&ledger.state, since));
        shown.sort_unstable();
        shown.dedup();
    }
    if shown.is_empty() {
        shown.extend(ledger.state.runs.keys().last());
    }
    if shown.is_empty() && context.form == Form::Text {
        out.document(&Document::of_line(ledger.no_run_text()))?;
    }
    for (place, id) in shown.into_iter().enumerate() {
        if place > 0 && context.form == Form::Text {
            out.document(&Document::of(Block::Gap))?;
        }
        if ledger.state.runs.contains_key(&id) {
            show_status(&mut ledger, id, args, out)?;
        } else {
            let name = format!("#{id}");
            let (mut ended, id) = LedgerAt::of_run(context, args.at, Some(&name))?;
            show_status(&mut ended, id, args, out)?;
        }
    }
    ledger.finish(out)
}

/// Reports how far the store of the log is behind, if a process of this machine knows it.
#[cfg(feature = "store")]
fn report_store(context: InspectContext<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    let Some(health) = store_health(context.dir) else { return Ok(()) };
    match context.form {
        Form::Json => out.json(&health),
        Form::Text => out.document(&Document::of_line(health.text())),
    }
}

/// Reports that the ledger lacks records which it had before.
pub(crate) fn report_rollback(
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let Some(what) = rollback_text(context.dir, context.environment) else { return Ok(()) };
    print_error(&what);
    match context.form {
        Form::Json => out.json(&RolledBackLine { what }),
        Form::Text => Ok(()),
    }
}

/// Reports a clock that was set while the machine was up: the times of the records are others.
fn report_clocks(ledger: &LedgerAt<'_>) {
    let InspectContext { form, environment, .. } = ledger.context;
    let clocks = LedgerTime::of(ledger.view.log(), environment);
    if let Some(what) = clocks.difference().filter(|_| form == Form::Text) {
        print_message(&what);
    }
}

/// The runs that ended since a time, if the newest state has them or their summary.
fn ended_since(state: &State, since: Timestamp) -> Vec<RunId> {
    let summaries = state.summaries.iter().filter(|(_, summary)| summary.ended >= since);
    let ended = |id: &RunId| Some(state.runs.get(id)?.end_record?.1);
    let runs = state.runs.keys().filter(|id| ended(id).is_some_and(|time| time >= since));
    summaries.map(|(id, _)| *id).chain(runs.copied()).collect()
}

/// Shows a run, and its events since the time of the arguments.
fn show_status(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    args: &StatusArgs,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    show(ledger, id, args.view.unwrap_or(View::User), out)?;
    if args.view == Some(View::User) && ledger.context.form == Form::Text {
        out.document(&finished_steps(ledger.run(id)?))?;
    }
    match time(args.since.as_ref(), ledger.now)? {
        Some(since) => show_since(ledger, id, since, out),
        None => Ok(()),
    }
}

fn show(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    view: View,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if view == View::Debug {
        return debug(ledger, id, out);
    }
    let (form, now, run) = (ledger.context.form, ledger.now, ledger.run(id)?);
    match view {
        View::User | View::Debug => show_user(ledger, run, out),
        View::Operator => {
            let status = OperatorViewLine::of(run, now);
            if form == Form::Json {
                return out.json(&status);
            }
            ledger.heading("status", run, out)?;
            out.document(&status.document())?;
            let warnings = run.warnings(ledger.state.time, now);
            out.document(&warnings_document(run, &warnings, &ledger.repeats(run)))
        }
        View::ExecutionState => {
            let state = ExecutionStateLine::of(run, now);
            if form == Form::Json {
                return out.json(&state);
            }
            ledger.heading("execution state", run, out)?;
            out.document(&state.document())
        }
    }
}

/// Shows every record of a run up to the record of the state, and the cost of each step.
fn debug(ledger: &mut LedgerAt<'_>, id: RunId, out: &mut Output<'_>) -> Result<(), Failure> {
    let costs = ledger.run_history(id)?.costs();
    let last = ledger.state.seq;
    let PartialTrace { after, records: mut traced, cut } = ledger.view.partial_trace(id)?;
    traced.retain(|record| record.seq <= last);
    let mut after_damage = Vec::new();
    if let Some(cut) = cut {
        ledger.add_unread(format!(
            "changes are known only up to the end of the fold: {}",
            error_line_of_view(&cut)
        ));
        let traced_seq = traced.last().map_or(after, |record| record.seq);
        after_damage = ledger.run_history(id)?.records;
        after_damage.retain(|record| record.seq > traced_seq);
    }
    let run = ledger.run(id)?;
    let state = ExecutionStateLine::of(run, ledger.now);
    let trace = Trace::of(id, after, &traced, &after_damage);
    let costs = Costs::of(run, costs);
    if ledger.context.form == Form::Json {
        out.json(&state)?;
        trace.unavailable.iter().try_for_each(|line| out.json(line))?;
        trace.records.iter().try_for_each(|line| out.json(line))?;
        costs.steps.iter().try_for_each(|line| out.json(line))?;
        return out.json(&costs.whole);
    }
    ledger.heading("every record", run, out)?;
    out.document(&state.document())?;
    ledger.print_first_record(out)?;
    let mut document = trace.document();
    document.painted(Paint::Heading, "cost of each step");
    document.append(costs.document());
    out.document(&document)
}

/// Shows the events of a run since a time.
fn show_since(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    since: Timestamp,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let records = ledger.run_history(id)?.records;
    let events = Since::of(ledger.run(id)?, since, &records);
    match ledger.context.form {
        Form::Json => out.json(&events.line),
        Form::Text => out.document(&events.document(ledger.now, time_of_day)),
    }
}
