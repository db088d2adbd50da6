//! Consequences of an open step: condition, preconditions, gate and fallback.
//!
//! Once the dependencies of a step are met, its condition is evaluated, then its preconditions,
//! then its gate asks a question. Each result is a separate event.

use std::collections::{BTreeMap, BTreeSet};

use super::criteria::{at_least_one, evaluate, evaluate_again, evaluate_with};
use super::variables::{output_values, set_variables};
use crate::plan::event::Event;
use crate::plan::event::question::{NO, QuestionBody, QuestionSubject, SKIP, VALUE, YES};
use crate::plan::event::run_event::{Origin, ReplanRequested, ReplanTrigger};
use crate::plan::event::step_event::{
    ABORT_BY_PRECONDITION, Accepted, AcceptedBasis, Condition, ConditionJudged, Ruling, Skipped,
    StepFailed,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::criterion::Criterion;
use crate::plan::model::step::{FailureClass, Gate, OnFalse};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::StepState;
use crate::plan::value::evaluator::{Evaluation, Evaluator, Exhausted};
use crate::plan::value::ids::{StepNumber, Timestamp};
use crate::plan::value::json::Json;
use crate::plan::value::text::Text;

/// The consequence of an open step.
enum OpenConsequence<'a> {
    /// It is a fallback step, and no step can use it any longer.
    NotNeeded,
    /// Its fallback step was accepted.
    FallbackStep(StepNumber),
    /// Its fallback step cannot be done.
    FallbackStepFailed(StepNumber),
    /// The gate was not approved: the answer and its author.
    Refused(&'a str, &'a str),
    /// The answer to the gate does the step: the answer and its author.
    Answered(&'a str, &'a str),
    EvaluateCondition,
    ConditionFalse,
    EvaluatePreconditions(Vec<u32>),
    PreconditionFalse(u32, OnFalse),
    Ask,
}

/// Whether an open step has a consequence.
pub(super) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    open_consequence(run, number).is_some()
}

fn open_consequence(run: &Run, number: StepNumber) -> Option<OpenConsequence<'_>> {
    let step = run.step(number).filter(|step| step.status.is_open() && step.attempt().is_none())?;
    let hold = step.hold();
    if hold.is_standby {
        return (!is_usable_fallback(run, number)).then_some(OpenConsequence::NotNeeded);
    }
    if let Some(other) = hold.fallback_step {
        return match run.step(other).map(|step| step.status) {
            Some(StepStatus::Accepted) => Some(OpenConsequence::FallbackStep(other)),
            Some(status) if status.is_remaining() => None,
            _ => Some(OpenConsequence::FallbackStepFailed(other)),
        };
    }
    if let Some((answer, by)) = &hold.answer {
        return Some(match run.plan_step(number).and_then(CompactStep::gate) {
            Some(gate) if !gate.options.is_empty() && answer != SKIP => {
                OpenConsequence::Answered(answer, by)
            }
            _ => OpenConsequence::Refused(answer, by),
        });
    }
    if step.unmet > 0 {
        return None;
    }
    condition_consequence(run, number, step).or_else(|| gate_consequence(run, number, step))
}

fn condition_consequence(
    run: &Run,
    number: StepNumber,
    step: &StepState,
) -> Option<OpenConsequence<'static>> {
    let plan = run.plan_step(number)?;
    if plan.condition().is_some() {
        match step.hold().condition {
            None => return Some(OpenConsequence::EvaluateCondition),
            Some(Ruling::Fail) => return Some(OpenConsequence::ConditionFalse),
            Some(Ruling::Pass) => {}
        }
    }
    let places = 0..u32::try_from(plan.preconditions().count()).unwrap_or(u32::MAX);
    let judged = &step.hold().preconditions;
    let unjudged: Vec<u32> = places.clone().filter(|each| !judged.contains_key(each)).collect();
    if !unjudged.is_empty() {
        return Some(OpenConsequence::EvaluatePreconditions(unjudged));
    }
    let failed = places.into_iter().find(|each| judged.get(each) == Some(&Ruling::Fail))?;
    match plan.on_false() {
        on_false @ (OnFalse::Fail | OnFalse::Skip) => {
            Some(OpenConsequence::PreconditionFalse(failed, on_false))
        }
        OnFalse::Wait => (run.request.is_none() && is_permanently_false(run, number, failed))
            .then_some(OpenConsequence::PreconditionFalse(failed, OnFalse::Wait)),
        OnFalse::Abort => is_permanently_false(run, number, failed)
            .then_some(OpenConsequence::PreconditionFalse(failed, OnFalse::Abort)),
    }
}

