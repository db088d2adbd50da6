//! `ledger status`: a run for its user, its operator or debugging, or its execution state.
//!
//! Invariant: the library computes the views; this module only prints them.

use clap::{Args, ValueEnum};

use plan_ledger::internals::ledger::{LedgerTime, PartialTrace, TracedRecord, time_text};
use plan_ledger::plan::{
    Account, AttemptSummary, BarrierSummary, OperatorView, RunCounters, StepEvent, StepRecord,
};
use plan_ledger::{Cost, Event, Outcome, Receipt, RecordedEvent, Run, RunId, State, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::views::{
    ExecutionStateLine, OperatorViewLine, TracedLine, UnavailableLine,
};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::{barrier_word, step_name};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::run::{progress_text, spent_text};
use crate::commands::inspect::text::units::{moment, span, words};
#[cfg(feature = "store")]
use crate::commands::store::store_health;
use crate::options::LedgerFolder;
use crate::output::render::{Paint, Table};
use crate::output::{
    Code, Failure, cost_text, escape_control, paused_text, print_error, print_message,
    question_subject_text,
};
use crate::protocol::{RolledBackLine, counted, error_line};
use crate::server::rollback_text;
use plan_ledger_views::event_text;
use plan_ledger_views::{Costs, barrier_paint};

use super::execution_state::{print_execution_state, print_finished, remaining_text};
use super::records::time;
use super::since::show_since;
use super::status::{print_warnings, show_user};

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
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) folder: LedgerFolder,
    /// The audience; `user` also ticks what is done [default: user, without the ticks]
    #[arg(long, value_name = "VIEW")]
    view: Option<View>,
    /// The run, by name or number (#3); without one: all open runs, or the newest
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    run: Option<String>,
    /// Print JSON Lines, as format/inspect-json.md describes them
    #[arg(long)]
    pub(crate) json: bool,
    /// Also show the events since then: a time of day, a date and time, or how long ago (8h)
    #[arg(long, value_name = "TIME", conflicts_with = "at")]
    since: Option<String>,
    #[command(flatten)]
    at: AtArg,
    /// Print it again after every new record, until no run is open
    #[arg(long, conflicts_with = "at")]
    pub(crate) watch: bool,
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
    if let Some(name) = &args.run {
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
        out.line("no run has been started")?;
    }
    for (place, id) in shown.into_iter().enumerate() {
        if place > 0 && context.form == Form::Text {
            out.line("")?;
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
        Form::Text => out.line(&escape_control(&health.text())),
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
        print_finished(ledger.run(id)?, out)?;
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
    let (form, now) = (ledger.context.form, ledger.now);
    match (view, form) {
        (View::User, _) => show_user(ledger, ledger.run(id)?, out),
        (View::Operator, Form::Json) => {
            let run = ledger.run(id)?;
            out.json(&OperatorViewLine::from(&run.operator_view(now)))
        }
        (View::Operator, Form::Text) => {
            let run = ledger.run(id)?;
            ledger.heading("status", run, out)?;
            print_operator(run, &run.operator_view(now), now, out)?;
            print_warnings(ledger, run, out)
        }
        (View::Debug, _) => debug(ledger, id, out),
        (View::ExecutionState, Form::Json) => {
            let run = ledger.run(id)?;
            out.json(&ExecutionStateLine::of(id, &run.execution_state(now)))
        }
        (View::ExecutionState, Form::Text) => {
            let run = ledger.run(id)?;
            ledger.heading("execution state", run, out)?;
            print_execution_state(run, &run.execution_state(now), out)
        }
    }
}

/// The records of a run for the debug view.
struct DebugTrace {
    /// The last record without its changes, because earlier records were pruned.
    pruned_seq: u64,
    /// Records and their changes.
    traced: Vec<TracedRecord>,
    /// Records after the unreadable ones: their changes are not known.
    after_cut: Vec<RecordedEvent>,
}

impl DebugTrace {
    /// The records up to the record of the state. Gaps are reported through `ledger`.
    fn of(ledger: &mut LedgerAt<'_>, id: RunId) -> Result<Self, Failure> {
        let last = ledger.state.seq;
        let PartialTrace { after: pruned_seq, records: mut traced, cut } =
            ledger.view.partial_trace(id)?;
        traced.retain(|record| record.seq <= last);
        let Some(cut) = cut else { return Ok(Self { pruned_seq, traced, after_cut: Vec::new() }) };
        ledger.add_unread(format!(
            "changes are known only up to the end of the fold: {}",
            error_line(&cut)
        ));
        let traced_seq = traced.last().map_or(pruned_seq, |record| record.seq);
        let mut after_cut = ledger.run_history(id)?.records;
        after_cut.retain(|record| record.seq > traced_seq);
        Ok(Self { pruned_seq, traced, after_cut })
    }
}

fn debug(ledger: &mut LedgerAt<'_>, id: RunId, out: &mut Output<'_>) -> Result<(), Failure> {
    let costs = ledger.run_history(id)?.costs();
    let DebugTrace { pruned_seq, traced, after_cut } = DebugTrace::of(ledger, id)?;
    let run = ledger.run(id)?;
    let costs = Costs::of(run, costs);
    let after_cut = after_cut.iter().filter_map(|record| Some((record, record.event.as_ref()?)));
    if ledger.context.form == Form::Json {
        out.json(&ExecutionStateLine::of(id, &run.execution_state(ledger.now)))?;
        if pruned_seq > 0 {
            out.json(&UnavailableLine { run: id, through: pruned_seq })?;
        }
        traced.iter().try_for_each(|record| out.json(&TracedLine::of(record)))?;
        let mut after_cut = after_cut;
        after_cut.try_for_each(|(record, event)| {
            out.json(&TracedLine::without_changes(record, event))
        })?;
        costs.steps.iter().try_for_each(|line| out.json(line))?;
        return out.json(&costs.whole);
    }
    ledger.heading("every record", run, out)?;
    print_execution_state(run, &run.execution_state(ledger.now), out)?;
    ledger.print_first_record(out)?;
    if pruned_seq > 0 {
        let text = format!("changes are shown from record {} on", pruned_seq.saturating_add(1));
        out.painted(Paint::Notice, &text)?;
    }
    for TracedRecord { seq, time, event, changes, replan } in &traced {
        print_record(*seq, *time, event, out)?;
        for change in changes {
            let text = format!("           {}", escape_control(&change.to_string()));
            out.painted(Paint::Faint, &out.style.fit(&text, 0))?;
        }
        let replan = replan.as_ref().map(ToString::to_string).unwrap_or_default();
        for line in replan.lines() {
            out.painted(Paint::Notice, &format!("           {}", escape_control(line)))?;
        }
    }
    for (record, event) in after_cut {
        print_record(record.seq, record.time, event, out)?;
    }
    out.painted(Paint::Heading, "cost of each step")?;
    out.document(&costs.document(usize::MAX))
}

fn print_record(
    seq: u64,
    time: Timestamp,
    event: &Event,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let text = format!("{seq:>7}  {}  {}", time_text(time), event_text(event));
    out.line(&out.style.fit(&text, 0))?;
    let Event::Step(StepRecord { event: StepEvent::ReceiptRecorded(recorded), .. }) = event else {
        return Ok(());
    };
    let Receipt { outcome, output, cost, log_tail, .. } = &recorded.receipt;
    let mut payloads = Vec::new();
    if let Outcome::Failed { payload, .. } = outcome
        && payload.as_str() != "null"
    {
        payloads.push(("payload", payload.as_str().to_owned()));
    }
    if let Some(output) = output.inline().filter(|output| output.as_str() != "null") {
        payloads.push(("output", output.as_str().to_owned()));
    }
    if !log_tail.is_empty() {
        payloads.push(("log", log_tail.to_string()));
    }
    if *cost != Cost::default() {
        payloads.push(("cost", cost_text(*cost)));
    }
    // The whole payload: a post-mortem needs its end, too.
    payloads.iter().try_for_each(|(name, text)| {
        let text = escape_control(text.trim_end());
        out.painted(Paint::Faint, &format!("           {name}: {text}"))
    })
}

pub(crate) fn print_operator(
    run: &Run,
    view: &OperatorView,
    now: Timestamp,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.line(&format!("  {}", out.style.fit(&progress_text(run), 2)))?;
    print_numbers(run, view, out)?;
    print_stuck(view, now, out)?;
    print_flights("in flight", &view.in_flight, now, out)?;
    print_flights("outcome unknown", &view.outcome_unknown, now, out)?;
    print_questions(run, view, now, out)?;
    print_barriers(&view.barriers, out)?;
    if !view.next.is_empty() {
        let names: Vec<_> = view.next.iter().map(|number| step_name(run, *number)).collect();
        let text = format!("  next  {}", names.join(", "));
        out.line(&out.style.fit(&text, 0))?;
    }
    if let Some(due) = view.due {
        out.line(&format!("  next timer  {}", moment(due, now)))?;
    }
    Ok(())
}

fn print_numbers(run: &Run, view: &OperatorView, out: &mut Output<'_>) -> Result<(), Failure> {
    let RunCounters { failures, retries, exhausted, invalidated, preserved } = view.counters;
    let Account { attempts, .. } = view.account;
    let elapsed = span(view.elapsed / 1_000_000 * 1_000_000);
    let mut table = Table::default();
    let mut add = |name: &str, text: String| {
        table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
    };
    add("elapsed", elapsed);
    let replans = match run.replans {
        0 => "no replans".to_owned(),
        count => counted(count.into(), "replan"),
    };
    add("plan", format!("version {} of {}, {replans}", view.active, view.versions.len()));
    add(
        "attempts",
        format!(
            "{attempts}; {failures} failed, {retries} retried, {exhausted} steps out of attempts"
        ),
    );
    add("spent", spent_text(run));
    add("remaining", remaining_text(run, &view.remaining));
    if view.last_failure.is_none() {
        add("last failure", "none".to_owned());
    }
    if invalidated + preserved > 0 {
        add("replans", format!("invalidated {invalidated} steps, preserved {preserved}"));
    }
    out.table(&table, 2)
}

fn print_stuck(view: &OperatorView, now: Timestamp, out: &mut Output<'_>) -> Result<(), Failure> {
    if let Some(cause) = &view.pause {
        out.painted(Paint::Notice, &format!("  {}", paused_text(cause)))?;
    }
    if let Some(reason) = &view.stopping {
        out.painted(
            Paint::Notice,
            &format!("  no more steps are dispatched: {}", escape_control(reason)),
        )?;
    }
    if let Some(request) = &view.request {
        let (seq, since) = (request.seq, moment(request.time, now));
        let text = format!("  replan requested by record {seq}, {since}: ");
        out.painted(Paint::Notice, &format!("{text}{}", escape_control(&request.reason)))?;
    }
    if let Some((step, class, message)) = &view.last_failure {
        let text =
            format!("  last failure  #{step} {}: {}", words(class, ' '), escape_control(message));
        out.painted(Paint::Bad, &out.style.fit(&text, 0))?;
    }
    Ok(())
}

fn print_flights(
    what: &str,
    flights: &[AttemptSummary],
    now: Timestamp,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if flights.is_empty() {
        return Ok(());
    }
    let headings = [what, "attempt", "token", "worker", "reserved", "since", "lease"];
    let mut table = Table::with_headings(&headings);
    for flight in flights {
        let AttemptSummary { step, id, token, attempt, max_attempts, worker, .. } = flight;
        let AttemptSummary { dispatched, lease_until, reserved, .. } = flight;
        let (paint, lease) = if *lease_until <= now {
            (Paint::Bad, format!("expired {}", moment(*lease_until, now)))
        } else {
            (Paint::None, format!("until {}", moment(*lease_until, now)))
        };
        let reserved = if *reserved == plan_ledger::Cost::default() {
            "-".to_owned()
        } else {
            cost_text(*reserved)
        };
        table.row([
            (Paint::None, format!("#{step} {}", escape_control(id))),
            (Paint::None, format!("{attempt}/{max_attempts}")),
            (Paint::None, format!("@{token}")),
            (Paint::None, escape_control(worker)),
            (Paint::None, reserved),
            (Paint::None, moment(*dispatched, now)),
            (paint, lease),
        ]);
    }
    out.table(&table, 2)
}

fn print_questions(
    run: &Run,
    view: &OperatorView,
    now: Timestamp,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if view.questions.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["question", "about", "of whom", "due", "asked"]);
    for (id, question) in &view.questions {
        let about = match question.step {
            Some(step) => step_name(run, step),
            None => question_subject_text(&question.asked.subject),
        };
        let due = question.asked.deadline.map(|at| moment(at, now));
        table.row([
            (Paint::Notice, id.0.to_string()),
            (Paint::None, about),
            (Paint::None, escape_control(question.asked.to.as_deref().unwrap_or("any person"))),
            (Paint::None, due.unwrap_or_else(|| "-".to_owned())),
            (Paint::None, escape_control(&question.asked.text)),
        ]);
    }
    out.table(&table, 2)
}

fn print_barriers(barriers: &[BarrierSummary], out: &mut Output<'_>) -> Result<(), Failure> {
    if barriers.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["barrier", "status", "arrived", "failed"]);
    for BarrierSummary { id, status, arrived, needed, failed } in barriers {
        table.row([
            (Paint::None, escape_control(id)),
            (barrier_paint(*status), barrier_word(*status).to_owned()),
            (Paint::None, format!("{arrived}/{needed}")),
            (Paint::None, failed.to_string()),
        ]);
    }
    out.table(&table, 2)
}
