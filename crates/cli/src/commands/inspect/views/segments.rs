//! `ledger inspect DIR segments`: the files of the log, according to their headers and footers.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::LedgerView;
use plan_ledger::internals::format::{Footer, SegmentHeader, SegmentReason};
use plan_ledger::log::{SegmentInfo, SegmentState};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::seconds;
use crate::json::TimeJson;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control, escape_path};
use crate::protocol::hex;
use crate::protocol::{count, size};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger segments
  ledger inspect .ledger segments --json | jq -c '{ordinal, stage, data_end}'

Records are not read: `map` and `verify` do that.";

/// The files of the log: their records, whether they are sealed, and why they were created
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SegmentsArgs {}

pub(crate) fn segments(context: InspectContext<'_>, out: &mut Output<'_>) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let all = view.log().segment_infos()?;
    let is_good = health.is_good() && view.log().segments_intact()?;
    match form {
        Form::Json => {
            all.iter().try_for_each(|each| out.json(&SegmentLine::from(each)))?;
            health.json_line(is_good, out)?;
        }
        Form::Text => {
            print(&all, out)?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

fn stage_word(stage: &SegmentState) -> &'static str {
    match stage {
        SegmentState::Unknown => "unknown",
        SegmentState::Active => "active",
        SegmentState::Full => "full",
        SegmentState::Fenced => "fenced",
        SegmentState::Sealed(_) => "sealed",
        SegmentState::Damaged(_) => "damaged",
    }
}

fn reason_word(reason: SegmentReason) -> &'static str {
    match reason {
        SegmentReason::Create => "create",
        SegmentReason::Rotate => "rotate",
        SegmentReason::FenceAfterCrash => "fence_after_crash",
        SegmentReason::FenceAfterIoError => "fence_after_io_error",
        SegmentReason::Import => "import",
        SegmentReason::Fork => "fork",
    }
}

/// A segment of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SegmentLine {
    /// The length of the file.
    bytes: u64,
    /// Its logical end, if known.
    data_end: Option<u64>,
    /// The fields of its footer; null if it has none.
    footer: Option<FooterJson>,
    /// The fields of its header, with the names in log.md; null if the header is not valid.
    header: Option<SegmentHeaderJson>,
    /// The last record before that end.
    last_seq: Option<u64>,
    /// Its number; null if its header is not valid.
    ordinal: Option<u64>,
    /// The file.
    path: String,
    /// The problem with its header or footer.
    problem: Option<String>,
    /// `active`, `full` (and not sealed yet), `sealed`, `fenced` (the bytes after `data_end` are
    /// dead), `damaged` (its footer is not valid) or `unknown` (its header is not valid).
    stage: &'static str,
}

impl From<&SegmentInfo> for SegmentLine {
    fn from(segment: &SegmentInfo) -> Self {
        let SegmentInfo { summary, state: stage, end } = segment;
        let header = summary.header.as_ref();
        let footer = match stage {
            SegmentState::Sealed(footer) => Some(FooterJson::from(&**footer)),
            _ => None,
        };
        let what = match stage {
            SegmentState::Damaged(damage) => Some(damage.what.clone()),
            _ => None,
        };
        Self {
            bytes: summary.length,
            data_end: end.map(|(end, _)| end),
            footer,
            header: header.ok().map(SegmentHeaderJson::from),
            last_seq: end.map(|(_, last)| last),
            ordinal: header.ok().map(|header| header.ordinal),
            path: summary.path.display().to_string(),
            problem: header.err().map(ToString::to_string).or(what),
            stage: stage_word(stage),
        }
    }
}

