//! The JSON form of every event.
//!
//! Every struct is destructured field by field, so that a new field cannot be forgotten.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use plan_ledger::log::RecoveryNote;
use plan_ledger::plan::{
    Accepted, AcceptedBasis, Artifact, AttemptLost, BarrierChanged, BlobOutput, BudgetChanged,
    CapChanged, CapScope, Condition, ConditionJudged, Cost, CostCorrected, Decision, DelayElapsed,
    Dispatched, EffectCommitted, EffectIntended, Event, FailureDecided, InheritedStep, Json,
    LeaseRenewed, Origin, Outcome, OutcomeResolved, Output, PlanActivated, PlanProposed,
    PlanReviewed, PlanSteps, PlanVerdict, QuestionAnswer, QuestionAnswered, QuestionAsked,
    QuestionExpired, QuestionExpiry, Receipt, ReceiptRecorded, ReceiptRefused, Reopened,
    ReplanRequested, ReplanWithdrawn, RunEnded, RunForked, RunPaused, RunPolicy, RunReopened,
    RunResumed, RunStarted, Skipped, StepEvent, StepFailed, StepRecord, StepsInherited,
    VariableSet, Verdict, VerdictRecorded,
};

use crate::commands::inspect::output::time_json;
use crate::commands::inspect::style::words;
use crate::output::{
    limits_json, pause_cause_json, question_json as asked_json, question_timeout_json,
};
use crate::runner::trigger_json;

pub(crate) fn event_json(event: &Event) -> Value {
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
        Event::RunPaused(event) => paused_json(event),
        Event::RunResumed(event) => resumed_json(event),
        Event::BudgetChanged(event) => budget_json(event),
        Event::QuestionAsked(event) => question_asked_json(event),
        Event::QuestionAnswered(event) => question_answered_json(event),
        Event::QuestionExpired(event) => question_expired_json(event),
        Event::ReplanRequested(event) => requested_json(event),
        Event::ReplanWithdrawn(event) => withdrawn_json(event),
        Event::RunForked(event) => forked_json(event),
        Event::StepsInherited(event) => inherited_json(event),
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
                "decision": decision_json(decision), "rule": rule, "reason": reason,
                "disposition": words(disposition, '_'), "then": words(then, '_'),
            })
        }
        StepEvent::Skipped(Skipped { by, reason }) => json!({ "by": by, "reason": reason }),
        StepEvent::Reopened(Reopened { by }) => json!({ "by": by }),
        StepEvent::OutcomeResolved(OutcomeResolved { token, finding, by, evidence }) => json!({
            "token": token, "finding": words(finding, '_'), "by": by, "evidence": evidence,
        }),
        StepEvent::ConditionJudged(event) => judged_json(event),
        StepEvent::DelayElapsed(event) => elapsed_json(event),
        StepEvent::Asked(event) => json!(asked_json(event)),
        StepEvent::Answered(event) => answered_json(event),
        StepEvent::Expired(event) => expired_json(event),
        StepEvent::EffectIntended(event) => intended_json(event),
        StepEvent::EffectCommitted(event) => committed_json(event),
        StepEvent::CostCorrected(event) => corrected_json(event),
        StepEvent::Failed(event) => failed_json(event),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(crate) fn policy_json(policy: RunPolicy) -> Value {
    let RunPolicy { approval, text, on_failure } = policy;
    json!({
        "approval": words(&approval, '_'), "text": words(&text, '_'),
        "on_failure": words(&on_failure, '_'),
    })
}

