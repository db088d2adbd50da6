//! A run as the published JSON has it.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::plan::{Attempt, BarrierState, Run, RunStatus, StepNumber, StepStatus};

use super::actions::{Action, actions};
use super::event_json::{cost_json, policy_json};
use super::page::time_json;
use super::reference::barrier_word;
use super::summary::{in_flight, missing};
use super::survey::Survey;
use super::text::words;

/// A run's fields.
pub(super) fn run_json(survey: &Survey, run: &Run, dir: &Path) -> Value {
    let next = actions(&survey.fold.state, run, dir, survey.now);
    let flights = in_flight(survey, run).filter_map(|(number, step)| {
        let attempt = step.attempt.as_ref()?;
        Some(flight_json(run, number, step.attempts, attempt))
    });
    let barriers = run.barriers.iter().map(|(id, barrier)| barrier_json(id, barrier));
    json!({
        "run": run.id,
        "name": run.name,
        "status": status_word(run.status),
        "policy": policy_json(run.policy),
        "started": time_json(run.started),
        "version": run.active,
        "versions": run.versions.len(),
        "hash": run.active_version().map(|version| version.hash),
        "title": run.plan().map(|plan| &plan.title),
        "steps": run.active_version().map_or(0, |version| version.step_count),
        "counts": counts_json(run),
        "in_flight": flights.collect::<Vec<_>>(),
        "reported": steps_json(run, run.reported.iter().copied()),
        "in_doubt": steps_json(run, run.in_doubt.iter().copied()),
        "failed": steps_json(run, failed(run)),
        "barriers": barriers.collect::<Vec<_>>(),
        "variables": run.variables.len(),
        "cost": cost_json(run.spent()),
        "next": next.iter().map(Action::json).collect::<Vec<_>>(),
    })
}

/// How a run stands, in a word.
pub(super) fn status_word(status: RunStatus) -> String {
    match status {
        RunStatus::Proposed => "proposed".to_owned(),
        RunStatus::Running => "running".to_owned(),
        RunStatus::Ended(ending) => words(&ending, '_'),
    }
}

fn counts_json(run: &Run) -> Value {
    let all = [
        StepStatus::Waiting,
        StepStatus::Ready,
        StepStatus::Dispatched,
        StepStatus::InDoubt,
        StepStatus::Reported,
        StepStatus::Accepted,
        StepStatus::Failed,
        StepStatus::Skipped,
    ];
    let count = |status: StepStatus| (words(&status, '_'), json!(run.count(status)));
    Value::Object(all.into_iter().map(count).collect::<Map<_, _>>())
}

fn flight_json(run: &Run, number: StepNumber, attempts: u32, attempt: &Attempt) -> Value {
    json!({
        "step": number,
        "id": run.step(number).map(|step| &step.id),
        "attempt": attempts,
        "token": attempt.token,
        "worker": attempt.worker,
        "since": time_json(attempt.dispatched),
        "lease_until": time_json(attempt.lease_until),
    })
}

fn failed(run: &Run) -> impl Iterator<Item = StepNumber> {
    let steps = (1..).map(StepNumber).zip(&run.steps);
    steps.filter(|(_, step)| step.status == StepStatus::Failed).map(|(number, _)| number)
}

fn steps_json(run: &Run, steps: impl Iterator<Item = StepNumber>) -> Value {
    let step = |number| json!({ "step": number, "id": run.step(number).map(|step| &step.id) });
    steps.map(step).collect()
}

fn barrier_json(id: &str, barrier: &BarrierState) -> Value {
    json!({
        "barrier": id,
        "status": barrier_word(barrier.status),
        "arrived": barrier.arrived.len(),
        "needed": barrier.needed,
        "missing": missing(barrier).collect::<Vec<_>>(),
        "failed": barrier.failed,
        "on_break": words(&barrier.on_break, '_'),
    })
}
