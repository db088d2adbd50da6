//! Damage of a ledger: records that cannot be read, or that are lost.

use std::path::Path;

use plan_ledger::State;
use plan_ledger::internals::ledger::Fold;
use plan_ledger::log::{Damage, DerivedDamage, FindingClass, VerifyFinding};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint};
use crate::words::counted;

/// The recorded losses of a salvaged ledger, for people; `None` if there are none.
#[must_use]
pub fn lost_text(state: &State) -> Option<String> {
    let ranges: Vec<(u64, u64)> = state.lost_ranges().collect();
    if ranges.is_empty() {
        return None;
    }
    let text = lost_records_text(&ranges);
    Some(format!(
        "not complete: {text}; a step shows what the remaining records say about it: check those \
         that were at work then"
    ))
}

/// What a view says that shows no run. Nothing is concluded from records that cannot be read.
#[must_use]
pub fn no_run_text(is_good: bool) -> &'static str {
    if is_good { "no run has been started" } else { "no run can be read" }
}

/// A line for each recorded loss of a ledger in that folder.
pub fn lost_lines(state: &State, dir: &Path) -> impl Iterator<Item = FindingLine> {
    state.lost_ranges().map(|(first, last)| {
        let what = "lost before the ledger was salvaged";
        let loss = VerifyFinding::new(FindingClass::RecordedLoss, dir.to_owned(), 0..0, what);
        FindingLine::from(&VerifyFinding { missing: Some(first..=last), ..loss })
    })
}

/// A fault in one line: class, file, bytes, records, problem.
#[must_use]
pub fn finding_text(finding: &VerifyFinding) -> String {
    match finding.class {
        FindingClass::Damage => format!("damage: {finding}"),
        FindingClass::DerivedDamage => {
            format!("derived damage: {finding}; every record can be read without it")
        }
        FindingClass::NewerFormat => format!("newer: {finding}"),
        FindingClass::RecordedLoss => format!("lost: {finding}"),
        FindingClass::Warning => format!("warning: {finding}"),
    }
}

/// A damage in one line, without its class.
#[must_use]
pub fn damage_text(damage: &Damage) -> String {
    VerifyFinding::from(damage.clone()).to_string()
}

/// A fault as a document.
#[must_use]
pub fn finding_document(finding: &VerifyFinding) -> Document {
    let paint = match finding.class {
        FindingClass::Damage => Paint::Bad,
        _ => Paint::Notice,
    };
    Document::of_line((paint, finding_text(finding)))
}

/// A fault that was found in a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FindingLine {
    /// Acknowledged bytes cannot be read, or differ from those that were written.
    Damage(FindingPlace),
    /// Bytes derived from acknowledged ones are damaged: nothing is lost.
    Derived(FindingPlace),
    /// Records were lost before the ledger was salvaged: it is consistent, but not complete.
    Lost(FindingPlace),
    /// It is intact, but was written by a newer program.
    Newer(FindingPlace),
    /// It is unusual, but no acknowledged record depends on it.
    Warning(FindingPlace),
}

/// The place of a fault.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FindingPlace {
    /// The end of the affected bytes; equal to `offset` if no particular bytes are affected.
    end: u64,
    /// The first record that is missing because of it.
    first_seq: Option<u64>,
    /// The last record that is missing because of it, as far as known.
    last_seq: Option<u64>,
    /// The start of the affected bytes.
    offset: u64,
    /// The file, or the folder of what is missing.
    path: String,
    /// The problem, for people.
    what: String,
}

impl From<&VerifyFinding> for FindingLine {
    fn from(finding: &VerifyFinding) -> Self {
        let VerifyFinding { class, path, offset, end, missing, what } = finding;
        let place = FindingPlace {
            end: *end,
            first_seq: missing.as_ref().map(|range| *range.start()),
            last_seq: missing.as_ref().map(|range| *range.end()),
            offset: *offset,
            path: path.display().to_string(),
            what: what.clone(),
        };
        match class {
            FindingClass::Damage => Self::Damage(place),
            FindingClass::DerivedDamage => Self::Derived(place),
            FindingClass::NewerFormat => Self::Newer(place),
            FindingClass::RecordedLoss => Self::Lost(place),
            FindingClass::Warning => Self::Warning(place),
        }
    }
}

