//! Draws the attempts over time, and the dependencies of each version of the plan.

use std::collections::BTreeMap;

use maud::{Markup, html};

use plan_ledger::Timestamp;
use plan_ledger::internals::ledger::{IntervalKind, StepTimeline, TimelineInterval, time_text};
use plan_ledger::plan::PlanVersion;
use plan_ledger_views::{span, step_name};

use super::collect::{Collected, Span};
use super::layout::{Place, layout};
use super::points::shortened;

/// The maximum number of nodes that are drawn: a larger graph would be unreadable.
const NODES_MAX: usize = 400;

/// The most versions that are drawn: the last ones.
const GRAPHS_MAX: usize = 12;

/// The most rows of the line of time: those of the steps that were dispatched last.
const ROWS_MAX: usize = 300;

/// The size of a node and of its place, in units of the drawing.
const NODE: (usize, usize) = (160, 28);
const CELL: (usize, usize) = (204, 40);

/// The space around the graph.
const MARGIN: usize = 4;

/// The width of the line of time, that of its labels, and the height of a row.
const TIME_WIDTH: u64 = 1_000;
const LABEL_WIDTH: u64 = 200;
const TIME_ROW: usize = 18;

/// The attempts as bars over time. Steps without an attempt have no row.
pub(super) fn timeline(of: &Collected) -> Markup {
    let attempts = |timeline: &'_ StepTimeline| -> Vec<TimelineInterval> {
        timeline.intervals.iter().filter(|each| each.kind.is_attempt()).cloned().collect()
    };
    let rows = of.parts.timelines.iter().map(|(step, timeline)| (*step, attempts(timeline)));
    let mut rows: Vec<_> = rows.filter(|(_, bars)| !bars.is_empty()).collect();
    rows.sort_by_key(|(step, bars)| (bars.first().map(|bar| bar.from), *step));
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    let rows: Vec<_> = rows.into_iter().skip(left_out).collect();
    let first = rows.first().and_then(|(_, bars)| bars.first()).map_or(of.time, |bar| bar.from);
    let whole = of.time.saturating_sub(first).max(1);
    let x = |time: Timestamp| time.saturating_sub(first).saturating_mul(TIME_WIDTH) / whole;
    let height = rows.len() * TIME_ROW + TIME_ROW;
    html! {
        @if !rows.is_empty() {
            section id="timeline" {
                h2 { "Attempts over time" }
                p.hint {
                    "From " (time_text(first)) ", " (span(whole)) " in all. Low: failed; dashed: lost; hollow: in flight."
                    @if left_out > 0 { " The first " (left_out) " steps are left out." }
                }
                div.scroll tabindex="0" role="region" aria-label="Attempts over time" {
                    svg.timeline viewBox=(format!("0 0 {} {height}", TIME_WIDTH + LABEL_WIDTH)) role="img"
                        aria-label="Attempts over time" data-first=(first) data-whole=(whole) {
                        @for (row, (step, bars)) in rows.iter().enumerate() {
                            @let y = row * TIME_ROW;
                            text x="0" y=(y + 13) class="label" { (shortened(&step_name(&of.run, *step))) }
                            @for (number, bar) in bars.iter().enumerate() {
                                @let from = x(bar.from);
                                @let to = x(bar.until.unwrap_or(of.time)).max(from + 3);
                                @let shape = Shape { x: from + LABEL_WIDTH, y, width: to - from, number: number + 1, bar };
                                // How it ended is not known before it has.
                                (shape.rect(OPEN, Span { from: bar.seq, until: bar.end_seq }))
                                @if let Some(end) = bar.end_seq {
                                    (shape.rect(bar_kind(bar.kind), Span { from: end, until: None }))
                                }
                            }
                        }
                        rect id="future" x=(TIME_WIDTH + LABEL_WIDTH) y="0" width="0" height=(height) {}
                        line id="now" x1=(TIME_WIDTH + LABEL_WIDTH) x2=(TIME_WIDTH + LABEL_WIDTH) y1="0" y2=(height) {}
                    }
                }
            }
        }
    }
}

