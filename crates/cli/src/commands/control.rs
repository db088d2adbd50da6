//! The commands by which people steer runs: pause, resume, cancel, budget, fork.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use crate::server::{Act, BudgetChange, hand_over, run_of};
use plan_ledger::plan::{Account, Cost, Limits, State};

use super::acting::{Saying, Where};
use super::exit::{Code, Failure};
use super::inspect::{cause_text, cost_text, limits_json, limits_text};
use super::{outcome, say};

const PAUSE_EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger resume my-plan --by ana";

/// `ledger pause`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    said: Saying,
}

/// `ledger resume`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  ledger cancel my-plan --by ana --reason 'not needed any more'

What is in flight is taken back, and its receipts are refused. A cancelled run stays so: fork it, or
start another one.";

/// `ledger cancel`.
#[derive(Debug, Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    said: Saying,
}

const BUDGET_EXAMPLES: &str = "\
Examples:
  ledger budget my-plan                                   what was spent, and what may be
  ledger budget my-plan --money-micros 500000 --by ana    0.50 in all, what was spent included
  ledger budget my-plan --tokens none --by ana            no limit on tokens
  ledger budget my-plan --as-planned --by ana             what the plan says
  ledger budget raise my-plan --tokens 50000 --by ana     so many more than before
  ledger budget --attempts 1000 --by ana                  all runs of the ledger together

A run that waits only for its budget goes on. What is not named stays as it is.";

/// `ledger budget`.
#[derive(Debug, Args)]
#[command(after_help = BUDGET_EXAMPLES)]
pub(super) struct BudgetArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name; without one, the whole ledger. After `raise`, amounts are added
    #[arg(value_name = "[raise] RUN", num_args = 0..=2)]
    words: Vec<String>,
    /// Money in all, in millionths of the currency unit
    #[arg(long, value_name = "N|none", value_parser = amount, requires = "by")]
    money_micros: Option<Amount>,
    /// Tokens in all
    #[arg(long, value_name = "N|none", value_parser = amount, requires = "by")]
    tokens: Option<Amount>,
    /// Attempts in all
    #[arg(long, value_name = "N|none", value_parser = amount, requires = "by")]
    attempts: Option<Amount>,
    /// Seconds of wall time, from the run's start
    #[arg(long, value_name = "N|none", value_parser = amount, requires = "by")]
    wall_seconds: Option<Amount>,
    /// Leave it to the plan
    #[arg(
        long,
        requires = "by",
        conflicts_with_all = ["money_micros", "tokens", "attempts", "wall_seconds"]
    )]
    as_planned: bool,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

/// A part of a budget, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount(Option<u64>);

fn amount(text: &str) -> Result<Amount, String> {
    match text {
        "none" => Ok(Amount(None)),
        _ => text
            .parse()
            .map(|amount| Amount(Some(amount)))
            .map_err(|_| "expected a whole number, or `none`".to_owned()),
    }
}

const FORK_EXAMPLES: &str = "\
Examples:
  ledger fork my-plan --at 120 --name what-if             as it was after record 120
  ledger fork my-plan --step deploy --name again          before that step was first dealt

The new run has the same plan versions, finished work and variables. What was in flight begins
anew, and what the other run spent does not count against its budget. Go on with it by
`ledger run PLAN --run NEW`.";

/// `ledger fork`.
#[derive(Debug, Args)]
#[command(after_help = FORK_EXAMPLES)]
pub(super) struct ForkArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// The last record that counts
    #[arg(
        long,
        value_name = "SEQ",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "step",
        required_unless_present = "step"
    )]
    at: Option<u64>,
    /// Before this step, by id or number (#37), was dealt for the first time
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// The new run's name
    #[arg(long, value_name = "NEW")]
    name: String,
}

/// `ledger pause`.
pub(super) fn pause(args: &PauseArgs) -> Result<Code, Failure> {
    let Saying { place, run, by, reason } = &args.said;
    let (run, by, reason) = (run.clone(), by.clone(), reason.clone());
    place.act(&Act::Pause { run, by, reason })
}

/// `ledger resume`.
pub(super) fn resume(args: &ResumeArgs) -> Result<Code, Failure> {
    args.place.act(&Act::Resume { run: args.run.clone(), by: args.by.clone() })
}

/// `ledger cancel`.
pub(super) fn cancel(args: &CancelArgs) -> Result<Code, Failure> {
    let Saying { place, run, by, reason } = &args.said;
    let (run, by, reason) = (run.clone(), by.clone(), reason.clone());
    place.act(&Act::Cancel { run, by, reason })
}

