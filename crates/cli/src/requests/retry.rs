//! Retries failed steps.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::StepEvent;
use plan_ledger::{Command, Event, Rejection, State, StepNumber, StepStatus};

use plan_ledger_views::recorded_text;

use crate::protocol::{Failure, StepName};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{
    open_request, open_request_text, request_command, run_after, run_or_only, run_status,
    step_to_change,
};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::rules::{HttpMethod, Role, Rules};

/// Retry failed steps: one or all of them, whether they failed finally or have an open question
/// about the failure. Or end the delay of a step. Or redo an accepted or skipped step and the steps
/// that follow from it.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunOption,
    /// The step's id or number; all failed steps by default.
    #[arg(skip)]
    #[serde(default)]
    pub step: Option<String>,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// Why a step that is accepted or skipped is done again; its worker gets the reason.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub reason: String,
}

/// Failed steps are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RetryAnswer {
    /// The run.
    pub run: String,
    /// The numbers of the steps.
    pub numbers: Vec<u32>,
    /// Their ids.
    pub steps: Vec<String>,
    /// The status of the run.
    pub status: String,
    /// The record of a request for a new plan that stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_request: Option<u64>,
    /// Why the run is paused, if it is: its steps are not dispatched until it is unpaused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

impl RequestKind for RetryRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/steps/{step}/retry");

    type Answer = RetryAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<RetryAnswer, Failure> {
        let make = |state: &State| {
            let (run, by) = (run_or_only(state, self.run.name())?, self.by.to_string());
            Ok(match &self.step {
                Some(step) => {
                    let step = step_to_change(run, step)?;
                    let status = run.step(step).map(|step| step.status);
                    let is_closed = status.is_some_and(StepStatus::is_closed);
                    let reason = match self.reason.as_str() {
                        "" => format!("{by} reopened it"),
                        reason => reason.to_owned(),
                    };
                    if status == Some(StepStatus::Delayed) {
                        Command::EndDelay { run: run.id, step, by }
                    } else if is_closed {
                        Command::Redo { run: run.id, step, by, reason }
                    } else {
                        Command::Retry { run: run.id, step, by }
                    }
                }
                None => Command::RetryFailed { run: run.id, by },
            })
        };
        let retried = context.execute(&make, |state, events| {
            let run = run_after(state, events, self.run.name())?;
            let reopened = events.iter().flat_map(|(_, event)| match event {
                Event::Step(record)
                    if matches!(
                        record.event,
                        StepEvent::Reopened(_)
                            | StepEvent::StepAnswered(_)
                            | StepEvent::DelayElapsed(_)
                    ) =>
                {
                    vec![record.step]
                }
                Event::PlanActivated(activated) => activated.invalidated.clone(),
                _ => Vec::new(),
            });
            let reopened = reopened.map(|step| StepName::of(run, step));
            let (numbers, steps) = reopened.map(|step| (step.number.0, step.id)).unzip();
            Ok(RetryAnswer {
                run: run.name.clone(),
                numbers,
                steps,
                status: run_status(run),
                open_request: open_request(run),
                paused: run.pause.as_ref().map(ToString::to_string),
            })
        });
        retried.map_err(|failure| self.explained(failure, context))?
    }
}

impl RetryRequest {
    /// The failure that nothing can be retried, with the command that resolves the named step, or
    /// the steps of the run.
    fn explained(&self, failure: Failure, context: RequestContext<'_, '_>) -> Failure {
        match failure {
            Failure::Ledger(error) if error.rejection() == Some(&Rejection::NothingFailed) => {
                let hint = context.read(|state| self.hint(state)).ok().flatten();
                Failure::Ledger(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                })
            }
            failure => failure,
        }
    }

    fn hint(&self, state: &State) -> Option<String> {
        let run = run_or_only(state, self.run.name()).ok()?;
        let unknown = run.outcome_unknown.iter().next().copied();
        let number = match &self.step {
            Some(step) => step_to_change(run, step).ok()?,
            None => unknown?,
        };
        let (step, status) = (StepName::of(run, number), run.step(number)?.status);
        let answer = |word| request_command("answer", &[&run.name, &step.id, word]);
        Some(match status {
            StepStatus::OutcomeUnknown => format!(
                "the outcome of {step} is unknown: find out whether the lost attempt did its work, then `{}` or `{}`",
                answer("landed"),
                answer("did-not-happen")
            ),
            StepStatus::Reported if run.waits_to_request(number) => format!(
                "the worker of {step} requests another plan, which waits for an earlier request: `{}`",
                request_command("next", &[&run.name])
            ),
            StepStatus::Reported => format!(
                "{step} waits for a verdict or a decision: `{}`",
                request_command("next", &[&run.name])
            ),
            StepStatus::Gated => {
                format!("{step} waits for an answer: `{}`", request_command("questions", &[]))
            }
            status => format!("{step} is {status}"),
        })
    }
}

impl AnswerLine for RetryAnswer {
    const WORD: &'static str = "retried";

    fn messages(&self) -> Vec<String> {
        let request = self.open_request.map(|seq| open_request_text(&self.run, seq));
        let pause = self.paused.as_ref().map(|cause| {
            let next = request_command("next", &[&self.run]);
            format!(
                "the run is {cause}, and nothing is dispatched: `{next}` says what continues it"
            )
        });
        request.into_iter().chain(pause).collect()
    }
}

impl fmt::Display for RetryAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, numbers, steps, status, .. } = self;
        let name = |(number, id): (&u32, &String)| {
            StepName { number: StepNumber(*number), id: id.clone() }.to_string()
        };
        let names: Vec<String> = numbers.iter().zip(steps).map(name).collect();
        let what = if names.is_empty() { "its own criteria".to_owned() } else { names.join(", ") };
        let status = recorded_text(status);
        write!(f, "run {run}: {what}: retried; the run is {status}")
    }
}
