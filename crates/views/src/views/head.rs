//! The acknowledged position in HEAD, slot by slot, and its last writer.

use plan_ledger::HeadSync;
use plan_ledger::internals::format::{HEAD_SLOT_SIZE, Head, HeadCopies, HeadSlots, HeadState};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::hex;

/// A slot of HEAD.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HeadSlotLine {
    /// The copies of its record.
    copies: CopiesWord,
    /// Whether this slot is the one that counts.
    counts: bool,
    /// The fields of its newest valid copy, with the names in head.md; null if there is none.
    head: Option<HeadJson>,
    /// Its offset in the file.
    offset: usize,
    /// Its number: 0 or 1.
    slot: usize,
    /// Whether one of its copies is valid.
    valid: bool,
}

/// The copies of a slot's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum CopiesWord {
    /// All are valid and equal.
    Equal,
    /// All are valid, and of several writes: one was interrupted.
    Interrupted,
    /// One is damaged.
    Damaged,
}

impl From<HeadCopies> for CopiesWord {
    fn from(copies: HeadCopies) -> Self {
        match copies {
            HeadCopies::Equal => Self::Equal,
            HeadCopies::Mixed => Self::Interrupted,
            HeadCopies::Damaged => Self::Damaged,
        }
    }
}

/// The last writer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HolderLine {
    /// The text that the last writer stored.
    holder: Option<String>,
}

/// The acknowledged position.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

/// HEAD, and its last writer.
#[derive(Debug)]
pub struct HeadView {
    /// The slots.
    pub slots: Vec<HeadSlotLine>,
    /// The last writer.
    pub holder: HolderLine,
}

impl HeadView {
    /// The slots of HEAD. `holder`: the value that the last writer stored.
    #[must_use]
    pub fn of(slots: &HeadSlots, holder: Option<String>) -> Self {
        let newest = slots.newest().map(|(slot, _)| slot);
        let line = |(number, (slot, copies)): (usize, (&Option<Head>, &HeadCopies))| HeadSlotLine {
            copies: (*copies).into(),
            counts: newest == Some(number),
            head: slot.as_ref().map(HeadJson::from),
            offset: number * HEAD_SLOT_SIZE,
            slot: number,
            valid: slot.is_some(),
        };
        let lines = slots.slots.iter().zip(&slots.copies).enumerate().map(line);
        Self { slots: lines.collect(), holder: HolderLine { holder } }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        self.slots.iter().for_each(|slot| slot.describe(&mut document));
        if let Some(holder) = &self.holder.holder {
            document.line(format!("last opened by {holder}"));
        }
        document
    }
}

impl HeadSlotLine {
    fn describe(&self, document: &mut Document) {
        let which = if self.counts { " (valid, newest)" } else { "" };
        document.painted(Paint::Heading, format!("slot {}{which}", self.slot));
        let Some(head) = &self.head else {
            document.painted(Paint::Notice, "  not valid: missing, damaged or incomplete");
            return;
        };
        match self.copies {
            CopiesWord::Interrupted => {
                let what = "  a write of the slot was interrupted; this is its newest copy";
                document.painted(Paint::Notice, what);
            }
            CopiesWord::Damaged => {
                document
                    .painted(Paint::Notice, "  a copy is damaged; this is the newest valid one");
            }
            CopiesWord::Equal => {}
        }
        let mut table = Table::default();
        let mut add = |name: &str, text: String| {
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
        };
        add("durable", format!("record {}, chain {}", head.durable_seq, head.chain));
        add("place", format!("segment {}, up to byte {}", head.ordinal, head.data_end));
        add("segment uid", head.segment.clone());
        add("ledger uid", head.ledger.clone());
        add("state", head.state.to_owned());
        add(
            "written",
            format!("generation {}, writer epoch {}", head.generation, head.writer_epoch),
        );
        add("synced", head.mode.replace('_', " "));
        document.table(2, table);
    }
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
