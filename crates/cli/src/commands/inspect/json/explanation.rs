//! The JSON form of an explanation: why a step is not dispatched.
//!
//! Every reason is destructured field by field, so that a new field cannot be forgotten.

use serde_json::{Value, json};

use plan_ledger::internals::plan::{
    BlockReason, BlockingAttempt, BlockingBarrier, BudgetShortage, Explanation, StepReasons,
};
use plan_ledger::{FailureClass, Run, StepNumber};

use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::output::time_json;
use crate::commands::inspect::style::words;
use crate::json::ReplanRequestJson;
use crate::output::{pause_cause_json, question_subject_json};

use super::event::scope_json;

pub(crate) fn explanation_json(run: &Run, found: &Explanation) -> Value {
    let steps = found.steps.iter().map(|(number, entry)| step_json(*number, entry));
    let run_reasons = found.run_reasons.iter().map(reason_json);
    json!({
        "run": run.id,
        "run_name": run.name,
        "step": found.step,
        "now": time_json(found.now),
        "may_be_dispatched": found.may_be_dispatched(),
        "run_reasons": run_reasons.collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
        "roots": found.roots(),
        "request": found.request.as_ref().map(ReplanRequestJson::from),
    })
}

fn step_json(number: StepNumber, entry: &StepReasons) -> Value {
    let StepReasons { id, status, reasons } = entry;
    json!({
        "step": number,
        "id": id,
        "status": words(status, '_'),
        "reasons": reasons.iter().map(reason_json).collect::<Vec<_>>(),
    })
}

pub(crate) fn reason_json(reason: &BlockReason) -> Value {
    let word = |ruling: &Option<plan_ledger::Ruling>| ruling.map(|ruling| words(&ruling, '_'));
    match reason {
        BlockReason::RunEnded(ending) => json!({ "is": "run_ended", "ending": words(ending, '_') }),
        BlockReason::NoActivePlan { proposed } => {
            let version = |(version, hash): &_| json!({ "version": version, "hash": hash });
            let proposed: Vec<_> = proposed.iter().map(version).collect();
            json!({ "is": "no_active_plan", "proposed": proposed })
        }
        BlockReason::Paused(cause) => json!({ "is": "paused", "cause": pause_cause_json(cause) }),
        BlockReason::Stopping(why) => json!({ "is": "stopping", "why": why }),
        BlockReason::Removed => json!({ "is": "removed" }),
        BlockReason::Step { step, id, status } => {
            json!({ "is": "step", "step": step, "id": id, "status": words(status, '_') })
        }
        BlockReason::Barrier(missing) => barrier_json(missing),
        BlockReason::Unknown(name) => json!({ "is": "unknown", "name": name }),
        BlockReason::Condition { expression, ruling } => {
            json!({ "is": "condition", "expression": expression, "ruling": word(ruling) })
        }
        BlockReason::Precondition { index, expression, ruling, variables, writers } => json!({
            "is": "precondition", "precondition": index, "expression": expression,
            "ruling": word(ruling), "variables": variables, "writers": writers,
        }),
        BlockReason::Question { question, subject, text, to, deadline, options } => json!({
            "is": "question", "question": question, "subject": question_subject_json(subject), "text": text,
            "to": to, "deadline": deadline.map(time_json), "options": options,
        }),
        BlockReason::Gate => json!({ "is": "gate" }),
        BlockReason::Delay { until, after } => {
            json!({ "is": "delay", "until": time_json(*until), "after": after })
        }
        BlockReason::Fallback(step) => json!({ "is": "fallback", "step": step }),
        BlockReason::FallbackFor(steps) => json!({ "is": "fallback_for", "steps": steps }),
        BlockReason::Cap { scope, within, limit, attempts } => json!({
            "is": "cap", "scope": scope_json(scope), "within": within, "limit": limit,
            "attempts": attempts.iter().map(attempt_json).collect::<Vec<_>>(),
        }),
        BlockReason::Budget(shortage) => shortage_json(shortage),
        BlockReason::Dispatched(attempt) => {
            json!({ "is": "dispatched", "attempt": attempt_json(attempt) })
        }
        BlockReason::Reported { token, unjudged, undecided } => json!({
            "is": "reported", "token": token, "unjudged": unjudged,
            "undecided": undecided.as_ref().map(failure_json),
        }),
        BlockReason::OutcomeUnknown(attempt) => {
            json!({ "is": "outcome_unknown", "attempt": attempt_json(attempt) })
        }
        BlockReason::Failed(failure) => {
            json!({ "is": "failed", "failure": failure.as_ref().map(failure_json) })
        }
        BlockReason::Cancelled => json!({ "is": "cancelled" }),
    }
}

fn barrier_json(missing: &BlockingBarrier) -> Value {
    let BlockingBarrier {
        id,
        status,
        needed,
        arrived,
        missing,
        failed,
        deadline,
        is_late,
        question,
    } = missing;
    json!({
        "is": "barrier", "barrier": id, "status": barrier_word(*status), "needed": needed,
        "arrived": arrived, "missing": missing, "failed": failed,
        "deadline": deadline.map(time_json), "late": is_late, "question": question,
    })
}

fn attempt_json(attempt: &BlockingAttempt) -> Value {
    let BlockingAttempt { run, step, id, token, worker, lease_until } = attempt;
    json!({
        "run": run, "step": step, "id": id, "token": token, "worker": worker,
        "lease_until": time_json(*lease_until),
    })
}

fn shortage_json(shortage: &BudgetShortage) -> Value {
    let BudgetShortage { run, part, spent, reserved, needed, limit } = shortage;
    json!({
        "is": "budget", "run": run, "part": words(part, '_'), "spent": spent,
        "reserved": reserved, "needed": needed, "limit": limit,
    })
}

fn failure_json((class, message): &(FailureClass, String)) -> Value {
    json!({ "class": words(class, '_'), "message": message })
}
