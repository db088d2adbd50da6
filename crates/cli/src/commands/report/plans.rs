//! Writes the versions of the plan, each with its review and its changes.

use maud::{Markup, html};

use plan_ledger::plan::{PlanVersion, Review, diff};
use plan_ledger_views::plan_diff_text;

use crate::output::escape_lines;
use crate::protocol::counted;

use super::collect::Collected;
use super::forms::{Audience, review_forms};

/// Maximum number of versions with their differences: the last ones.
const COMPARED_MAX: u32 = 30;

/// The most lines of a difference.
const LINES_MAX: usize = 500;

pub(super) fn versions(of: &Collected, audience: Audience) -> Markup {
    let run = &of.run;
    let newest = run.numbered_versions().next_back().map_or(0, |(newest, _)| newest);
    let is_compared = |number: u32| newest - number < COMPARED_MAX;
    html! {
        section id="versions" {
            h2 { "Versions of the plan" }
            @for (number, version) in run.numbered_versions() {
                @let proposed = of.parts.proposed.get(&number).copied().unwrap_or_default();
                div.version data-f=(proposed) {
                    p {
                        b { "Version " (number) }
                        @for (span, _) in of.active_spans().filter(|(_, version)| *version == number) {
                            span.active data-f=(span.from) data-t=[span.until] hidden[span.is_over()] { " active" }
                        }
                        " \u{b7} " (counted(version.step_count.into(), "step"))
                        @if !version.reason.is_empty() { " \u{b7} " (version.reason) }
                        span.hash { " " (version.hash.short()) }
                    }
                    @if let Some(review) = version.review {
                        p { (review_word(review)) @if !version.note.is_empty() { ": " (version.note) } }
                    }
                    @if is_compared(number) {
                        (executes(version, run.newest_proposal().is_some_and(|(newest, _)| newest == number)))
                    }
                    (review_forms(run, number, version, audience))
                    @if let Some(before) = run.version(number - 1).filter(|_| is_compared(number)) {
                        (difference(number, before, version))
                    }
                }
            }
        }
    }
}

fn review_word(review: Review) -> &'static str {
    match review {
        Review::Approved => "\u{2713} approved",
        Review::Rejected => "\u{2715} rejected",
    }
}

/// The commands, questions and budgets of a version: in full and unfolded while it waits for approval.
fn executes(version: &PlanVersion, waits: bool) -> Markup {
    let text = version.plan.decode().executed_text();
    let lines_max = if waits { usize::MAX } else { LINES_MAX };
    html! {
        @if !text.is_empty() {
            details.executes open[waits] { summary { "Executes" } (shown(&text, lines_max)) }
        }
    }
}

fn difference(number: u32, before: &PlanVersion, after: &PlanVersion) -> Markup {
    let found = diff(&before.plan.decode(), &after.plan.decode());
    html! {
        details.difference {
            summary { "Differences from version " (number - 1) }
            (shown(&plan_diff_text(&found), LINES_MAX))
        }
    }
}

/// The first lines of a text.
fn shown(text: &str, lines_max: usize) -> Markup {
    let more = text.lines().count().saturating_sub(lines_max);
    let lines: Vec<_> = text.lines().take(lines_max).collect();
    html! {
        pre tabindex="0" { (escape_lines(&lines.join("\n"))) }
        @if more > 0 { p.hint { (more) " more lines: " code { "ledger inspect plan" } } }
    }
}