/// `ledger budget`.
pub(super) fn budget(args: &BudgetArgs) -> Result<Code, Failure> {
    let (run, how) = match args.words.as_slice() {
        [raise, rest @ ..] if raise == RAISE && args.parts().next().is_some() => {
            (rest.first().cloned(), How::Raise)
        }
        [run] => (Some(run.clone()), How::Set),
        [] => (None, How::Set),
        [_, other, ..] => {
            let message = format!("`{other}` was not expected; `ledger budget raise RUN` raises");
            return Err(Failure::Usage(message));
        }
    };
    if let Some(change) = change(args, how)? {
        let by = args.by.clone().unwrap_or_default();
        let act = Act::Budget { run: run.clone(), change, by };
        let answer = hand_over(&args.place.ledger, &act, &super::acting::environment())?;
        // For people it is shown with all that goes with it.
        if args.place.json || answer.code != Code::Fine.number() {
            return args.place.print(&answer);
        }
        answer.said.iter().for_each(|line| say(line));
    }
    args.place.look(|state| show_budget(state, run.as_deref(), args))
}

/// The word that makes parts of a budget what they are raised by.
const RAISE: &str = "raise";

/// What the parts of a budget are that were named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Set,
    Raise,
}

impl BudgetArgs {
    /// The parts that were named.
    fn parts(&self) -> impl Iterator<Item = (String, Option<u64>)> {
        [
            ("money_micros", self.money_micros),
            ("tokens", self.tokens),
            ("attempts", self.attempts),
            ("wall_seconds", self.wall_seconds),
        ]
        .into_iter()
        .filter_map(|(part, amount)| Some((part.to_owned(), amount?.0)))
    }
}

/// What is to change, if anything is.
fn change(args: &BudgetArgs, how: How) -> Result<Option<BudgetChange>, Failure> {
    if args.as_planned {
        return Ok(Some(BudgetChange::AsPlanned));
    }
    let raised = |(part, by): (String, Option<u64>)| match by {
        Some(by) => Ok((part, by)),
        None => Err(Failure::Usage(format!("{part} is raised by a number, not by `none`"))),
    };
    Ok(match how {
        _ if args.parts().next().is_none() => None,
        How::Set => Some(BudgetChange::Set(args.parts().collect())),
        How::Raise => {
            Some(BudgetChange::Raise(args.parts().map(raised).collect::<Result<_, _>>()?))
        }
    })
}

/// The books that are asked about.
struct Books {
    /// Whose they are, for people.
    whose: String,
    account: Account,
    limits: Limits,
    /// Why the run pauses, if it does.
    pause: Option<String>,
}

fn books(state: &State, run: Option<&str>) -> Result<Books, Failure> {
    let Some(name) = run else {
        let (account, whose) = (state.account, "the ledger".to_owned());
        let limits = account.limits.unwrap_or_default();
        return Ok(Books { whose, account, limits, pause: None });
    };
    let run = run_of(state, name)?;
    Ok(Books {
        whose: format!("run {name}"),
        account: run.account,
        limits: run.limits(),
        pause: run.pause.as_ref().map(cause_text),
    })
}

fn show_budget(state: &State, run: Option<&str>, args: &BudgetArgs) -> Result<Code, Failure> {
    let Books { whose, account, limits, pause } = books(state, run)?;
    let Account { spent, estimated, reserved, attempts, .. } = account;
    let mut line = format!(
        "{whose}: may spend {}\n  spent {} in {attempts} attempts; reserved {}",
        limits_text(limits),
        cost_text(spent),
        cost_text(reserved)
    );
    if estimated != Cost::default() {
        let _ = write!(line, "; {} of it estimated", cost_text(estimated));
    }
    if let Some(pause) = &pause {
        let _ = write!(line, "\n  it pauses, {pause}");
    }
    let value = json!({
        "type": "budget", "run": run, "limits": limits_json(limits), "spent": spent,
        "estimated": estimated, "reserved": reserved, "attempts": attempts,
        "is_paused": pause.is_some(),
    });
    outcome(args.place.json, &value, &line)?;
    Ok(Code::Fine)
}

/// `ledger fork`.
pub(super) fn fork(args: &ForkArgs) -> Result<Code, Failure> {
    let (run, name, step) = (args.run.clone(), args.name.clone(), args.step.clone());
    args.place.act(&Act::Fork { run, name, at: args.at, step })
}
