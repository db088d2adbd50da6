//! What the workers of attempts in flight print over and over, as their runners noted it.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{AttemptToken, Run, RunId, State, StepNumber};

use crate::runner::{claimed_files, repeated_by, scratch_folder};

/// An attempt whose worker prints the same lines over and over.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RepeatJson {
    /// The last one of the lines.
    pub(crate) line: String,
    /// The number of different lines.
    lines: u64,
    /// The run.
    run: RunId,
    /// The step.
    pub(crate) step: StepNumber,
    /// How often in a row the lines were printed.
    times: u64,
    /// The token of the attempt.
    token: AttemptToken,
    /// The repetition, for people.
    pub(crate) text: String,
}

impl RepeatJson {
    /// All of a ledger.
    pub(crate) fn all(ledger: &Path, state: &State) -> Vec<Self> {
        let of_attempt = |(token, (run, step)): (&AttemptToken, &(RunId, StepNumber))| {
            let claimed = || repeated_by(claimed_files(ledger, *token)?, *token);
            let repeat = repeated_by(scratch_folder(ledger, *run), *token).or_else(claimed)?;
            let text = format!("prints {repeat}");
            let (lines, times, line) = (repeat.lines, repeat.times, repeat.line);
            Some(Self { line, lines, run: *run, step: *step, times, token: *token, text })
        };
        state.in_flight.iter().filter_map(of_attempt).collect()
    }

    /// Those of some steps of a run.
    pub(crate) fn of_steps<'a>(
        all: &'a [Self],
        run: &Run,
        is_meant: impl Fn(StepNumber) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Self> {
        let id = run.id;
        all.iter().filter(move |it| it.run == id && is_meant(it.step))
    }
}
