//! What follows from a step that is open: conditions, preconditions, gates, and standing in.
//!
//! Invariant: a step whose dependencies are settled is asked about in this order, and each question
//! has its own event: run it at all, are its preconditions met, may it go ahead.

use std::collections::BTreeSet;

use super::criteria::judge;
use crate::plan::event::Event;
use crate::plan::event::question::{Asked, NO, SKIP, Subject, YES};
use crate::plan::event::run_event::{ReplanRequested, ReplanTrigger};
use crate::plan::event::step_event::{
    Accepted, AcceptedBasis, Condition, ConditionJudged, Ruling, Skipped, StepEvent, StepFailed,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::step::{FailureClass, OnFalse};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::StepState;
use crate::plan::value::expression;
use crate::plan::value::ids::{Micros, StepNumber};

/// What an open step calls for.
enum Call<'a> {
    /// It is only there to stand in for others, and none of them will call it.
    NotNeeded,
    /// What stood in for it is done.
    StoodIn(StepNumber),
    /// What stood in for it will not be done.
    StandInFailed(StepNumber),
    /// Its gate was not opened.
    Refused(&'a str, &'a str),
    JudgeCondition,
    ConditionFalse,
    JudgePreconditions(Vec<u32>),
    PreconditionFalse(u32, OnFalse),
    Ask,
}

/// Whether something follows from how an open step stands.
pub(super) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    call(run, number).is_some()
}

fn call(run: &Run, number: StepNumber) -> Option<Call<'_>> {
    let step = run.step(number).filter(|step| step.status.is_open() && step.attempt().is_none())?;
    let hold = step.hold();
    if hold.is_on_call {
        return (!may_be_called(run, number)).then_some(Call::NotNeeded);
    }
    if let Some(other) = hold.stand_in {
        return match run.step(other).map(|step| step.status) {
            Some(StepStatus::Accepted) => Some(Call::StoodIn(other)),
            Some(status) if status.is_left() => None,
            _ => Some(Call::StandInFailed(other)),
        };
    }
    if let Some((answer, by)) = &hold.answer {
        return Some(Call::Refused(answer, by));
    }
    if step.unmet > 0 {
        return None;
    }
    condition_call(run, number, step).or_else(|| gate_call(run, number, step))
}

fn condition_call(run: &Run, number: StepNumber, step: &StepState) -> Option<Call<'static>> {
    let plan = run.plan_step(number)?;
    if plan.condition().is_some() {
        match step.hold().condition {
            None => return Some(Call::JudgeCondition),
            Some(Ruling::Fail) => return Some(Call::ConditionFalse),
            Some(Ruling::Pass) => {}
        }
    }
    let places = 0..u32::try_from(plan.preconditions().count()).unwrap_or(u32::MAX);
    let judged = &step.hold().preconditions;
    let unjudged: Vec<u32> = places.clone().filter(|each| !judged.contains_key(each)).collect();
    if !unjudged.is_empty() {
        return Some(Call::JudgePreconditions(unjudged));
    }
    let failed = places.into_iter().find(|each| judged.get(each) == Some(&Ruling::Fail))?;
    match plan.on_false() {
        on_false @ (OnFalse::Fail | OnFalse::Skip) => {
            Some(Call::PreconditionFalse(failed, on_false))
        }
        OnFalse::Wait => (run.request.is_none() && is_false_for_good(run, number, failed))
            .then_some(Call::PreconditionFalse(failed, OnFalse::Wait)),
    }
}

fn gate_call(run: &Run, number: StepNumber, step: &StepState) -> Option<Call<'static>> {
    let hold = step.hold();
    let passes = |ruling: &Ruling| *ruling == Ruling::Pass;
    run.plan_step(number).filter(|step| step.has_gate())?;
    let is_free = hold.preconditions.values().all(passes);
    (is_free && !hold.is_gate_open && hold.question.is_none()).then_some(Call::Ask)
}

/// Whether a step that stands in for others may still be called by one of them.
fn may_be_called(run: &Run, number: StepNumber) -> bool {
    run.links.stands_in_for(number).iter().any(|other| {
        let status = run.step(*other).map_or(StepStatus::Removed, |step| step.status);
        // One that failed may be tried again, but only by somebody who says so.
        status.is_left()
    })
}

/// Whether nothing that is left to do can change what a precondition is judged by.
fn is_false_for_good(run: &Run, number: StepNumber, place: u32) -> bool {
    let writers = writers_left(run, number, place);
    let is_free = |writer: &&StepNumber| {
        run.step(**writer).is_some_and(|step| step.unmet == 0 || !step.status.is_open())
    };
    // Whoever waits for nothing does not wait for this step.
    if writers.iter().any(|writer| is_free(&writer)) {
        return false;
    }
    if writers.is_empty() {
        return true;
    }
    let behind = run.behind(number);
    writers.iter().all(|writer| behind.contains(writer))
}

