//! Damage of a ledger: records that cannot be read, or that are lost.

use plan_ledger::State;
use plan_ledger::internals::ledger::Fold;
use plan_ledger::log::{Damage, DerivedDamage};
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

/// A JSON line for each recorded loss.
pub fn lost_lines(state: &State) -> impl Iterator<Item = LostLine> {
    state.lost_ranges().map(|(first_seq, last_seq)| LostLine { first_seq, last_seq })
}

/// Records that were lost before the ledger was salvaged: it is consistent, but not complete.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LostLine {
    /// The first lost record.
    first_seq: u64,
    /// The last lost record.
    last_seq: u64,
}

/// A damage in one line: file, bytes, records, problem.
#[must_use]
pub fn damage_text(damage: &Damage) -> String {
    let Damage { path, offset, end, first_seq, last_seq, what } = damage;
    let path = path.display();
    let records = match last_seq.checked_sub(*first_seq) {
        Some(0) => format!("record {first_seq} is missing"),
        Some(_) => format!("records {first_seq} to {last_seq} are missing"),
        None if damage.is_of_header_only() => "no record is missing".to_owned(),
        None => "no record is known to be missing".to_owned(),
    };
    format!("{path}: bytes {offset} to {end}: {records}: {what}")
}

/// Derived damage, which affects no record, in one line.
fn derived_text(damage: &DerivedDamage) -> String {
    let DerivedDamage { path, offset, end, what } = damage;
    let path = path.display();
    format!(
        "derived damage: {path}: bytes {offset} to {end}: {what}; every record can be read without it"
    )
}

/// A damage as a document.
#[must_use]
pub fn damage_document(damage: &Damage) -> Document {
    Document::of_line((Paint::Bad, format!("damage: {}", damage_text(damage))))
}

/// Derived damage as a document.
#[must_use]
pub fn derived_damage_document(damage: &DerivedDamage) -> Document {
    Document::of_line((Paint::Notice, derived_text(damage)))
}

/// Damage: records that cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DamageLine<'a> {
    /// The offset of the next readable record, or of the segment's logical end.
    end: u64,
    /// The first missing record.
    first_seq: u64,
    /// The last missing record, as far as known.
    last_seq: u64,
    /// The number of missing records.
    missing: u64,
    /// The start of the damage.
    offset: u64,
    /// The file.
    path: String,
    /// The problem.
    what: &'a str,
}

impl<'a> From<&'a Damage> for DamageLine<'a> {
    fn from(damage: &'a Damage) -> Self {
        let Damage { path, offset, end, first_seq, last_seq, what } = damage;
        Self {
            end: *end,
            first_seq: *first_seq,
            last_seq: *last_seq,
            missing: (last_seq + 1).saturating_sub(*first_seq),
            offset: *offset,
            path: path.display().to_string(),
            what,
        }
    }
}

/// Damage of bytes that are derived from records. Every record can be read without them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DerivedDamageLine<'a> {
    /// The end of the index or footer.
    end: u64,
    /// The start of the index or footer.
    offset: u64,
    /// The file.
    path: String,
    /// The problem.
    what: &'a str,
}

impl<'a> From<&'a DerivedDamage> for DerivedDamageLine<'a> {
    fn from(damage: &'a DerivedDamage) -> Self {
        let DerivedDamage { path, offset, end, what } = damage;
        Self { end: *end, offset: *offset, path: path.display().to_string(), what }
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
        add(true, Paint::Bad, format!("damage: {}", damage_text(damage)));
    }
    for damage in &fold.derived {
        add(false, Paint::Notice, derived_text(damage));
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
    let damage = damage.iter().map(|damage| format!("damage: {}", damage_text(damage)));
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
