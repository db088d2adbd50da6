//! `ledger next`: the next actions of runs, in groups; and `ledger questions`: those that wait for a person.
//!
//! Invariant: both print the same line about an action. `questions` leaves the other actions out, and lists all that
//! wait for a person, however many.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::ExecutedPart;
use plan_ledger::{Run, RunId, RunStatus, StepNumber, StepState, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::not_found;
use crate::commands::inspect::next_action::{NextAction, actions, items_of_persons, limited};
use crate::commands::inspect::output::Output;
use crate::options::{LedgerArgs, OneRunArg};
use crate::output::render::Paint;
use crate::output::{Code, Failure, PendingJson, escape_control, is_for_agent};
use crate::protocol::Missing;
use plan_ledger_views::{NextGroup, StaleFilesJson, waits_of};

use super::status::{stale_files, stale_lines};
use super::view::report_rollback;

pub(crate) mod decisions;
mod facts;
#[cfg(feature = "mcp")]
mod open;
mod page;

use decisions::print_decisions;
use facts::{QuestionFact, facts, step_context};
#[cfg(feature = "mcp")]
pub(crate) use open::{OpenDecision, open_decisions};
use page::PageArgs;

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
  ledger questions my-plan --decided               also what people decided, and whom it was for
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
        shown.push(newest.ok_or_else(|| {
            not_found(Missing::Run, "the ledger has no run yet".to_owned(), ledger.code())
        })?);
    }
    ledger.announce_problems(out)?;
    let mut of_runs = Vec::new();
    for id in shown {
        let run = ledger.run(id)?;
        let actions = actions(&ledger.state, run, ledger.surroundings());
        of_runs.push(RunActions::of(&ledger, run, limited(&actions, run, context.dir)));
    }
    match context.form {
        Form::Json => print_json(&of_runs, waiting(&of_runs), out)?,
        Form::Text => print_groups(&of_runs, out)?,
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
        let run = ledger.run(*id)?;
        let mut items = items_of_persons(run, ledger.surroundings());
        count += items.len();
        items.retain(|_| page.takes());
        of_runs.push(RunActions::of(&ledger, run, items));
    }
    match context.form {
        Form::Json => print_json(&of_runs, count, out)?,
        Form::Text if count == 0 && ledger.code() == Code::Success => {
            out.line("nothing waits for a person")?;
        }
        Form::Text => of_runs.iter().try_for_each(|of| of.print(NextGroup::Person, 0, out))?,
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

/// Actions of a run.
struct RunActions<'a> {
    run: &'a Run,
    actions: Vec<NextAction>,
    /// The time of its next timer, or the end of its runner's wait.
    next_due: Option<Timestamp>,
    stale: Option<Vec<(StepNumber, Vec<String>)>>,
}

impl<'a> RunActions<'a> {
    fn of(ledger: &'a LedgerAt<'_>, run: &'a Run, actions: Vec<NextAction>) -> Self {
        let timer = run.timers.first().map(|(due, _)| *due);
        let waits = waits_of(&ledger.waits, run).filter_map(|wait| wait.until);
        let next_due = timer.into_iter().chain(waits).min();
        Self { run, actions, next_due, stale: stale_files(ledger, run) }
    }

