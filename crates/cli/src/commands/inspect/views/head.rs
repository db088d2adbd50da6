//! `ledger inspect DIR head`: the content of HEAD, slot by slot.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::format::{HEAD_SLOT_SIZE, Head, HeadState};
use plan_ledger::{HeadSync, LedgerView};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{Health, holder};
use crate::commands::inspect::output::Output;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::hex;

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
                out.json(&HeadSlotLine {
                    counts,
                    head: slot.as_ref().map(HeadJson::from),
                    offset: number * HEAD_SLOT_SIZE,
                    slot: number,
                    valid: slot.is_some(),
                })?;
            }
            Form::Text => print(number, slot.as_ref(), counts, out)?,
        }
    }
    match form {
        Form::Json => {
            out.json(&HolderLine { holder })?;
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

fn mode_word(mode: HeadSync) -> &'static str {
    match mode {
        HeadSync::Interval => "interval",
        HeadSync::EveryCommit => "every_commit",
    }
}

fn state_word(state: HeadState) -> &'static str {
    match state {
        HeadState::Open => "open",
        HeadState::Clean => "closed",
        HeadState::Poisoned => "poisoned",
    }
}

/// A slot of HEAD.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HeadSlotLine {
    /// Whether this slot is the one that counts.
    counts: bool,
    /// Its fields, with the names in head.md; null if it is not valid.
    head: Option<HeadJson>,
    /// Its offset in the file.
    offset: usize,
    /// Its number: 0 or 1.
    slot: usize,
    /// Whether all of its bytes are valid.
    valid: bool,
}

/// The last writer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HolderLine {
    /// The text that the last writer stored.
    holder: Option<String>,
}

/// The acknowledged position.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct HeadJson {
    /// The chain value of the last durable record.
    chain: String,
    /// The end of the last durable record in its segment.
    data_end: u64,
    /// The last durable record.
    durable_seq: u64,
    /// The generation of the slot.
    generation: u64,
    /// The identifier of the ledger.
    ledger: String,
    /// When the log was synced: `every_commit` or `interval`.
    mode: &'static str,
    /// The number of the segment.
    ordinal: u64,
    /// The identifier of the segment.
    segment: String,
    /// The state of the writer: `open`, `closed` or `poisoned`.
    state: &'static str,
    /// The epoch of the writer.
    writer_epoch: u64,
}

impl From<&Head> for HeadJson {
    fn from(head: &Head) -> Self {
        Self {
            chain: head.chain.to_string(),
            data_end: head.data_end,
            durable_seq: head.durable_seq,
            generation: head.generation,
            ledger: hex(&head.ledger),
            mode: mode_word(head.mode),
            ordinal: head.ordinal,
            segment: hex(&head.segment),
            state: state_word(head.state),
            writer_epoch: head.writer_epoch,
        }
    }
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
    add("synced", mode_word(head.mode).replace('_', " "));
    out.table(&table, 2)
}
