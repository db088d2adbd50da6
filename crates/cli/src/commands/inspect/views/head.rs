//! `ledger inspect DIR head`: the content of HEAD, slot by slot.

use clap::Args;
use serde_json::{Value, json};

use plan_ledger::LedgerView;
use plan_ledger::internals::format::{HEAD_SLOT_SIZE, Head, HeadState};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{Health, holder};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::style::{Paint, Table, hex, words};
use crate::output::{Code, Failure, escape_control};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger head
  ledger inspect .ledger head --json | jq -c 'select(.counts) | .head.durable_seq'

HEAD is the witness of what was acknowledged: format/head.md.";

/// The acknowledged position in HEAD, slot by slot, and its last writer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HeadArgs {}

pub(crate) fn head(context: InspectContext<'_>, out: &mut Output<'_>) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let slots = &view.log().head_slots().slots;
    let newest = view.log().head_slots().newest().map(|(slot, _)| slot);
    let holder = holder(dir, environment);
    for (number, slot) in slots.iter().enumerate() {
        let counts = newest == Some(number);
        match form {
            Form::Json => {
                let line = json!({
                    "slot": number, "offset": number * HEAD_SLOT_SIZE, "valid": slot.is_some(),
                    "counts": counts, "head": slot.as_ref().map(head_json),
                });
                out.json("head_slot", &line)?;
            }
            Form::Text => print(number, slot.as_ref(), counts, out)?,
        }
    }
    match form {
        Form::Json => {
            out.json("holder", &json!({ "holder": holder }))?;
            health.json_line(health.is_good(), out)?;
        }
        Form::Text => {
            if let Some(holder) = holder {
                out.line(&format!("last opened by {}", escape_control(&holder)))?;
            }
            health.print(out)?;
        }
    }
    Ok(if health.is_good() { Code::Success } else { Code::Damaged })
}

fn state_word(state: HeadState) -> &'static str {
    match state {
        HeadState::Open => "open",
        HeadState::Clean => "closed",
        HeadState::Poisoned => "poisoned",
    }
}

fn head_json(head: &Head) -> Value {
    json!({
        "ledger": hex(&head.ledger),
        "generation": head.generation,
        "writer_epoch": head.writer_epoch,
        "mode": words(&head.mode, '_'),
        "durable_seq": head.durable_seq,
        "ordinal": head.ordinal,
        "segment": hex(&head.segment),
        "data_end": head.data_end,
        "chain": head.chain.to_string(),
        "state": state_word(head.state),
    })
}

fn print(
    number: usize,
    slot: Option<&Head>,
    counts: bool,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let which = if counts { " (valid, newest)" } else { "" };
    out.painted(Paint::Heading, &format!("slot {number}{which}"))?;
    let Some(head) = slot else {
        return out.painted(Paint::Notice, "  not valid: missing, damaged or incomplete");
    };
    let mut table = Table::default();
    let mut add = |name: &str, text: String| {
        table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
    };
    add("durable", format!("record {}, chain {}", head.durable_seq, head.chain));
    add("place", format!("segment {}, up to byte {}", head.ordinal, head.data_end));
    add("segment uid", hex(&head.segment));
    add("ledger uid", hex(&head.ledger));
    add("state", state_word(head.state).to_owned());
    add("written", format!("generation {}, writer epoch {}", head.generation, head.writer_epoch));
    add("synced", words(&head.mode, ' '));
    out.table(&table, 2)
}
