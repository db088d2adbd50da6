//! Writes the versions of the plan, each with its review and its changes.

use maud::{Markup, html};
use serde_json::Value;

use plan_ledger::plan::{
    ExecutedChange, FieldChange, PlanDiff, PlanVersion, Review, WorkChange, diff,
};

use crate::output::escape_control;
use crate::protocol::counted;

use super::collect::{Collected, Span};
use super::forms::{Audience, review_forms};

/// Maximum number of versions with their differences: the last ones.
const COMPARED_MAX: usize = 30;

/// The most steps and fields of a difference.
const ROWS_MAX: usize = 500;

/// The longest value of a field, in characters.
const FIELD_LENGTH_MAX: usize = 2_000;

pub(super) fn versions(of: &Collected, audience: Audience) -> Markup {
    let run = &of.run;
    let first_compared = run.versions.len().saturating_sub(COMPARED_MAX);
    html! {
        section id="versions" {
            h2 { "Versions of the plan" }
            @for (index, version) in run.versions.iter().enumerate() {
                @let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
                @let proposed = of.proposed.get(&number).copied().unwrap_or_default();
                div.version data-f=(proposed) {
                    p {
                        b { "Version " (number) }
                        @for span in active_spans(of, number) {
                            span.active data-f=(span.from) data-t=[span.until] hidden[span.is_over()] { " active" }
                        }
                        " \u{b7} " (counted(version.step_count.into(), "step"))
                        @if !version.reason.is_empty() { " \u{b7} " (version.reason) }
                        span.hash { " " (version.hash.to_string().chars().take(12).collect::<String>()) }
                    }
                    @if let Some(review) = version.review {
                        p { (review_word(review)) @if !version.note.is_empty() { ": " (version.note) } }
                    }
                    @if index >= first_compared {
                        (executes(version, run.newest_proposal().is_some_and(|(newest, _)| newest == number)))
                    }
                    (review_forms(run, number, version, audience))
                    @if index > 0 && index >= first_compared {
                        @if let Some(before) = run.versions.get(index - 1) {
                            (difference(number, before, version))
                        }
                    }
                }
            }
        }
    }
}

/// The records between which a version was active.
fn active_spans(of: &Collected, number: u32) -> Vec<Span> {
    let spans = of.activated.iter().enumerate().filter(|(_, (_, version))| *version == number);
    let span = |(index, (seq, _)): (usize, &(u64, u32))| Span {
        from: *seq,
        until: of.activated.get(index + 1).map(|(next, _)| *next),
    };
    spans.map(span).collect()
}

fn review_word(review: Review) -> &'static str {
    match review {
        Review::Approved => "\u{2713} approved",
        Review::Rejected => "\u{2715} rejected",
    }
}

/// The commands, questions and budgets of a version: in full and unfolded while it waits for approval.
fn executes(version: &PlanVersion, waits: bool) -> Markup {
    let found = version.plan.decode().executed();
    let rows_max = if waits { found.len() } else { ROWS_MAX };
    html! {
        @if !found.is_empty() {
            details.executes open[waits] {
                summary { "Executes: " (counted(found.len().try_into().unwrap_or(u64::MAX), "line")) }
                div.scroll tabindex="0" { table {
                    @for each in found.iter().take(rows_max) {
                        tr { td { (escape_control(&each.name())) } td { code { (escape_control(&each.text())) } } }
                    }
                } }
                @if found.len() > rows_max { p.hint { (found.len() - rows_max) " more lines: " code { "ledger inspect plan" } } }
            }
        }
    }
}

/// The commands that differ: the old and the new one, in full.
fn executed_row(change: &ExecutedChange) -> Markup {
    let (old, new) = change.texts();
    html! {
        tr {
            td.sign { "~" }
            td { (escape_control(&change.name())) }
            td {
                @if let Some(old) = old { del { (escape_control(&old)) } " " }
                @if let Some(new) = new { ins { (escape_control(&new)) } }
            }
        }
    }
}

fn difference(number: u32, before: &PlanVersion, after: &PlanVersion) -> Markup {
    let found = diff(&before.plan.decode(), &after.plan.decode());
    let PlanDiff { added, removed, changed, reordered, barriers, fields, executed } = &found;
    let rows: Vec<(&str, String, Option<&FieldChange>)> = added
        .iter()
        .map(|id| ("+", format!("step {id}"), None))
        .chain(removed.iter().map(|id| ("\u{2212}", format!("step {id}"), None)))
        .chain(fields.iter().map(|field| ("~", format!("the plan: {}", field.name), Some(field))))
        .chain(changed.iter().flat_map(|step| {
            let work = match step.work {
                WorkChange::Changed => "other work",
                WorkChange::Unchanged => "same work",
            };
            let named = format!("step {} ({work})", step.id);
            let whole = step.fields.is_empty().then(|| ("~", named.clone(), None));
            let fields = step.fields.iter();
            let fields =
                fields.map(move |field| ("~", format!("{named}: {}", field.name), Some(field)));
            fields.chain(whole)
        }))
        .chain(barriers.iter().map(|id| ("~", format!("barrier {id}"), None)))
        .chain(reordered.iter().map(|id| ("\u{2195}", format!("step {id}: another place"), None)))
        .collect();
    html! {
        @if rows.is_empty() {
            p.hint { "No difference from version " (number - 1) "." }
        } @else {
            details.difference {
                summary { "Differences from version " (number - 1) ": " (counted(rows.len().try_into().unwrap_or(u64::MAX), "line")) }
                div.scroll tabindex="0" { table {
                    @for change in executed { (executed_row(change)) }
                    @for (sign, what, field) in rows.iter().take(ROWS_MAX) {
                        tr {
                            td.sign { (sign) }
                            td { (what) }
                            td { @if let Some(field) = field {
                                del { (value_text(field.old.as_ref())) } " " ins { (value_text(field.new.as_ref())) }
                            } }
                        }
                    }
                } }
                @if rows.len() > ROWS_MAX { p.hint { (rows.len() - ROWS_MAX) " more lines: " code { "ledger inspect plan" } } }
            }
        }
    }
}

fn value_text(value: Option<&Value>) -> String {
    let text = match value {
        None => return "\u{2205}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.chars().count() <= FIELD_LENGTH_MAX {
        return text;
    }
    let kept: String = text.chars().take(FIELD_LENGTH_MAX).collect();
    format!("{kept}\u{2026}")
}
