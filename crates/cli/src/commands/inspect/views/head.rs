//! `ledger inspect DIR head`: the content of HEAD, slot by slot.

use clap::Args;

use plan_ledger::LedgerView;
use plan_ledger_views::HeadView;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{Health, holder};
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger head
  ledger inspect .ledger head --json | jq -c 'select(.counts) | .head.durable_seq'

HEAD is the witness of what was acknowledged: format/head.md.";

/// The acknowledged position in HEAD, slot by slot, and its last writer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HeadArgs {}

pub(crate) fn head(
    _args: &HeadArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let head = HeadView::of(view.log().head_slots(), holder(dir, environment));
    match form {
        Form::Json => {
            head.slots.iter().try_for_each(|slot| out.json(slot))?;
            out.json(&head.holder)?;
            health.json_line(health.is_good(), out)?;
        }
        Form::Text => {
            out.document(&head.document())?;
            health.print(out)?;
        }
    }
    Ok(if health.is_good() { Code::Success } else { Code::Damaged })
}
