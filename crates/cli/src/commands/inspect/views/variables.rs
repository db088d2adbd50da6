//! `ledger inspect DIR variables`: the variables of a run, their origins and their history.

use clap::Args;

use plan_ledger::plan::{VariableSet, closest_name};
use plan_ledger::{Event, RunId, Timestamp};
use plan_ledger_views::{VariableHistory, Variables};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::not_found;
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};
use crate::protocol::Missing;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger variables
  ledger inspect .ledger variables my-plan --at 900
  ledger inspect .ledger variables --history score every value that it had, and its origin
  ledger inspect .ledger variables --after m --limit 100   a page of a long list";

/// The variables of a run: values, versions and origins; or the history of one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VariablesArgs {
    #[command(flatten)]
    run: RunArg,
    /// Every value that this variable had
    #[arg(long, value_name = "NAME", conflicts_with_all = ["after", "limit"])]
    history: Option<String>,
    /// Only variables after this name; they are in the order of their names
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// At most this many variables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn variables(
    args: &VariablesArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    if let Some(name) = &args.history {
        print_history(&mut ledger, id, name, out)?;
        return ledger.finish(out);
    }
    let run = ledger.run(id)?;
    let limit = args.limit.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX);
    let view = Variables::of(run).page(args.after.as_deref(), limit);
    match context.form {
        Form::Json => view.lines.iter().try_for_each(|line| out.json(line))?,
        Form::Text => {
            ledger.heading("variables", run, out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}

fn print_history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    name: &str,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let history = ledger.run_history(id)?;
    let values: Vec<(u64, Timestamp, &VariableSet)> = history
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Some(Event::VariableSet(set)) if set.name == name => {
                Some((record.seq, record.time, set))
            }
            _ => None,
        })
        .collect();
    let run = ledger.run(id)?;
    if values.is_empty() && !run.variables.contains_key(name) {
        let close = closest_name(name, run.variables.keys().map(String::as_str));
        let hint = close.map_or_else(String::new, |other| format!("; did you mean {other}?"));
        let message = format!("run {} never set {name}{hint}", run.name);
        return Err(not_found(Missing::Variable, message, ledger.code()));
    }
    let view = VariableHistory::of(run, &values);
    match ledger.context.form {
        Form::Json => view.lines.iter().try_for_each(|line| out.json(line)),
        Form::Text => {
            ledger.heading(&format!("history of {name}"), run, out)?;
            ledger.print_first_record(out)?;
            out.document(&view.document())
        }
    }
}
