//! The state after one record, and one run of it in full: what `ledger inspect DIR runs RUN` shows.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{Account, CapScope};
use plan_ledger::{ContentHash, Run, RunId, State, StepNumber, state_hash};

use crate::commands::inspect::context::Form;
use crate::commands::inspect::json::run::RunStatusJson;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::lookup::{barrier_word, numbered_steps, step_name};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::run::{progress_text, run_status_text, spent_text};
use crate::commands::inspect::text::units::{moment, words};
use crate::json::TimeJson;
use crate::output::render::{Paint, Table};
use crate::output::{Failure, escape_control};
use crate::protocol::counted;
use plan_ledger_views::{BarrierLine, VariableStateLine};
use plan_ledger_views::{QuestionLine, StepStateLine};
use plan_ledger_views::{barrier_paint, status_paint};

use super::budget::{BudgetRow, elapsed};
use plan_ledger_views::origin_text;

/// Shows one run in full, and the state that it belongs to.
pub(crate) fn run_state(
    ledger: &LedgerAt<'_>,
    id: RunId,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let run = ledger.run(id)?;
    if ledger.context.form == Form::Text {
        ledger.print_past(out)?;
        print_state(&ledger.state, out)?;
        out.line("")?;
        return print_run(ledger, run, out);
    }
    print_state_json(&ledger.state, out)?;
    out.json(&RunStateLine::of(run))?;
    for (number, step) in numbered_steps(run) {
        out.json(&StepStateLine::of(id, number, step))?;
    }
    for (name, variable) in &run.variables {
        out.json(&VariableStateLine::of(run, name, variable))?;
    }
    for (name, barrier) in &run.barriers {
        out.json(&BarrierLine::of(run, name, barrier))?;
    }
    for (question, asked) in &run.questions {
        out.json(&QuestionLine::of(id, *question, asked))?;
    }
    for part in BudgetRow::all(&run.account, run.limits(), Some(elapsed(run, ledger.now))) {
        out.json(&part.line(Some(id)))?;
    }
    Ok(())
}

pub(crate) fn print_state_json(state: &State, out: &mut Output<'_>) -> Result<(), Failure> {
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
    })
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

pub(crate) fn print_state(state: &State, out: &mut Output<'_>) -> Result<(), Failure> {
    let flights = u64::try_from(state.in_flight.len()).unwrap_or(u64::MAX);
    let flights = counted(flights, "attempt");
    let text =
        format!("state {} after record {}; {flights} in flight", state_hash(state), state.seq);
    out.painted(Paint::Faint, &text)?;
    state.caps.iter().try_for_each(|(scope, limit)| {
        out.line(&format!("cap of {limit} for {}", escape_control(&scope.to_string())))
    })
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
