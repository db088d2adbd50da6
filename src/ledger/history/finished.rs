//! What was done before a step: the finished steps that it depends on, and what they produced, so that
//! its worker builds on them.
//!
//! Invariants:
//! - The same records give the same summary: the nearest steps come first, then plan order decides.
//! - What was pruned or is damaged is left out. It never prevents a dispatch.

use crate::log::LogReader;
use crate::plan::{
    Artifact, CompactStep, Json, Outcome, Output, Run, StepEvent, StepNumber, StepStatus,
};

use super::step_events::step_events;

/// The maximum number of finished steps in a task. Each costs a few reads of the log at dispatch.
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
    /// The finished steps before a step, without what they produced: [`Self::read_results`] adds it.
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

    /// Adds the outputs and the artifacts, as far as the log still has them.
    pub(crate) fn read_results(&mut self, log: &LogReader) {
        let accepted = self.steps.iter_mut().filter(|each| each.status == StepStatus::Accepted);
        accepted.for_each(|step| step.read_result(log));
    }
}

impl FinishedStep {
    fn read_result(&mut self, log: &LogReader) {
        for read in step_events(log, self.last_seq) {
            let Ok((_, event)) = read else { return };
            let StepEvent::ReceiptRecorded(recorded) = event else { continue };
            if !matches!(recorded.receipt.outcome, Outcome::Succeeded) {
                // A person or a fallback finished the step, not this attempt.
                return;
            }
            match &recorded.receipt.output {
                Output::Inline(value) => self.set_output(value),
                Output::Blob(blob) => self.output_bytes = blob.length,
            }
            self.artifacts = recorded.receipt.artifacts;
            return;
        }
    }

    fn set_output(&mut self, value: &Json) {
        let text = value.as_str();
        if text == "null" {
            return;
        }
        self.output_bytes = text.len().try_into().unwrap_or(u64::MAX);
        let fits = (0..=FINISHED_OUTPUT_BYTES_MAX.min(text.len())).rev();
        let start = fits.into_iter().find_map(|end| text.get(..end));
        start.unwrap_or_default().clone_into(&mut self.output);
    }
}

/// The first line of the title or of the goal.
fn title(step: CompactStep<'_>) -> String {
    let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
