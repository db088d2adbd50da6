//! `ledger next`: the next actions of runs, in groups; and `ledger questions`: those that wait for a person.
//!
//! Invariant: both print the same line about an action. `questions` leaves the other actions out, and lists all that
//! wait for a person, however many.

use clap::Args;

use plan_ledger::internals::ledger::RunHistory;
use plan_ledger::{Run, RunId, RunStatus};
use plan_ledger_views::{
    Document, NextGroup, NextSummaryLine, RunActions, decisions, decisions_document, next_document,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::no_run_yet;
use crate::commands::inspect::output::Output;
use crate::options::{LedgerArgs, OneRunArg};
use crate::output::render::Paint;
use crate::output::{Code, Failure};

use super::status::stale_files;
use super::view::report_rollback;

#[cfg(feature = "mcp")]
mod open;
mod page;

#[cfg(feature = "mcp")]
pub(crate) use open::{OpenDecision, open_decisions};
use page::{Page, PageArgs};

const NEXT_EXAMPLES: &str = "\
Examples:
  ledger next                                      of all open runs in .ledger
  ledger next my-plan --json | jq -r '.command // empty'
  ledger next --at 900                             what it was after record 900

It takes no lock. Exit code 1: the run is over. 3: there is nothing to do now; wait.";

const QUESTIONS_EXAMPLES: &str = "\
Examples:
  ledger questions                                 of all open runs in .ledger
  ledger questions my-plan
  ledger questions --ledger other --json
  ledger questions my-plan --decided               also the decisions of people
  ledger questions --at 900                        what waited after record 900
  ledger questions --at 900 --after 100 --limit 50   a page of a long list

It takes no lock, and may be used while a run is active. `ledger next` lists the other actions, too.";

#[derive(Debug, Args)]
#[command(after_help = NEXT_EXAMPLES)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    run: OneRunArg,
    #[command(flatten)]
    at: AtArg,
}

#[derive(Debug, Args)]
#[command(after_help = QUESTIONS_EXAMPLES)]
pub(crate) struct QuestionsArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    run: OneRunArg,
    /// Also list the decisions of people
    #[arg(long)]
    decided: bool,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn next(
    args: &NextArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    let (mut ledger, mut shown) = opened(context, args.at, &args.run)?;
    if shown.is_empty() {
        let newest = ledger.state.runs.keys().last().copied();
        shown.push(newest.ok_or_else(|| no_run_yet(ledger.code()))?);
    }
    ledger.announce_problems(out)?;
    let mut of_runs = Vec::new();
    for id in shown {
        let known = ledger.known(ledger.run(id)?);
        of_runs.push(RunActions::of(
            &known,
            known.first_actions(),
            stale_files(&ledger, known.run),
        ));
    }
    match context.form {
        Form::Json => print_json(&of_runs, of_runs.iter().map(RunActions::waiting).sum(), out)?,
        Form::Text => out.document(&next_document(&of_runs))?,
    }
    match ledger.finish(out)? {
        Code::Success => Ok(code_of(&of_runs)),
        code => Ok(code),
    }
}

pub(crate) fn questions(
    args: &QuestionsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    let (mut ledger, mut shown) = opened(context, args.at, &args.run)?;
    if args.decided && args.run.name().is_none() {
        shown = ledger.state.runs.keys().copied().collect();
    }
    ledger.announce_problems(out)?;
    let mut of_runs = Vec::new();
    let (mut page, mut count) = (args.page.begin(), 0);
    for id in &shown {
        let known = ledger.known(ledger.run(*id)?);
        let mut items = known.items_of_persons();
        count += items.len();
        items.retain(|_| page.takes());
        let actions = match context.form {
            Form::Json => items.into_iter().map(|item| known.action(item)).collect(),
            Form::Text => known.grouped_actions(items),
        };
        of_runs.push(RunActions::of(&known, actions, stale_files(&ledger, known.run)));
    }
    match context.form {
        Form::Json => print_json(&of_runs, count, out)?,
        Form::Text if count == 0 && ledger.code() == Code::Success => {
            out.document(&Document::of_line("nothing waits for a person"))?;
        }
        Form::Text => {
            let mut documents = of_runs.iter().map(|of| of.document_of(NextGroup::Person, 0));
            documents.try_for_each(|document| out.document(&document))?;
        }
    }
    drop(of_runs);
    if args.decided {
        for id in shown {
            let history = ledger.run_history(id)?;
            print_decisions(&ledger, (ledger.run(id)?, &history), &mut page, out)?;
        }
    }
    ledger.finish(out)
}

/// The ledger, and the run that is named, else the open ones.
fn opened<'a>(
    context: InspectContext<'a>,
    at: AtArg,
    run: &OneRunArg,
) -> Result<(LedgerAt<'a>, Vec<RunId>), Failure> {
    if let Some(name) = run.name() {
        let (ledger, id) = LedgerAt::of_run(context, at, Some(name))?;
        return Ok((ledger, vec![id]));
    }
    let ledger = LedgerAt::of(context, at)?;
    let open = ledger.state.runs.open().collect();
    Ok((ledger, open))
}

/// Prints a line for each action, and how many wait for a person.
fn print_json(
    of_runs: &[RunActions<'_>],
    waiting: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for line in of_runs.iter().flat_map(RunActions::lines) {
        out.json(&line)?;
    }
    out.json(&NextSummaryLine { waiting })
}

/// Prints the decisions of people in a run, as far as they are on the page.
fn print_decisions(
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
    let mut heading = Document::default();
    heading.gap();
    heading.heading((Paint::Heading, format!("decided in run {}", run.name)));
    out.document(&heading)?;
    ledger.print_first_record(out)?;
    out.document(&if is_empty {
        Document::of_line("no decision by a person")
    } else {
        decisions_document(&decisions)
    })
}

/// Whether there is something to do now, or the runs are over.
fn code_of(of_runs: &[RunActions<'_>]) -> Code {
    if of_runs.iter().all(|of| matches!(of.run.status, RunStatus::Ended(_))) {
        return Code::Failed;
    }
    let is_possible = of_runs.iter().any(RunActions::is_possible_now);
    if is_possible { Code::Success } else { Code::Waiting }
}
