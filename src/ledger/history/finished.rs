//! What was done before a step: the finished steps that it depends on, and what they produced, so that
//! its worker builds on them.
//!
//! Invariants:
//! - The same records give the same summary: the nearest steps come first, then plan order decides.
//! - What was pruned or is damaged is left out. It never prevents a dispatch.

use crate::log::LogReader;
use crate::plan::{
    Artifact, CompactStep, Json, Outcome, Output, Receipt, Run, RunId, StepEvent, StepNumber,
    StepStatus,
};

use super::finished_cache::FinishedCache;
use super::step_events::step_events;

/// The maximum number of finished steps in a task. One that this process did not see finish costs a few
/// reads of the log at dispatch.
pub const FINISHED_STEPS_MAX: usize = 12;

/// The longest text of an output in a task, in bytes: enough for a result, not for a report. A step
/// that needs the whole output declares it as an input.
pub const FINISHED_OUTPUT_BYTES_MAX: usize = 1000;

/// What was done in a run before a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// The number of accepted steps of the active version.
    pub accepted: u32,
    /// The number of skipped steps of the active version.
    pub skipped: u32,
    /// The finished steps that the step depends on, directly or through others, nearest first.
    pub steps: Vec<FinishedStep>,
}

/// A finished step, and what it produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedStep {
    /// Its number.
    pub number: StepNumber,
    /// Its id.
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
    /// The finished steps before a step, without what they produced: [`Self::add_results`] adds it.
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

    /// Adds the outputs and the artifacts: those that are known, and of the others what the log still
    /// has. `log` is called at the first one that is not known.
    pub(crate) fn add_results<'a>(
        &mut self,
        run: RunId,
        known: &FinishedCache,
        log: impl Fn() -> Option<&'a LogReader>,
    ) {
        let accepted = self.steps.iter_mut().filter(|each| each.status == StepStatus::Accepted);
        for step in accepted {
            if let Some(result) = known.get(run, step) {
                step.set_result(result);
            } else if let Some(log) = log()
                && let Some(result) = StepResult::read(log, step.last_seq)
            {
                known.add(run, step, &result);
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

/// What a step produced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StepResult {
    pub(super) output: String,
    pub(super) output_bytes: u64,
    pub(super) artifacts: Vec<Artifact>,
}

impl StepResult {
    /// The result in the newest receipt of a step, of which this is the last record; `None` if a record
    /// cannot be read.
    fn read(log: &LogReader, last_seq: u64) -> Option<Self> {
        for read in step_events(log, last_seq) {
            if let (_, StepEvent::ReceiptRecorded(recorded)) = read.ok()? {
                return Some(Self::of(&recorded.receipt));
            }
        }
        Some(Self::default())
    }

    pub(super) fn of(receipt: &Receipt) -> Self {
        if !matches!(receipt.outcome, Outcome::Succeeded) {
            // A person or a fallback finished the step, not this attempt.
            return Self::default();
        }
        let (output, output_bytes) = match &receipt.output {
            Output::Inline(value) => start_of(value),
            Output::Blob(blob) => (String::new(), blob.length),
        };
        Self { output, output_bytes, artifacts: receipt.artifacts.clone() }
    }
}

/// The start of a text that fits into a task, and the length of the whole; nothing for `null`.
fn start_of(value: &Json) -> (String, u64) {
    let text = value.as_str();
    if text == "null" {
        return (String::new(), 0);
    }
    let mut ends = (0..=FINISHED_OUTPUT_BYTES_MAX.min(text.len())).rev();
    let start = ends.find_map(|end| text.get(..end)).unwrap_or_default();
    (start.to_owned(), text.len().try_into().unwrap_or(u64::MAX))
}

/// The first line of the title or of the goal.
fn title(step: CompactStep<'_>) -> String {
    let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
