//! `ledger inspect DIR map`: what each byte of the log is.

use clap::Args;
use serde_json::{Value, json};

use crate::output::{Code, Failure};
use plan_ledger::ledger::LedgerView;
use plan_ledger::log::{Diagnosis, diagnose};

use super::page::Page;
use super::regions::{Class, Region, regions};
use super::survey::Health;
use super::text::{Paint, Table, count, plain, plain_path, size};
use super::{Form, Look};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger map                       every range of every segment
  ledger inspect .ledger map --segment 3
  ledger inspect .ledger map --json | jq -c 'select(.class == \"damaged\")'

Ranges are header, records, behind_damage, unproven, damaged, torn, dead, free, index, footer or
unread. It reads the whole log.";

/// What each byte of the log is: records, damaged, torn, dead, free
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MapArgs {
    /// Only the segment of this number
    #[arg(long, value_name = "ORDINAL")]
    segment: Option<u64>,
}

pub(super) fn map(what: &MapArgs, look: Look<'_>, page: &mut Page<'_>) -> Result<Code, Failure> {
    let Look { dir, form, environment } = look;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let diagnosis = diagnosed(look);
    let all = regions(&view, diagnosis.as_ref(), environment)?;
    let is_wanted = |region: &&Region| what.segment.is_none() || region.ordinal == what.segment;
    let chosen: Vec<&Region> = all.iter().filter(is_wanted).collect();
    if let (Some(ordinal), true) = (what.segment, chosen.is_empty()) {
        return Err(Failure::Usage(format!("there is no segment {ordinal} that can be read")));
    }
    match form {
        Form::Json => chosen.iter().try_for_each(|region| page.json("region", &json(region)))?,
        Form::Text => print(&chosen, page)?,
    }
    let is_damaged = all.iter().any(|region| region.class == Class::Damaged);
    let is_good = health.is_good() && !is_damaged;
    match form {
        Form::Json => health.json_line(is_good, page)?,
        Form::Text => health.print(page)?,
    }
    Ok(if is_good { Code::Fine } else { Code::Damaged })
}

/// What opening would find; `None` where that cannot be told, as in an archive.
pub(super) fn diagnosed(look: Look<'_>) -> Option<Diagnosis> {
    diagnose(&*look.environment.storage, look.dir).ok()
}

pub(super) fn json(region: &Region) -> Value {
    let Region { path, ordinal, offset, end, class, records, what } = region;
    json!({
        "path": path.display().to_string(),
        "segment": ordinal,
        "offset": offset,
        "end": end,
        "class": class.word(),
        "first_seq": records.map(|(first, _)| first),
        "last_seq": records.map(|(_, last)| last),
        "what": what,
    })
}

pub(super) fn paint(class: Class) -> Paint {
    match class {
        Class::Records => Paint::Good,
        Class::Damaged => Paint::Bad,
        Class::Torn | Class::Unproven | Class::BehindDamage | Class::Unread => Paint::Notice,
        Class::Dead | Class::Free => Paint::Faint,
        Class::Header | Class::Index | Class::Footer => Paint::None,
    }
}

/// The records of a region, for people.
pub(super) fn records(region: &Region) -> String {
    match region.records {
        None => String::new(),
        Some((first, last)) if first == last => format!("record {first}"),
        Some((first, last)) => format!("records {first} to {last}"),
    }
}

fn print(regions: &[&Region], page: &mut Page<'_>) -> Result<(), Failure> {
    let mut rest = regions;
    while let Some(first) = rest.first() {
        let here = rest.iter().take_while(|region| region.path == first.path).count();
        let (file, others) = rest.split_at(here);
        rest = others;
        page.painted(Paint::Heading, &plain_path(&first.path))?;
        let mut table = Table::with_headings(&["from", "to", "size", "what it is", ""]);
        for region in file {
            let what = [records(region), plain(&region.what)];
            let what: Vec<_> = what.into_iter().filter(|text| !text.is_empty()).collect();
            table.row([
                (Paint::None, count(region.offset)),
                (Paint::None, count(region.end)),
                (Paint::None, size(region.end.saturating_sub(region.offset))),
                (paint(region.class), region.class.word().replace('_', " ")),
                (Paint::None, what.join(": ")),
            ]);
        }
        page.table(&table, 2)?;
    }
    Ok(())
}
