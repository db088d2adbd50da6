//! The answer that no step can be dispatched to a worker now.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{Attempt, Timer};
use plan_ledger::{
    Error, Rejection, Run, RunStatus, State, StepNumber, StepState, StepStatus, Timestamp,
};

use crate::protocol::{Code, StepName, counted};

use super::answer_line::AnswerLine;
use super::find::run_status;

/// The maximum number of claims in a message.
const NAMED_MAX: usize = 3;

/// No step can be dispatched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NothingAnswer {
    /// The run; null if the claim was for every run, and several are open.
    pub run: Option<String>,
    /// Its status.
    pub status: String,
    /// The rule that prevents it, as in `rejection` of an error.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// The number of attempts in flight.
    pub in_flight: u32,
    /// The claimed steps.
    pub held: Vec<HeldStep>,
    /// The number of questions that wait for an answer.
    pub questions: u64,
    /// The next time at which a timer may change that; null if the run has ended.
    pub next_due_micros: Option<Timestamp>,
    /// Whether the run has ended, which the exit code tells.
    #[serde(skip)]
    has_ended: bool,
}

/// A claimed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct HeldStep {
    /// The step's id.
    pub step: String,
    /// The step number.
    pub number: u32,
    /// The worker that has claimed it.
    pub worker: String,
    /// The end of its lease.
    pub lease_until_micros: Timestamp,
}

impl NothingAnswer {
    /// The answer with the reason, and the active claims.
    pub(super) fn new(state: &State, run: &Run, why: Option<&Error>) -> Self {
        let has_ended = matches!(run.status, RunStatus::Ended(_));
        let written = if run.pause.is_some() { "paused" } else { "nothing_ready" };
        let message = match (why, &run.pause) {
            (Some(error), _) => match error.rejection() {
                Some(Rejection::NotReady(number, StepStatus::Delayed)) => {
                    delayed_text(run, *number)
                }
                _ => error.to_string(),
            },
            (None, Some(cause)) => Rejection::Paused(cause.clone()).to_string(),
            (None, None) if run.is_unsettled() => {
                "conditions of its steps are still being evaluated; claim again".to_owned()
            }
            (None, None) => "nothing is ready".to_owned(),
        };
        Self {
            run: Some(run.name.clone()),
            status: run_status(run),
            reason: why.and_then(Error::rejection).map_or(written, Rejection::name).to_owned(),
            message,
            in_flight: run.in_flight,
            held: HeldStep::all(state, run),
            questions: questions(run),
            next_due_micros: state.next_due().filter(|_| !has_ended),
            has_ended,
        }
    }

    /// The answer if none of several open runs has a step for the worker.
    pub(super) fn of_runs(state: &State, runs: &[&Run]) -> Self {
        Self {
            run: None,
            status: "running".to_owned(),
            reason: "nothing_ready".to_owned(),
            message: format!("none of the {} active runs has a step for this worker", runs.len()),
            in_flight: runs.iter().map(|run| run.in_flight).sum(),
            held: runs.iter().flat_map(|run| HeldStep::all(state, run)).collect(),
            questions: runs.iter().map(|run| questions(run)).sum(),
            next_due_micros: state.next_due(),
            has_ended: false,
        }
    }
}

/// The reason for the delay of a step, and who ends it earlier. The reader may be an agent, so the command of a person
/// is not named.
fn delayed_text(run: &Run, number: StepNumber) -> String {
    let is_own = |timer: &Timer| matches!(timer, Timer::Delay(of) if *of == number);
    let due = run.timers.iter().find(|(_, timer)| is_own(timer));
    let until = due.map_or_else(String::new, |(due, _)| format!(" until {}", time_text(*due)));
    let step = StepName::of(run, number);
    format!("{step} is delayed{until}; a person ends the delay by a retry")
}

/// The number of open questions of a run.
fn questions(run: &Run) -> u64 {
    u64::try_from(run.questions.len()).unwrap_or(u64::MAX)
}

impl HeldStep {
    /// The claimed steps of a run.
    fn all(state: &State, run: &Run) -> Vec<Self> {
        let held = claimed_steps(state, run).map(|(number, step, attempt)| Self {
            step: step.id().to_owned(),
            number: number.0,
            worker: attempt.worker.clone(),
            lease_until_micros: attempt.lease_until,
        });
        held.collect()
    }
}

/// The claimed steps of a run.
fn claimed_steps<'a>(
    state: &'a State,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState, &'a Attempt)> {
    let of_run = state.in_flight.values().filter(|(id, _)| *id == run.id);
    of_run.filter_map(|(_, number)| {
        let step = run.step(*number)?;
        Some((*number, step, step.attempt()?))
    })
}

impl AnswerLine for NothingAnswer {
    const WORD: &'static str = "nothing";

    fn code(&self) -> Code {
        if self.has_ended { Code::Failed } else { Code::Waiting }
    }

    fn messages(&self) -> Vec<String> {
        let run = self.run.as_ref().map_or_else(String::new, |run| format!("run {run}: "));
        let mut messages = vec![format!("{run}nothing to dispatch: {}", self.message)];
        messages.extend(self.held.iter().take(NAMED_MAX).map(|held| {
            let HeldStep { step, number, worker, lease_until_micros } = held;
            let until = time_text(*lease_until_micros);
            format!("step {number} ({step}) is claimed by {worker} until {until}")
        }));
        if self.held.len() > NAMED_MAX {
            let more = u64::try_from(self.held.len() - NAMED_MAX).unwrap_or(u64::MAX);
            let more = counted(more, "step");
            messages.push(format!("and {more} by others: `ledger inspect queue`"));
        }
        if self.questions > 0 {
            let verb = if self.questions == 1 { "waits" } else { "wait" };
            let questions = counted(self.questions, "question");
            messages.push(format!("{questions} {verb} for an answer: `ledger questions`"));
        }
        messages
    }
}

impl fmt::Display for NothingAnswer {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is a message, not a result.
        Ok(())
    }
}
