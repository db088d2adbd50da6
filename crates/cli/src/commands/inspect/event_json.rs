//! Events as the published JSON has them: names in lower case, JSON values as themselves.
//!
//! Every struct is taken apart field by field, so that a new field cannot be forgotten.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use plan_ledger::log::RecoveryNote;
use plan_ledger::plan::{
    Accepted, AcceptedBasis, Artifact, AttemptLost, BarrierChanged, BlobOutput, CapChanged,
    CapScope, Cost, Dispatched, DoubtResolved, Event, FailureDecided, Json, LeaseRenewed, Origin,
    Outcome, Output, PlanActivated, PlanProposed, PlanReviewed, PlanSteps, PlanVerdict, Receipt,
    ReceiptRecorded, ReceiptRefused, Reopened, RunEnded, RunPolicy, RunReopened, RunStarted,
    Skipped, StepEvent, StepRecord, VariableSet, Verdict, VerdictRecorded,
};

use super::control_json as control;
use super::page::time_json;
use super::text::words;

/// An event's fields.
pub(super) fn event_json(event: &Event) -> Value {
    match event {
        Event::RunStarted(RunStarted { run, name, policy }) => {
            json!({ "run": run, "name": name, "policy": policy_json(*policy) })
        }
        Event::PlanProposed(event) => {
            let PlanProposed { run, version, hash, reason, header, step_count } = event;
            json!({
                "run": run, "version": version, "hash": hash, "reason": reason,
                "header": header, "step_count": step_count,
            })
        }
        Event::PlanSteps(PlanSteps { run, version, steps }) => {
            json!({ "run": run, "version": version, "steps": steps })
        }
        Event::PlanReviewed(event) => {
            let PlanReviewed { run, version, hash, review, by, note } = event;
            json!({
                "run": run, "version": version, "hash": hash, "review": words(review, '_'),
                "by": by, "note": note,
            })
        }
        Event::PlanActivated(event) => activated_json(event),
        Event::Step(StepRecord { run, step, previous, event }) => {
            let mut fields = step_event_json(event);
            fields.extend([
                ("run".to_owned(), json!(run)),
                ("step".to_owned(), json!(step)),
                ("previous".to_owned(), json!(previous)),
            ]);
            Value::Object(fields)
        }
        Event::PlanVerdict(PlanVerdict { run, version, verdict }) => {
            json!({ "run": run, "version": version, "verdict": verdict_json(verdict) })
        }
        Event::VariableSet(VariableSet { run, name, value, version, origin, since }) => json!({
            "run": run, "name": name, "value": value.value(), "version": version,
            "origin": origin_json(origin), "since": (*since != 0).then(|| time_json(*since)),
        }),
        Event::Barrier(BarrierChanged { run, barrier, change, arrived, needed }) => json!({
            "run": run, "barrier": barrier, "change": words(change, '_'), "arrived": arrived,
            "needed": needed,
        }),
        Event::CapChanged(CapChanged { scope, limit, by }) => {
            json!({ "scope": scope_json(scope), "limit": limit, "by": by })
        }
        Event::RunEnded(RunEnded { run, ending, reason }) => {
            json!({ "run": run, "ending": words(ending, '_'), "reason": reason })
        }
        Event::RunReopened(RunReopened { run, by }) => json!({ "run": run, "by": by }),
        Event::RunPaused(event) => control::paused_json(event),
        Event::RunResumed(event) => control::resumed_json(event),
        Event::BudgetChanged(event) => control::budget_json(event),
        Event::QuestionAsked(event) => control::question_asked_json(event),
        Event::QuestionAnswered(event) => control::question_answered_json(event),
        Event::QuestionExpired(event) => control::question_expired_json(event),
        Event::ReplanRequested(event) => control::requested_json(event),
        Event::ReplanWithdrawn(event) => control::withdrawn_json(event),
        Event::RunForked(event) => control::forked_json(event),
        Event::StepsInherited(event) => control::inherited_json(event),
    }
}