impl From<&Damage> for FindingLine {
    fn from(damage: &Damage) -> Self {
        Self::from(&VerifyFinding::from(damage.clone()))
    }
}

impl From<&DerivedDamage> for FindingLine {
    fn from(damage: &DerivedDamage) -> Self {
        Self::from(&VerifyFinding::from(damage.clone()))
    }
}

/// A finding about what was read of a ledger, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether records are missing because of it.
    pub is_damage: bool,
    /// Its emphasis.
    pub paint: Paint,
    /// What was found.
    pub text: String,
}

/// What was found while a ledger was read. `refusal`: why a writer could not open the log, if that is a fault;
/// `notes`: what is unusual, but no damage.
#[must_use]
pub fn findings(fold: &Fold, refusal: Option<String>, notes: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |is_damage, paint, text| found.push(Finding { is_damage, paint, text });
    if let Some(text) = lost_text(&fold.state) {
        add(true, Paint::Notice, text);
    }
    for damage in &fold.damage {
        add(true, Paint::Bad, finding_text(&damage.clone().into()));
    }
    for damage in &fold.derived {
        add(false, Paint::Notice, finding_text(&damage.clone().into()));
    }
    if fold.after_damage > 0 {
        let records = counted(fold.after_damage, "intact record");
        let text = format!(
            "{records} after the damage: `records` shows them, but they are not part of the state"
        );
        add(true, Paint::Notice, text);
    }
    if let Some(seq) = fold.from_snapshot {
        let text = format!("after the damage the state continues from a snapshot at record {seq}");
        add(true, Paint::Notice, text);
    }
    for ignored in &fold.ignored_snapshots {
        add(false, Paint::Notice, format!("snapshot not used: {ignored}"));
    }
    if let Some(unreadable) = &fold.unreadable {
        add(true, Paint::Bad, format!("the state ends early: {unreadable}"));
    }
    if let Some(refusal) = refusal {
        add(true, Paint::Bad, refusal);
    }
    for note in notes {
        add(false, Paint::Notice, format!("note: {note}"));
    }
    found
}

/// How much of a ledger can be read whose state ends with that record. `is_whole`: nothing else but a header is lost.
#[must_use]
pub fn readable_text(seq: u64, damage: &[Damage], is_whole: bool) -> String {
    let state = format!("this is the state after record {seq}");
    if is_whole && !damage.is_empty() && damage.iter().all(Damage::is_of_header_only) {
        return format!("a header of the log cannot be read, but every record can; {state}");
    }
    format!("not all of the ledger can be read; {state}")
}

/// What cannot be read of a ledger whose state ends with that record, and how to continue. `is_whole` as for
/// [`readable_text`].
#[must_use]
pub fn unread_document(
    seq: u64,
    damage: &[Damage],
    unread: &[String],
    is_whole: bool,
    hint: &str,
) -> Document {
    let mut document = Document::default();
    document.painted(Paint::Bad, readable_text(seq, damage, is_whole));
    let damage = damage.iter().map(|damage| finding_text(&damage.clone().into()));
    for what in damage.chain(unread.iter().cloned()) {
        document.indented(2, (Paint::Bad, what));
    }
    document.line(format!("to continue: {hint}"));
    document
}

/// The largest number of ranges that a text lists.
const RANGES_MAX: usize = 5;

/// Records that were lost before the ledger was salvaged: `records 3 to 5 and record 9 were lost
/// before it was salvaged`. Each range has its first and its last record.
#[must_use]
pub fn lost_records_text(ranges: &[(u64, u64)]) -> String {
    let range = |&(first, last): &(u64, u64)| match last.saturating_sub(first) {
        0 => format!("record {first}"),
        _ => format!("records {first} to {last}"),
    };
    let listed: Vec<String> = ranges.iter().take(RANGES_MAX).map(range).collect();
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    let is_one = matches!(ranges, [(first, last)] if first == last);
    let verb = if is_one { "was" } else { "were" };
    format!("{}{more} {verb} lost before it was salvaged", listed.join(", "))
}
