//! `ledger inspect DIR explain`: the class of each byte of the log, or of one byte with the reason.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::LedgerView;
use plan_ledger::log::{Diagnosis, Evidence, EvidenceBit, RecoveryRow};

use crate::commands::inspect::byte_map::{self, Region, RegionClass};
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control, escape_path};
use crate::protocol::count;

use super::regions::{self, RegionLine, diagnosed, paint, records};

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

#[derive(Debug)]
struct ByteExplanation<'a> {
    offset: u64,
    region: &'a Region,
    /// The evidence about the bytes and the matching row, if the recovery table applies to them.
    asked: Option<(Evidence, &'static RecoveryRow)>,
    why: String,
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
    let explained = explained(offset, region, diagnosis.as_ref());
    let is_good = health.is_good() && region.class != RegionClass::Damaged;
    match form {
        Form::Json => {
            out.json(&ExplanationLine::from(&explained))?;
            health.json_line(is_good, out)?;
        }
        Form::Text => {
            print(&explained, out)?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

fn explained<'a>(
    offset: u64,
    region: &'a Region,
    diagnosis: Option<&Diagnosis>,
) -> ByteExplanation<'a> {
    let end = diagnosis.and_then(|diagnosis| diagnosis.end.as_ref());
    let is_end = |region: &Region| {
        end.is_some_and(|end| end.path == region.path && region.end > end.batch_end)
            && matches!(
                region.class,
                RegionClass::Damaged
                    | RegionClass::Torn
                    | RegionClass::Free
                    | RegionClass::Unacknowledged
            )
    };
    let (asked, why) = match region.class {
        _ if is_end(region) => {
            let asked = diagnosis.map(|diagnosis| (diagnosis.evidence, diagnosis.row));
            let end = end.map(|end| {
                format!(
                    "the newest segment's records end at X = {}, where record n = {} is due: {}",
                    end.offset,
                    end.seq,
                    end.fault.describe()
                )
            });
            (asked, end.unwrap_or_default())
        }
        RegionClass::Damaged if region.records.is_some() => {
            let evidence = Evidence::default().with(EvidenceBit::SuccessorReachesFurther);
            let why = "the bytes after it show that records were here".to_owned();
            (Some((evidence, evidence.row())), why)
        }
        class => (None, class_text(class).to_owned()),
    };
    ByteExplanation { offset, region, asked, why }
}

/// The reason why the recovery table does not apply to a region.
fn class_text(class: RegionClass) -> &'static str {
    match class {
        RegionClass::Header => "the segment's header, with a valid checksum and hash",
        RegionClass::Records => {
            "records with valid checksums and order, whose chain continues the previous records"
        }
        RegionClass::AfterDamage => {
            "intact records, but the records before them are damaged or missing"
        }
        RegionClass::Unacknowledged => "intact records after the durable end in HEAD",
        RegionClass::Dead => {
            "the header of the next segment ends this one before these bytes, which a crash left: \
             they are dead"
        }
        RegionClass::Free => "preallocated zeros, not used yet",
        RegionClass::Index => "the index of a sealed segment: derived, and checked",
        RegionClass::Footer => "the footer of a sealed segment",
        RegionClass::Damaged | RegionClass::Torn => "the bytes differ from what was written",
        RegionClass::Unread => "not read: the bytes before it are damaged",
    }
}

/// Why a byte has its class.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExplanationLine<'a> {
    /// The action of an open, for people.
    action: Option<&'static str>,
    /// Every letter of the evidence; empty if the recovery table does not apply.
    bits: Vec<EvidenceBitJson>,
    /// The letters of the evidence that were observed (recovery.md, section 2); this and the members
    /// `row`, `verdict` and `action` are null if the recovery table does not apply.
    evidence: Option<String>,
    /// The byte.
    offset: u64,
    /// The range of the byte.
    region: RegionLine<'a>,
    /// The row of the recovery table that the evidence selects.
    row: Option<RecoveryRowJson>,
    /// The verdict of that row: clean, `unacknowledged_tail`, torn, corrupt, `acknowledged_tail_missing`, tampered,
    /// ambiguous or version.
    verdict: Option<&'static str>,
    /// The reason for the class, for people.
    why: &'a str,
}

/// A letter of the evidence.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct EvidenceBitJson {
    /// The letter.
    bit: String,
    /// Whether the value was observed.
    observed: bool,
    /// Its meaning, for people.
    what: &'static str,
}

/// A row of the recovery table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RecoveryRowJson {
    /// The letters that it excludes.
    excludes: String,
    /// Its name.
    label: &'static str,
    /// The letters that it needs.
    needs: String,
}

impl<'a> From<&'a ByteExplanation<'_>> for ExplanationLine<'a> {
    fn from(explained: &'a ByteExplanation<'_>) -> Self {
        let ByteExplanation { offset, region, asked, why } = explained;
        let bit = |evidence: Evidence, bit: EvidenceBit| EvidenceBitJson {
            bit: bit.letter().to_string(),
            observed: evidence.has(bit),
            what: bit.describe(),
        };
        let bits =
            asked.map(|(evidence, _)| EvidenceBit::all().map(|each| bit(evidence, each)).collect());
        Self {
            action: asked.map(|(_, row)| row.verdict.describe()),
            bits: bits.unwrap_or_default(),
            evidence: asked.map(|(evidence, _)| evidence.letters()),
            offset: *offset,
            region: RegionLine::from(*region),
            row: asked.map(|(_, row)| RecoveryRowJson {
                excludes: row.excludes().letters(),
                label: row.label,
                needs: row.requires().letters(),
            }),
            verdict: asked.map(|(_, row)| row.verdict.word()),
            why,
        }
    }
}

fn print(explained: &ByteExplanation<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    let ByteExplanation { offset, region, asked, why } = explained;
    out.painted(Paint::Heading, &format!("{}: byte {offset}", escape_path(&region.path)))?;
    let class = out.style.paint(paint(region.class), &region.class.word().replace('_', " "));
    let records = match records(region) {
        text if text.is_empty() => text,
        text => format!(", {text}"),
    };
    let (from, to) = (count(region.offset), count(region.end));
    out.line(&format!("  {class}: bytes {from} to {to}{records}"))?;
    if !region.what.is_empty() {
        out.line(&format!("  {}", escape_control(&region.what)))?;
    }
    out.line(&format!("  {why}"))?;
    let Some((evidence, row)) = asked else { return Ok(()) };
    let mut table = Table::with_headings(&["bit", "observed", ""]);
    for bit in EvidenceBit::all() {
        let (paint, word) =
            if evidence.has(bit) { (Paint::Notice, "yes") } else { (Paint::Faint, "no") };
        table.row([
            (paint, bit.letter().to_string()),
            (paint, word.to_owned()),
            (paint, bit.describe().to_owned()),
        ]);
    }
    out.table(&table, 2)?;
    let (needs, excludes) = (row.requires().letters(), row.excludes().letters());
    let needs = if needs.is_empty() { "nothing".to_owned() } else { needs };
    let but = if excludes.is_empty() { String::new() } else { format!(", without {excludes}") };
    out.line(&format!("  row {} of the recovery table (needs {needs}{but})", row.label))?;
    let verdict = row.verdict;
    out.line(&format!("  {}: {}", verdict.word().replace('_', " "), verdict.describe()))
}