    fn lines(&self) -> impl Iterator<Item = NextLine<'_>> {
        let Self { run, actions, next_due, stale } = self;
        actions.iter().map(move |action| NextLine {
            action: action.item.word(),
            command: action.command(),
            commands: &action.commands,
            effects: &action.effects,
            context: action.waiting().map(|item| step_context(run, item)).unwrap_or_default(),
            executes: action.waiting().map(|item| item.executes(run)).unwrap_or_default(),
            group: action.item.group(),
            item: action.waiting().map(Into::into),
            next_due_micros: *next_due,
            number: action.step(),
            run: &run.name,
            stale_files: StaleFilesJson::of(stale.clone()),
            step: action.step().and_then(|step| run.step(step)).map(StepState::id),
            why: &action.text,
        })
    }

    /// Prints the actions of a group, and the facts that a person needs for them.
    fn print(&self, group: NextGroup, indent: usize, out: &mut Output<'_>) -> Result<(), Failure> {
        let indent = " ".repeat(indent);
        let name = escape_control(&self.run.name);
        for action in self.actions.iter().filter(|action| action.item.group() == group) {
            let text = action.text.replace('\n', &format!("\n{indent}      "));
            out.line(&format!("{indent}run {name}: {text}"))?;
            for line in &action.lines {
                out.line(&format!("{indent}      {line}"))?;
            }
            // Of many failures, each one is a line.
            let item = action.waiting().filter(|_| !action.lines.is_empty() || is_for_agent());
            for QuestionFact { name, value } in facts(self.run, item) {
                let (name, value) = (escape_control(&name), escape_control(&value));
                out.line(&format!("{indent}      {name}: {value}"))?;
            }
        }
        Ok(())
    }
}

/// The number of items that wait for a person.
fn waiting(of_runs: &[RunActions<'_>]) -> usize {
    let actions = of_runs.iter().flat_map(|of| &of.actions);
    actions.filter(|action| action.item.is_item_of_person()).count()
}

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

fn print_groups(of_runs: &[RunActions<'_>], out: &mut Output<'_>) -> Result<(), Failure> {
    let of_person = if is_for_agent() { "waits for a person" } else { "needs you" };
    let groups =
        [(NextGroup::Person, of_person), (NextGroup::Next, "next"), (NextGroup::Wait, "waits")];
    for (group, heading) in groups {
        let is_in = |action: &NextAction| action.item.group() == group;
        if !of_runs.iter().flat_map(|of| &of.actions).any(is_in) {
            continue;
        }
        out.painted(Paint::Heading, heading)?;
        for of in of_runs {
            of.print(group, 2, out)?;
            let due = of.next_due.filter(|_| group == NextGroup::Wait);
            if let Some(due) = due.filter(|_| of.actions.iter().any(is_in)) {
                out.line(&format!("        until {}", time_text(due)))?;
            }
        }
    }
    let stale =
        of_runs.iter().flat_map(|of| stale_lines(of.run, of.stale.as_deref().unwrap_or_default()));
    let mut stale = stale.collect::<Vec<_>>().into_iter();
    stale.try_for_each(|line| out.painted(Paint::Notice, &line))
}

/// Whether there is something to do now, or the runs are over.
fn code_of(of_runs: &[RunActions<'_>]) -> Code {
    if of_runs.iter().all(|of| matches!(of.run.status, RunStatus::Ended(_))) {
        return Code::Failed;
    }
    let mut actions = of_runs.iter().flat_map(|of| &of.actions);
    if actions.any(|action| action.item.is_possible_now()) { Code::Success } else { Code::Waiting }
}

/// A next action of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NextLine<'a> {
    /// The kind of the action.
    action: &'static str,
    /// The first of the commands; null without a command, or if a person chooses one.
    command: Option<&'a String>,
    /// Alternative commands: one of them is enough. The first shows the commands that the answer
    /// lets the run execute, if any.
    commands: &'a [String],
    /// What each command does, in the order of `commands`.
    effects: &'a [String],
    /// The facts about the step for a person.
    context: Vec<QuestionFact>,
    /// Everything that the answer lets the run execute: the commands come first.
    executes: Vec<ExecutedPart>,
    /// For a person, for a runner or a worker, or for the time to pass.
    group: NextGroup,
    /// The item that the run waits for; null for another action.
    item: Option<PendingJson>,
    /// The time of the run's next timer, or the end of its runner's wait.
    next_due_micros: Option<Timestamp>,
    /// The number of the step concerned.
    number: Option<StepNumber>,
    /// The run.
    run: &'a str,
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known.
    stale_files: Option<Vec<StaleFilesJson>>,
    /// The id of the step concerned.
    step: Option<&'a str>,
    /// The action and the reason, for people.
    why: &'a str,
}

/// The number of items that wait for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NextSummaryLine {
    /// The number of items that wait for a person, also on other pages.
    waiting: usize,
}