fn gate_consequence(
    run: &Run,
    number: StepNumber,
    step: &StepState,
) -> Option<OpenConsequence<'static>> {
    let hold = step.hold();
    let passes = |ruling: &Ruling| *ruling == Ruling::Pass;
    if !run.needs_approval(number) {
        return None;
    }
    let is_free = hold.preconditions.values().all(passes);
    (is_free && !hold.is_gate_open && hold.question.is_none()).then_some(OpenConsequence::Ask)
}

/// Whether another step may still use this one as its fallback.
fn is_usable_fallback(run: &Run, number: StepNumber) -> bool {
    run.links.fallback_for(number).iter().any(|other| {
        let status = run.step(*other).map_or(StepStatus::Removed, |step| step.status);
        // A failed step can be reopened, but only by a command.
        status.is_remaining()
    })
}

/// Whether no remaining step can change the variables of a precondition.
fn is_permanently_false(run: &Run, number: StepNumber, place: u32) -> bool {
    let writers = writers_left(run, number, place);
    let is_free = |writer: &&StepNumber| {
        run.step(**writer).is_some_and(|step| step.unmet == 0 || !step.status.is_open())
    };
    // A writer without unmet dependencies does not depend on this step.
    if writers.iter().any(|writer| is_free(&writer)) {
        return false;
    }
    if writers.is_empty() {
        return true;
    }
    let dependents = run.step_and_dependents(number);
    writers.iter().all(|writer| dependents.contains(writer))
}

/// The other steps that remain and may set a variable of a precondition.
pub(crate) fn writers_left(run: &Run, number: StepNumber, place: u32) -> BTreeSet<StepNumber> {
    let names = run.links.variables_of(number, place).iter();
    let writers = names.flat_map(|name| run.links.writers(name)).copied();
    let is_remaining = |writer: &StepNumber| {
        *writer != number && run.step(*writer).is_some_and(|step| step.status.is_remaining())
    };
    writers.filter(is_remaining).collect()
}

impl Run {
    /// A step and all its direct and indirect dependents.
    pub(crate) fn step_and_dependents(&self, number: StepNumber) -> BTreeSet<StepNumber> {
        let (mut found, mut open) = (BTreeSet::new(), vec![number]);
        while let Some(next) = open.pop() {
            if !found.insert(next) {
                continue;
            }
            open.extend(self.links.dependents(next));
            for id in self.links.memberships(next) {
                open.extend(self.links.waiters(id));
            }
        }
        found
    }
}

