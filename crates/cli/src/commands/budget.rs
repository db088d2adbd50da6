//! `ledger budget`: shows or changes the budget of a run or of the ledger.

use std::path::Path;

use clap::Args;

use plan_ledger::plan::Limits;
use plan_ledger::{Run, RunStatus};

use crate::options::{RUN_TWICE, environment};
use crate::output::{Code, Failure, print_note};
use crate::protocol::shell_command;
use crate::requests::{BudgetRequest, run_of};
use crate::server::expect_person;

use super::inspect::{self, BudgetViewArgs, read_state};

const EXAMPLES: &str = "\
Examples:
  ledger budget my-plan                                   limits, what is spent, what is left
  ledger budget my-plan --chart                           the rest of the budget over time
  ledger budget my-plan --json | jq 'select(.left == 0)'
  ledger budget my-plan --money 0.50 --by ana             $0.50 in total, spent money included
  ledger budget my-plan --tokens none --by ana            no limit on tokens
  ledger budget raise my-plan --tokens 50000 --by ana     50000 more than before
  ledger budget --attempts 1000 --by ana                  all runs of the ledger together

A run that is paused because of its budget continues. Limits that are not named do not change.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    view: BudgetViewArgs,
    /// The run's name [default: the whole ledger]; after `raise`, the amounts are added
    #[arg(value_name = "[raise] RUN", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    request: BudgetRequest,
}

/// The word before the run's name that adds the amounts to the limits.
const RAISE: &str = "raise";

/// The failure of a raise that names no amount, with the limits that the run has.
fn no_amount(run: &Run, dir: &Path) -> Failure {
    let Run { name, status, .. } = run;
    if matches!(status, RunStatus::Ended(_)) {
        return Failure::Rejected(format!("run {name} is over, and its budget with it"));
    }
    let Limits { money_micros, tokens, attempts, wall_seconds } = run.limits();
    let parts = [
        ("--money", "2.00", money_micros.is_some()),
        ("--tokens", "100000", tokens.is_some()),
        ("--attempts", "10", attempts.is_some()),
        ("--wall", "1h", wall_seconds.is_some()),
    ];
    let limited: Vec<_> = parts.iter().filter(|(.., is_limited)| *is_limited).collect();
    let Some(((option, amount, _), others)) = limited.split_first() else {
        let set = shell_command("budget", dir, &[name, "--money", "5.00"]);
        return Failure::Usage(format!("run {name} has no limit to raise\nhint: `{set}` sets one"));
    };
    let raise = shell_command("budget", dir, &[RAISE, name, option, amount]);
    let others: String = others.iter().map(|(option, ..)| format!(", or {option}")).collect();
    Failure::Usage(format!("`budget raise {name}` names no amount\nhint: `{raise}`{others}"))
}

pub(crate) fn budget(args: &BudgetArgs) -> Result<Code, Failure> {
    let (named, is_raise) = match args.words.as_slice() {
        [raise, rest @ ..] if raise == RAISE && args.request.change.has_amounts() => {
            (rest.first(), true)
        }
        [raise, run] if raise == RAISE => {
            let dir = args.view.ledger.dir();
            expect_person(dir, "")?;
            return Err(read_state(dir, |state| Ok(no_amount(run_of(state, run)?, dir)))?);
        }
        [run] => (Some(run), false),
        [] => (None, false),
        [_, other, ..] => {
            let message = format!(
                "unexpected argument `{other}`\nhint: `ledger budget raise RUN` raises a limit"
            );
            return Err(Failure::Usage(message));
        }
    };
    let option = args.view.run.name();
    if named.is_some() && option.is_some() {
        return Err(Failure::Usage(RUN_TWICE.to_owned()));
    }
    let run = named.map(String::as_str).or(option).map(str::to_owned);
    let mut request = BudgetRequest { run: run.clone(), ..args.request.clone() };
    if !request.change.is_empty() {
        if is_raise {
            request.change = request.change.raising()?;
        }
        let answer = args.view.ledger.client().call(&request.into())?;
        // People see the whole budget instead of the answer.
        if args.view.ledger.json.0 || answer.code != Code::Success.number() {
            return args.view.ledger.print(&answer);
        }
        answer.messages.iter().for_each(|line| print_note(line));
    }
    let mut out = std::io::stdout().lock();
    inspect::budget(&args.view, run.as_deref(), &environment(), &mut out)
}
