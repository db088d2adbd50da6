//! The work before a step: the finished dependencies with their results, so that the worker of the
//! step builds on them.
//!
//! Invariants:
//! - The same records give the same summary: the nearest steps come first, then plan order decides.
//! - Pruned and damaged records are left out. They never prevent a dispatch.

use crate::log::LogReader;
use crate::plan::{Artifact, CompactStep, Run, RunId, StepEvent, StepNumber, StepStatus};

use super::finished_cache::{FinishedCache, StepResult};
use super::step_events::step_events;

/// The maximum number of finished steps in a task. One that this process did not see finish costs a few
/// reads of the log at dispatch.
pub const FINISHED_STEPS_MAX: usize = 12;

/// The work that a run finished before a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// The number of accepted steps of the active version.
    pub accepted: u32,
    /// The number of skipped steps of the active version.
    pub skipped: u32,
    /// The finished steps that the step depends on, directly or through others, nearest first.
    pub steps: Vec<FinishedStep>,
}

/// A finished step, and its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedStep {
    pub number: StepNumber,
    pub id: String,
    /// Its title, or the first line of its goal.
    pub title: String,
    /// `Accepted` or `Skipped`.
    pub status: StepStatus,
    /// The JSON text of its output, cut after 1000 bytes; empty if there is none.
    pub output: String,
    /// The length of the whole text in bytes.
    pub output_bytes: u64,
    /// The files that it made.
    pub artifacts: Vec<Artifact>,
    /// The last record of the step.
    #[doc(hidden)]
    pub last_seq: u64,
}

impl Finished {
    /// The finished steps before a step, without their results: [`Self::add_results`] adds these.
    pub(crate) fn before(run: &Run, number: StepNumber) -> Self {
        let steps = run.finished_before(number, FINISHED_STEPS_MAX).into_iter();
        let steps = steps.filter_map(|number| {
            let step = run.step(number)?;
            Some(FinishedStep {
                number,
                id: step.id().to_owned(),
                title: run.plan_step(number).map(title).unwrap_or_default(),
                status: step.status,
                output: String::new(),
                output_bytes: 0,
                artifacts: Vec::new(),
                last_seq: step.last_seq,
            })
        });
        Self {
            accepted: run.count(StepStatus::Accepted),
            skipped: run.count(StepStatus::Skipped),
            steps: steps.collect(),
        }
    }

    /// Adds the outputs and the artifacts: known ones, and otherwise those that the log still has.
    /// `log` is called at the first unknown result.
    pub(crate) fn add_results<'a>(
        &mut self,
        run: RunId,
        known: &FinishedCache,
        log: impl Fn() -> Option<&'a LogReader>,
    ) {
        let accepted = self.steps.iter_mut().filter(|each| each.status == StepStatus::Accepted);
        for step in accepted {
            if let Some(result) = known.get(run, step.number, step.last_seq) {
                step.set_result(result);
            } else if let Some(log) = log()
                && let Some(result) = read_result(log, step.last_seq)
            {
                known.add(run, step.number, step.last_seq, &result);
                step.set_result(result);
            }
        }
    }
}

impl FinishedStep {
    fn set_result(&mut self, result: StepResult) {
        (self.output, self.output_bytes) = (result.output, result.output_bytes);
        self.artifacts = result.artifacts;
    }
}

/// The result in the newest receipt of a step with this last record; `None` if a record cannot be
/// read.
fn read_result(log: &LogReader, last_seq: u64) -> Option<StepResult> {
    for read in step_events(log, last_seq) {
        if let (_, StepEvent::ReceiptRecorded(recorded)) = read.ok()? {
            return Some(StepResult::of(&recorded.receipt));
        }
    }
    Some(StepResult::default())
}

/// The first line of the title or of the goal.
fn title(step: CompactStep<'_>) -> String {
    let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