/// The events of the consequence of an open step.
pub(super) fn consequence_events(
    run: &Run,
    number: StepNumber,
    time: Timestamp,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    let Some(consequence) = open_consequence(run, number) else { return Ok(Vec::new()) };
    let event = |event| vec![Event::step(run.id, number, event)];
    Ok(match consequence {
        OpenConsequence::NotNeeded => {
            event(skip_event("policy:fallback", "no step needed this fallback"))
        }
        OpenConsequence::FallbackStep(step) => {
            event(StepEvent::Accepted(Accepted { basis: AcceptedBasis::FallbackStep { step } }))
        }
        OpenConsequence::FallbackStepFailed(other) => {
            let id = run.step(other).map_or("", |step| step.id());
            let reason = format!("fallback step #{other} ({id}) cannot be done");
            event(fail_event(FailureClass::Unknown, "fallback.failed", reason))
        }
        OpenConsequence::Refused(answer, by) => event(refusal_event(answer, by)),
        OpenConsequence::Answered(answer, by) => {
            answered_events(run, number, (answer, by), time, evaluator)?
        }
        OpenConsequence::EvaluateCondition => {
            let body = run.plan_step(number).and_then(CompactStep::condition);
            event(condition_event(run, Condition::RunIf, body.unwrap_or_default(), evaluator)?)
        }
        OpenConsequence::ConditionFalse => {
            let body = run.plan_step(number).and_then(CompactStep::condition);
            let how = how_it_fails(run, body.unwrap_or_default(), evaluator)?;
            event(skip_event("policy:condition", Text::concat([&"its condition ".into(), &how])))
        }
        OpenConsequence::EvaluatePreconditions(places) => {
            let bodies = run.plan_step(number).map(CompactStep::preconditions).unwrap_or_default();
            let body = |place: u32| usize::try_from(place).ok().and_then(|place| bodies.get(place));
            at_least_one(&places, |place| {
                let body = body(place).unwrap_or_default();
                let judged = condition_event(run, Condition::Pre(place), body, evaluator)?;
                Ok(Event::step(run.id, number, judged))
            })?
        }
        OpenConsequence::PreconditionFalse(place, on_false) => {
            precondition_false(run, number, place, on_false, evaluator)?
        }
        OpenConsequence::Ask => gate_question(run, number, time).map_or_else(Vec::new, event),
    })
}

fn condition_event(
    run: &Run,
    which: Condition,
    body: &str,
    evaluator: &mut Evaluator,
) -> Result<StepEvent, Exhausted> {
    let Evaluation { holds, evidence, .. } = evaluate(run, body, None, evaluator)?;
    let ruling = if holds { Ruling::Pass } else { Ruling::Fail };
    Ok(StepEvent::ConditionJudged(ConditionJudged { which, ruling, evidence }))
}

#[doc(hidden)]
impl Run {
    /// Why the condition of a skipped step cannot be evaluated; `None` if it can.
    #[must_use]
    pub fn condition_problem(&self, number: StepNumber) -> Option<Text> {
        let step = self.step(number).filter(|step| step.status == StepStatus::Skipped)?;
        step.hold().condition.filter(|ruling| *ruling == Ruling::Fail)?;
        let evaluator = &mut Evaluator::default();
        evaluate(self, self.plan_step(number)?.condition()?, None, evaluator).ok()?.problem
    }
}

/// Tells whether an expression that does not hold is false, or cannot be evaluated.
fn how_it_fails(run: &Run, body: &str, evaluator: &mut Evaluator) -> Result<Text, Exhausted> {
    Ok(match evaluate_again(run, body, evaluator)?.problem {
        None => "does not hold".into(),
        Some(problem) => Text::concat([&"cannot be evaluated: ".into(), &problem]),
    })
}

fn skip_event(by: &str, reason: impl Into<Text>) -> StepEvent {
    StepEvent::Skipped(Skipped { by: by.to_owned(), reason: reason.into() })
}

fn fail_event(class: FailureClass, rule: &str, reason: impl Into<Text>) -> StepEvent {
    StepEvent::StepFailed(StepFailed { class, rule: rule.to_owned(), reason: reason.into() })
}

fn refusal_event(answer: &str, by: &str) -> StepEvent {
    match answer {
        SKIP => skip_event(by, "the answer to its gate"),
        _ => fail_event(
            FailureClass::Deterministic,
            "gate.refused",
            format!("{by} answered {answer}"),
        ),
    }
}

