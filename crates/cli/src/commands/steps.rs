//! The commands about single steps and variables: try again, skip, decide, set, get, next.
//!
//! Invariant: looking takes no lock.

use clap::Args;
use serde_json::{Value, json};

use crate::server::{Act, run_or_only};
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Micros, RunStatus, State, StepState};

use super::acting::{Where, environment};
use super::exit::{Code, Failure};
use super::inspect::next_action;
use super::outcome;
use super::worker::value_of;

const RETRY_EXAMPLES: &str = "\
Examples:
  ledger retry my-plan build --by ana              one step that has failed for good
  ledger retry my-plan --by ana                    all of them

A run that failed by it goes on.";

/// `ledger retry`.
#[derive(Debug, Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// The step's id or number (#37); without one, all that failed
    step: Option<String>,
    /// Who says so
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

/// `ledger retry`.
pub(super) fn retry(args: &RetryArgs) -> Result<Code, Failure> {
    let (run, step, by) = (args.run.clone(), args.step.clone(), args.by.clone());
    args.place.act(&Act::Retry { run, step, by })
}

const SKIP_EXAMPLES: &str = "\
Examples:
  ledger skip my-plan docs --reason 'written already'

What comes after it goes on as if it were done. A step in flight cannot be skipped.";

/// `ledger skip`.
#[derive(Debug, Args)]
#[command(after_help = SKIP_EXAMPLES)]
pub(super) struct SkipArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// The step's id or number (#37)
    step: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who says so
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

/// `ledger skip`.
pub(super) fn skip(args: &SkipArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.clone(), args.step.clone());
    args.place.act(&Act::Skip { run, step, by: args.by.clone(), reason: args.reason.clone() })
}

const DECIDE_EXAMPLES: &str = "\
Examples:
  ledger decide my-plan build retry --rule policy-7 --reason 'the network was down'
  ledger decide my-plan build retry --after 60 --rule backoff
  ledger decide my-plan build fallback --rule second-try

For plans that leave failures to an external decider (`failure.decider: external`). Decisions:
retry, fail, fallback, replan, escalate, abort, doubt.";

/// `ledger decide`.
#[derive(Debug, Args)]
#[command(after_help = DECIDE_EXAMPLES)]
pub(super) struct DecideArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// The step's id or number (#37)
    step: String,
    /// What is done about its failure
    decision: String,
    /// Seconds to wait before it is tried again
    #[arg(long, value_name = "SECONDS")]
    after: Option<u64>,
    /// The rule that decided, for the record
    #[arg(long, value_name = "NAME", default_value = "decider")]
    rule: String,
    /// Why, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// `ledger decide`.
pub(super) fn decide(args: &DecideArgs) -> Result<Code, Failure> {
    args.place.act(&Act::Decide {
        run: args.run.clone(),
        step: args.step.clone(),
        decision: args.decision.clone(),
        after_seconds: args.after,
        rule: args.rule.clone(),
        reason: args.reason.clone(),
    })
}

const SET_EXAMPLES: &str = "\
Examples:
  ledger set region '\"eu\"' --run my-plan
  ledger set count 12 --if-version 3               only if nobody has set it since: exit code 6
  ledger set flag true --if-version 0              only if it is not set yet
  ledger get count --json";

/// `ledger set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(super) struct SetArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    run: OfRun,
    /// The variable
    name: String,
    /// Its value: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Only if it still has this version; 0 for one that is not set
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Who says so
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

/// Which run.
#[derive(Debug, Args)]
struct OfRun {
    /// The run's name; may be left out where only one goes on
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    run: Option<String>,
}

/// `ledger set`.
pub(super) fn set(args: &SetArgs) -> Result<Code, Failure> {
    args.place.act(&Act::Set {
        run: args.run.run.clone(),
        name: args.name.clone(),
        value: value_of(&args.value)?,
        if_version: args.if_version,
        by: args.by.clone(),
    })
}

