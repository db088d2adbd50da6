//! Events about pauses, budgets, questions, requests and forks, as the published JSON has them.
//!
//! Every struct is taken apart field by field, so that a new field cannot be forgotten.

use serde_json::{Value, json};

use plan_ledger::plan::{
    BudgetChanged, Condition, ConditionJudged, CostCorrected, Decision, DelayElapsed,
    EffectCommitted, EffectIntended, InheritedStep, QuestionAnswer, QuestionAnswered,
    QuestionAsked, QuestionExpired, QuestionExpiry, ReplanRequested, ReplanWithdrawn, RunForked,
    RunPaused, RunResumed, StepFailed, StepsInherited,
};

pub(super) use crate::output::{
    limits_json, pause_cause_json as cause_json, question_json as asked_json,
    question_subject_json as subject_json, question_timeout_json as timeout_json,
};
pub(super) use crate::runner::trigger_json;

use super::event_json::{basis_json, cost_json};
use super::page::time_json;
use super::text::words;

pub(super) fn paused_json(RunPaused { run, cause, reason }: &RunPaused) -> Value {
    json!({ "run": run, "cause": cause_json(cause), "reason": reason })
}

pub(super) fn resumed_json(RunResumed { run, by }: &RunResumed) -> Value {
    json!({ "run": run, "by": by })
}

pub(super) fn budget_json(BudgetChanged { run, limits, by }: &BudgetChanged) -> Value {
    json!({ "run": run, "limits": limits.map(limits_json), "by": by })
}

pub(super) fn question_asked_json(QuestionAsked { run, asked }: &QuestionAsked) -> Value {
    json!({ "run": run, "asked": asked_json(asked) })
}

pub(super) fn question_answered_json(event: &QuestionAnswered) -> Value {
    let QuestionAnswered { run, answered } = event;
    json!({ "run": run, "answered": answered_json(answered) })
}

pub(super) fn question_expired_json(event: &QuestionExpired) -> Value {
    let QuestionExpired { run, expired } = event;
    json!({ "run": run, "expired": expired_json(expired) })
}

pub(super) fn answered_json(answered: &QuestionAnswer) -> Value {
    let QuestionAnswer { question, answer, by, note, shown } = answered;
    json!({ "question": question, "answer": answer, "by": by, "note": note, "shown": shown })
}

pub(super) fn expired_json(QuestionExpiry { question, then }: &QuestionExpiry) -> Value {
    json!({ "question": question, "then": then.as_ref().map(timeout_json) })
}

pub(super) fn requested_json(event: &ReplanRequested) -> Value {
    let ReplanRequested { run, trigger, from, reason } = event;
    json!({ "run": run, "trigger": trigger_json(trigger), "from": from, "reason": reason })
}

pub(super) fn withdrawn_json(event: &ReplanWithdrawn) -> Value {
    let ReplanWithdrawn { run, by, reason } = event;
    json!({ "run": run, "by": by, "reason": reason })
}

pub(super) fn forked_json(event: &RunForked) -> Value {
    let RunForked { run, parent, at_seq, chain, spent } = event;
    json!({
        "run": run, "parent": parent, "at_seq": at_seq, "chain": chain, "spent": cost_json(*spent),
    })
}

pub(super) fn inherited_json(StepsInherited { run, steps }: &StepsInherited) -> Value {
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

/// What is done about a failure.
pub(super) fn decision_json(decision: &Decision) -> Value {
    match decision {
        Decision::RetryAt(due) => json!({ "is": "retry_at", "due": time_json(*due) }),
        Decision::Retry
        | Decision::Fail
        | Decision::Fallback
        | Decision::Replan
        | Decision::Escalate
        | Decision::Abort
        | Decision::Doubt => json!({ "is": words(decision, '_') }),
    }
}

pub(super) fn judged_json(event: &ConditionJudged) -> Value {
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

pub(super) fn elapsed_json(DelayElapsed { due }: &DelayElapsed) -> Value {
    json!({ "due": time_json(*due) })
}

pub(super) fn intended_json(event: &EffectIntended) -> Value {
    let EffectIntended { token, effect, key } = event;
    json!({ "token": token, "effect": effect, "key": key })
}

pub(super) fn committed_json(EffectCommitted { token, key }: &EffectCommitted) -> Value {
    json!({ "token": token, "key": key })
}

pub(super) fn corrected_json(event: &CostCorrected) -> Value {
    let CostCorrected { token, cost, charged, by } = event;
    json!({ "token": token, "cost": cost_json(*cost), "charged": cost_json(*charged), "by": by })
}

pub(super) fn failed_json(event: &StepFailed) -> Value {
    let StepFailed { class, rule, reason } = event;
    json!({ "class": words(class, '_'), "rule": rule, "reason": reason })
}