/// The header of a segment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct SegmentHeaderJson {
    /// Its first record.
    base_seq: u64,
    /// The end of the records with which it was created.
    born_end: u64,
    /// The last record with which it was created.
    born_last: u64,
    /// The time of its creation.
    created_at: TimeJson,
    /// The identifier of the first segment of the ledger.
    genesis: String,
    /// The identifier of the ledger.
    ledger: String,
    /// The preallocated length.
    prealloc_len: u64,
    /// The chain value before its first record.
    prev_chain: String,
    /// The logical end of the segment before it.
    prev_data_end: u64,
    /// The last record of the segment before it.
    prev_last_seq: u64,
    /// The identifier of the segment before it.
    prev_segment: String,
    /// Why it was created: `create`, `rotate`, `fence_after_crash`, `fence_after_io_error`, `import`
    /// or `fork`.
    reason: &'static str,
    /// The features that a reader may ignore.
    ro_compat: u32,
    /// Its identifier.
    segment: String,
    /// The epoch of the writer.
    writer_epoch: u64,
}

impl From<&SegmentHeader> for SegmentHeaderJson {
    fn from(header: &SegmentHeader) -> Self {
        Self {
            base_seq: header.base_seq,
            born_end: header.born_end,
            born_last: header.born_last,
            created_at: header.created.into(),
            genesis: hex(&header.genesis),
            ledger: hex(&header.ledger),
            prealloc_len: header.prealloc_len,
            prev_chain: header.prev_chain.to_string(),
            prev_data_end: header.prev_data_end,
            prev_last_seq: header.prev_last_seq,
            prev_segment: hex(&header.prev_segment),
            reason: reason_word(header.reason),
            ro_compat: header.ro_compat,
            segment: hex(&header.segment),
            writer_epoch: header.writer_epoch,
        }
    }
}

/// The footer of a sealed segment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct FooterJson {
    /// The chain value of its last record.
    chain_last: String,
    /// The end of its records.
    data_end: u64,
    /// The hash of its bytes up to `data_end`.
    data_hash: String,
    /// The length of its index.
    index_length: u64,
    /// Its last record.
    last_seq: u64,
    /// The time of its first record.
    time_first: TimeJson,
    /// The time of its last record.
    time_last: TimeJson,
}

impl From<&Footer> for FooterJson {
    fn from(footer: &Footer) -> Self {
        Self {
            chain_last: footer.chain_last.to_string(),
            data_end: footer.data_end,
            data_hash: hex(&footer.data_hash),
            index_length: footer.index_length,
            last_seq: footer.last_seq,
            time_first: footer.time_first.into(),
            time_last: footer.time_last.into(),
        }
    }
}

fn print(all: &[SegmentInfo], out: &mut Output<'_>) -> Result<(), Failure> {
    let headings = ["segment", "stage", "records", "data", "file", "made", "why", "epoch", ""];
    let mut table = Table::with_headings(&headings);
    for SegmentInfo { summary, state: stage, end } in all {
        let Ok(header) = &summary.header else { continue };
        let records = match end {
            Some((_, last)) if *last >= header.base_seq => {
                format!("{} to {}", header.base_seq, last)
            }
            Some(_) => "none".to_owned(),
            None => format!("from {}", header.base_seq),
        };
        let data = end.map_or_else(String::new, |(end, _)| count(end));
        let (paint, what) = match stage {
            SegmentState::Damaged(damage) => (Paint::Notice, escape_control(&damage.what)),
            _ => (Paint::None, String::new()),
        };
        table.row([
            (Paint::None, header.ordinal.to_string()),
            (paint, stage_word(stage).to_owned()),
            (Paint::None, records),
            (Paint::None, data),
            (Paint::None, size(summary.length)),
            (Paint::None, seconds(header.created)),
            (Paint::None, reason_word(header.reason).replace('_', " ")),
            (Paint::None, header.writer_epoch.to_string()),
            (paint, what),
        ]);
    }
    out.table(&table, 0)?;
    for SegmentInfo { summary, .. } in all {
        if let Err(fault) = &summary.header {
            let text =
                format!("{}: {}", escape_path(&summary.path), escape_control(&fault.to_string()));
            out.painted(Paint::Bad, &text)?;
        }
    }
    Ok(())
}
