//! `ledger inspect DIR segments`: the files of the log, according to their headers and footers.

use clap::Args;

use plan_ledger::LedgerView;
use plan_ledger_views::Segments;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger segments
  ledger inspect .ledger segments --json | jq -c '{ordinal, stage, data_end}'

Records are not read: `map` and `verify` do that.";

/// The files of the log: their records, whether they are sealed, and why they were created
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SegmentsArgs {}

pub(crate) fn segments(
    _args: &SegmentsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let segments = Segments::of(&view.log().segment_infos()?);
    let is_good = health.is_good() && view.log().segments_intact()?;
    match form {
        Form::Json => {
            segments.lines.iter().try_for_each(|line| out.json(line))?;
            health.json_line(is_good, out)?;
        }
        Form::Text => {
            out.document(&segments.document())?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}
