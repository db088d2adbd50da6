//! A timeline as a drawing: a row for each step, and a bar for each interval, which ends with the character of its end.
//!
//! A script that moves a page to another time reads the interval of the drawing, moves the line `.now`, and covers what
//! is after it with `.future`.

use maud::{Markup, html};

use plan_ledger::Timestamp;

use super::escape::escape_control;
use super::style::class;
use crate::layout::{Timeline, TimelineCell, TimelineRow};
use crate::words::{seconds, span};

/// The width of the bars and of the labels before them, and the height of a row, in units of the drawing.
const BARS: u64 = 1_000;
const LABELS: u64 = 200;
const ROW: usize = 18;

/// The drawing of a timeline.
pub(super) fn svg_of(timeline: &Timeline) -> Markup {
    let Timeline { from, until, rows, legend } = timeline;
    let (all, height) = (BARS + LABELS, (rows.len() + 1) * ROW);
    html! {
        p.hint { "From " (seconds(*from)) ", " (span(until.saturating_sub(*from))) " in all." }
        div.scroll tabindex="0" role="region" aria-label="Attempts over time" {
            svg.timeline viewBox=(format!("0 0 {all} {height}")) role="img" aria-label="Attempts over time"
                data-first=(from) data-whole=(until.saturating_sub(*from).max(1)) {
                @for (place, row) in rows.iter().enumerate() { (row_of(row, place * ROW, timeline)) }
                rect.future x=(all) y="0" width="0" height=(height) {}
                line.now x1=(all) x2=(all) y1="0" y2=(height) {}
            }
        }
        @for line in legend { p.hint { (line) } }
    }
}

fn row_of(row: &TimelineRow, y: usize, of: &Timeline) -> Markup {
    let whole = of.until.saturating_sub(of.from).max(1);
    let x = |time: Timestamp| {
        LABELS + time.saturating_sub(of.from).min(whole).saturating_mul(BARS) / whole
    };
    let (name, sum) = (escape_control(&row.name), escape_control(&row.sum));
    html! {
        text.label x="0" y=(y + 13) { (name) title { (name) " " (sum) } }
        @for TimelineCell { from, until, end, paint, shows_end, .. } in &row.cells {
            @let (left, right) = (x(*from), x(until.unwrap_or(of.until)));
            @let width = right.saturating_sub(left).max(3);
            @let kind = if !shows_end { "wait " } else if until.is_none() { "open " } else { "" };
            rect class=(format!("bar {kind}{}", class(*paint))) x=(left) y=(y + 3) width=(width) height="12" rx="2" {
                title { (seconds(*from)) @if let Some(until) = until { " to " (seconds(*until)) } }
            }
            @if *shows_end && until.is_some() { text.end x=(left + width) y=(y + 13) { (end) } }
        }
    }
}
