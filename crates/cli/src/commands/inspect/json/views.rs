//! The JSON form of the views of a run.
//!
//! Every view is destructured field by field, so that a new field cannot be forgotten.

use serde_json::{Map, Value, json};

use plan_ledger::internals::ledger::{TracedRecord, ValueChange};
use plan_ledger::internals::plan::{
    Account, Activity, AttemptSummary, BarrierSummary, ExecutionState, OperatorView, Remaining,
    RequiredAction, RunCounters, UserView, VersionSummary,
};
use plan_ledger::{Event, RecordedEvent, RunId};

use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::output::time_json;
use crate::commands::inspect::style::words;
use crate::json::ReplanRequestJson;
use crate::output::{limits_json, pause_cause_json, question_timeout_json};

use super::event::{cost_json, event_json};
use super::run::status_word;
use super::state::question_json;

pub(crate) fn user_json(run: RunId, view: &UserView) -> Value {
    let UserView { title, done, total_steps, activities, required_actions, expected } = view;
    json!({
        "run": run,
        "title": title,
        "done": done,
        "steps": total_steps,
        "now": activities.iter().map(activity_json).collect::<Vec<_>>(),
        "needs": required_actions.iter().map(need_json).collect::<Vec<_>>(),
        "expected_micros": expected,
    })
}

fn activity_json(activity: &Activity) -> Value {
    match activity {
        Activity::Ended(ending) => json!({ "is": "ended", "ending": words(ending, '_') }),
        Activity::AwaitingApproval => json!({ "is": "waits_for_plan" }),
        Activity::Paused(cause) => json!({ "is": "paused", "cause": cause }),
        Activity::Stopping(reason) => json!({ "is": "stopping", "reason": reason }),
        Activity::Replanning(reason) => json!({ "is": "replanning", "reason": reason }),
        Activity::Working { step, what, attempt } => {
            json!({ "is": "works", "step": step, "what": what, "attempt": attempt })
        }
        Activity::Checking { steps } => json!({ "is": "checks", "steps": steps }),
        Activity::Delayed { steps } => json!({ "is": "waits", "steps": steps }),
        Activity::Ready { steps } => json!({ "is": "ready", "steps": steps }),
    }
}

fn need_json(need: &RequiredAction) -> Value {
    match need {
        RequiredAction::Answer { question, text, to, options, deadline, on_timeout, shown } => {
            json!({
                "is": "answer", "question": question, "text": text, "to": to, "options": options,
                "deadline": deadline.map(time_json), "shown": shown,
                "on_timeout": on_timeout.as_ref().map(question_timeout_json),
            })
        }
        RequiredAction::Resolve { step, what } => {
            json!({ "is": "outcome_unknown", "step": step, "what": what })
        }
        RequiredAction::Review { version, hash } => {
            json!({ "is": "review", "version": version, "hash": hash })
        }
    }
}

pub(crate) fn operator_json(view: &OperatorView) -> Value {
    let OperatorView {
        run,
        name,
        status,
        pause,
        stopping,
        elapsed,
        versions,
        active,
        request,
        counts,
        counters,
        account,
        remaining,
        last_failure,
        in_flight,
        outcome_unknown,
        questions,
        barriers,
        next,
        due,
    } = view;
    let RunCounters { failures, retries, exhausted, invalidated, preserved } = counters;
    let counts: Map<String, Value> =
        counts.iter().map(|(status, count)| (words(status, '_'), json!(count))).collect();
    json!({
        "run": run,
        "name": name,
        "status": status_word(*status),
        "pause": pause.as_ref().map(pause_cause_json),
        "stopping": stopping,
        "elapsed_micros": elapsed,
        "versions": versions.iter().map(version_json).collect::<Vec<_>>(),
        "active": active,
        "request": request.as_ref().map(ReplanRequestJson::from),
        "counts": counts,
        "tally": {
            "failures": failures, "retries": retries, "exhausted": exhausted,
            "invalidated": invalidated, "preserved": preserved,
        },
        "account": account_json(account),
        "remaining": remaining_json(remaining),
        "last_failure": last_failure.as_ref().map(|(step, class, message)| json!({
            "step": step, "class": words(class, '_'), "message": message,
        })),
        "in_flight": in_flight.iter().map(flight_json).collect::<Vec<_>>(),
        "outcome_unknown": outcome_unknown.iter().map(flight_json).collect::<Vec<_>>(),
        "questions": questions
            .iter()
            .map(|(id, question)| question_json(*run, *id, question))
            .collect::<Vec<_>>(),
        "barriers": barriers.iter().map(row_json).collect::<Vec<_>>(),
        "next": next,
        "due": due.map(time_json),
    })
}

