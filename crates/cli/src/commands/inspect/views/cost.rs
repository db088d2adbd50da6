//! `ledger inspect DIR cost`: the cost of each step of a run, most expensive first.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::StepCost;
use plan_ledger::plan::Account;
use plan_ledger::{Cost, Run, RunId, StepNumber, StepState};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::name_and_title;
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, cost_text, escape_control};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger cost                      the most expensive steps, and the cost of owners
  ledger inspect .ledger cost my-plan --all
  ledger inspect .ledger cost --json | jq 'select(.type == \"step_cost\") | .spent.tokens'";

/// The cost of each step and each owner of a run, most expensive first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    run: RunArg,
    /// List every step, including cheap ones
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    at: AtArg,
}

/// Number of steps listed in text without `--all`.
const SHOWN: usize = 20;

pub(crate) fn cost(
    args: &CostArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let costs = ledger.run_history(id)?.costs();
    let run = ledger.run(id)?;
    let mut rows: Vec<(StepNumber, StepCost)> = costs.into_iter().collect();
    rows.retain(|(_, cost)| cost.attempts > 0 || cost.spent != Cost::default());
    rows.sort_by_key(|(number, cost)| {
        let Cost { money_micros, tokens } = cost.spent;
        (std::cmp::Reverse((money_micros, tokens, cost.attempts)), *number)
    });
    match context.form {
        Form::Json => print_json(run, &rows, out)?,
        Form::Text => {
            ledger.heading("cost", run, out)?;
            ledger.print_first_record(out)?;
            let shown = if args.all { rows.len() } else { SHOWN };
            print(run, &rows, shown, out)?;
        }
    }
    ledger.finish(out)
}

/// The cost of the steps of each owner.
fn owners(run: &Run, rows: &[(StepNumber, StepCost)]) -> BTreeMap<String, StepCost> {
    let mut owners: BTreeMap<String, StepCost> = BTreeMap::new();
    for (number, cost) in rows {
        let owner =
            run.step(*number).and_then(|step| step.owner().map(str::to_owned)).unwrap_or_default();
        let sum = owners.entry(owner).or_default();
        *sum = sum.plus(cost);
    }
    owners
}

pub(crate) fn print_json(
    run: &Run,
    rows: &[(StepNumber, StepCost)],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for (number, cost) in rows {
        let StepCost { attempts, spent, estimated } = cost;
        let step = run.step(*number);
        out.json(&StepCostLine {
            attempts: *attempts,
            estimated: *estimated,
            id: step.map(StepState::id),
            owner: step.and_then(|step| step.owner()),
            run: run.id,
            spent: *spent,
            step: *number,
        })?;
    }
    let Account { limits: _, spent, estimated, reserved, attempts } = run.account;
    out.json(&RunCostLine { attempts, estimated, reserved, run: run.id, spent })
}

/// The cost of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StepCostLine<'a> {
    /// The number of its attempts in the records of the log.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// Its id.
    id: Option<&'a str>,
    /// Its owner.
    owner: Option<&'a str>,
    /// The run.
    run: RunId,
    /// The cost of its attempts.
    spent: Cost,
    /// Its number.
    step: StepNumber,
}

/// The cost of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RunCostLine {
    /// The number of its attempts.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// The amount reserved for attempts in flight.
    reserved: Cost,
    /// The run.
    run: RunId,
    /// The cost of its attempts.
    spent: Cost,
}

pub(crate) fn print(
    run: &Run,
    rows: &[(StepNumber, StepCost)],
    shown: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let account = run.account;
    let mut table = Table::with_headings(&["step", "attempts", "cost", "estimated", "title"]);
    for (number, cost) in rows.iter().take(shown) {
        let (name, title) = name_and_title(run, *number);
        table.row(cells(name, cost, title));
    }
    let whole =
        StepCost { attempts: account.attempts, spent: account.spent, estimated: account.estimated };
    table.row(cells("all".to_owned(), &whole, String::new()));
    out.table(&table, 2)?;
    let rest = rows.len().saturating_sub(shown);
    if rest > 0 {
        out.line(&format!("  and {rest} more; --all shows them"))?;
    }
    let owners = owners(run, rows);
    if owners.len() > 1 {
        out.line("")?;
        let mut table = Table::with_headings(&["owner", "attempts", "cost", "estimated", ""]);
        for (owner, cost) in owners {
            let name = if owner.is_empty() { "(none)".to_owned() } else { escape_control(&owner) };
            table.row(cells(name, &cost, String::new()));
        }
        out.table(&table, 2)?;
    }
    Ok(())
}

fn cells(name: String, cost: &StepCost, title: String) -> [(Paint, String); 5] {
    let text = |cost: Cost| match cost {
        Cost { money_micros: 0, tokens: 0 } => "-".to_owned(),
        some => cost_text(some),
    };
    [
        (Paint::Heading, name),
        (Paint::None, cost.attempts.to_string()),
        (Paint::None, text(cost.spent)),
        (Paint::None, text(cost.estimated)),
        (Paint::Faint, title),
    ]
}
