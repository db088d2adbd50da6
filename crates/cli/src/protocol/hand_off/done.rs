//! The finished steps before a step, and their results, in few bytes.
//!
//! Invariants:
//! - The JSON of the steps is never longer than [`DONE_BYTES_MAX`].
//! - The nearest dependencies come first. A step that does not fit with its results is listed without
//!   them, and no step after one that does not fit at all is listed.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Artifact, Finished, FinishedStep, StepStatus};

use super::receipt::ArtifactEntry;

/// The most bytes of JSON that the steps of a summary take. A worker is often a model, which reads the
/// whole hand-off: 8 KiB are about 2,000 tokens, less than most steps need for their own files, and
/// enough for the results of a dozen dependencies.
pub const DONE_BYTES_MAX: usize = 8 << 10;

/// The longest title in a summary, in characters.
const TITLE_LENGTH_MAX: usize = 120;

/// The work of the run before the step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DoneSummary<'a> {
    /// The number of accepted steps of the plan.
    pub accepted: u32,
    /// The number of skipped steps of the plan.
    pub skipped: u32,
    /// The finished steps that the step depends on, directly or through others, nearest first.
    pub steps: Vec<DoneStep<'a>>,
    /// The number of finished steps that are not in `steps`.
    pub left_out: u32,
}

/// A finished step, and its results.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DoneStep<'a> {
    /// The step's id.
    pub id: &'a str,
    /// The step number.
    pub number: u32,
    /// The title, or the first line of the goal, at most 120 characters.
    pub title: String,
    /// Whether it was skipped instead of accepted.
    pub skipped: bool,
    /// The JSON text of its output, at most 1000 bytes; empty without an output.
    pub output: &'a str,
    /// The length of the whole text in bytes.
    pub output_bytes: u64,
    /// The files that it made.
    pub artifacts: Vec<ArtifactEntry>,
}

impl<'a> DoneSummary<'a> {
    pub(crate) fn of(finished: &'a Finished) -> Self {
        let Finished { accepted, skipped, steps } = finished;
        // The brackets of the list, and a comma for each step.
        let mut left = DONE_BYTES_MAX.saturating_sub(2);
        let mut listed = Vec::new();
        for step in steps {
            let whole = DoneStep::of(step);
            let short = DoneStep { output: "", artifacts: Vec::new(), ..whole.clone() };
            let fitting = [whole, short].into_iter().find_map(|entry| {
                let rest = left.checked_sub(entry.size().saturating_add(1))?;
                Some((entry, rest))
            });
            let Some((entry, rest)) = fitting else { break };
            left = rest;
            listed.push(entry);
        }
        let shown = u32::try_from(listed.len()).unwrap_or(u32::MAX);
        let left_out = accepted.saturating_add(*skipped).saturating_sub(shown);
        Self { accepted: *accepted, skipped: *skipped, steps: listed, left_out }
    }
}

impl<'a> DoneStep<'a> {
    fn of(step: &'a FinishedStep) -> Self {
        let entry = |artifact: &Artifact| ArtifactEntry {
            path: artifact.path.clone(),
            hash: artifact.hash.clone(),
        };
        Self {
            id: &step.id,
            number: step.number.0,
            title: step.title.chars().take(TITLE_LENGTH_MAX).collect(),
            skipped: step.status == StepStatus::Skipped,
            output: &step.output,
            output_bytes: step.output_bytes,
            artifacts: step.artifacts.iter().map(entry).collect(),
        }
    }

    fn size(&self) -> usize {
        // Serialization fails only for map keys that are not strings, and there are none.
        serde_json::to_string(self).map_or(usize::MAX, |text| text.len())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the summary keeps its limit and the nearest steps.

    use super::*;

    fn step(number: u32, output: usize) -> FinishedStep {
        FinishedStep {
            number: plan_ledger::StepNumber(number),
            id: format!("s{number}"),
            title: "t".repeat(500),
            status: StepStatus::Accepted,
            output: "x".repeat(output),
            output_bytes: 4000,
            artifacts: Vec::new(),
            last_seq: 1,
        }
    }

    #[test]
    fn summary_of_long_outputs_keeps_its_limit_and_the_nearest_first() {
        let steps: Vec<_> = (1..=40).map(|number| step(number, 1000)).collect();
        let finished = Finished { accepted: 50, skipped: 1, steps };
        let done = DoneSummary::of(&finished);
        let size = serde_json::to_string(&done.steps).unwrap().len();
        assert!(size <= DONE_BYTES_MAX && size > DONE_BYTES_MAX - 400, "{size}");
        let numbers: Vec<u32> = done.steps.iter().map(|each| each.number).collect();
        assert_eq!(numbers, (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
        assert!(done.steps[0].output.len() == 1000 && done.steps[0].title.len() == 120);
        assert!(done.steps.last().unwrap().output.is_empty());
        assert_eq!(usize::try_from(done.left_out).unwrap(), 51 - numbers.len());
    }
}
