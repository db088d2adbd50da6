//! The class of each byte of the log, which `ledger inspect DIR explain` lists without an offset.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::LedgerView;
use plan_ledger::log::Diagnosis;

use crate::commands::inspect::byte_map::{self, Region, RegionClass};
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control, escape_path};
use crate::protocol::{count, size};

/// Lists the class of each byte of the log, or of one segment.
pub(crate) fn regions(
    segment: Option<u64>,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let diagnosis = diagnosed(context);
    let all = byte_map::regions(&view, diagnosis.as_ref(), environment)?;
    let is_wanted = |region: &&Region| segment.is_none() || region.ordinal == segment;
    let chosen: Vec<&Region> = all.iter().filter(is_wanted).collect();
    if let (Some(ordinal), true) = (segment, chosen.is_empty()) {
        return Err(Failure::Usage(format!("there is no segment {ordinal} that can be read")));
    }
    match form {
        Form::Json => chosen.iter().try_for_each(|region| out.json(&RegionLine::from(*region)))?,
        Form::Text => print(&chosen, out)?,
    }
    let is_damaged = all.iter().any(|region| region.class == RegionClass::Damaged);
    let is_good = health.is_good() && !is_damaged;
    match form {
        Form::Json => health.json_line(is_good, out)?,
        Form::Text => health.print(out)?,
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

/// The diagnosis of opening for writing; `None` for an archive.
pub(crate) fn diagnosed(context: InspectContext<'_>) -> Option<Diagnosis> {
    Diagnosis::of(&*context.environment.storage, context.dir).ok()
}

/// A range of bytes of a segment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RegionLine<'a> {
    /// The kind of the bytes.
    class: RegionClass,
    /// The end of the range.
    end: u64,
    /// The first record in it, or the first one that is missing because of it.
    first_seq: Option<u64>,
    /// The last of these records.
    last_seq: Option<u64>,
    /// The start of the range.
    offset: u64,
    /// The file.
    path: String,
    /// The number of the segment, if it can be read.
    segment: Option<u64>,
    /// More details, for people.
    what: &'a str,
}

impl<'a> From<&'a Region> for RegionLine<'a> {
    fn from(region: &'a Region) -> Self {
        let Region { path, ordinal, offset, end, class, records, what } = region;
        Self {
            class: *class,
            end: *end,
            first_seq: records.map(|(first, _)| first),
            last_seq: records.map(|(_, last)| last),
            offset: *offset,
            path: path.display().to_string(),
            segment: *ordinal,
            what,
        }
    }
}

pub(crate) fn paint(class: RegionClass) -> Paint {
    match class {
        RegionClass::Records => Paint::Good,
        RegionClass::Damaged => Paint::Bad,
        RegionClass::Torn
        | RegionClass::Unacknowledged
        | RegionClass::AfterDamage
        | RegionClass::Unread => Paint::Notice,
        RegionClass::Dead | RegionClass::Free => Paint::Faint,
        RegionClass::Header | RegionClass::Index | RegionClass::Footer => Paint::None,
    }
}

/// The records of a region as text.
pub(crate) fn records(region: &Region) -> String {
    match region.records {
        None => String::new(),
        Some((first, last)) if first == last => format!("record {first}"),
        Some((first, last)) => format!("records {first} to {last}"),
    }
}

fn print(regions: &[&Region], out: &mut Output<'_>) -> Result<(), Failure> {
    let mut rest = regions;
    while let Some(first) = rest.first() {
        let here = rest.iter().take_while(|region| region.path == first.path).count();
        let (file, others) = rest.split_at(here);
        rest = others;
        out.painted(Paint::Heading, &escape_path(&first.path))?;
        let mut table = Table::with_headings(&["from", "to", "size", "what it is", ""]);
        for region in file {
            let what = [records(region), escape_control(&region.what)];
            let what: Vec<_> = what.into_iter().filter(|text| !text.is_empty()).collect();
            table.row([
                (Paint::None, count(region.offset)),
                (Paint::None, count(region.end)),
                (Paint::None, size(region.end.saturating_sub(region.offset))),
                (paint(region.class), region.class.word().replace('_', " ")),
                (Paint::None, what.join(": ")),
            ]);
        }
        out.table(&table, 2)?;
    }
    Ok(())
}
