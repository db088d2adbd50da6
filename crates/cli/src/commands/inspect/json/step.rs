//! The line of a step.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{AcceptedBasis, BarrierStatus, Dependency, Hold};
use plan_ledger::{QuestionId, Ruling, Run, RunId, Step, StepNumber, StepState, StepStatus};

use crate::commands::inspect::lookup::text_of;
use crate::json::TimeJson;

use plan_ledger_views::FailureJson;

/// A step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StepLine<'a> {
    /// The basis on which it was accepted.
    accepted: Option<&'a AcceptedBasis>,
    /// The number of its attempts.
    attempts: Option<u32>,
    /// The number of failed attempts since it was last reopened.
    failures: Option<u32>,
    /// Other conditions that block its dispatch.
    hold: Option<HoldJson<'a>>,
    /// Its id.
    id: Option<&'a str>,
    /// Its last failure.
    last_failure: Option<FailureJson<'a>>,
    /// Its owner, with the plan's defaults applied.
    owner: Option<&'a str>,
    /// The step in the newest version that has it, as in a plan file.
    plan: Option<Step>,
    /// The run.
    run: RunId,
    /// The name of the run.
    run_name: &'a str,
    /// Its files that changed since the plan was made although no other step may change them; null
    /// if that is not known, or if the step began.
    stale_files: Option<Vec<String>>,
    /// Its status.
    status: Option<StepStatus>,
    /// Its number.
    step: StepNumber,
    /// The newest version of the plan that has the step.
    version: Option<u32>,
    /// The dependencies for which it waits.
    waiting_for: Vec<DependencyJson<'a>>,
    /// The reasons why it is not done, and the remedies: texts for people.
    why: Vec<String>,
}

impl<'a> StepLine<'a> {
    pub(crate) fn of(
        run: &'a Run,
        number: StepNumber,
        why: Vec<String>,
        stale_files: Option<Vec<String>>,
    ) -> Self {
        let text = text_of(run, number);
        let step = run.step(number);
        let waiting = run.unmet_dependencies(number);
        Self {
            accepted: step.and_then(|step| step.accepted()),
            attempts: step.map(|step| step.attempts),
            failures: step.map(|step| step.failures),
            hold: step.map(|step| step.hold().into()),
            id: step.map(StepState::id),
            last_failure: step.and_then(|step| step.last_failure()).map(FailureJson::from),
            owner: step.and_then(|step| step.owner()),
            plan: text.map(|(_, step)| step.decode()),
            run: run.id,
            run_name: &run.name,
            stale_files,
            status: step.map(|step| step.status),
            step: number,
            version: text.map(|(version, _)| version),
            waiting_for: waiting.into_iter().map(|on| DependencyJson::of(run, on)).collect(),
            why,
        }
    }
}

/// Other conditions that block the dispatch of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct HoldJson<'a> {
    /// The answer to the question about its gate or its failure.
    answer: Option<AnswerJson<'a>>,
    /// The ruling on its condition; null before it is judged.
    condition: Option<Ruling>,
    /// The end of its delay.
    delay: Option<TimeJson>,
    /// The fallback step for which it waits.
    fallback_step: Option<StepNumber>,
    /// Whether its gate is open.
    gate_open: bool,
    /// The preconditions that were judged.
    preconditions: Vec<PreconditionJson>,
    /// The open question about it.
    question: Option<QuestionId>,
    /// Whether the step is only a fallback of other steps.
    standby: bool,
}

/// An answer to a question.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct AnswerJson<'a> {
    /// The answer.
    answer: &'a str,
    /// The author of the verdict.
    by: &'a str,
}

/// A precondition that was judged.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct PreconditionJson {
    /// The precondition, from 0.
    precondition: u32,
    /// Whether the criterion holds.
    ruling: Ruling,
}

impl<'a> From<&'a Hold> for HoldJson<'a> {
    fn from(hold: &'a Hold) -> Self {
        let Hold {
            condition,
            preconditions,
            is_gate_open,
            question,
            answer,
            delay,
            fallback_step,
            is_standby,
        } = hold;
        let judged = preconditions
            .iter()
            .map(|(place, ruling)| PreconditionJson { precondition: *place, ruling: *ruling });
        Self {
            answer: answer.as_ref().map(|(answer, by)| AnswerJson { answer, by }),
            condition: *condition,
            delay: delay.map(TimeJson::from),
            fallback_step: *fallback_step,
            gate_open: *is_gate_open,
            preconditions: judged.collect(),
            question: *question,
            standby: *is_standby,
        }
    }
}

/// A dependency for which a step waits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
enum DependencyJson<'a> {
    /// A step.
    Step {
        /// Its id.
        id: Option<&'a str>,
        /// Its status.
        status: Option<StepStatus>,
        /// Its number.
        step: StepNumber,
    },
    /// A barrier.
    Barrier {
        /// Its id.
        barrier: String,
        /// Its status.
        status: Option<BarrierStatus>,
    },
    /// A name that the plan does not have.
    Unknown {
        /// The name.
        name: String,
    },
}

impl<'a> DependencyJson<'a> {
    fn of(run: &'a Run, dependency: Dependency) -> Self {
        match dependency {
            Dependency::Step(number) => {
                let step = run.step(number);
                Self::Step {
                    id: step.map(StepState::id),
                    status: step.map(|step| step.status),
                    step: number,
                }
            }
            Dependency::Barrier(id) => {
                let status = run.barriers.get(&id).map(|barrier| barrier.status);
                Self::Barrier { barrier: id, status }
            }
            Dependency::Unknown(name) => Self::Unknown { name },
        }
    }
}
