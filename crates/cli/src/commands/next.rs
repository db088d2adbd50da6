//! `ledger next`: the next action of a run, and the reason.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Environment, LedgerView, RunStatus, State, StepNumber, StepState, Timestamp};

use crate::options::{LedgerArgs, RunArg, environment};
use crate::output::{Code, Failure, print_result};
use crate::protocol::hand_off::files::stale_steps;
use crate::requests::run_or_only;
use crate::runner::{GoneClaim, RunWait};
use crate::server::RunnerStatus;

use super::inspect::json::views::StaleFilesJson;
use super::inspect::text::waits::waits_of;
use super::inspect::views::status::stale_lines;
use super::inspect::{Surroundings, next_action, read_state, report_rollback};
use super::store::source::environment_for;

const EXAMPLES: &str = "\
Examples:
  ledger next                                      the next action, and the reason
  ledger next my-plan --json | jq -r .command

It takes no lock. Exit code 1: the run is over. 3: there is nothing to do now; wait.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
}

pub(crate) fn next(args: &NextArgs) -> Result<Code, Failure> {
    let environment = environment_for(args.ledger.dir(), &environment())?;
    let view = LedgerView::open(args.ledger.dir(), &environment)?;
    let runner = RunnerStatus::of(args.ledger.dir(), view.log());
    report_rollback(args.ledger.dir(), args.ledger.json)?;
    read_state(args.ledger.dir(), |state| show(args, state, &runner, &environment))
}

/// The next action of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NextLine<'a> {
    /// The kind of the action.
    action: &'static str,
    /// The first of the commands; null if there is none, or if a person decides among them.
    command: Option<&'a String>,
    /// Commands, one of which is enough.
    commands: &'a [String],
    /// The time of the run's next timer, or the end of what its runner waits for.
    next_due_micros: Option<Timestamp>,
    /// The number of the step concerned.
    number: Option<StepNumber>,
    /// The run.
    run: &'a str,
    /// The last record of the ledger.
    seq: u64,
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known.
    stale_files: Option<Vec<StaleFilesJson>>,
    /// The id of the step concerned.
    step: Option<&'a str>,
    /// The action and the reason, for people.
    why: &'a str,
}

fn show(
    args: &NextArgs,
    state: &State,
    runner: &RunnerStatus,
    environment: &Environment,
) -> Result<Code, Failure> {
    let run = run_or_only(state, args.run.name())?;
    let now = environment.time_of(args.ledger.dir(), state.time)?;
    let dir = args.ledger.dir();
    let dead = &GoneClaim::all(dir, state);
    let waits = &RunWait::all(dir, state, now, || runner.is_absent());
    let next = next_action(state, run, Surroundings { dir, now, runner, dead, waits });
    let due = run.timers.first().map(|(due, _)| *due);
    let due: Option<Timestamp> =
        due.into_iter().chain(waits_of(waits, run).filter_map(|wait| wait.until)).min();
    let step = next.step.and_then(|step| run.step(step)).map(StepState::id);
    let is_open = run.status == RunStatus::Running;
    let stale = if is_open { stale_steps(run, None) } else { None };
    let warnings = stale_lines(run, stale.as_deref().unwrap_or_default());
    let line = NextLine {
        action: next.action,
        command: next.command(),
        commands: &next.commands,
        next_due_micros: due,
        number: next.step,
        run: &run.name,
        seq: state.seq,
        stale_files: StaleFilesJson::of(stale),
        step,
        why: &next.text,
    };
    let mut text = format!("run {}: {}", run.name, next.text);
    for command in &next.commands {
        text.push_str("\n  ");
        text.push_str(command);
    }
    if let Some(due) = due.filter(|_| next.action == "wait") {
        text.push_str("\n  until ");
        text.push_str(&time_text(due));
    }
    for warning in warnings {
        text.push_str("\n  ");
        text.push_str(&warning);
    }
    print_result(args.ledger.json, &line, &text)?;
    Ok(match (run.status, next.action) {
        (RunStatus::Ended(_), _) => Code::Failed,
        (_, "wait" | "none" | "capped" | "stop") => Code::Waiting,
        _ => Code::Success,
    })
}
