//! `ledger inspect DIR diff`: the changes between two records, or the differences between two runs.

use clap::Args;

use plan_ledger_views::Changes;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

use super::compare;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger diff 1200 1300            what changed, and which records changed it
  ledger inspect .ledger diff monday tuesday       the first difference of two runs, and its effects
  ledger inspect .ledger diff '#1' '#2'            the same, by the runs' numbers";

/// The changes between two records, field by field; or the differences between two runs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// A record, or a run by name or number (#3)
    #[arg(value_name = "SEQ|RUN")]
    one: String,
    /// A later record, or another run
    #[arg(value_name = "SEQ|RUN")]
    other: String,
}

pub(crate) fn diff(
    args: &DiffArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(&args.one), number(&args.other)) {
        (Some(from), Some(to)) => records(from, to, context, out),
        (None, None) => compare::compare(&args.one, &args.other, context, out),
        _ => {
            let message = "expected two records, or two runs (#3 if the name of one is a number)";
            Err(Failure::Usage(message.to_owned()))
        }
    }
}

fn records(
    from: u64,
    to: u64,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (from, to) = (from.min(to), from.max(to));
    let ledger = LedgerAt::of(context, AtArg { at: Some(to).filter(|to| *to > 0) })?;
    let (changes, state) = ledger.view.changes(from, to)?;
    let view = Changes::of(&changes, &state, from, to);
    match context.form {
        Form::Json => view.lines().try_for_each(|line| out.json(&line))?,
        Form::Text => out.document(&view.document())?,
    }
    ledger.finish(out)
}