/// `ledger get`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(super) struct GetArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    run: OfRun,
    /// The variable
    name: String,
}

/// `ledger get`.
pub(super) fn get(args: &GetArgs) -> Result<Code, Failure> {
    args.place.look(|state| {
        let run = run_or_only(state, args.run.run.as_deref())?;
        let variable = run.variables.get(&args.name);
        let value = variable.map_or(Value::Null, |variable| variable.value.value());
        let line = json!({
            "type": "variable", "run": run.name, "name": args.name, "value": value,
            "version": variable.map_or(0, |variable| variable.version),
        });
        outcome(args.place.json, &line, &value.to_string())?;
        Ok(Code::Fine)
    })
}

const NOTE_EXAMPLES: &str = "\
Examples:
  ledger note 'the network was down from 3 to 4' --by ana
  ledger note 'took the small model' --step build  within a worker: $LEDGER_RUN, $LEDGER_STEP

It stands in the log, and changes nothing: `ledger inspect DIR records --kind note`.";

/// `ledger note`.
#[derive(Debug, Args)]
#[command(after_help = NOTE_EXAMPLES)]
pub(super) struct NoteArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    run: OfRun,
    /// The step that it is about, by id or number (#37)
    #[arg(long, value_name = "STEP", env = "LEDGER_STEP", hide_env_values = true)]
    step: Option<String>,
    /// What there is to say
    text: String,
    /// Who says so
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

/// `ledger note`.
pub(super) fn note(args: &NoteArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.run.clone(), args.step.clone());
    args.place.act(&Act::Note { run, step, text: args.text.clone(), by: args.by.clone() })
}

const TICK_EXAMPLES: &str = "\
Examples:
  ledger tick                                      give back what nobody has kept alive
  ledger tick --json | jq .next_due_micros";

/// `ledger tick`.
#[derive(Debug, Args)]
#[command(after_help = TICK_EXAMPLES)]
pub(super) struct TickArgs {
    #[command(flatten)]
    place: Where,
}

/// `ledger tick`.
pub(super) fn tick(args: &TickArgs) -> Result<Code, Failure> {
    args.place.act(&Act::Tick {})
}

const NEXT_EXAMPLES: &str = "\
Examples:
  ledger next                                      what is to be done now, and why
  ledger next my-plan --json | jq -r .command

It takes no lock. Exit code 1: the run is over. 3: nothing can be done but to wait.";

/// `ledger next`.
#[derive(Debug, Args)]
#[command(after_help = NEXT_EXAMPLES)]
pub(super) struct NextArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name; may be left out where only one goes on
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

/// `ledger next`.
pub(super) fn next(args: &NextArgs) -> Result<Code, Failure> {
    args.place.look(|state| tell_next(args, state))
}

fn tell_next(args: &NextArgs, state: &State) -> Result<Code, Failure> {
    let run = run_or_only(state, args.run.as_deref())?;
    let now = environment().clock.now().max(state.time);
    let next = next_action(state, run, &args.place.ledger, now);
    let due: Option<Micros> = run.timers.first().map(|(due, _)| *due);
    let line = json!({
        "type": "next", "run": run.name, "action": next.word, "step": next.step.and_then(|step| run.step(step)).map(StepState::id),
        "number": next.step, "why": next.text, "command": next.commands.first(),
        "commands": next.commands,
        "next_due_micros": due, "seq": state.seq,
    });
    let mut text = format!("run {}: {}", run.name, next.text);
    for command in &next.commands {
        text.push_str("\n  ");
        text.push_str(command);
    }
    if let Some(due) = due.filter(|_| next.word == "wait") {
        text.push_str("\n  until ");
        text.push_str(&time_text(due));
    }
    outcome(args.place.json, &line, &text)?;
    Ok(match (run.status, next.word) {
        (RunStatus::Ended(_), _) => Code::Failed,
        (_, "wait" | "none" | "capped" | "stop") => Code::Waiting,
        _ => Code::Fine,
    })
}
