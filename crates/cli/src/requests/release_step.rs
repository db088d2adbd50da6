//! Releases the attempt at a step for a person: its worker is gone, and the token with it.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{Proof, StepEvent};
use plan_ledger::{AttemptToken, Command, Event, LostCause, State};

use crate::protocol::Failure;

use super::actor::Actor;
use super::attempt_status::AttemptStatus;
use super::context::RequestContext;
use super::find::{name, run_or_only, step_status, step_to_change};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::release::ReleaseAnswer;
use super::rules::{Role, Rules};

/// Release the attempt of a dead worker, as a person. The attempt may have had side effects.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseStepRequest {
    /// The run's name or number; by default the only run that has not ended.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunOption,
    /// The step's id or number.
    // The command has it, or a token.
    #[arg(skip)]
    pub step: String,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The reason.
    #[arg(skip)]
    #[serde(default)]
    pub reason: String,
    /// Whether an agent makes it that decides for no person: it may release its own claims alone.
    #[arg(skip)]
    #[serde(skip)]
    pub is_of_agent: bool,
}

impl RequestKind for ReleaseStepRequest {
    const RULES: Rules = Rules::of(Role::Operator);

    type Answer = ReleaseAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ReleaseAnswer, Failure> {
        let reason = if self.reason.is_empty() { "its worker is gone" } else { &self.reason };
        let detail = format!("released by {}: {reason}", self.by);
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?;
            let number = step_to_change(run, &self.step)?;
            let attempt = run.step(number).and_then(|step| step.attempt());
            let attempt = attempt.filter(|attempt| state.in_flight.contains_key(&attempt.token));
            let Some(attempt) = attempt else {
                let message = format!(
                    "{}: nothing to release: the step is {}, expected dispatched",
                    name(run, number),
                    step_status(run, number)
                );
                return Err(Failure::Rejected(message));
            };
            if self.is_of_agent
                && let Actor::Agent(session) = Actor::of(&self.by)
                && attempt.worker != session
            {
                return Err(Failure::AgentSession { session });
            }
            let (proof, cause) = (Proof::LockHolder, LostCause::RunnerDied);
            Ok(Command::ReportLost { token: attempt.token, proof, cause, detail: detail.clone() })
        };
        context.execute(&make, |state, events| {
            let lost = events.iter().find_map(|(_, event)| match event {
                Event::Step(record) => match &record.event {
                    StepEvent::AttemptLost(lost) => Some(lost.token),
                    _ => None,
                },
                _ => None,
            });
            let attempt = AttemptStatus::of(state, lost.unwrap_or(AttemptToken(0)))?;
            Ok(ReleaseAnswer { attempt })
        })?
    }
}
