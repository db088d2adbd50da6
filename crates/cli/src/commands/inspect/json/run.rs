//! The JSON form of a run.

use std::path::Path;

use serde_json::{Map, Value, json};

use plan_ledger::internals::plan::{Account, Attempt, BarrierState};
use plan_ledger::{Question, QuestionId, Run, RunStatus, StepNumber, StepState, StepStatus};

use crate::commands::inspect::health::LedgerOverview;
use crate::commands::inspect::lookup::{barrier_word, in_flight, missing_members, steps_in_status};
use crate::commands::inspect::next_action::{NextAction, actions};
use crate::commands::inspect::output::time_json;
use crate::commands::inspect::style::words;
use crate::json::ReplanRequestJson;
use crate::output::{limits_json, pause_cause_json, question_json as asked_json};

use super::event::{cost_json, forked_json, policy_json};

pub(crate) fn run_json(overview: &LedgerOverview, run: &Run, dir: &Path) -> Value {
    let next = actions(&overview.fold.state, run, dir, overview.now);
    let flights = in_flight(&overview.fold.state, run).filter_map(|(number, step)| {
        let attempt = step.attempt()?;
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
        "title": run.plan().map(|plan| &plan.header().title),
        "steps": run.active_version().map_or(0, |version| version.step_count),
        "counts": counts_json(run),
        "in_flight": flights.collect::<Vec<_>>(),
        "reported": steps_json(run, run.reported.iter().copied()),
        "outcome_unknown": steps_json(run, run.outcome_unknown.iter().copied()),
        "failed": steps_json(run, steps_in_status(run, StepStatus::Failed)),
        "gated": steps_json(run, steps_in_status(run, StepStatus::Gated)),
        "delayed": delayed_json(run),
        "questions": run.questions.iter().map(question_json).collect::<Vec<_>>(),
        "pause": run.pause.as_ref().map(pause_cause_json),
        "request": run.request.as_ref().map(ReplanRequestJson::from),
        "barriers": barriers.collect::<Vec<_>>(),
        "variables": run.variables.len(),
        "cost": cost_json(run.spent()),
        "budget": budget_json(run),
        "forked": run.fork.as_ref().map(forked_json),
        "next": next.iter().map(NextAction::json).collect::<Vec<_>>(),
    })
}

/// The status of a run as a JSON word.
pub(crate) fn status_word(status: RunStatus) -> String {
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
        StepStatus::OutcomeUnknown,
        StepStatus::Reported,
        StepStatus::Accepted,
        StepStatus::Failed,
        StepStatus::Skipped,
        StepStatus::Gated,
        StepStatus::Delayed,
        StepStatus::Cancelled,
    ];
    let count = |status: StepStatus| (words(&status, '_'), json!(run.count(status)));
    Value::Object(all.into_iter().map(count).collect::<Map<_, _>>())
}

fn flight_json(run: &Run, number: StepNumber, attempts: u32, attempt: &Attempt) -> Value {
    json!({
        "step": number,
        "id": run.step(number).map(StepState::id),
        "attempt": attempts,
        "token": attempt.token,
        "worker": attempt.worker,
        "since": time_json(attempt.dispatched),
        "lease_until": time_json(attempt.lease_until),
    })
}

fn delayed_json(run: &Run) -> Value {
    let delayed = |number| {
        let step = run.step(number);
        let until = step.and_then(|step| step.hold().delay).map(time_json);
        json!({ "step": number, "id": step.map(StepState::id), "until": until })
    };
    steps_in_status(run, StepStatus::Delayed).map(delayed).collect()
}

fn question_json((id, question): (&QuestionId, &Question)) -> Value {
    let Question { step, time, asked } = question;
    json!({
        "question": id, "step": step, "time": time_json(*time), "asked": asked_json(asked),
    })
}

fn budget_json(run: &Run) -> Value {
    let Account { limits: _, spent, estimated, reserved, attempts } = run.account;
    json!({
        "limits": limits_json(run.limits()), "spent": cost_json(spent),
        "estimated": cost_json(estimated), "reserved": cost_json(reserved), "attempts": attempts,
    })
}

fn steps_json(run: &Run, steps: impl Iterator<Item = StepNumber>) -> Value {
    let step = |number| json!({ "step": number, "id": run.step(number).map(StepState::id) });
    steps.map(step).collect()
}

fn barrier_json(id: &str, barrier: &BarrierState) -> Value {
    json!({
        "barrier": id,
        "status": barrier_word(barrier.status),
        "arrived": barrier.arrived.len(),
        "needed": barrier.needed,
        "missing": missing_members(barrier).collect::<Vec<_>>(),
        "failed": barrier.failed,
        "on_break": words(&barrier.on_break, '_'),
    })
}
