//! The JSON lines of `ledger run`: progress, summary, and the items that a run waits for
//! (`format/cli-json.md`).

use serde_json::{Value, json};

use plan_ledger::internals::plan::ResolvedOutcome;
use plan_ledger::{ContentHash, Json, Ruling};

use crate::protocol::{StepName, code_of, describe, trigger_json};
use crate::runner::{Pending, Progress, RunOutcome, RunSummary, Unrecorded};

use super::budget::pause_cause_json;
use super::question::question_json;
use super::run_text::outcome_name;

/// The line for an event of a run; `None` for events that have none.
pub(super) fn progress_json(progress: &Progress) -> Option<Value> {
    let mut value = match progress {
        Progress::Lost { token, detail, status, .. } => json!({
            "type": "lost", "token": token.0, "detail": detail, "status": status.to_string(),
        }),
        Progress::Dispatched { title, attempt, token, worker, .. } => json!({
            "type": "dispatched", "title": title, "attempt": attempt, "token": token.0,
            "worker": worker,
        }),
        Progress::Receipt { token, outcome, message, duration, status, .. } => json!({
            "type": "receipt", "token": token.0, "outcome": outcome, "message": message,
            "duration_micros": duration, "status": status.to_string(),
        }),
        Progress::Refused { token, reason, .. } => json!({
            "type": "refused", "token": token.0, "reason": reason,
        }),
        Progress::Verdict { criterion, ruling, by, evidence, status, .. } => json!({
            "type": "verdict", "criterion": criterion, "ruling": ruling_name(*ruling),
            "by": by, "evidence": evidence, "status": status.map(|status| status.to_string()),
        }),
        Progress::Probed { finding, evidence, status, .. } => json!({
            "type": "probed", "finding": finding.map(finding_name), "evidence": evidence,
            "status": status.to_string(),
        }),
        Progress::Waiting { until, reason } => json!({
            "type": "waiting", "until_micros": until, "reason": reason,
        }),
        Progress::Draining { reason, running } => json!({
            "type": "draining", "reason": reason, "running": running,
        }),
        Progress::Proposed { version, by, is_active } => json!({
            "type": "proposed", "version": version, "by": by, "is_active": is_active,
        }),
        Progress::Noted { note, .. } => json!({ "type": "noted", "note": note }),
        Progress::Started { .. } | Progress::Counted { .. } => return None,
    };
    if let (Some(step), Some(object)) = (step_of(progress), value.as_object_mut()) {
        object.insert("step".to_owned(), json!(step.id));
        object.insert("number".to_owned(), json!(step.number.0));
    }
    Some(value)
}

fn step_of(progress: &Progress) -> Option<&StepName> {
    match progress {
        Progress::Lost { step, .. }
        | Progress::Dispatched { step, .. }
        | Progress::Started { step }
        | Progress::Receipt { step, .. }
        | Progress::Probed { step, .. }
        | Progress::Refused { step, .. } => Some(step),
        Progress::Verdict { step, .. } | Progress::Noted { step, .. } => step.as_ref(),
        Progress::Draining { .. }
        | Progress::Waiting { .. }
        | Progress::Proposed { .. }
        | Progress::Counted { .. } => None,
    }
}

fn finding_name(finding: ResolvedOutcome) -> &'static str {
    match finding {
        ResolvedOutcome::Landed => "landed",
        ResolvedOutcome::DidNotHappen => "did_not_happen",
    }
}

fn ruling_name(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Pass => "pass",
        Ruling::Fail => "fail",
    }
}

