//! The commands by which people steer runs: pause, resume, budget, fork.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::ledger::{Environment, ForkPoint, LedgerView};
use crate::plan::{Account, Cost, Limits, RunId, State, StepNumber};

use super::answer::{run_of, status, step_of};
use super::exit::{Code, Failure};
use super::inspect::{cause_text, cost_text, limits_json, limits_text};
use super::{open, outcome};

const PAUSE_EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger resume my-plan --by ana";

/// `ledger pause`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(super) struct PauseArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name
    run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// `ledger resume`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(super) struct ResumeArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name
    run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

const BUDGET_EXAMPLES: &str = "\
Examples:
  ledger budget my-plan                                   what was spent, and what may be
  ledger budget my-plan --money-micros 500000 --by ana    0.50 in all, what was spent included
  ledger budget my-plan --tokens none --by ana            no limit on tokens
  ledger budget my-plan --as-planned --by ana             what the plan says
  ledger budget --attempts 1000 --by ana                  all runs of the ledger together

A run that waits only for its budget goes on. What is not named stays as it is.";

/// `ledger budget`.
#[derive(Debug, Args)]
#[command(after_help = BUDGET_EXAMPLES)]
pub(super) struct BudgetArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name; without one, the whole ledger
    run: Option<String>,
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
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
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
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name
    run: String,
    /// The last record that counts
    #[arg(long, value_name = "SEQ", conflicts_with = "step", required_unless_present = "step")]
    at: Option<u64>,
    /// Before this step, by id or number (#37), was dealt for the first time
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// The new run's name
    #[arg(long, value_name = "NEW")]
    name: String,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// `ledger pause`.
pub(super) fn pause(args: &PauseArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let run = run_of(&ledger.state(), &args.run)?.id;
    ledger.pause(run, &args.by, &args.reason)?;
    ledger.close()?;
    let value = json!({ "type": "paused", "run": args.run });
    outcome(args.json, &value, &format!("run {}: nothing more is dealt for now", args.run))?;
    Ok(Code::Fine)
}

/// `ledger resume`.
pub(super) fn resume(args: &ResumeArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let run = run_of(&ledger.state(), &args.run)?.id;
    ledger.resume(run, &args.by)?;
    ledger.close()?;
    let value = json!({ "type": "resumed", "run": args.run });
    outcome(args.json, &value, &format!("run {}: it may go on", args.run))?;
    Ok(Code::Fine)
}

/// `ledger budget`.
pub(super) fn budget(args: &BudgetArgs) -> Result<Code, Failure> {
    let environment = Environment::system();
    let parts = [args.money_micros, args.tokens, args.attempts, args.wall_seconds];
    if !args.as_planned && parts.iter().all(Option::is_none) {
        let view = LedgerView::open(&args.ledger, &environment)?;
        let state = view.fold(u64::MAX)?.state;
        return show_budget(&state, args);
    }
    let ledger = open(&args.ledger, &environment)?;
    let state = ledger.state();
    let (run, limits) = books(&state, args).map(|books| (books.run, books.limits))?;
    let limits = (!args.as_planned).then(|| changed(limits, args));
    ledger.set_budget(run, limits, args.by.as_deref().unwrap_or_default())?;
    let state = ledger.state();
    ledger.close()?;
    show_budget(&state, args)
}

/// The books that are asked about.
struct Books {
    run: Option<RunId>,
    /// Whose they are, for people.
    whose: String,
    account: Account,
    limits: Limits,
    /// Why the run pauses, if it does.
    pause: Option<String>,
}

fn books(state: &State, args: &BudgetArgs) -> Result<Books, Failure> {
    let Some(name) = &args.run else {
        let (account, whose) = (state.account, "the ledger".to_owned());
        let limits = account.limits.unwrap_or_default();
        return Ok(Books { run: None, whose, account, limits, pause: None });
    };
    let run = run_of(state, name)?;
    Ok(Books {
        run: Some(run.id),
        whose: format!("run {name}"),
        account: run.account,
        limits: run.limits(),
        pause: run.pause.as_ref().map(cause_text),
    })
}

/// The limits with what was named in the place of what was.
fn changed(limits: Limits, args: &BudgetArgs) -> Limits {
    let or = |named: Option<Amount>, before| named.map_or(before, |amount| amount.0);
    Limits {
        money_micros: or(args.money_micros, limits.money_micros),
        tokens: or(args.tokens, limits.tokens),
        attempts: or(args.attempts, limits.attempts),
        wall_seconds: or(args.wall_seconds, limits.wall_seconds),
    }
}

fn show_budget(state: &State, args: &BudgetArgs) -> Result<Code, Failure> {
    let Books { whose, account, limits, pause, .. } = books(state, args)?;
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
        "type": "budget", "run": args.run, "limits": limits_json(limits), "spent": spent,
        "estimated": estimated, "reserved": reserved, "attempts": attempts,
        "is_paused": pause.is_some(),
    });
    outcome(args.json, &value, &line)?;
    Ok(Code::Fine)
}

/// `ledger fork`.
pub(super) fn fork(args: &ForkArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let state = ledger.state();
    let parent = match state.names.get(&args.run) {
        Some(run) => *run,
        None => run_of(&state, &args.run)?.id,
    };
    let point = match (&args.step, args.at) {
        (Some(step), _) => ForkPoint::Before(fork_step(&ledger, parent, step)?),
        (None, at) => ForkPoint::After(at.unwrap_or_default()),
    };
    let run = ledger.fork(parent, point, &args.name)?;
    let state = ledger.state();
    let forked = state.runs.get(&run).and_then(|run| run.forked.clone());
    let at = forked.map_or(0, |forked| forked.at_seq);
    let value: Value =
        json!({ "type": "forked", "run": args.name, "parent": args.run, "at_seq": at });
    let line = format!(
        "run {}: forked from run {} at record {at}; it is {}",
        args.name,
        args.run,
        status(&ledger, run)
    );
    ledger.close()?;
    outcome(args.json, &value, &line)?;
    Ok(Code::Fine)
}

fn fork_step(
    ledger: &crate::ledger::Ledger,
    parent: RunId,
    step: &str,
) -> Result<StepNumber, Failure> {
    step_of(&ledger.run(parent)?, step)
}
