//! `ledger inspect DIR segments`: the files of the log, according to their headers and footers.

use clap::Args;
use serde_json::{Value, json};

use plan_ledger::LedgerView;
use plan_ledger::internals::format::{Footer, SegmentHeader};
use plan_ledger::internals::log::{SegmentInfo, SegmentState};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::{Output, time_json};
use crate::commands::inspect::style::{Paint, Table, hex, seconds, words};
use crate::output::{Code, Failure, escape_control, escape_path};
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
            all.iter().try_for_each(|each| out.json("segment", &segment_json(each)))?;
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

fn segment_json(anatomy: &SegmentInfo) -> Value {
    let SegmentInfo { summary, state: stage, end } = anatomy;
    let footer = match stage {
        SegmentState::Sealed(footer) => Some(footer_json(footer)),
        _ => None,
    };
    let what = match stage {
        SegmentState::Damaged(damage) => Some(damage.what.clone()),
        _ => None,
    };
    json!({
        "path": summary.path.display().to_string(),
        "ordinal": summary.header.as_ref().ok().map(|header| header.ordinal),
        "stage": stage_word(stage),
        "bytes": summary.length,
        "data_end": end.map(|(end, _)| end),
        "last_seq": end.map(|(_, last)| last),
        "header": summary.header.as_ref().ok().map(header_json),
        "footer": footer,
        "problem": summary.header.as_ref().err().map(ToString::to_string).or(what),
    })
}

fn header_json(header: &SegmentHeader) -> Value {
    json!({
        "ledger": hex(&header.ledger),
        "segment": hex(&header.segment),
        "genesis": hex(&header.genesis),
        "base_seq": header.base_seq,
        "prev_chain": header.prev_chain.to_string(),
        "prev_segment": hex(&header.prev_segment),
        "prev_data_end": header.prev_data_end,
        "prev_last_seq": header.prev_last_seq,
        "writer_epoch": header.writer_epoch,
        "created": time_json(header.created),
        "prealloc_len": header.prealloc_len,
        "reason": words(&header.reason, '_'),
        "born_last": header.born_last,
        "born_end": header.born_end,
        "ro_compat": header.ro_compat,
    })
}

fn footer_json(footer: &Footer) -> Value {
    json!({
        "last_seq": footer.last_seq,
        "data_end": footer.data_end,
        "index_length": footer.index_length,
        "time_first": time_json(footer.time_first),
        "time_last": time_json(footer.time_last),
        "chain_last": footer.chain_last.to_string(),
        "data_hash": hex(&footer.data_hash),
    })
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
            (Paint::None, words(&header.reason, ' ')),
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
