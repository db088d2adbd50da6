//! The class of each byte of the log, which `ledger inspect DIR explain` lists without an offset.

use plan_ledger::LedgerView;
use plan_ledger::log::Diagnosis;
use plan_ledger_views::{Region, RegionClass, RegionLine, regions_document};

use crate::commands::inspect::byte_map;
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

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
        Form::Text => out.document(&regions_document(&chosen))?,
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
