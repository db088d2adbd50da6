//! Applies questions, answers and timeouts.

use crate::plan::event::question::{
    ABORT, FAIL, Question, QuestionAnswer, QuestionBody, QuestionExpiry, QuestionId,
    QuestionSubject, TIMEOUT, WAIT, YES,
};
use crate::plan::event::table::StepEvent;
use crate::plan::model::plan::OnBreak;
use crate::plan::model::step::OnTimeout;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::state::run::{Run, Timer};
use crate::plan::state::step_state::Hold;
use crate::plan::value::ids::{StepNumber, Timestamp};
use crate::plan::value::text::Text;

impl Run {
    /// Opens or closes the question about a step.
    pub(super) fn apply_question(
        &mut self,
        seq: u64,
        time: Timestamp,
        number: StepNumber,
        event: &StepEvent,
    ) {
        match event {
            StepEvent::StepAsked(asked) => {
                self.close_question_of(number);
                self.ask(QuestionId(seq), time, Some(number), asked);
                self.with_hold(number, |hold| {
                    hold.question = Some(QuestionId(seq));
                    // A refused answer is asked for again.
                    hold.answer = None;
                });
            }
            StepEvent::StepAnswered(answered)
                if self.is_open_question(number, answered.question) =>
            {
                let Some(question) = self.close(answered.question) else { return };
                let is_yes = answered.answer == YES;
                let answer = (answered.answer.clone(), answered.by.clone());
                self.with_hold(number, |hold| {
                    hold.question = None;
                    match question.asked.subject {
                        QuestionSubject::Gate if is_yes => hold.is_gate_open = true,
                        _ => hold.answer = Some(answer),
                    }
                });
            }
            StepEvent::StepQuestionExpired(expired)
                if self.is_open_question(number, expired.question) =>
            {
                if self.expire(expired).is_none() {
                    return;
                }
                let is_abort = expired.then == Some(OnTimeout::Abort);
                self.with_hold(number, |hold| {
                    hold.question = None;
                    if is_abort {
                        hold.answer = Some((ABORT.to_owned(), TIMEOUT.to_owned()));
                    }
                });
            }
            // The question no longer matters.
            StepEvent::Accepted(_) | StepEvent::Skipped(_) | StepEvent::StepFailed(_) => {
                self.close_question_of(number);
            }
            _ => {}
        }
    }

    /// Whether a question is the open one about a step.
    fn is_open_question(&self, number: StepNumber, question: QuestionId) -> bool {
        self.step(number).is_some_and(|step| step.hold().question == Some(question))
    }

    /// Whether a question is about the run as a whole. Questions about steps have separate events.
    fn is_run_question(&self, question: QuestionId) -> bool {
        self.questions.get(&question).is_some_and(|each| each.step.is_none())
    }

    fn with_hold(&mut self, number: StepNumber, change: impl FnOnce(&mut Hold)) {
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.change_hold(change);
        }
    }

    pub(super) fn close_question_of(&mut self, number: StepNumber) {
        let open = self.step(number).and_then(|step| step.hold().question);
        if let Some(question) = open {
            self.close(question);
            self.with_hold(number, |hold| hold.question = None);
        }
    }

    fn ask(
        &mut self,
        id: QuestionId,
        time: Timestamp,
        step: Option<StepNumber>,
        asked: &QuestionBody,
    ) {
        if let Some(deadline) = asked.deadline {
            self.timers.insert((deadline, Timer::Question(id)));
        }
        self.questions.insert(id, Question { step, time, asked: asked.clone() });
    }

    pub(super) fn close(&mut self, id: QuestionId) -> Option<Question> {
        let question = self.questions.remove(&id)?;
        if let Some(deadline) = question.asked.deadline {
            self.timers.remove(&(deadline, Timer::Question(id)));
        }
        Some(question)
    }

    pub(super) fn question_asked(&mut self, seq: u64, time: Timestamp, asked: &QuestionBody) {
        if let QuestionSubject::Barrier { barrier: id } = &asked.subject {
            let Some(barrier) = self.barriers.get_mut(id) else { return };
            if barrier.status != BarrierStatus::Broken {
                return;
            }
            barrier.question = Some(QuestionId(seq));
            self.pending_barriers.remove(id);
        }
        self.ask(QuestionId(seq), time, None, asked);
    }

    pub(super) fn question_answered(&mut self, answered: &QuestionAnswer) {
        if !self.is_run_question(answered.question) {
            return;
        }
        let Some(question) = self.close(answered.question) else { return };
        if answered.answer == ABORT {
            self.abort_reason = Some(Text::concat([
                &format!("{} answered abort: ", answered.by).into(),
                &question.asked.text,
            ]));
        }
        if let QuestionSubject::Barrier { barrier: id } = question.asked.subject {
            self.barrier_answered(&id, &answered.answer);
        }
    }

    /// Applies the answer about a broken barrier. A release is a separate event.
    fn barrier_answered(&mut self, id: &str, answer: &str) {
        let Some(barrier) = self.barriers.get_mut(id) else { return };
        barrier.question = None;
        match answer {
            WAIT => barrier.on_break = OnBreak::Wait,
            FAIL if barrier.status == BarrierStatus::Broken => {
                barrier.on_break = OnBreak::Fail;
                self.fatal_barriers.insert(id.to_owned());
            }
            _ => {}
        }
        self.refresh_pending_barrier(id);
    }

    pub(super) fn question_expired(&mut self, expired: &QuestionExpiry) {
        if self.is_run_question(expired.question)
            && let Some(question) = self.expire(expired)
            && let QuestionSubject::Barrier { barrier: id } = question.asked.subject
            && let Some(barrier) = self.barriers.get_mut(&id)
        {
            barrier.question = None;
            self.refresh_pending_barrier(&id);
        }
    }

    /// Closes a question that timed out and returns it. Without `on_timeout`, the question stays
    /// open without a deadline.
    fn expire(&mut self, expired: &QuestionExpiry) -> Option<Question> {
        let id = expired.question;
        match expired.then {
            Some(OnTimeout::EscalateTo(_) | OnTimeout::Answer(_)) => self.close(id),
            Some(OnTimeout::Abort) => {
                let question = self.close(id)?;
                self.abort_reason =
                    Some(Text::concat([&"question timed out: ".into(), &question.asked.text]));
                Some(question)
            }
            None => {
                let question = self.questions.get_mut(&id)?;
                if let Some(deadline) = question.asked.deadline.take() {
                    self.timers.remove(&(deadline, Timer::Question(id)));
                }
                None
            }
        }
    }
}
