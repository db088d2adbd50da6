//! `ledger inspect DIR timeline`: the attempts and waits of every step, as bars over time.
//!
//! Invariants: every attempt is at least one column wide, so that none is hidden; how it ended is
//! a separate character, so that no colour is needed to see it.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{IntervalKind, StepTimeline, TimelineInterval};
use plan_ledger::plan::Micros;
use plan_ledger::{Run, RunId, StepNumber, StepState, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::name_and_title;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::chart::{columns, scaled};
use crate::commands::inspect::text::status::{status_mark, status_paint};
use crate::commands::inspect::text::units::{seconds, span};
use crate::json::TimeJson;
use crate::options::RunArg;
use crate::output::render::{Paint, Style, cut, width};
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger timeline
  ledger inspect .ledger timeline my-plan --at 900     as it stood after record 900
  ledger inspect .ledger timeline --json | jq 'select(.kind == \"lost\") | .worker'";

/// The attempts and waits of every step, as bars over time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

type Row = (StepNumber, StepTimeline);

pub(crate) fn timeline(
    args: &TimelineArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let mut rows: Vec<Row> = ledger.run_history(id)?.timelines().into_iter().collect();
    rows.sort_by_key(|(_, timeline)| timeline.intervals.first().map(|interval| interval.seq));
    let run = ledger.run(id)?;
    match context.form {
        Form::Json => print_json(id, run, &rows, out)?,
        Form::Text => {
            ledger.heading("timeline", run, out)?;
            ledger.print_first_record(out)?;
            print(&ledger, run, &rows, out)?;
        }
    }
    ledger.finish(out)
}

fn print_json(id: RunId, run: &Run, rows: &[Row], out: &mut Output<'_>) -> Result<(), Failure> {
    for (number, timeline) in rows {
        for TimelineInterval { from, until, kind, seq, worker } in &timeline.intervals {
            out.json(&IntervalLine {
                since: (*from).into(),
                id: run.step(*number).map(StepState::id),
                kind: *kind,
                run: id,
                seq: *seq,
                step: *number,
                until: until.map(TimeJson::from),
                worker: worker.as_deref(),
            })?;
        }
    }
    Ok(())
}

/// An attempt or a wait of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct IntervalLine<'a> {
    /// Its start.
    since: TimeJson,
    /// The id of the step.
    id: Option<&'a str>,
    /// The outcome of the attempt, or the reason for the wait.
    kind: IntervalKind,
    /// The run.
    run: RunId,
    /// The record that began it.
    seq: u64,
    /// The number of the step.
    step: StepNumber,
    /// Its end; null if it has not ended.
    until: Option<TimeJson>,
    /// The worker of the attempt; null for a wait.
    worker: Option<&'a str>,
}

/// The character of an interval, the character of its end, and their paint.
fn cells(kind: IntervalKind) -> (char, char, Paint) {
    match kind {
        IntervalKind::InFlight => ('=', '>', Paint::Heading),
        IntervalKind::Succeeded => ('=', '+', Paint::Good),
        IntervalKind::Rejected => ('=', '-', Paint::Bad),
        IntervalKind::Failed => ('=', 'x', Paint::Bad),
        IntervalKind::ReplanRequested => ('=', 'r', Paint::Notice),
        IntervalKind::Lost => ('=', '!', Paint::Bad),
        IntervalKind::Judged => ('~', '~', Paint::Notice),
        IntervalKind::Delayed => (':', ':', Paint::Notice),
        IntervalKind::Asked => ('?', '?', Paint::Notice),
        IntervalKind::OutcomeUnknown => ('?', '?', Paint::Bad),
    }
}

const LEGEND: [&str; 2] = [
    "=+ succeeded  =- a check failed  =x failed  =! lost  =r requested a replan",
    "> in progress  ~ waits for verdicts  : waits for its retry  ? waits for a person",
];

/// The time interval and the width of the chart.
struct Scale {
    from: Timestamp,
    until: Timestamp,
    columns: u64,
}

impl Scale {
    fn column(&self, time: Timestamp) -> u64 {
        let span = self.until.saturating_sub(self.from);
        scaled(time.saturating_sub(self.from), span, self.columns).min(self.columns - 1)
    }

    /// The cells of a step's bar. Later intervals cover earlier ones, but never the end of an
    /// attempt.
    fn bar(&self, timeline: &StepTimeline) -> Vec<Option<(char, Paint)>> {
        let mut bar = vec![None; usize::try_from(self.columns).unwrap_or(0)];
        let mut ends = Vec::new();
        for TimelineInterval { from, until, kind, .. } in &timeline.intervals {
            let (inside, end, paint) = cells(*kind);
            let (first, last) = (self.column(*from), self.column(until.unwrap_or(self.until)));
            for column in first..=last {
                if let Some(cell) = usize::try_from(column).ok().and_then(|at| bar.get_mut(at)) {
                    *cell = Some((inside, paint));
                }
            }
            if kind.is_attempt() {
                ends.push((last, end, paint));
            } else if until.is_none() {
                ends.push((last, '>', paint));
            }
        }
        for (column, end, paint) in ends {
            if let Some(cell) = usize::try_from(column).ok().and_then(|at| bar.get_mut(at)) {
                *cell = Some((end, paint));
            }
        }
        bar
    }
}