fn precondition_false(
    run: &Run,
    number: StepNumber,
    place: u32,
    on_false: OnFalse,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    let body = usize::try_from(place)
        .ok()
        .and_then(|place| run.plan_step(number)?.preconditions().get(place))
        .unwrap_or_default();
    // Messages count from 1.
    let precondition = u64::from(place) + 1;
    let before = Text::from(format!("precondition {precondition} (`{body}`) "));
    let what = Text::concat([&before, &how_it_fails(run, body, evaluator)?]);
    let is_final = || Text::concat([&what, &", and no remaining step can change that".into()]);
    Ok(match on_false {
        OnFalse::Skip => {
            vec![Event::step(run.id, number, skip_event("policy:precondition", what))]
        }
        OnFalse::Fail => {
            let class = FailureClass::AssumptionBroken;
            vec![Event::step(run.id, number, fail_event(class, "precondition.false", what))]
        }
        OnFalse::Abort => {
            let class = FailureClass::AssumptionBroken;
            let failed = fail_event(class, ABORT_BY_PRECONDITION, is_final());
            vec![Event::step(run.id, number, failed)]
        }
        OnFalse::Wait => vec![Event::ReplanRequested(ReplanRequested {
            run: run.id,
            trigger: ReplanTrigger::PreconditionFalse { step: number, precondition: place },
            from: Some(number),
            reason: is_final(),
        })],
    })
}

/// The gate of a step that was done before and must not be done twice.
fn again() -> Gate {
    let question = "It was done before and must not be done twice, but its dependencies have \
                    changed. Do it again? (skip: the earlier work counts)";
    Gate { question: question.to_owned(), ..Gate::default() }
}

fn gate_question(run: &Run, number: StepNumber, time: Timestamp) -> Option<StepEvent> {
    let gate = run.plan_step(number)?.gate().or_else(|| run.is_repetition(number).then(again))?;
    let deadline = |seconds: u64| time.saturating_add(seconds.saturating_mul(1_000_000));
    let mut options = gate.options;
    if options.is_empty() {
        options = [YES, NO].map(str::to_owned).to_vec();
    }
    options.push(SKIP.to_owned());
    Some(StepEvent::StepAsked(QuestionBody {
        subject: QuestionSubject::Gate,
        text: gate.question.into(),
        shown: run.step_hash(number).unwrap_or_default(),
        options,
        to: gate.to,
        deadline: gate.deadline_seconds.map(deadline),
        on_timeout: gate.on_timeout,
    }))
}

/// The events of a step that the answer to its gate does: it is accepted with the answer as its
/// output, unless a criterion rejects the answer. Then the question is asked again.
fn answered_events(
    run: &Run,
    number: StepNumber,
    (answer, by): (&str, &str),
    time: Timestamp,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    let step = run.plan_step(number);
    let gate = step.and_then(CompactStep::gate).unwrap_or_default();
    let is_choice = gate.options.iter().any(|option| option == answer && option != VALUE);
    let value = if is_choice { None } else { serde_json::from_str(answer).ok() };
    let value = Json::new(&value.unwrap_or_else(|| serde_json::Value::from(answer)));
    let values = step.map_or_else(BTreeMap::new, |step| output_values(step.outputs(), &value));
    let output: serde_json::Map<String, serde_json::Value> =
        values.iter().map(|(name, value)| (name.clone(), value.value())).collect();
    let criteria = step.map(CompactStep::acceptance).unwrap_or_default();
    for criterion in &criteria {
        let Criterion::Cel(body) = criterion else { continue };
        let output = Json::new(&serde_json::Value::Object(output.clone()));
        let judged = evaluate_with(run, body, (&output, &values), evaluator)?;
        if !judged.holds {
            let problem = format!(" (`{answer}` was rejected: `{body}` does not hold: ");
            let mut asked = gate_question(run, number, time);
            if let Some(StepEvent::StepAsked(asked)) = &mut asked {
                let parts = [&asked.text, &problem.into(), &judged.evidence, &")".into()];
                asked.text = Text::concat(parts);
            }
            return Ok(asked.map(|asked| Event::step(run.id, number, asked)).into_iter().collect());
        }
    }
    let basis = AcceptedBasis::Answered { by: by.to_owned() };
    let mut events = vec![Event::step(run.id, number, StepEvent::Accepted(Accepted { basis }))];
    events.extend(set_variables(run, values, &Origin::Person { who: by.to_owned() }));
    Ok(events)
}
