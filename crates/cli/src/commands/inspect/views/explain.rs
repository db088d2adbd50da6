//! `ledger inspect DIR explain`: the class of each byte of the log, or of one byte with the reason.

use clap::Args;

use plan_ledger::LedgerView;
use plan_ledger_views::{ByteExplanation, ExplanationLine, Region, RegionClass};

use crate::commands::inspect::byte_map;
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

use super::regions::{self, diagnosed};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger explain                   every range of every segment
  ledger inspect .ledger explain --segment 3
  ledger inspect .ledger explain 8192              a byte of the newest segment
  ledger inspect .ledger explain 8192 --segment 0
  ledger inspect .ledger explain --json | jq -c 'select(.class == \"damaged\")'
  ledger inspect .ledger explain 8192 --json | jq -c '{evidence, row, verdict}'

Ranges are header, records, after_damage, unacknowledged, damaged, torn, dead, free, index, footer or
unread; the list reads the whole log. The evidence about a byte and the table are those of
format/recovery.md.";

/// The class of each byte of the log; of the byte at OFFSET the evidence and the recovery rule, too
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The byte, counted from the start of the segment's file [default: every range]
    #[arg(value_name = "OFFSET")]
    offset: Option<u64>,
    /// The segment of this number [default: all; with OFFSET the newest one]
    #[arg(long, value_name = "ORDINAL")]
    segment: Option<u64>,
}

pub(crate) fn explain(
    args: &ExplainArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let Some(offset) = args.offset else { return regions::regions(args.segment, context, out) };
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let diagnosis = diagnosed(context);
    let all = byte_map::regions(&view, diagnosis.as_ref(), environment)?;
    let newest = all.iter().filter_map(|region| region.ordinal).max();
    let segment = args.segment.or(newest);
    let in_segment = |region: &&Region| region.ordinal == segment;
    let at = |region: &&Region| (region.offset..region.end).contains(&offset);
    let Some(region) = all.iter().filter(in_segment).find(at) else {
        let end = all.iter().filter(in_segment).map(|region| region.end).max();
        return Err(Failure::Usage(match (end, segment) {
            (Some(end), Some(segment)) => format!(
                "segment {segment} has {end} bytes: expected an offset below that, found {offset}"
            ),
            (_, Some(segment)) => format!("there is no segment {segment} that can be read"),
            _ => "there is no segment that can be read".to_owned(),
        }));
    };
    let explained = ByteExplanation::of(offset, region, diagnosis.as_ref());
    let is_good = health.is_good() && region.class != RegionClass::Damaged;
    match form {
        Form::Json => {
            out.json(&ExplanationLine::from(&explained))?;
            health.json_line(is_good, out)?;
        }
        Form::Text => {
            out.document(&explained.document())?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}