/// The other steps whose work is left to do and may set what a precondition is judged by.
pub(crate) fn writers_left(run: &Run, number: StepNumber, place: u32) -> BTreeSet<StepNumber> {
    let index = usize::try_from(place).ok();
    let plan = run.plan_step(number);
    let Some(body) = plan.zip(index).and_then(|(step, index)| step.preconditions().get(index))
    else {
        return BTreeSet::new();
    };
    let names = expression::variables(body);
    let writers = names.iter().flat_map(|name| run.links.writers(name)).copied();
    let is_left = |writer: &StepNumber| {
        *writer != number && run.step(*writer).is_some_and(|step| step.status.is_left())
    };
    writers.filter(is_left).collect()
}

impl Run {
    /// A step and all that wait for it, directly or not.
    pub(crate) fn behind(&self, number: StepNumber) -> BTreeSet<StepNumber> {
        let (mut behind, mut open) = (BTreeSet::new(), vec![number]);
        while let Some(next) = open.pop() {
            if !behind.insert(next) {
                continue;
            }
            open.extend(self.links.dependents(next));
            for id in self.links.memberships(next) {
                open.extend(self.links.waiters(id));
            }
        }
        behind
    }
}

/// The events of what an open step calls for.
pub(super) fn consequence(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let Some(call) = call(run, number) else { return Vec::new() };
    let event = |event| vec![Event::step(run.id, number, event)];
    match call {
        Call::NotNeeded => event(skipped("policy:fallback", "nothing called it to stand in")),
        Call::StoodIn(step) => {
            event(StepEvent::Accepted(Accepted { basis: AcceptedBasis::StoodIn { step } }))
        }
        Call::StandInFailed(other) => {
            let id = run.step(other).map_or("", |step| step.id());
            let reason = format!("step {other} ({id}), which stood in for it, will not be done");
            event(failed(FailureClass::Unknown, "fallback.failed", reason))
        }
        Call::Refused(answer, by) => event(refusal(answer, by)),
        Call::JudgeCondition => {
            let body = run.plan_step(number).and_then(CompactStep::condition);
            event(judged(run, Condition::RunIf, body.unwrap_or_default()))
        }
        Call::ConditionFalse => event(skipped("policy:condition", "its condition does not hold")),
        Call::JudgePreconditions(places) => {
            let bodies = run.plan_step(number).map(CompactStep::preconditions).unwrap_or_default();
            let body = |place: u32| usize::try_from(place).ok().and_then(|place| bodies.get(place));
            let one = |place| judged(run, Condition::Pre(place), body(place).unwrap_or_default());
            places.into_iter().map(|place| Event::step(run.id, number, one(place))).collect()
        }
        Call::PreconditionFalse(place, on_false) => {
            precondition_false(run, number, place, on_false)
        }
        Call::Ask => ask(run, number, time).map_or_else(Vec::new, event),
    }
}

fn judged(run: &Run, which: Condition, body: &str) -> StepEvent {
    let expression::Judgement { holds, evidence } = judge(run, body, None);
    let ruling = if holds { Ruling::Pass } else { Ruling::Fail };
    StepEvent::ConditionJudged(ConditionJudged { which, ruling, evidence })
}

fn skipped(by: &str, reason: &str) -> StepEvent {
    StepEvent::Skipped(Skipped { by: by.to_owned(), reason: reason.to_owned() })
}

fn failed(class: FailureClass, rule: &str, reason: String) -> StepEvent {
    StepEvent::Failed(StepFailed { class, rule: rule.to_owned(), reason })
}

fn refusal(answer: &str, by: &str) -> StepEvent {
    match answer {
        SKIP => skipped(by, "the answer to its gate"),
        _ => failed(FailureClass::Deterministic, "gate.refused", format!("{by} said {answer}")),
    }
}

fn precondition_false(run: &Run, number: StepNumber, place: u32, on_false: OnFalse) -> Vec<Event> {
    let body = usize::try_from(place)
        .ok()
        .and_then(|place| run.plan_step(number)?.preconditions().get(place))
        .unwrap_or_default();
    // People count from 1.
    let precondition = u64::from(place) + 1;
    let what = format!("precondition {precondition} (`{body}`) does not hold");
    match on_false {
        OnFalse::Skip => vec![Event::step(run.id, number, skipped("policy:precondition", &what))],
        OnFalse::Fail => {
            let class = FailureClass::AssumptionBroken;
            vec![Event::step(run.id, number, failed(class, "precondition.false", what))]
        }
        OnFalse::Wait => vec![Event::ReplanRequested(ReplanRequested {
            run: run.id,
            trigger: ReplanTrigger::PreconditionFalse { step: number, precondition: place },
            from: Some(number),
            reason: format!("{what}, and nothing that is left to do can change that"),
        })],
    }
}

fn ask(run: &Run, number: StepNumber, time: Micros) -> Option<StepEvent> {
    let gate = run.plan_step(number)?.gate()?;
    let deadline = |seconds: u64| time.saturating_add(seconds.saturating_mul(1_000_000));
    Some(StepEvent::Asked(Asked {
        subject: Subject::Gate,
        text: gate.question,
        shown: run.step_hash(number).unwrap_or_default(),
        options: [YES, NO, SKIP].map(str::to_owned).to_vec(),
        to: gate.to,
        deadline: gate.deadline_seconds.map(deadline),
        on_timeout: gate.on_timeout,
    }))
}