fn step_event_json(event: &StepEvent) -> Map<String, Value> {
    let value = match event {
        StepEvent::Dispatched(event) => {
            let Dispatched { attempt, worker, lease_until, idempotency_key, reserved } = event;
            json!({
                "attempt": attempt, "worker": worker, "lease_until": time_json(*lease_until),
                "idempotency_key": idempotency_key, "reserved": cost_json(*reserved),
            })
        }
        StepEvent::LeaseRenewed(LeaseRenewed { token, lease_until }) => {
            json!({ "token": token, "lease_until": time_json(*lease_until) })
        }
        StepEvent::AttemptLost(AttemptLost { token, cause, detail, then }) => json!({
            "token": token, "cause": words(cause, '_'), "detail": detail,
            "then": words(then, '_'),
        }),
        StepEvent::ReceiptRecorded(ReceiptRecorded { token, receipt }) => {
            json!({ "token": token, "receipt": receipt_json(receipt) })
        }
        StepEvent::ReceiptRefused(ReceiptRefused { token, reason, receipt }) => {
            json!({ "token": token, "reason": reason, "receipt": receipt_json(receipt) })
        }
        StepEvent::VerdictRecorded(VerdictRecorded { token, verdict }) => {
            json!({ "token": token, "verdict": verdict_json(verdict) })
        }
        StepEvent::Accepted(Accepted { basis }) => json!({ "basis": basis_json(basis) }),
        StepEvent::FailureDecided(event) => {
            let FailureDecided { token, class, decision, rule, reason, disposition, then } = event;
            json!({
                "token": token, "class": words(class, '_'),
                "decision": control::decision_json(decision), "rule": rule, "reason": reason,
                "disposition": words(disposition, '_'), "then": words(then, '_'),
            })
        }
        StepEvent::Skipped(Skipped { by, reason }) => json!({ "by": by, "reason": reason }),
        StepEvent::Reopened(Reopened { by }) => json!({ "by": by }),
        StepEvent::DoubtResolved(DoubtResolved { token, finding, by, evidence }) => json!({
            "token": token, "finding": words(finding, '_'), "by": by, "evidence": evidence,
        }),
        StepEvent::ConditionJudged(event) => control::judged_json(event),
        StepEvent::DelayElapsed(event) => control::elapsed_json(event),
        StepEvent::Asked(event) => control::asked_json(event),
        StepEvent::Answered(event) => control::answered_json(event),
        StepEvent::Expired(event) => control::expired_json(event),
        StepEvent::EffectIntended(event) => control::intended_json(event),
        StepEvent::EffectCommitted(event) => control::committed_json(event),
        StepEvent::CostCorrected(event) => control::corrected_json(event),
        StepEvent::Failed(event) => control::failed_json(event),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A run's policy.
pub(super) fn policy_json(policy: RunPolicy) -> Value {
    let RunPolicy { approval, text, on_failure } = policy;
    json!({
        "approval": words(&approval, '_'), "text": words(&text, '_'),
        "on_failure": words(&on_failure, '_'),
    })
}

/// What a worker returned.
pub(super) fn receipt_json(receipt: &Receipt) -> Value {
    let Receipt { outcome, output, variables, artifacts, side_effects, cost, .. } = receipt;
    let Receipt { duration, log_tail, disposition, .. } = receipt;
    let variable = |(name, value): &(String, Json)| json!({ "name": name, "value": value.value() });
    let artifact = |Artifact { path, hash }: &Artifact| json!({ "path": path, "hash": hash });
    json!({
        "outcome": outcome_json(outcome),
        "output": output.inline().map(Json::value),
        "output_blob": blob_json(output),
        "variables": variables.iter().map(variable).collect::<Vec<_>>(),
        "artifacts": artifacts.iter().map(artifact).collect::<Vec<_>>(),
        "side_effects": side_effects,
        "cost": cost_json(*cost),
        "duration_micros": duration,
        "log_tail": log_tail,
        "disposition": disposition.as_ref().map(|disposition| words(disposition, '_')),
    })
}

/// Where an output is that is not in the record; `null` for one that is.
fn blob_json(output: &Output) -> Value {
    let Output::Blob(BlobOutput { hash, length, values }) = output else { return Value::Null };
    let values: Map<_, _> =
        values.iter().map(|(name, value)| (name.clone(), value.value())).collect();
    json!({ "hash": hash, "length": length, "values": values })
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Succeeded => json!({ "is": "succeeded" }),
        Outcome::Failed { class, message, payload } => json!({
            "is": "failed", "class": words(class, '_'), "message": message,
            "payload": payload.value(),
        }),
        Outcome::ReplanRequested { reason } => {
            json!({ "is": "replan_requested", "reason": reason })
        }
    }
}

/// The judgement of one criterion.
pub(super) fn verdict_json(verdict: &Verdict) -> Value {
    let Verdict { criterion, ruling, by, evidence } = verdict;
    json!({
        "criterion": criterion, "ruling": words(ruling, '_'), "by": by, "evidence": evidence,
    })
}

/// On what grounds a step counts as done.
pub(super) fn basis_json(basis: &AcceptedBasis) -> Value {
    match basis {
        AcceptedBasis::Receipt => json!({ "is": "receipt" }),
        AcceptedBasis::Verdicts => json!({ "is": "verdicts" }),
        AcceptedBasis::WorkersWord => json!({ "is": "workers_word" }),
        AcceptedBasis::DoneBefore { source } => json!({ "is": "done_before", "source": source }),
        AcceptedBasis::Landed { by } => json!({ "is": "landed", "by": by }),
        AcceptedBasis::FallbackStep { step } => json!({ "is": "fallback_step", "step": step }),
        AcceptedBasis::Fallback { reason } => json!({ "is": "fallback", "reason": reason }),
    }
}

/// What attempts cost.
pub(super) fn cost_json(cost: Cost) -> Value {
    let Cost { money_micros, tokens } = cost;
    json!({ "money_micros": money_micros, "tokens": tokens })
}

fn activated_json(event: &PlanActivated) -> Value {
    let PlanActivated { run, version, numbers, preserved, invalidated, removed, .. } = event;
    let PlanActivated { added, trusted, untrusted, request, held, answers, since, .. } = event;
    let answers: BTreeMap<_, _> = answers.iter().cloned().collect();
    let since = (*since != 0).then(|| time_json(*since));
    json!({
        "run": run, "version": version, "numbers": numbers, "preserved": preserved,
        "invalidated": invalidated, "removed": removed, "added": added,
        "trusted": trusted, "untrusted": untrusted, "request": request, "held": held,
        "answers": answers, "since": since,
    })
}

pub(super) fn origin_json(origin: &Origin) -> Value {
    match origin {
        Origin::Step { step, token } => json!({ "is": "step", "step": step, "token": token }),
        Origin::Person(who) => json!({ "is": "person", "who": who }),
        Origin::Fallback { step } => json!({ "is": "fallback", "step": step }),
    }
}

pub(super) fn scope_json(scope: &CapScope) -> Value {
    match scope {
        CapScope::Ledger => json!({ "is": "ledger" }),
        CapScope::Run(run) => json!({ "is": "run", "run": run }),
        CapScope::Owner(owner) => json!({ "is": "owner", "owner": owner }),
        CapScope::Tag(tag) => json!({ "is": "tag", "tag": tag }),
    }
}

/// What a fence left behind.
pub(super) fn note_json(note: &RecoveryNote) -> Value {
    let RecoveryNote { verdict, evidence, predecessor, discarded, survivors } = note;
    json!({
        "verdict": verdict, "evidence": evidence, "predecessor": predecessor,
        "discarded": discarded, "survivors": survivors,
    })
}
