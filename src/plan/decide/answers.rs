//! Answers to questions, and questions that time out.

use super::ask::barrier_event;
use super::lookup::open_run;
use crate::plan::decide::versions;
use crate::plan::event::Event;
use crate::plan::event::plan_event::Review;
use crate::plan::event::question::{
    NO, Question, QuestionAnswer, QuestionBody, QuestionExpiry, QuestionId, QuestionSubject, RAISE,
    RELEASE, REPLAN, TIMEOUT, VALUE, YES,
};
use crate::plan::event::run_event::{
    BarrierChange, QuestionAnswered, QuestionAsked, QuestionExpired, ReplanRequested, ReplanTrigger,
};
use crate::plan::event::table::StepEvent;
use crate::plan::model::step::OnTimeout;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::text::Text;

/// An answer.
pub(super) struct Reply<'a> {
    pub(super) answer: &'a str,
    pub(super) by: &'a str,
    pub(super) note: &'a str,
}

pub(crate) fn answer(
    state: &State,
    now: Timestamp,
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
    let takes_value =
        asked.subject == QuestionSubject::Gate && asked.options.iter().any(|each| each == VALUE);
    if reply.answer == VALUE && takes_value
        || !takes_value && !asked.options.iter().any(|option| option == reply.answer)
    {
        let (answer, options) = (reply.answer.to_owned(), asked.options.clone());
        return Err(Rejection::NotAnOption { answer, options });
    }
    // A new limit answers it: without one, the budget is as short as before.
    if asked.subject == QuestionSubject::Budget
        && reply.answer == RAISE
        && let Some(cause) = &run.pause
    {
        return Err(Rejection::Paused(cause.clone()));
    }
    answer_events(state, now, run, (id, question), reply)
}

pub(crate) fn answer_events(
    state: &State,
    now: Timestamp,
    run: &Run,
    (id, question): (QuestionId, &Question),
    reply: &Reply<'_>,
) -> Result<Vec<Event>, Rejection> {
    let Reply { answer, by, note } = *reply;
    let answered = QuestionAnswer {
        question: id,
        answer: answer.to_owned(),
        by: by.to_owned(),
        note: note.to_owned(),
        shown: question.asked.shown,
    };
    if let Some(step) = question.step {
        return Ok(vec![Event::step(run.id, step, StepEvent::StepAnswered(answered))]);
    }
    let mut events = vec![Event::QuestionAnswered(QuestionAnswered { run: run.id, answered })];
    match &question.asked.subject {
        QuestionSubject::Plan { version } => {
            let review = match answer {
                YES => Some(Review::Approved),
                NO => Some(Review::Rejected),
                _ => None,
            };
            if let Some(review) = review {
                events.extend(versions::review_events(
                    state,
                    now,
                    run,
                    (*version, review),
                    (by, note),
                )?);
            }
        }
        QuestionSubject::Budget if answer == REPLAN && run.may_request_replan() => {
            events.push(Event::ReplanRequested(ReplanRequested {
                run: run.id,
                trigger: ReplanTrigger::BudgetExhausted,
                from: None,
                reason: Text::concat([
                    &format!("{by} answered replan: ").into(),
                    &question.asked.text,
                ]),
            }));
        }
        QuestionSubject::Barrier { barrier } if answer == RELEASE => {
            events.extend(barrier_event(run, barrier, BarrierChange::Overruled));
        }
        _ => {}
    }
    Ok(events)
}

/// The events of a question that times out.
pub(crate) fn expiry_events(
    state: &State,
    run: &Run,
    id: QuestionId,
    now: Timestamp,
) -> Vec<Event> {
    let Some(question) = run.questions.get(&id) else { return Vec::new() };
    let asked = &question.asked;
    if let Some(OnTimeout::Answer(answer)) = &asked.on_timeout
        && asked.options.contains(answer)
    {
        let reply = Reply { answer, by: TIMEOUT, note: "the question timed out" };
        // If the answer is rejected, for example by the replan limit, the question stays open.
        let refused =
            |_| run_expiry_events(run.id, QuestionExpiry { question: id, then: None }, None);
        return answer_events(state, now, run, (id, question), &reply).unwrap_or_else(refused);
    }
    let then = match &asked.on_timeout {
        // An answer that is not an option is ignored.
        Some(OnTimeout::Answer(_)) | None => None,
        Some(then) => Some(then.clone()),
    };
    let again = match &then {
        Some(OnTimeout::EscalateTo(who)) => {
            let span = asked.deadline.map(|deadline| deadline.saturating_sub(question.time));
            let deadline = span.map(|span| now.saturating_add(span));
            // The new person has the same time to answer; after that the question stays open.
            Some(QuestionBody {
                to: Some(who.clone()),
                deadline,
                on_timeout: None,
                ..asked.clone()
            })
        }
        _ => None,
    };
    let expired = QuestionExpiry { question: id, then };
    match question.step {
        Some(step) => step_expiry_events(run.id, step, expired, again),
        None => run_expiry_events(run.id, expired, again),
    }
}

fn step_expiry_events(
    run: RunId,
    step: StepNumber,
    expired: QuestionExpiry,
    again: Option<QuestionBody>,
) -> Vec<Event> {
    let again = again.map(StepEvent::StepAsked);
    let events = std::iter::once(StepEvent::StepQuestionExpired(expired)).chain(again);
    events.map(|event| Event::step(run, step, event)).collect()
}

fn run_expiry_events(
    run: RunId,
    expired: QuestionExpiry,
    again: Option<QuestionBody>,
) -> Vec<Event> {
    let again = again.map(|asked| Event::QuestionAsked(QuestionAsked { run, asked }));
    std::iter::once(Event::QuestionExpired(QuestionExpired { run, expired })).chain(again).collect()
}
