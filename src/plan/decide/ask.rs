//! Events that ask and withdraw questions, and that change barriers.

use crate::plan::command::PlanDraft;
use crate::plan::event::Event;
use crate::plan::event::question::{
    ABORT, NO, Question, QuestionAnswer, QuestionBody, QuestionId, QuestionSubject, WITHDRAWN, YES,
};
use crate::plan::event::run_event::{
    BarrierChange, BarrierChanged, QuestionAnswered, QuestionAsked,
};
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{RunId, Timestamp};

/// A change of a barrier, with its current counts.
pub(crate) fn barrier_event(run: &Run, id: &str, change: BarrierChange) -> Option<Event> {
    let barrier = run.barriers.get(id).filter(|each| each.status != BarrierStatus::Released)?;
    Some(Event::BarrierChanged(BarrierChanged {
        run: run.id,
        barrier: id.to_owned(),
        change,
        arrived: u32::try_from(barrier.arrived.len()).unwrap_or(u32::MAX),
        needed: barrier.needed,
    }))
}

/// Withdraws the questions about a subject that no longer needs an answer.
pub(crate) fn withdraw_questions(run: &Run, subject: &QuestionSubject, by: &str) -> Vec<Event> {
    close_questions(run, subject, WITHDRAWN, by)
}

/// Closes the open questions about a subject: with this answer, if it is one of their options; else they are withdrawn.
pub(crate) fn close_questions(
    run: &Run,
    subject: &QuestionSubject,
    answer: &str,
    by: &str,
) -> Vec<Event> {
    let about = run.questions.iter().filter(|(_, each)| each.asked.subject == *subject);
    let event = |(id, question): (&QuestionId, &Question)| {
        let is_option = question.asked.options.iter().any(|option| option == answer);
        let (answer, note) =
            if is_option { (answer, "") } else { (WITHDRAWN, "it no longer needs an answer") };
        let answered = QuestionAnswer {
            question: *id,
            answer: answer.to_owned(),
            by: by.to_owned(),
            note: note.to_owned(),
            shown: question.asked.shown,
        };
        Event::QuestionAnswered(QuestionAnswered { run: run.id, answered })
    };
    about.map(event).collect()
}

/// The question of the plan gate: whether a version may become active.
pub(crate) fn plan_question(
    run: RunId,
    version: u32,
    draft: &PlanDraft,
    now: Timestamp,
) -> Option<Event> {
    let gate = draft.header.gate.as_ref()?;
    let deadline = |seconds: u64| now.saturating_add(seconds.saturating_mul(1_000_000));
    let asked = QuestionBody {
        subject: QuestionSubject::Plan { version },
        text: gate.question.clone().into(),
        shown: draft.hash,
        options: [YES, NO, ABORT].map(str::to_owned).to_vec(),
        to: gate.to.clone(),
        deadline: gate.deadline_seconds.map(deadline),
        on_timeout: gate.on_timeout.clone(),
    };
    Some(Event::QuestionAsked(QuestionAsked { run, asked }))
}
