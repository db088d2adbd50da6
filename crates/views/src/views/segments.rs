//! The files of the log, according to their headers and footers.

use plan_ledger::internals::format::{Footer, SegmentHeader, SegmentReason};
use plan_ledger::log::{SegmentInfo, SegmentState};
use plan_ledger::plan::UtcTime;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table, Text};
use crate::words::{count, hex, seconds, size};

/// A segment of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SegmentLine {
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
    #[serde(skip)]
    row: Option<SegmentRow>,
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
            row: header.ok().map(|header| SegmentRow::of(segment, header)),
        }
    }
}

/// The header of a segment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct SegmentHeaderJson {
    /// Its first record.
    base_seq: u64,
    /// The end of the records that it had when it was created.
    born_end: u64,
    /// The last record that it had when it was created.
    born_last: u64,
    /// The time of its creation.
    created_at: UtcTime,
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    time_first: UtcTime,
    /// The time of its last record.
    time_last: UtcTime,
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

/// The row of a segment with a valid header.
#[derive(Debug)]
struct SegmentRow {
    cells: Vec<Text>,
}

impl SegmentRow {
    fn of(segment: &SegmentInfo, header: &SegmentHeader) -> Self {
        let SegmentInfo { summary, state: stage, end } = segment;
        let records = match end {
            Some((_, last)) if *last >= header.base_seq => {
                format!("{} to {}", header.base_seq, last)
            }
            Some(_) => "none".to_owned(),
            None => format!("from {}", header.base_seq),
        };
        let (paint, what) = match stage {
            SegmentState::Damaged(damage) => (Paint::Notice, damage.what.clone()),
            _ => (Paint::None, String::new()),
        };
        let cells = vec![
            header.ordinal.to_string().into(),
            Text::painted(paint, stage_word(stage)),
            records.into(),
            end.map_or_else(String::new, |(end, _)| count(end)).into(),
            size(summary.length).into(),
            seconds(header.created).into(),
            reason_word(header.reason).replace('_', " ").into(),
            header.writer_epoch.to_string().into(),
            Text::painted(paint, what),
        ];
        Self { cells }
    }
}

/// The segments of a log.
#[derive(Debug)]
pub struct Segments {
    /// One line for each.
    pub lines: Vec<SegmentLine>,
}

impl Segments {
    /// Those segments.
    #[must_use]
    pub fn of(all: &[SegmentInfo]) -> Self {
        Self { lines: all.iter().map(SegmentLine::from).collect() }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let headings = ["segment", "stage", "records", "data", "file", "made", "why", "epoch", ""];
        let mut table = Table::with_headings(&headings);
        for row in self.lines.iter().filter_map(|line| line.row.as_ref()) {
            table.row(row.cells.iter().cloned());
        }
        let mut document = Document::default();
        document.table(0, table);
        for line in self.lines.iter().filter(|line| line.header.is_none()) {
            let problem = line.problem.as_deref().unwrap_or_default();
            document.painted(Paint::Bad, format!("{}: {problem}", line.path));
        }
        document
    }
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
