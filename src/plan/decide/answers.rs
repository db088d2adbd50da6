//! Answers, and what happens when nobody gives one.

use super::ask::barrier_changed;
use super::lookup::open_run;
use crate::plan::decide::versions;
use crate::plan::event::Event;
use crate::plan::event::plan_event::Review;
use crate::plan::event::question::{
    Answered, Asked, Expired, NO, Question, QuestionId, RELEASE, REPLAN, Subject, TIMEOUT, YES,
};
use crate::plan::event::run_event::{
    BarrierChange, QuestionAnswered, QuestionAsked, QuestionExpired, ReplanRequested, ReplanTrigger,
};
use crate::plan::event::step_event::StepEvent;
use crate::plan::model::step::OnTimeout;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{ContentHash, Micros, RunId, StepNumber};

/// What somebody answers.
pub(super) struct Reply<'a> {
    pub(super) answer: &'a str,
    pub(super) by: &'a str,
    pub(super) note: &'a str,
}

pub(crate) fn answer(
    state: &State,
    now: Micros,
    id: QuestionId,
    shown: ContentHash,
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
pub(crate) fn answered(
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
        return Ok(vec![Event::step(run.id, step, StepEvent::Answered(answered))]);
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
            events.extend(barrier_changed(run, barrier, BarrierChange::Overruled));
        }
        _ => {}
    }
    Ok(events)
}

/// What happens when nobody answered a question in time.
pub(crate) fn question_expired(
    state: &State,
    run: &Run,
    id: QuestionId,
    now: Micros,
) -> Vec<Event> {
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
    events.map(|event| Event::step(run, step, event)).collect()
}

fn of_run(run: RunId, expired: Expired, again: Option<Asked>) -> Vec<Event> {
    let again = again.map(|asked| Event::QuestionAsked(QuestionAsked { run, asked }));
    std::iter::once(Event::QuestionExpired(QuestionExpired { run, expired })).chain(again).collect()
}