pub(crate) fn account_json(account: &Account) -> Value {
    let Account { limits, spent, estimated, reserved, attempts } = account;
    json!({
        "limits": limits.map(limits_json), "spent": cost_json(*spent),
        "estimated": cost_json(*estimated), "reserved": cost_json(*reserved), "attempts": attempts,
    })
}

fn remaining_json(remaining: &Remaining) -> Value {
    let Remaining { money_micros, tokens, attempts, wall_seconds } = remaining;
    json!({
        "money_micros": money_micros, "tokens": tokens, "attempts": attempts,
        "wall_seconds": wall_seconds,
    })
}

fn version_json(row: &VersionSummary) -> Value {
    let VersionSummary { version, hash, reason, review, steps } = row;
    json!({
        "version": version, "hash": hash, "reason": reason, "steps": steps,
        "review": review.map(|review| words(&review, '_')),
    })
}

fn flight_json(flight: &AttemptSummary) -> Value {
    let AttemptSummary { step, id, token, attempt, worker, dispatched, lease_until, reserved } =
        flight;
    json!({
        "step": step, "id": id, "token": token, "attempt": attempt, "worker": worker,
        "since": time_json(*dispatched), "lease_until": time_json(*lease_until),
        "reserved": cost_json(*reserved),
    })
}

fn row_json(row: &BarrierSummary) -> Value {
    let BarrierSummary { id, status, arrived, needed, failed } = row;
    json!({
        "barrier": id, "status": barrier_word(*status), "arrived": arrived, "needed": needed,
        "failed": failed,
    })
}

pub(crate) fn execution_json(run: RunId, state: &ExecutionState) -> Value {
    let ExecutionState {
        current,
        completed,
        pending,
        failed,
        retries_used,
        elapsed,
        budget_remaining,
        side_effects_committed,
        plan_version,
    } = state;
    json!({
        "run": run,
        "current": current,
        "completed": completed,
        "pending": pending,
        "failed": failed,
        "retries_used": retries_used,
        "elapsed_micros": elapsed,
        "budget_remaining": remaining_json(budget_remaining),
        "side_effects_committed": side_effects_committed,
        "plan_version": plan_version,
    })
}

/// A record of a run and the fields that it changed.
pub(crate) fn traced_json(traced: &TracedRecord) -> Value {
    let TracedRecord { seq, time, event, changes, replan } = traced;
    json!({
        "seq": seq,
        "time": time_json(*time),
        "event": event_json(event),
        "changes": changes.iter().map(change_json).collect::<Vec<_>>(),
        "replan": replan.as_ref().map(ToString::to_string),
    })
}

/// A record of a run whose changes cannot be computed.
pub(crate) fn untraced_json(record: &RecordedEvent, event: &Event) -> Value {
    json!({
        "seq": record.seq,
        "time": time_json(record.time),
        "event": event_json(event),
        "changes": null,
        "replan": null,
    })
}

pub(crate) fn change_json(change: &ValueChange) -> Value {
    let ValueChange { path, before, after } = change;
    json!({ "path": path, "before": before, "after": after })
}
