//! Events about pauses, budgets, questions, requests and forks, as the published JSON has them.
//!
//! Every struct is taken apart field by field, so that a new field cannot be forgotten.

use serde_json::{Value, json};

use plan_ledger::plan::{
    Answered, Asked, BudgetChanged, Condition, ConditionJudged, CostCorrected, Decision,
    DelayElapsed, EffectCommitted, EffectIntended, Expired, InheritedStep, Limits, OnTimeout,
    PauseCause, QuestionAnswered, QuestionAsked, QuestionExpired, ReplanRequested, ReplanWithdrawn,
    RunForked, RunPaused, RunResumed, StepFailed, StepsInherited, Subject,
};

pub(in crate::commands) use crate::runner::trigger_json;

use super::event_json::{basis_json, cost_json};
use super::page::time_json;
use super::text::words;

pub(super) fn paused_json(RunPaused { run, cause, reason }: &RunPaused) -> Value {
    json!({ "run": run, "cause": cause_json(cause), "reason": reason })
}

/// Why a run pauses.
pub(in crate::commands) fn cause_json(cause: &PauseCause) -> Value {
    match cause {
        PauseCause::Person(by) => json!({ "is": "person", "by": by }),
        PauseCause::RunBudget(part) => json!({ "is": "run_budget", "part": words(part, '_') }),
        PauseCause::LedgerBudget(part) => {
            json!({ "is": "ledger_budget", "part": words(part, '_') })
        }
        PauseCause::StepLimit(step) => json!({ "is": "step_limit", "step": step }),
    }
}

pub(super) fn resumed_json(RunResumed { run, by }: &RunResumed) -> Value {
    json!({ "run": run, "by": by })
}

pub(super) fn budget_json(BudgetChanged { run, limits, by }: &BudgetChanged) -> Value {
    json!({ "run": run, "limits": limits.map(limits_json), "by": by })
}

/// What may be spent.
pub(in crate::commands) fn limits_json(limits: Limits) -> Value {
    let Limits { money_micros, tokens, attempts, wall_seconds } = limits;
    json!({
        "money_micros": money_micros, "tokens": tokens, "attempts": attempts,
        "wall_seconds": wall_seconds,
    })
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

/// A question.
pub(in crate::commands) fn asked_json(asked: &Asked) -> Value {
    let Asked { subject, text, shown, options, to, deadline, on_timeout } = asked;
    json!({
        "subject": subject_json(subject), "text": text, "shown": shown, "options": options,
        "to": to, "deadline": deadline.map(time_json),
        "on_timeout": on_timeout.as_ref().map(timeout_json),
    })
}

pub(super) fn subject_json(subject: &Subject) -> Value {
    match subject {
        Subject::Gate => json!({ "is": "gate" }),
        Subject::Failure(token) => json!({ "is": "failure", "token": token }),
        Subject::Plan(version) => json!({ "is": "plan", "version": version }),
        Subject::Budget => json!({ "is": "budget" }),
        Subject::Barrier(id) => json!({ "is": "barrier", "barrier": id }),
    }
}

pub(super) fn timeout_json(then: &OnTimeout) -> Value {
    match then {
        OnTimeout::EscalateTo(who) => json!({ "is": "escalate_to", "who": who }),
        OnTimeout::Answer(answer) => json!({ "is": "answer", "answer": answer }),
        OnTimeout::Abort => json!({ "is": "abort" }),
    }
}

pub(super) fn answered_json(answered: &Answered) -> Value {
    let Answered { question, answer, by, note, shown } = answered;
    json!({ "question": question, "answer": answer, "by": by, "note": note, "shown": shown })
}

pub(super) fn expired_json(Expired { question, then }: &Expired) -> Value {
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