/// The last line. `state` is the hash of the live state after record `seq`.
pub(crate) fn summary_json(summary: &RunSummary, seq: u64, state: ContentHash) -> Value {
    let RunSummary { run, outcome, counts, session, failures, failed_criteria, notes, seen: _ } =
        summary;
    let failures: Vec<Value> = failures
        .iter()
        .map(|(step, class, message)| {
            json!({ "step": step.id, "number": step.number.0, "class": class, "message": message })
        })
        .collect();
    let failed_criteria: Vec<Value> = failed_criteria
        .iter()
        .map(|(criterion, evidence)| json!({ "criterion": criterion, "evidence": evidence }))
        .collect();
    let mut value = json!({
        "type": "summary",
        "run": run,
        "seq": seq,
        "state_hash": state.to_string(),
        "outcome": outcome_name(outcome),
        "steps": counts.steps,
        "accepted": counts.accepted,
        "taken_over": counts.taken_over,
        "trusted": counts.trusted,
        "skipped": counts.skipped,
        "failed": counts.failed,
        "attempts": counts.attempts,
        "cost": counts.cost,
        "elapsed_micros": counts.elapsed,
        "session": {
            "dispatched": session.dispatched,
            "receipts": session.receipts,
            "retries": session.retries,
            "lost": session.lost,
            "refused": session.refused,
            "duration_micros": session.duration,
        },
        "failures": failures,
        "failed_criteria": failed_criteria,
        "notes": notes.iter().map(note_json).collect::<Vec<_>>(),
    });
    let Some(object) = value.as_object_mut() else { return value };
    match outcome {
        RunOutcome::Waiting(items) => {
            object.insert("waiting_for".to_owned(), items.iter().map(pending_json).collect());
        }
        RunOutcome::Stopped { error, unrecorded } => {
            object.insert("error".to_owned(), json!(error.to_string()));
            object.insert("exit_code".to_owned(), json!(code_of(error).number()));
            object
                .insert("unrecorded".to_owned(), unrecorded.iter().map(unrecorded_json).collect());
        }
        _ => {}
    }
    value
}

fn note_json((step, note): &(Option<StepName>, String)) -> Value {
    json!({
        "step": step.as_ref().map(|step| step.id.as_str()),
        "number": step.as_ref().map(|step| step.number.0), "note": note,
    })
}

/// An item that a run waits for.
pub(crate) fn pending_json(item: &Pending) -> Value {
    let named = |step: &Option<StepName>| {
        (step.as_ref().map(|step| step.id.clone()), step.as_ref().map(|step| step.number.0))
    };
    match item {
        Pending::Question { id, step, asked } => {
            let (step, number) = named(step);
            json!({
                "kind": "question", "question": id.0, "step": step, "number": number,
                "asked": question_json(asked),
            })
        }
        Pending::Review { version, hash } => {
            json!({ "kind": "review", "version": version, "hash": hash })
        }
        Pending::Paused { cause } => json!({ "kind": "paused", "cause": pause_cause_json(cause) }),
        Pending::Replan { trigger, from, reason } => {
            let (step, number) = named(from);
            json!({
                "kind": "replan", "trigger": trigger_json(trigger), "step": step,
                "number": number, "reason": reason,
            })
        }
        Pending::Decision { step, message } => json!({
            "kind": "decision", "step": step.id, "number": step.number.0, "message": message,
        }),
        Pending::Verdicts { step, criteria } => json!({
            "kind": "verdicts", "step": step.id, "number": step.number.0, "criteria": criteria,
        }),
        Pending::PlanVerdicts { criteria } => {
            json!({ "kind": "plan_verdicts", "criteria": criteria })
        }
        Pending::OutcomeUnknown { step } => {
            json!({ "kind": "outcome_unknown", "step": step.id, "number": step.number.0 })
        }
        Pending::Held { step, worker, lease_until } => json!({
            "kind": "held", "step": step.id, "number": step.number.0, "worker": worker,
            "lease_until_micros": lease_until,
        }),
        Pending::Caps { ready } => json!({ "kind": "caps", "ready": ready }),
        Pending::Blocked { steps } => json!({ "kind": "blocked", "steps": steps }),
    }
}

fn unrecorded_json(item: &Unrecorded) -> Value {
    let (outcome, message) = describe(&item.receipt.outcome);
    json!({
        "step": item.step.id, "number": item.step.number.0, "token": item.token.0,
        "outcome": outcome, "message": message,
        "output": item.receipt.output.inline().map(Json::value),
    })
}
