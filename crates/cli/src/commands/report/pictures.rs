//! The attempts over time, and the dependencies of each version of the plan.

use maud::{Markup, PreEscaped, html};

use plan_ledger::StepNumber;
use plan_ledger::internals::ledger::StepTimeline;
use plan_ledger_views::{GraphView, StepTimelines, html as html_of};

use super::collect::Collected;

/// The most steps and barriers of a graph: a larger one would be unreadable.
const NODES_MAX: u32 = 400;

/// The most versions whose graphs are shown: the last ones.
const GRAPHS_MAX: usize = 12;

/// The most rows of the line of time: those of the steps that were dispatched last.
const ROWS_MAX: usize = 300;

/// The attempts as bars over time. Steps without an attempt have no row.
pub(super) fn timeline(of: &Collected) -> Markup {
    let begun = |timeline: &StepTimeline| timeline.intervals.first().map(|first| first.seq);
    let rows = of.parts.timelines.iter().filter(|(_, timeline)| begun(timeline).is_some());
    let mut rows: Vec<(&StepNumber, &StepTimeline)> = rows.collect();
    rows.sort_by_key(|(_, timeline)| begun(timeline));
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    let rows = rows.into_iter().skip(left_out).map(|(step, timeline)| (*step, timeline.clone()));
    let view = StepTimelines::of(&of.run, rows, of.time);
    html! {
        section id="timeline" {
            h2 { "Attempts over time" }
            @if left_out > 0 { p.hint { "The first " (left_out) " steps are left out." } }
            (PreEscaped(html_of(&view.document())))
        }
    }
}

/// The graph of each version that was active, as long as it was.
pub(super) fn graphs(of: &Collected) -> Markup {
    let skipped = of.parts.activated.len().saturating_sub(GRAPHS_MAX);
    html! {
        @if !of.parts.activated.is_empty() {
            section id="graph" {
                h2 { "Dependencies" }
                @if skipped > 0 { p.hint { "The graphs of the first " (skipped) " versions are left out." } }
                @for (there, version) in of.active_spans().skip(skipped) {
                    @if let Some(version) = of.run.version(version) {
                        div data-f=(there.from) data-t=[there.until] hidden[there.is_over()] {
                            @if version.step_count <= NODES_MAX {
                                (PreEscaped(html_of(&GraphView::of(&of.run, version).document())))
                            } @else {
                                p.hint { "The plan has " (version.step_count) " steps: too many to draw. Each step names what it waits for." }
                            }
                        }
                    }
                }
            }
        }
    }
}
