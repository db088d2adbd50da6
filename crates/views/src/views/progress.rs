//! The progress of a run: by phase, and the steps that are left over time.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::ProgressPoint;
use plan_ledger::plan::Micros;
use plan_ledger::{Run, RunId, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::budget::MilestoneLine;
use crate::activity::{RunActivity, RunProgress};
use crate::layout::{Bar, Block, Document, Paint, Series, Table, Text};
use crate::words::{counted, progress_text, span};

/// Steps of a phase: closed, failed, all.
type Phase = (u64, u64, u64);

/// The progress of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProgressLine {
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

/// The progress of a run.
#[derive(Debug)]
pub struct ProgressView<'a> {
    /// Where it stands.
    pub line: ProgressLine,
    /// Where it stood after each record.
    pub milestones: Vec<MilestoneLine>,
    run: &'a Run,
    points: &'a [ProgressPoint],
    now: Timestamp,
}

impl<'a> ProgressView<'a> {
    /// The progress of a run, which stands like that, at that time.
    #[must_use]
    pub fn of(
        run: &'a Run,
        stands: &RunActivity,
        points: &'a [ProgressPoint],
        now: Timestamp,
    ) -> Self {
        let RunProgress { done, steps, expected, .. } = RunProgress::of(run, stands, now);
        let phase = |(phase, (closed, failed, steps)): (String, Phase)| PhaseJson {
            closed,
            failed,
            phase,
            steps,
        };
        let line = ProgressLine {
            done,
            elapsed_micros: run.elapsed(now),
            expected_micros: expected,
            phases: phases(run).into_iter().map(phase).collect(),
            run: run.id,
            steps,
        };
        let milestones = points.iter().map(|point| MilestoneLine::of(run.id, point)).collect();
        Self { line, milestones, run, points, now }
    }

    /// What it shows about now.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        document.cut(2, progress_text(self.run));
        let whole = |micros: Micros| span(micros / 1_000_000 * 1_000_000);
        let took = whole(self.line.elapsed_micros);
        let more = self.line.expected_micros.map(|left| format!(", about {} more", whole(left)));
        let attempts = counted(self.run.account().attempts, "attempt");
        document.indented(2, format!("{took} so far, {attempts}{}", more.unwrap_or_default()));
        if self.line.phases.is_empty() {
            return document;
        }
        let mut table = Table::with_headings(&["phase", "", "closed", "failed"]);
        for PhaseJson { closed, failed, phase, steps } in &self.line.phases {
            let name = if phase.is_empty() { "(none)" } else { phase };
            let paint = if closed == steps { Paint::Good } else { Paint::None };
            let bad = if *failed > 0 { Paint::Bad } else { Paint::Faint };
            let bar = Bar { used: *closed, reserved: 0, of: *steps, cells: 20 };
            table.row([
                Text::painted(paint, name),
                Text::bar(paint, bar),
                Text::painted(paint, format!("{closed}/{steps}")),
                Text::painted(bad, failed.to_string()),
            ]);
        }
        document.table(2, table);
        document
    }

    /// The chart of the steps that are left.
    #[must_use]
    pub fn chart(&self) -> Document {
        let mut document = Document::default();
        let left = |each: &ProgressPoint| (each.time, each.steps.saturating_sub(each.closed));
        let points: Vec<_> = self.points.iter().map(left).collect();
        let top = points.iter().map(|(_, left)| *left).max().unwrap_or(0);
        if let Some((from, _)) = points.first().copied().filter(|_| top > 0) {
            let until = self.run.ended_at().unwrap_or(self.now).max(from);
            document.gap();
            document.painted(Paint::Heading, "remaining steps");
            let series = Series { points, from, until, top };
            document.push(Block::Chart { series, labels: (top.to_string(), "0".to_owned()) });
        }
        document
    }
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
