//! `ledger inspect DIR progress`: the progress of a run, by phase and over time.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::ProgressPoint;
use plan_ledger::plan::Micros;
use plan_ledger::{Run, RunId, StepStatus};
use plan_ledger_views::RunProgress;

use plan_ledger_views::{Bar, Block, Document, Series, Text};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::run::progress_text;
use crate::commands::inspect::text::units::span;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::counted;

use super::budget::{elapsed, milestones};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger progress
  ledger inspect .ledger progress my-plan --at 900
  ledger inspect .ledger progress --json | jq 'select(.type == \"milestone\") | .closed'";

/// The progress of a run: by phase, and the remaining steps over time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProgressArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

/// Steps of a phase: closed, failed, all.
type Phase = (u64, u64, u64);

pub(crate) fn progress(
    args: &ProgressArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let course = ledger.run_history(id)?.progress(ledger.run(id)?);
    let run = ledger.run(id)?;
    let phases = phases(run);
    match context.form {
        Form::Json => {
            let view = RunProgress::of(run, &ledger.activity(run), ledger.now);
            let phase = |(name, (closed, failed, steps)): &(String, Phase)| PhaseJson {
                closed: *closed,
                failed: *failed,
                phase: name.clone(),
                steps: *steps,
            };
            out.json(&ProgressLine {
                done: view.done,
                elapsed_micros: elapsed(run, ledger.now),
                expected_micros: view.expected,
                phases: phases.iter().map(phase).collect(),
                run: id,
                steps: view.steps,
            })?;
            milestones(id, &course, out)?;
        }
        Form::Text => {
            ledger.heading("progress", run, out)?;
            print(&ledger, run, &phases, out)?;
            ledger.print_first_record(out)?;
            chart(&ledger, run, &course, out)?;
        }
    }
    ledger.finish(out)
}

/// The progress of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ProgressLine {
    /// The number of accepted or skipped steps.
    done: u32,
    /// The time since its start, until its end.
    elapsed_micros: Micros,
    /// The expected remaining time.
    expected_micros: Option<Micros>,
    /// The phases of the plan; empty if it has none.
    phases: Vec<PhaseJson>,
    /// The run.
    run: RunId,
    /// The number of steps in the active version.
    steps: u32,
}

/// The progress of a phase.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct PhaseJson {
    /// The number of accepted or skipped steps.
    closed: u64,
    /// The number of failed steps.
    failed: u64,
    /// Its id; empty for steps without a phase.
    phase: String,
    /// The number of its steps.
    steps: u64,
}

/// The phases of the active version, in its order; empty if it has none. Steps without a phase come
/// last.
fn phases(run: &Run) -> Vec<(String, Phase)> {
    let Some(version) = run.active_version() else { return Vec::new() };
    let mut counts: BTreeMap<Option<&str>, Phase> = BTreeMap::new();
    for (step, number) in version.plan.steps().zip(&version.numbers) {
        let status = run.step(*number).map(|step| step.status);
        let (closed, failed, all) = counts.entry(step.phase()).or_default();
        *closed += u64::from(status.is_some_and(StepStatus::is_closed));
        *failed += u64::from(status == Some(StepStatus::Failed));
        *all += 1;
    }
    let place = |name: Option<&str>| {
        let name = name?;
        version.plan.header().phases.iter().position(|phase| phase.id == name)
    };
    let mut phases: Vec<_> = counts.into_iter().collect();
    if phases.iter().all(|(name, _)| name.is_none()) {
        return Vec::new();
    }
    phases.sort_by_key(|(name, _)| (name.is_none(), place(*name).unwrap_or(usize::MAX)));
    let named =
        phases.into_iter().map(|(name, phase)| (name.unwrap_or_default().to_owned(), phase));
    named.collect()
}

fn print(
    ledger: &LedgerAt<'_>,
    run: &Run,
    phases: &[(String, Phase)],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.line(&format!("  {}", out.style.fit(&progress_text(run), 2)))?;
    let whole = |micros: Micros| span(micros / 1_000_000 * 1_000_000);
    let took = whole(elapsed(run, ledger.now));
    let expected = RunProgress::of(run, &ledger.activity(run), ledger.now).expected;
    let more = expected.map_or_else(String::new, |left| format!(", about {} more", whole(left)));
    let attempts = counted(run.account.attempts, "attempt");
    out.line(&format!("  {took} so far, {attempts}{more}"))?;
    if phases.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["phase", "", "closed", "failed"]);
    for (name, (closed, failed, all)) in phases {
        let name = if name.is_empty() { "(none)".to_owned() } else { escape_control(name) };
        let paint = if closed == all { Paint::Good } else { Paint::None };
        let bad = if *failed > 0 { Paint::Bad } else { Paint::Faint };
        let bar = Bar { used: *closed, reserved: 0, of: *all, cells: 20 };
        table.row([
            Text::painted(paint, name),
            Text::bar(paint, bar),
            Text::painted(paint, format!("{closed}/{all}")),
            Text::painted(bad, failed.to_string()),
        ]);
    }
    out.table(&table, 2)
}

fn chart(
    ledger: &LedgerAt<'_>,
    run: &Run,
    course: &[ProgressPoint],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let left = course.iter().map(|each| (each.time, each.steps.saturating_sub(each.closed)));
    let points: Vec<_> = left.collect();
    let top = points.iter().map(|(_, left)| *left).max().unwrap_or(0);
    let Some((from, _)) = points.first().copied().filter(|_| top > 0) else { return Ok(()) };
    let until = run.end_record.map_or(ledger.now, |(_, time)| time).max(from);
    out.line("")?;
    out.painted(Paint::Heading, "remaining steps")?;
    let series = Series { points, from, until, top };
    let mut document = Document::default();
    document.push(Block::Chart { series, labels: (top.to_string(), "0".to_owned()) });
    out.document(&document)
}