/// The class of a bar, how far below the top of its row it begins, and its height: shapes differ, not only
/// colors.
type BarKind = (&'static str, usize, usize);

/// An attempt that is in flight.
const OPEN: BarKind = ("bar open", 3, 12);

fn bar_kind(kind: IntervalKind) -> BarKind {
    match kind {
        IntervalKind::Failed | IntervalKind::Rejected => ("bar failed", 9, 6),
        IntervalKind::Lost => ("bar lost", 3, 12),
        _ => ("bar", 3, 12),
    }
}

/// The place of a bar, the top of its row, and its attempt.
struct Shape<'a> {
    x: u64,
    y: usize,
    width: u64,
    number: usize,
    bar: &'a TimelineInterval,
}

impl Shape<'_> {
    fn rect(&self, (class, top, height): BarKind, there: Span) -> Markup {
        let worker = self.bar.worker.as_deref().unwrap_or_default();
        html! {
            rect class=(class) data-f=(there.from) data-t=[there.until] hidden[there.is_over()] x=(self.x) y=(self.y + top) width=(self.width) height=(height) rx="2" {
                title { "attempt " (self.number) " by " (worker) ", " (time_text(self.bar.from)) }
            }
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
                @for (index, (from, version)) in of.parts.activated.iter().enumerate().skip(skipped) {
                    @let until = of.parts.activated.get(index + 1).map(|(next, _)| *next);
                    @if let Some(version) = of.run.version(*version) {
                        (graph(of, version, Span { from: *from, until }))
                    }
                }
            }
        }
    }
}

fn graph(of: &Collected, version: &PlanVersion, there: Span) -> Markup {
    let plan = version.plan.decode();
    let mut nodes = plan.tree();
    if nodes.len() > NODES_MAX {
        return html! {
            p.hint data-f=(there.from) data-t=[there.until] hidden[there.is_over()] {
                "The plan has " (nodes.len()) " steps and barriers: too many to draw. Each step names what it waits for."
            }
        };
    }
    nodes.sort_by_key(|node| node.node);
    let by_id: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let waits: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let before = node.under.into_iter().chain(node.also.iter().copied());
            before.filter_map(|id| by_id.get(id).copied()).collect()
        })
        .collect();
    let places = layout(&waits);
    let layers = places.iter().map(|place| place.layer + 1).max().unwrap_or(1);
    let rows = places.iter().map(|place| place.row + 1).max().unwrap_or(1);
    let (width, height) = (layers * CELL.0 + MARGIN, rows * CELL.1 + MARGIN);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Dependencies of the steps" data-f=(there.from) data-t=[there.until] hidden[there.is_over()] {
            svg.graph width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="group"
                aria-label="Dependencies of the steps" {
                @for (node, before) in waits.iter().enumerate() {
                    @for other in before {
                        @if let (Some(from), Some(to)) = (places.get(*other), places.get(node)) {
                            path d=(edge(*from, *to)) {}
                        }
                    }
                }
                @for (node, place) in nodes.iter().zip(&places) {
                    @let number = version.numbers.get(node.node);
                    @let at = format!("translate({} {})", place.layer * CELL.0 + MARGIN / 2, place.row * CELL.1 + MARGIN / 2);
                    @match number {
                        Some(number) => {
                            @let status = of.run.step(*number).map(|step| step.status.to_string());
                            a.node href=(format!("#step-{number}")) transform=(at) {
                                title { (node.id) }
                                rect data-s=[status.as_deref()] data-k=(format!("s{number}")) width=(NODE.0) height=(NODE.1) rx="5" {}
                                text.sign x="9" y="19" data-s=[status.as_deref()] data-k=(format!("s{number}")) {}
                                text x="26" y="19" { (label(node.id)) }
                            }
                        }
                        None => {
                            g.node.barrier transform=(at) {
                                title { "barrier " (node.id) }
                                rect width=(NODE.0) height=(NODE.1) rx="14" {}
                                text x="14" y="19" { (label(node.id)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A line from the right side of a node to the left side of another.
fn edge(from: Place, to: Place) -> String {
    let half = NODE.1 / 2 + MARGIN / 2;
    let (x1, y1) = (from.layer * CELL.0 + NODE.0 + MARGIN / 2, from.row * CELL.1 + half);
    let (x2, y2) = (to.layer * CELL.0 + MARGIN / 2, to.row * CELL.1 + half);
    let bend = CELL.0.saturating_sub(NODE.0);
    format!("M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend))
}

/// An id that fits into a node.
fn label(id: &str) -> String {
    if id.chars().count() <= 18 {
        return id.to_owned();
    }
    let kept: String = id.chars().take(17).collect();
    format!("{kept}\u{2026}")
}
