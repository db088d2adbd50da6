//! Why a byte of the log has its class: the evidence about it, and the recovery rule.

use plan_ledger::log::{Diagnosis, Evidence, EvidenceBit, RecoveryRow};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::regions::{Region, RegionClass, RegionLine, paint, records};
use crate::layout::{Document, Paint, Table, Text};
use crate::words::count;

/// Why a byte has its class.
#[derive(Debug)]
pub struct ByteExplanation<'a> {
    offset: u64,
    region: &'a Region,
    /// The evidence about the bytes and the matching row, if the recovery table applies to them.
    asked: Option<(Evidence, &'static RecoveryRow)>,
    why: String,
}

impl<'a> ByteExplanation<'a> {
    /// The explanation of a byte of a region. `diagnosis`: of an open for writing.
    #[must_use]
    pub fn of(offset: u64, region: &'a Region, diagnosis: Option<&Diagnosis>) -> Self {
        explained(offset, region, diagnosis)
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        describe(self, &mut document);
        document
    }
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ExplanationLine<'a> {
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

fn describe(explained: &ByteExplanation<'_>, document: &mut Document) {
    let ByteExplanation { offset, region, asked, why } = explained;
    document.painted(Paint::Heading, format!("{}: byte {offset}", region.path.display()));
    let class = Text::painted(paint(region.class), region.class.word().replace('_', " "));
    let records = match records(region) {
        text if text.is_empty() => text,
        text => format!(", {text}"),
    };
    let (from, to) = (count(region.offset), count(region.end));
    document.indented(2, class.plain(format!(": bytes {from} to {to}{records}")));
    if !region.what.is_empty() {
        document.line(format!("  {}", region.what));
    }
    document.line(format!("  {why}"));
    let Some((evidence, row)) = asked else { return };
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
    document.table(2, table);
    let (needs, excludes) = (row.requires().letters(), row.excludes().letters());
    let needs = if needs.is_empty() { "nothing".to_owned() } else { needs };
    let but = if excludes.is_empty() { String::new() } else { format!(", without {excludes}") };
    document.line(format!("  row {} of the recovery table (needs {needs}{but})", row.label));
    let verdict = row.verdict;
    document.line(format!("  {}: {}", verdict.word().replace('_', " "), verdict.describe()));
}
