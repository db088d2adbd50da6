//! The JSON input of a planner (`format/hand-off.md`).

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::ledger::PLANNED_FILES;
use plan_ledger::plan::{CompactPlan, ReplanRequest};
use plan_ledger::{
    Cost, FailureClass, Limits, Outcome, ReplanTrigger, Ruling, Run, StepNumber, StepState,
    StepStatus,
};

use crate::protocol::hand_off::{FailedCriterion, SCHEMA};

/// The input of a planner: the JSON on its standard input. It prints a plan file, or
/// `{"no_more": "why"}`.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PlannerRequest<'a> {
    /// The version of this format.
    schema: u32,
    /// The name of the run.
    run: &'a str,
    /// Why another plan is requested.
    request: RequestReason<'a>,
    /// The requests of workers that are recorded after this one is resolved, unless the plan redoes
    /// their steps.
    waiting_requests: Vec<WaitingRequest<'a>>,
    /// For the first plan of a run: its goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<&'a str>,
    /// The active version.
    version: u32,
    /// The active plan.
    #[cfg_attr(test, schemars(with = "plan_ledger::Plan"))]
    plan: Option<&'a CompactPlan>,
    /// The steps of the active version.
    steps: Vec<StepProgress<'a>>,
    /// The variables of the run.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, crate::json::AnyJson>"))]
    variables: BTreeMap<&'a str, Value>,
    /// The criteria of the plan that do not hold.
    failed_criteria: Vec<FailedCriterion<'a>>,
    /// The later versions of the run.
    replans: Replans,
    /// The budget of the run.
    budget: PlannerBudget,
    /// The versions that a person rejected.
    rejected_versions: Vec<u32>,
    /// The reasons of their reviewers.
    rejections: Vec<Rejection<'a>>,
    /// The problems of earlier replies to this request.
    unusable_answers: &'a [String],
}

/// The rejection of a version.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Rejection<'a> {
    /// The version.
    version: u32,
    /// The note of its reviewer.
    note: &'a str,
}

/// Why another plan is requested.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RequestReason<'a> {
    /// The record of the request; 0 for the first plan.
    seq: u64,
    /// The event that caused it; null for the first plan.
    trigger: Option<&'a ReplanTrigger>,
    /// The id of the first step to redo, if known.
    from: Option<&'a str>,
    /// The reason, for people and planners.
    reason: &'a str,
}

/// A request of a worker that waits until the open one is resolved.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct WaitingRequest<'a> {
    /// The id of the worker's step.
    step: &'a str,
    /// The id of the first step to redo.
    from: &'a str,
    /// The reason, for people and planners.
    reason: &'a str,
}

/// The progress of a step.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct StepProgress<'a> {
    /// Its id.
    id: &'a str,
    /// Its number.
    number: StepNumber,
    /// Its status.
    status: StepStatus,
    /// The number of its attempts.
    attempts: u32,
    /// Its last failure.
    last_failure: Option<StepFailure<'a>>,
}

/// Why a step failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct StepFailure<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
}

/// The later versions of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Replans {
    /// The number of versions that it had.
    used: u32,
    /// The number of versions that it may have.
    max: Option<u32>,
}

/// The budget of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct PlannerBudget {
    /// The limits; null is no limit.
    limits: Limits,
    /// The spending of the run.
    spent: Cost,
}

/// The input of a planner that answers a replan request. `hidden` variables are left out.
pub(crate) fn replan_request(
    run: &Run,
    request: &ReplanRequest,
    hidden: &str,
    unusable_answers: &[String],
) -> Value {
    let numbers = run.active_version().map(|version| version.numbers.as_slice());
    let variables = run
        .variables
        .iter()
        .filter(|(name, _)| *name != hidden && *name != PLANNED_FILES)
        .map(|(name, variable)| (name.as_str(), variable.value.value()));
    let rejected = run.rejections().into_iter();
    let verdicts = run.plan_verdicts.values().filter(|verdict| verdict.ruling == Ruling::Fail);
    let input = PlannerRequest {
        schema: SCHEMA,
        run: &run.name,
        request: RequestReason {
            seq: request.seq,
            trigger: Some(&request.trigger),
            from: request.from.and_then(|number| run.step(number)).map(StepState::id),
            reason: &request.reason,
        },
        waiting_requests: waiting_requests(run),
        goal: None,
        version: run.active,
        plan: run.plan(),
        steps: numbers.unwrap_or_default().iter().filter_map(|number| step(run, *number)).collect(),
        variables: variables.collect(),
        failed_criteria: verdicts.map(FailedCriterion::of).collect(),
        replans: Replans { used: run.replans, max: run.max_replans() },
        budget: PlannerBudget { limits: run.limits(), spent: run.spent() },
        rejected_versions: rejected.clone().map(|(number, _)| number).collect(),
        rejections: rejected.map(|(version, note)| Rejection { version, note }).collect(),
        unusable_answers,
    };
    // Serialization fails only for map keys that are not strings, and there are none.
    serde_json::to_value(input).unwrap_or_default()
}

/// The input of a planner that makes the first plan of a run.
pub(crate) fn first_request(
    (run, goal): (&str, &str),
    variables: &BTreeMap<String, Value>,
    unusable_answers: &[String],
) -> Value {
    let input = PlannerRequest {
        schema: SCHEMA,
        run,
        request: RequestReason { seq: 0, trigger: None, from: None, reason: goal },
        waiting_requests: Vec::new(),
        goal: Some(goal),
        version: 0,
        plan: None,
        steps: Vec::new(),
        variables: variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect(),
        failed_criteria: Vec::new(),
        replans: Replans { used: 0, max: None },
        budget: PlannerBudget { limits: Limits::default(), spent: Cost::default() },
        rejected_versions: Vec::new(),
        rejections: Vec::new(),
        unusable_answers,
    };
    // Serialization fails only for map keys that are not strings, and there are none.
    serde_json::to_value(input).unwrap_or_default()
}

/// The requests that wait until the open one is resolved.
fn waiting_requests(run: &Run) -> Vec<WaitingRequest<'_>> {
    let waiting = run.waiting_requests().filter_map(|(number, from)| {
        let step = run.step(number)?;
        let outcome = &step.attempt()?.receipt.as_ref()?.outcome;
        let Outcome::ReplanRequested { reason, .. } = outcome else { return None };
        let from = from.and_then(|from| run.step(from)).unwrap_or(step);
        Some(WaitingRequest { step: step.id(), from: from.id(), reason })
    });
    waiting.collect()
}

/// The progress of a step in the planner's input.
fn step(run: &Run, number: StepNumber) -> Option<StepProgress<'_>> {
    let step = run.step(number)?;
    let failure = step.last_failure();
    Some(StepProgress {
        id: step.id(),
        number,
        status: step.status,
        attempts: step.attempts,
        last_failure: failure.map(|(class, message)| StepFailure { class: *class, message }),
    })
}
