//! `ledger inspect DIR constants`: the sizes, limits and record kinds of this program.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::format::{
    FOOTER_SIZE, FORMAT_MAJOR, FRAME_ALIGNMENT, FRAME_HEADER_SIZE, HEAD_SIZE, HEAD_SLOT_SIZE,
    INDEX_HEADER_SIZE, INDEX_LENGTH_MAX, INDEX_RECORDS_MAX, PAYLOAD_LENGTH_MAX, SEEK_STEP,
    SEGMENT_HEADER_SIZE, SKIPPABLE_KINDS_FROM, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_HEADER_SIZE,
};
use plan_ledger::internals::ledger::{GAP_RECORDS_MAX, Kind};
use plan_ledger::log::{BLOB_LENGTH_MAX, FINDINGS_MAX, KEY_WINDOW};
use plan_ledger::plan::{ENDED_KEPT, MAX_BATCH_EVENTS, STEPS_MAX};
use plan_ledger::{Projection, State};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::output::Output;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure};
use crate::protocol::count;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger constants
  ledger inspect .ledger constants --json | jq -c 'select(.name == \"payload_length_max\")'

The constants belong to the program: the ledger is not read and need not exist.";

/// The constants of this program: sizes, limits, kinds of records
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConstantsArgs {}

/// A constant of this program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Constant {
    /// Its name.
    name: &'static str,
    /// Its value.
    value: u64,
    /// Its unit; empty for a number without a unit.
    unit: &'static str,
    /// Its meaning, for people.
    what: &'static str,
}

/// A kind of record.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KindLine {
    /// Its name.
    name: &'static str,
    /// Its number.
    number: u16,
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn sizes() -> [Constant; 10] {
    let bytes =
        |name, value: usize, what| Constant { name, value: wide(value), unit: "bytes", what };
    [
        bytes(
            "segment_header_size",
            SEGMENT_HEADER_SIZE,
            "a segment's header; records begin there",
        ),
        bytes("frame_header_size", FRAME_HEADER_SIZE, "the header of a record's frame"),
        bytes("frame_alignment", FRAME_ALIGNMENT, "frames begin at multiples of it"),
        bytes("index_header_size", INDEX_HEADER_SIZE, "the header of a sealed segment's index"),
        bytes("footer_size", FOOTER_SIZE, "the footer of a sealed segment"),
        bytes("head_size", HEAD_SIZE, "the file HEAD"),
        bytes("head_slot_size", HEAD_SLOT_SIZE, "one of its two slots"),
        bytes("snapshot_header_size", SNAPSHOT_HEADER_SIZE, "the header of a snapshot"),
        bytes(
            "snapshot_chunk_size",
            SNAPSHOT_CHUNK_SIZE,
            "a part of a snapshot with its own checksum",
        ),
        Constant {
            name: "seek_step",
            value: SEEK_STEP,
            unit: "bytes",
            what: "the minimum distance between two index entries",
        },
    ]
}

fn limits() -> [Constant; 10] {
    let most = |name, value, unit, what| Constant { name, value, unit, what };
    [
        most("payload_length_max", PAYLOAD_LENGTH_MAX.into(), "bytes", "the longest payload"),
        most("blob_length_max", BLOB_LENGTH_MAX, "bytes", "the largest output beside the log"),
        most("index_length_max", INDEX_LENGTH_MAX, "bytes", "the longest index"),
        most("index_records_max", INDEX_RECORDS_MAX, "records", "in one segment with an index"),
        most("key_window", KEY_WINDOW, "records", "a writer looks back for a batch's key"),
        most("batch_events_max", wide(MAX_BATCH_EVENTS), "events", "of one command"),
        most("steps_max", wide(STEPS_MAX), "steps", "of one plan"),
        most(
            "ended_runs_kept",
            wide(ENDED_KEPT),
            "runs",
            "that have ended are kept in full in the state",
        ),
        most("findings_max", wide(FINDINGS_MAX), "findings", "that `verify` lists"),
        most("gaps_max", GAP_RECORDS_MAX, "records", "that a salvage may leave a gap for"),
    ]
}

fn versions() -> [Constant; 3] {
    let version = |name, value, what| Constant { name, value, unit: "", what };
    [
        version("format_major", FORMAT_MAJOR.into(), "the version of the format"),
        version("state_version", State::VERSION.into(), "the version of the state in snapshots"),
        version("skippable_kinds_from", SKIPPABLE_KINDS_FROM.into(), "kinds that may be skipped"),
    ]
}

pub(crate) fn constants(
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { form, environment, .. } = context;
    let threshold = Constant {
        name: "blob_threshold",
        value: wide(environment.blob_threshold),
        unit: "bytes",
        what: "longer outputs are stored as blobs",
    };
    let every = Constant {
        name: "snapshot_every",
        value: environment.snapshot_every.unwrap_or(0),
        unit: "records",
        what: "from one snapshot of the state to the next",
    };
    let all: Vec<_> =
        versions().into_iter().chain(sizes()).chain(limits()).chain([threshold, every]).collect();
    match form {
        Form::Json => {
            all.iter().try_for_each(|constant| out.json(constant))?;
            for kind in Kind::ALL {
                out.json(&KindLine { name: kind.name(), number: kind.number() })?;
            }
        }
        Form::Text => {
            let mut table = Table::with_headings(&["name", "value", "", ""]);
            for Constant { name, value, unit, what } in all {
                let cells = [name.to_owned(), count(value), unit.to_owned(), what.to_owned()];
                table.row(cells.map(|text| (Paint::None, text)));
            }
            for kind in Kind::ALL {
                let cells = [format!("kind {}", kind.name()), format!("{:#06x}", kind.number())];
                table.row(cells.map(|text| (Paint::None, text)));
            }
            out.table(&table, 0)?;
        }
    }
    Ok(Code::Success)
}
