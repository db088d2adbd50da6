//! `ledger inspect DIR segments`: the files of the log, as their headers and footers say.

use clap::Args;
use serde_json::{Value, json};

use crate::output::{Code, Failure};
use plan_ledger::format::{Footer, SegmentHeader};
use plan_ledger::ledger::LedgerView;
use plan_ledger::log::{SegmentInfo, SegmentState};

use super::page::{Page, time_json};
use super::survey::Health;
use super::text::{Paint, Table, count, hex, plain, plain_path, seconds, size, words};
use super::{Form, Look};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger segments
  ledger inspect .ledger segments --json | jq -c '{ordinal, stage, data_end}'

Records are not read: `map` and `verify` do that.";

/// The files of the log: what they hold, whether they are sealed, why they were made
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SegmentsArgs {}

pub(super) fn segments(look: Look<'_>, page: &mut Page<'_>) -> Result<Code, Failure> {
    let Look { dir, form, environment } = look;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let all = view.log().segment_infos()?;
    let is_good = health.is_good() && view.log().segments_intact()?;
    match form {
        Form::Json => {
            all.iter().try_for_each(|each| page.json("segment", &segment_json(each)))?;
            health.json_line(is_good, page)?;
        }
        Form::Text => {
            print(&all, page)?;
            health.print(page)?;
        }
    }
    Ok(if is_good { Code::Fine } else { Code::Damaged })
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

fn print(all: &[SegmentInfo], page: &mut Page<'_>) -> Result<(), Failure> {
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
            SegmentState::Damaged(damage) => (Paint::Notice, plain(&damage.what)),
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
    page.table(&table, 0)?;
    for SegmentInfo { summary, .. } in all {
        if let Err(fault) = &summary.header {
            let text = format!("{}: {}", plain_path(&summary.path), plain(&fault.to_string()));
            page.painted(Paint::Bad, &text)?;
        }
    }
    Ok(())
}
