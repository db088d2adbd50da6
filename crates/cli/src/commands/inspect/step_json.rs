//! A step's story as the published JSON has it.

use serde_json::{Value, json};

use crate::output::Failure;
use plan_ledger::ledger::LedgerView;
use plan_ledger::plan::{Dependency, Hold, Micros, Ruling, StepState, Verdict};

use super::content::record_json;
use super::domain::reasons_text;
use super::event_json::{basis_json, receipt_json, verdict_json};
use super::page::{Page, time_json};
use super::reference::{barrier_word, text_of};
use super::step::{AttemptStory, Story};
use super::text::words;

pub(super) fn print(story: &Story<'_>, page: &mut Page<'_>) -> Result<(), Failure> {
    page.json("step", &step_json(story))?;
    for attempt in story.attempts() {
        page.json("attempt", &attempt_json(&attempt, &story.scene.view))?;
    }
    for moment in &story.history {
        page.json("record", &record_json(&moment.record, moment.proof, &moment.content))?;
    }
    Ok(())
}

fn step_json(story: &Story<'_>) -> Value {
    let Story { scene, run, number, .. } = story;
    let text = text_of(run, *number);
    let step = run.step(*number);
    let failure = step.and_then(|step| step.last_failure());
    let waiting = run.waiting_for(*number);
    json!({
        "run": run.id,
        "run_name": run.name,
        "step": number,
        "id": step.map(StepState::id),
        "status": step.map(|step| words(&step.status, '_')),
        "why": reasons_text(&scene.state, run, *number, scene.look.dir, scene.now),
        "waiting_for": waiting.iter().map(|on| dependency_json(story, on)).collect::<Vec<_>>(),
        "hold": step.map(|step| hold_json(step.hold())),
        "attempts": step.map(|step| step.attempts),
        "failures": step.map(|step| step.failures),
        "last_failure": failure.map(|(class, message)| {
            json!({ "class": words(class, '_'), "message": message })
        }),
        "accepted": step.and_then(|step| step.accepted()).map(basis_json),
        "version": text.map(|(version, _)| version),
        "plan": text.map(|(_, step)| step.whole()),
        "owner": step.and_then(|step| step.owner()),
    })
}

/// What else keeps it from being dealt.
fn hold_json(hold: &Hold) -> Value {
    let Hold {
        condition,
        preconditions,
        is_gate_open,
        question,
        answer,
        delay,
        fallback_step,
        is_standby,
    } = hold;
    let ruling = |ruling: &Ruling| words(ruling, '_');
    let judged = preconditions
        .iter()
        .map(|(place, each)| json!({ "precondition": place, "ruling": ruling(each) }));
    json!({
        "condition": condition.as_ref().map(ruling),
        "preconditions": judged.collect::<Vec<_>>(),
        "gate_open": is_gate_open,
        "question": question,
        "answer": answer.as_ref().map(|(answer, by)| json!({ "answer": answer, "by": by })),
        "delay": delay.map(time_json),
        "fallback_step": fallback_step,
        "standby": is_standby,
    })
}

fn dependency_json(story: &Story<'_>, dependency: &Dependency) -> Value {
    let run = story.run;
    match dependency {
        Dependency::Step(number) => {
            let step = run.step(*number);
            json!({
                "is": "step", "step": number, "id": step.map(StepState::id),
                "status": step.map(|step| words(&step.status, '_')),
            })
        }
        Dependency::Barrier(id) => {
            let barrier = run.barriers.get(id);
            json!({
                "is": "barrier", "barrier": id,
                "status": barrier.map(|barrier| barrier_word(barrier.status)),
            })
        }
        Dependency::Unknown(name) => json!({ "is": "unknown", "name": name }),
    }
}

fn attempt_json(attempt: &AttemptStory<'_>, view: &LedgerView) -> Value {
    let renewal = |(time, until): &(Micros, Micros)| json!({ "time": time_json(*time), "lease_until": time_json(*until) });
    let verdict = |(time, verdict): &(Micros, &Verdict)| json!({ "time": time_json(*time), "verdict": verdict_json(verdict) });
    let dealt = attempt.dealt;
    json!({
        "token": attempt.token,
        "attempt": dealt.map(|(_, dealt)| dealt.attempt),
        "worker": dealt.map(|(_, dealt)| &dealt.worker),
        "dealt": dealt.map(|(time, _)| time_json(time)),
        "lease_until": dealt.map(|(_, dealt)| time_json(dealt.lease_until)),
        "idempotency_key": dealt.map(|(_, dealt)| &dealt.idempotency_key),
        "renewals": attempt.renewals.iter().map(renewal).collect::<Vec<_>>(),
        "reported": attempt.receipt.map(|(time, _)| time_json(time)),
        "receipt": attempt.receipt.map(|(_, receipt)| receipt_json(receipt)),
        "blob": attempt
            .receipt
            .and_then(|(_, receipt)| view.blob_state(&receipt.output))
            .map(|state| state.to_string()),
        "verdicts": attempt.verdicts.iter().map(verdict).collect::<Vec<_>>(),
        "fate": attempt.fate(),
        "ended": attempt.end.map(|end| time_json(end.record.time)),
        "ended_seq": attempt.end.map(|end| end.record.seq),
        "receipts_refused": attempt.refused,
    })
}