/// A bar as text; cells of the same paint are painted together.
fn painted(bar: &[Option<(char, Paint)>], style: Style) -> String {
    let mut out = String::new();
    let mut run = String::new();
    let mut current = Paint::None;
    for cell in bar {
        let (cell, paint) = cell.unwrap_or((' ', Paint::None));
        if paint != current && !run.is_empty() {
            out.push_str(&style.paint(current, &run));
            run.clear();
        }
        current = paint;
        run.push(cell);
    }
    out.push_str(&style.paint(current, &run));
    out
}

fn print(
    ledger: &LedgerAt<'_>,
    run: &Run,
    rows: &[Row],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let starts = rows.iter().filter_map(|(_, timeline)| timeline.intervals.first());
    let Some(from) = starts.map(|interval| interval.from).min() else {
        return out.line("no step was dispatched yet");
    };
    let until = until(ledger, run, rows, from);
    let all = columns(out.style);
    let names =
        rows.iter().map(|(number, _)| width(&name_and_title(run, *number).0)).max().unwrap_or(0);
    let names = names.min(all / 4);
    // A row has a mark, a name, a bar and a sum.
    let room = all.saturating_sub(names + 8 + SUMS).max(16);
    let scale = Scale { from, until, columns: u64::try_from(room).unwrap_or(16) };
    let (left, right) = (seconds(from), seconds(until));
    let took = span(until.saturating_sub(from) / 1_000 * 1_000);
    let gap = room.saturating_sub(left.len() + right.len());
    let middle =
        if took.len() + 2 < gap { format!("{took:^gap$}") } else { " ".repeat(gap.max(1)) };
    out.painted(Paint::Faint, &format!("{:names$}      {left}{middle}{right}", ""))?;
    for (number, timeline) in rows {
        print_row(run, *number, timeline, &scale, names, out)?;
    }
    LEGEND.iter().try_for_each(|line| out.painted(Paint::Faint, &out.style.fit(line, 0)))
}

/// The end of the time axis: now while an attempt is in flight. If the run waits only for people,
/// the axis ends soon after the last work, so that the work stays visible.
fn until(ledger: &LedgerAt<'_>, run: &Run, rows: &[Row], from: Timestamp) -> Timestamp {
    let intervals = || rows.iter().flat_map(|(_, timeline)| &timeline.intervals);
    let known = intervals().flat_map(|each| [Some(each.from), each.until]).flatten();
    let last = known.max().unwrap_or(from).max(from + 1);
    let mut open = intervals().filter(|each| each.until.is_none()).peekable();
    if open.peek().is_none() {
        return last;
    }
    let now = run.end_record.map_or(ledger.now, |(_, time)| time).max(last);
    if open.any(|each| each.kind == IntervalKind::InFlight) {
        now
    } else {
        now.min(last.saturating_add((last - from) / 4 + 1))
    }
}

/// Columns after a bar.
const SUMS: usize = 16;

fn print_row(
    run: &Run,
    number: StepNumber,
    timeline: &StepTimeline,
    scale: &Scale,
    names: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let name = cut(&name_and_title(run, number).0, names);
    let pad = " ".repeat(names.saturating_sub(width(&name)));
    let status = run.step(number).map(|step| step.status);
    let mark = status.map_or(' ', status_mark);
    let mark = out.style.paint(status.map_or(Paint::None, status_paint), &mark.to_string());
    let bar = painted(&scale.bar(timeline), out.style);
    let attempts = timeline.intervals.iter().filter(|interval| interval.kind.is_attempt());
    let worked: Micros =
        attempts.map(|each| each.until.unwrap_or(scale.until).saturating_sub(each.from)).sum();
    let worked =
        if worked >= 1_000_000 { worked / 1_000_000 * 1_000_000 } else { worked / 1_000 * 1_000 };
    let times =
        if timeline.attempts > 1 { format!("{}x ", timeline.attempts) } else { String::new() };
    let worked = if timeline.attempts > 0 { span(worked) } else { String::new() };
    out.line(format!("[{mark}] {name}{pad} |{bar}| {times}{worked}").trim_end())
}

#[cfg(test)]
mod tests {
    //! Goal: no scale hides an attempt or its end.

    use super::*;

    fn interval(from: Timestamp, until: Option<Timestamp>, kind: IntervalKind) -> TimelineInterval {
        TimelineInterval { from, until, kind, seq: from, worker: None }
    }

    fn drawn(intervals: Vec<TimelineInterval>, columns: u64) -> String {
        let timeline = StepTimeline { intervals, attempts: 1 };
        let scale = Scale { from: 0, until: 1_000, columns };
        painted(&scale.bar(&timeline), Style::PLAIN)
    }

    #[test]
    fn attempts_and_waits_stand_where_they_were() {
        let intervals = vec![
            interval(0, Some(200), IntervalKind::Failed),
            interval(200, Some(500), IntervalKind::Delayed),
            interval(500, Some(800), IntervalKind::Succeeded),
        ];
        assert_eq!(drawn(intervals, 10), "==x::===+ ");
        assert_eq!(drawn(vec![interval(900, None, IntervalKind::InFlight)], 10), "         >");
    }

    #[test]
    fn the_shortest_attempt_shows_beside_the_longest_wait() {
        let intervals = vec![
            interval(0, Some(1), IntervalKind::Lost),
            interval(1, Some(998), IntervalKind::OutcomeUnknown),
            interval(998, Some(999), IntervalKind::Failed),
        ];
        assert_eq!(drawn(intervals, 10), "!????????x");
        assert_eq!(drawn(vec![interval(0, Some(0), IntervalKind::Succeeded)], 1), "+");
    }
}
