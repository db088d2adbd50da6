//! `ledger inspect DIR approvals`: the items that wait for a person, and the decisions of people.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{ExecutedPart, Route};
use plan_ledger::{Event, QuestionId, Run, RunId, RunStatus, StepNumber, Timestamp};

use crate::commands::inspect::answers::{answered, asked_person, author};
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::event::{event_subject, event_text};
use crate::json::TimeJson;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control, pending_commands};
use crate::runner::{Pending, misplaced, pending};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger approvals                 what waits for a person, and past decisions
  ledger inspect .ledger approvals my-plan --at 900
  ledger inspect .ledger approvals --json | jq 'select(.type == \"waiting\") | .commands[0]'";

/// The items that wait for a person, with their commands, and the decisions of people
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApprovalsArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

/// An event that a person caused.
struct PersonalEvent<'a> {
    seq: u64,
    time: Timestamp,
    step: Option<StepNumber>,
    by: &'a str,
    /// Whom the question was for, if another person answered it.
    asked: Option<&'a str>,
    event: &'a Event,
}

pub(crate) fn approvals(
    args: &ApprovalsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let history = ledger.run_history(id)?;
    let asked: BTreeMap<QuestionId, &str> = history
        .records
        .iter()
        .filter_map(|record| asked_person(record.seq, record.event.as_ref()?))
        .collect();
    let decisions = history.records.iter().filter_map(|record| {
        let event = record.event.as_ref()?;
        let by = author(event)?;
        let asked = answered(event).and_then(|question| asked.get(&question).copied());
        Some(PersonalEvent {
            seq: record.seq,
            time: record.time,
            step: event_subject(event).1,
            by,
            asked: asked.filter(|asked| *asked != by),
            event,
        })
    });
    let decisions: Vec<PersonalEvent<'_>> = decisions.collect();
    let run = ledger.run(id)?;
    let open = open(run);
    match context.form {
        Form::Json => print_json(&ledger, id, run, &open, &decisions, out)?,
        Form::Text => {
            ledger.heading("approvals", run, out)?;
            print_open(&ledger, run, &open, out)?;
            out.line("")?;
            ledger.print_first_record(out)?;
            print_decisions(&decisions, out)?;
        }
    }
    ledger.finish(out)
}

/// Items that wait for a person, not for a worker, a cap or a time.
fn open(run: &Run) -> Vec<Pending> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    let mut open = pending(run, &Route::default());
    open.extend(misplaced(run));
    open.retain(|item| need(item).is_some());
    open
}

/// What an item that waits for a person needs.
fn need(item: &Pending) -> Option<Need> {
    Some(match item {
        Pending::Verdicts { .. } => Need::Verdicts,
        Pending::Commands { .. } | Pending::Misplaced { .. } => Need::Commands,
        Pending::PlanVerdicts { criteria } if criteria.is_empty() => return None,
        Pending::PlanVerdicts { .. } => Need::PlanVerdicts,
        Pending::Question { .. } => Need::Question,
        Pending::Review { .. } => Need::Review,
        Pending::Paused { .. } => Need::Unpause,
        Pending::Replan { .. } => Need::Replan,
        Pending::Decision { .. } => Need::Decision,
        Pending::OutcomeUnknown { .. } => Need::OutcomeUnknown,
        Pending::Person { .. } => Need::Person,
        Pending::Checks { .. }
        | Pending::PlanChecks { .. }
        | Pending::Held { .. }
        | Pending::Routed { .. }
        | Pending::Caps { .. }
        | Pending::Blocked { .. } => return None,
    })
}

fn print_json(
    ledger: &LedgerAt<'_>,
    id: RunId,
    run: &Run,
    open: &[Pending],
    decisions: &[PersonalEvent<'_>],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for item in open {
        let (text, commands) = pending_commands(item, &run.name, ledger.context.dir);
        let executes = item.executes(run);
        out.json(&WaitingLine { commands, executes, need: need(item), run: id, text })?;
    }
    decisions.iter().try_for_each(|PersonalEvent { seq, time, step, by, asked, event }| {
        out.json(&DecisionLine {
            asked: *asked,
            by,
            event,
            run: id,
            seq: *seq,
            step: *step,
            time: (*time).into(),
        })
    })
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitingLine {
    /// Commands that resolve it, after the one that shows what it lets the run execute.
    commands: Vec<String>,
    /// What it lets the run execute: the commands come first.
    executes: Vec<ExecutedPart>,
    /// What it needs.
    #[serde(rename = "for")]
    need: Option<Need>,
    /// The run.
    run: RunId,
    /// The reason, for people.
    text: String,
}

/// What a person has to do.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Need {
    /// Judge the criteria of a step.
    Verdicts,
    /// Approve what the active version executes.
    Commands,
    /// Judge the criteria of the plan.
    PlanVerdicts,
    /// Answer a question.
    Question,
    /// Review a version of the plan.
    Review,
    /// Unpause the run or raise its budget.
    Unpause,
    /// Propose another plan, or withdraw the request for one.
    Replan,
    /// Decide what to do about a failure.
    Decision,
    /// Find out whether a lost attempt did its work.
    OutcomeUnknown,
    /// Do a step.
    Person,
}

/// A decision of a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DecisionLine<'a> {
    /// The person whom the question was for; null if that person answered, or it was for anybody.
    asked: Option<&'a str>,
    /// The person.
    by: &'a str,
    /// The decision.
    #[cfg_attr(test, schemars(with = "crate::json::EventSchema"))]
    event: &'a Event,
    /// The run.
    run: RunId,
    /// The record.
    seq: u64,
    /// The step; null if it is about the run.
    step: Option<StepNumber>,
    /// The time.
    time: TimeJson,
}

fn print_open(
    ledger: &LedgerAt<'_>,
    run: &Run,
    open: &[Pending],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if open.is_empty() {
        return out.line("nothing waits for a person");
    }
    for item in open {
        let (text, commands) = pending_commands(item, &run.name, ledger.context.dir);
        out.painted(Paint::Notice, &format!("  {}", escape_control(&text)))?;
        commands
            .iter()
            .try_for_each(|command| out.line(&format!("    {}", escape_control(command))))?;
    }
    Ok(())
}

fn print_decisions(decisions: &[PersonalEvent<'_>], out: &mut Output<'_>) -> Result<(), Failure> {
    if decisions.is_empty() {
        return out.line("no decision by a person");
    }
    let mut table = Table::with_headings(&["record", "when", "by", "step", "event"]);
    for PersonalEvent { seq, time, step, by, asked, event } in decisions {
        let step = step.map_or_else(|| "-".to_owned(), |step| format!("#{step}"));
        let asked = asked.map(|asked| format!("; it was for {}", escape_control(asked)));
        let asked = asked.unwrap_or_default();
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_text(*time)),
            (Paint::Heading, escape_control(by)),
            (Paint::None, step),
            (Paint::None, format!("{}{asked}", event_text(event))),
        ]);
    }
    out.table(&table, 2)
}