pub(crate) fn receipt_json(receipt: &Receipt) -> Value {
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

/// The blob of an output; `null` if the output is in the record itself.
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

pub(crate) fn verdict_json(verdict: &Verdict) -> Value {
    let Verdict { criterion, ruling, by, evidence } = verdict;
    json!({
        "criterion": criterion, "ruling": words(ruling, '_'), "by": by, "evidence": evidence,
    })
}

/// The basis on which a step was accepted.
pub(crate) fn basis_json(basis: &AcceptedBasis) -> Value {
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

pub(crate) fn cost_json(cost: Cost) -> Value {
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

pub(crate) fn origin_json(origin: &Origin) -> Value {
    match origin {
        Origin::Step { step, token } => json!({ "is": "step", "step": step, "token": token }),
        Origin::Person(who) => json!({ "is": "person", "who": who }),
        Origin::Fallback { step } => json!({ "is": "fallback", "step": step }),
    }
}

pub(crate) fn scope_json(scope: &CapScope) -> Value {
    match scope {
        CapScope::Ledger => json!({ "is": "ledger" }),
        CapScope::Run(run) => json!({ "is": "run", "run": run }),
        CapScope::Owner(owner) => json!({ "is": "owner", "owner": owner }),
        CapScope::Tag(tag) => json!({ "is": "tag", "tag": tag }),
    }
}

pub(crate) fn recovery_json(note: &RecoveryNote) -> Value {
    let RecoveryNote { verdict, evidence, predecessor, discarded, survivors } = note;
    json!({
        "verdict": verdict, "evidence": evidence, "predecessor": predecessor,
        "discarded": discarded, "survivors": survivors,
    })
}

pub(crate) fn paused_json(RunPaused { run, cause, reason }: &RunPaused) -> Value {
    json!({ "run": run, "cause": pause_cause_json(cause), "reason": reason })
}

pub(crate) fn resumed_json(RunResumed { run, by }: &RunResumed) -> Value {
    json!({ "run": run, "by": by })
}

pub(crate) fn budget_json(BudgetChanged { run, limits, by }: &BudgetChanged) -> Value {
    json!({ "run": run, "limits": limits.map(limits_json), "by": by })
}

pub(crate) fn question_asked_json(QuestionAsked { run, asked }: &QuestionAsked) -> Value {
    json!({ "run": run, "asked": asked_json(asked) })
}

pub(crate) fn question_answered_json(event: &QuestionAnswered) -> Value {
    let QuestionAnswered { run, answered } = event;
    json!({ "run": run, "answered": answered_json(answered) })
}

pub(crate) fn question_expired_json(event: &QuestionExpired) -> Value {
    let QuestionExpired { run, expired } = event;
    json!({ "run": run, "expired": expired_json(expired) })
}

pub(crate) fn answered_json(answered: &QuestionAnswer) -> Value {
    let QuestionAnswer { question, answer, by, note, shown } = answered;
    json!({ "question": question, "answer": answer, "by": by, "note": note, "shown": shown })
}

pub(crate) fn expired_json(QuestionExpiry { question, then }: &QuestionExpiry) -> Value {
    json!({ "question": question, "then": then.as_ref().map(question_timeout_json) })
}

pub(crate) fn requested_json(event: &ReplanRequested) -> Value {
    let ReplanRequested { run, trigger, from, reason } = event;
    json!({ "run": run, "trigger": trigger_json(trigger), "from": from, "reason": reason })
}

pub(crate) fn withdrawn_json(event: &ReplanWithdrawn) -> Value {
    let ReplanWithdrawn { run, by, reason } = event;
    json!({ "run": run, "by": by, "reason": reason })
}

pub(crate) fn forked_json(event: &RunForked) -> Value {
    let RunForked { run, parent, at_seq, chain, spent } = event;
    json!({
        "run": run, "parent": parent, "at_seq": at_seq, "chain": chain, "spent": cost_json(*spent),
    })
}

pub(crate) fn inherited_json(StepsInherited { run, steps }: &StepsInherited) -> Value {
    let step = |each: &InheritedStep| {
        let InheritedStep { step, status, attempts, failures, accepted, last_failure } = each;
        let failure = last_failure.as_ref();
        json!({
            "step": step, "status": words(status, '_'), "attempts": attempts, "failures": failures,
            "accepted": accepted.as_ref().map(basis_json),
            "last_failure": failure.map(|(class, message)| {
                json!({ "class": words(class, '_'), "message": message })
            }),
        })
    };
    json!({ "run": run, "steps": steps.iter().map(step).collect::<Vec<_>>() })
}

/// The decision about a failed attempt.
pub(crate) fn decision_json(decision: &Decision) -> Value {
    match decision {
        Decision::RetryAt(due) => json!({ "is": "retry_at", "due": time_json(*due) }),
        Decision::Retry
        | Decision::Fail
        | Decision::Fallback
        | Decision::Replan
        | Decision::Escalate
        | Decision::Abort
        | Decision::OutcomeUnknown => json!({ "is": words(decision, '_') }),
    }
}

pub(crate) fn judged_json(event: &ConditionJudged) -> Value {
    let ConditionJudged { which, ruling, evidence } = event;
    let (which, precondition) = match which {
        Condition::RunIf => ("condition", None),
        Condition::Pre(place) => ("precondition", Some(place)),
    };
    json!({
        "which": which, "precondition": precondition, "ruling": words(ruling, '_'),
        "evidence": evidence,
    })
}

pub(crate) fn elapsed_json(DelayElapsed { due }: &DelayElapsed) -> Value {
    json!({ "due": time_json(*due) })
}

pub(crate) fn intended_json(event: &EffectIntended) -> Value {
    let EffectIntended { token, effect, key } = event;
    json!({ "token": token, "effect": effect, "key": key })
}

pub(crate) fn committed_json(EffectCommitted { token, key }: &EffectCommitted) -> Value {
    json!({ "token": token, "key": key })
}

pub(crate) fn corrected_json(event: &CostCorrected) -> Value {
    let CostCorrected { token, cost, charged, by } = event;
    json!({ "token": token, "cost": cost_json(*cost), "charged": cost_json(*charged), "by": by })
}

pub(crate) fn failed_json(event: &StepFailed) -> Value {
    let StepFailed { class, rule, reason } = event;
    json!({ "class": words(class, '_'), "rule": rule, "reason": reason })
}
