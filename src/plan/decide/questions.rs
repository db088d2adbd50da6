//! Answers, and what happens when nobody gives one.

use super::{open_run, step_event, versions};
use crate::plan::apply::questions::TIMEOUT;
use crate::plan::{
    ABORT, Answered, Asked, BarrierChange, BarrierChanged, BarrierStatus, Event, Expired, Micros,
    NO, OnTimeout, Question, QuestionAnswered, QuestionAsked, QuestionExpired, QuestionId, RELEASE,
    REPLAN, Rejection, ReplanRequested, ReplanTrigger, Review, Run, RunId, State, StepEvent,
    StepNumber, Subject, WITHDRAWN, YES,
};

/// What somebody answers.
pub(super) struct Reply<'a> {
    pub(super) answer: &'a str,
    pub(super) by: &'a str,
    pub(super) note: &'a str,
}

pub(super) fn answer(
    state: &State,
    now: Micros,
    id: QuestionId,
    shown: crate::plan::ContentHash,
    reply: &Reply<'_>,
) -> Result<Vec<Event>, Rejection> {
    let run = state.questions.get(&id).ok_or(Rejection::NoSuchQuestion(id))?;
    let run = open_run(state, *run)?;
    let question = run.questions.get(&id).ok_or(Rejection::NoSuchQuestion(id))?;
    let asked = &question.asked;
    if asked.shown != shown {
        return Err(Rejection::HashDiffers { expected: asked.shown, found: shown });
    }
    if !asked.options.iter().any(|option| option == reply.answer) {
        let (answer, options) = (reply.answer.to_owned(), asked.options.clone());
        return Err(Rejection::NotAnOption { answer, options });
    }
    answered(state, now, run, (id, question), reply)
}

/// An answer, with what follows from it and needs a command.
fn answered(
    state: &State,
    now: Micros,
    run: &Run,
    (id, question): (QuestionId, &Question),
    reply: &Reply<'_>,
) -> Result<Vec<Event>, Rejection> {
    let Reply { answer, by, note } = *reply;
    let answered = Answered {
        question: id,
        answer: answer.to_owned(),
        by: by.to_owned(),
        note: note.to_owned(),
        shown: question.asked.shown,
    };
    if let Some(step) = question.step {
        return Ok(vec![step_event(run.id, step, StepEvent::Answered(answered))]);
    }
    let mut events = vec![Event::QuestionAnswered(QuestionAnswered { run: run.id, answered })];
    match &question.asked.subject {
        Subject::Plan(version) => {
            let review = match answer {
                YES => Some(Review::Approved),
                NO => Some(Review::Rejected),
                _ => None,
            };
            if let Some(review) = review {
                events.extend(versions::reviewed(state, now, run, (*version, review), (by, note))?);
            }
        }
        Subject::Budget if answer == REPLAN && run.has_room_for_request() => {
            events.push(Event::ReplanRequested(ReplanRequested {
                run: run.id,
                trigger: ReplanTrigger::BudgetExhausted,
                from: None,
                reason: format!("{by} said so: {}", question.asked.text),
            }));
        }
        Subject::Barrier(barrier) if answer == RELEASE => {
            events.extend(changed(run, barrier, BarrierChange::Overruled));
        }
        _ => {}
    }
    Ok(events)
}

/// A change of a barrier, with its counts.
pub(super) fn changed(run: &Run, id: &str, change: BarrierChange) -> Option<Event> {
    let barrier = run.barriers.get(id).filter(|each| each.status != BarrierStatus::Released)?;
    Some(Event::Barrier(BarrierChanged {
        run: run.id,
        barrier: id.to_owned(),
        change,
        arrived: u32::try_from(barrier.arrived.len()).unwrap_or(u32::MAX),
        needed: barrier.needed,
    }))
}

/// The end of the questions about something that no longer matters.
pub(super) fn withdrawn(run: &Run, subject: &Subject, by: &str) -> Vec<Event> {
    let about = run.questions.iter().filter(|(_, each)| each.asked.subject == *subject);
    let event = |(id, question): (&QuestionId, &Question)| {
        let answered = Answered {
            question: *id,
            answer: WITHDRAWN.to_owned(),
            by: by.to_owned(),
            note: "it no longer needs an answer".to_owned(),
            shown: question.asked.shown,
        };
        Event::QuestionAnswered(QuestionAnswered { run: run.id, answered })
    };
    about.map(event).collect()
}

/// What happens when nobody answered a question in time.
pub(super) fn expired(state: &State, run: &Run, id: QuestionId, now: Micros) -> Vec<Event> {
    let Some(question) = run.questions.get(&id) else { return Vec::new() };
    let asked = &question.asked;
    if let Some(OnTimeout::Answer(answer)) = &asked.on_timeout
        && asked.options.contains(answer)
    {
        let reply = Reply { answer, by: TIMEOUT, note: "nobody answered in time" };
        // An answer that is refused, like a yes to one version too many, is left to people.
        let refused = |_| of_run(run.id, Expired { question: id, then: None }, None);
        return answered(state, now, run, (id, question), &reply).unwrap_or_else(refused);
    }
    let then = match &asked.on_timeout {
        // An answer that means nothing is none.
        Some(OnTimeout::Answer(_)) | None => None,
        Some(then) => Some(then.clone()),
    };
    let again = match &then {
        Some(OnTimeout::EscalateTo(who)) => {
            let span = asked.deadline.map(|deadline| deadline.saturating_sub(question.time));
            let deadline = span.map(|span| now.saturating_add(span));
            // Whoever is asked then has as long, and after that the question stays open.
            Some(Asked { to: Some(who.clone()), deadline, on_timeout: None, ..asked.clone() })
        }
        _ => None,
    };
    let expired = Expired { question: id, then };
    match question.step {
        Some(step) => of_step(run.id, step, expired, again),
        None => of_run(run.id, expired, again),
    }
}

fn of_step(run: RunId, step: StepNumber, expired: Expired, again: Option<Asked>) -> Vec<Event> {
    let again = again.map(StepEvent::Asked);
    let events = std::iter::once(StepEvent::Expired(expired)).chain(again);
    events.map(|event| step_event(run, step, event)).collect()
}

fn of_run(run: RunId, expired: Expired, again: Option<Asked>) -> Vec<Event> {
    let again = again.map(|asked| Event::QuestionAsked(QuestionAsked { run, asked }));
    std::iter::once(Event::QuestionExpired(QuestionExpired { run, expired })).chain(again).collect()
}

/// The question whether a version may become active, as its plan asks it.
pub(super) fn about_plan(
    run: RunId,
    version: u32,
    draft: &crate::plan::PlanDraft,
    now: Micros,
) -> Option<Event> {
    let gate = draft.header.gate.as_ref()?;
    let deadline = |seconds: u64| now.saturating_add(seconds.saturating_mul(1_000_000));
    let asked = Asked {
        subject: Subject::Plan(version),
        text: gate.question.clone(),
        shown: draft.hash,
        options: [YES, NO, ABORT].map(str::to_owned).to_vec(),
        to: gate.to.clone(),
        deadline: gate.deadline_seconds.map(deadline),
        on_timeout: gate.on_timeout.clone(),
    };
    Some(Event::QuestionAsked(QuestionAsked { run, asked }))
}
