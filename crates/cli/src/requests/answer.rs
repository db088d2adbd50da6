//! Answers a question by its number.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{PauseCause, QuestionSubject, RAISE, StepEvent, YES};
use plan_ledger::{
    Command, ContentHash, Error, Event, Question, QuestionId, Rejection, Run, State, StepNumber,
    StepStatus,
};
use plan_ledger_views::{raise_by, recorded_text};

use crate::protocol::{Failure, StepName};

use super::answer_line::AnswerLine;
use super::budget::{BudgetChange, changed};
use super::commands_approval::approval_of_commands;
use super::context::RequestContext;
use super::find::{begins_with, request_command, run_status, step_status};
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{HttpMethod, Role, Rules};

/// Answer a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The number of the question.
    pub question: u64,
    /// One of its options.
    pub answer: String,
    /// The author, for the record.
    pub by: Author,
    /// The reason.
    #[serde(default)]
    pub note: String,
    /// The hash that the question showed, or a prefix of it: if it has changed, the answer is
    /// rejected.
    #[serde(default)]
    pub shown: Option<String>,
    /// With the answer `raise`: by how much each part of the exhausted budget is raised, as in `budget`.
    #[serde(default)]
    pub raise: BTreeMap<String, u64>,
}

/// A question, a failure or an unknown outcome was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AnswerAnswer {
    /// The number of the question; absent if a step was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// The answer.
    pub answer: String,
    /// The run.
    pub run: String,
    /// The step's id; null for a question about the run.
    pub step: Option<String>,
    /// The step number.
    pub number: Option<u32>,
    /// The status of the step.
    pub status: Option<StepStatus>,
    /// The status of the run.
    pub run_status: String,
    /// The person whom the question names; absent if that person answered, or if the question names no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

impl RequestKind for AnswerRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/questions/{question}/answer");

    type Answer = AnswerAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<AnswerAnswer, Failure> {
        let id = QuestionId(self.question);
        if self.answer == RAISE {
            return self.raise(id, context);
        }
        if !self.raise.is_empty() {
            let message = format!("`{}` takes no amount; only `{RAISE}` does", self.answer);
            return Err(Failure::Usage(message));
        }
        let (asked, reviewed) = (RefCell::new(None), Cell::new(None));
        let make = |state: &State| {
            let (_, question) = open_question(state, id)?;
            *asked.borrow_mut() = other_asked(question, &self.by);
            let is_approval = self.answer == YES
                && matches!(question.asked.subject, QuestionSubject::Plan { .. });
            reviewed.set(state.questions.get(&id).copied().filter(|_| is_approval));
            self.reply().answer(id, question, &self.answer)
        };
        let then = |state: &State| {
            approval_of_commands(state.runs.get(&reviewed.get()?)?, &self.by, context.origin.peer)
        };
        context.execute_with(&make, &then, |state, events| {
            let run = events.iter().find_map(|(_, event)| event.run());
            let run = run.and_then(|run| state.runs.get(&run));
            let asked = asked.borrow().clone();
            AnswerAnswer::new(id, &self.answer, run, answered_step(events), asked)
        })
    }
}

impl AnswerRequest {
    /// Raises the budget that the question is about, which answers the question.
    fn raise(
        &self,
        id: QuestionId,
        context: RequestContext<'_, '_>,
    ) -> Result<AnswerAnswer, Failure> {
        if !self.note.is_empty() {
            let message = format!("`{RAISE}` takes no note\nhint: `ledger note` records one");
            return Err(Failure::Usage(message));
        }
        context.transact(|transaction| {
            transaction.run_with(|state| self.raise_command(state, id))?;
            let (state, events) = (transaction.state(), transaction.events());
            if state.questions.contains_key(&id) {
                let message = "the raise is too small: the budget is exhausted as before\n\
                               hint: `ledger budget` shows how much is spent";
                return Err(Failure::Rejected(message.to_owned()));
            }
            let answered = events.iter().find_map(|(_, event)| match event {
                Event::QuestionAnswered(it) if it.answered.question == id => {
                    state.runs.get(&it.run)
                }
                _ => None,
            });
            Ok(AnswerAnswer::new(id, &self.answer, answered, None, None))
        })
    }

    fn raise_command(&self, state: &State, id: QuestionId) -> Result<Command, Failure> {
        let (run, question) = open_question(state, id)?;
        self.reply().expect_shown(question)?;
        let is_option = question.asked.options.iter().any(|option| option == RAISE);
        let (of, limits, part) = match &run.pause {
            Some(PauseCause::RunBudget { part }) if is_option => {
                (Some(run.id), run.limits(), *part)
            }
            Some(PauseCause::LedgerBudget { part }) if is_option => {
                (None, state.account.limits.unwrap_or_default(), *part)
            }
            _ => {
                let (answer, options) = (self.answer.clone(), question.asked.options.clone());
                return Err(Error::from(Rejection::NotAnOption { answer, options }).into());
            }
        };
        if self.raise.is_empty() {
            let [option, amount] = raise_by(part);
            let words = [id.0.to_string(), RAISE.to_owned(), option.to_owned(), amount.to_owned()];
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let message =
                format!("`{RAISE}` needs an amount\nhint: `{}`", request_command("answer", &words));
            return Err(Failure::Usage(message));
        }
        let limits = changed(limits, &BudgetChange::Raise(self.raise.clone()))?;
        Ok(Command::SetBudget { run: of, limits, by: self.by.to_string() })
    }

    fn reply(&self) -> Reply<'_> {
        Reply { by: &self.by, note: &self.note, shown: self.shown.as_deref() }
    }
}

/// The run and the content of an open question.
fn open_question(state: &State, id: QuestionId) -> Result<(&Run, &Question), Failure> {
    let run = state.questions.get(&id).and_then(|run| state.runs.get(run));
    let found = run.and_then(|run| Some((run, run.questions.get(&id)?)));
    Ok(found.ok_or(Rejection::NoSuchQuestion(id)).map_err(Error::from)?)
}

impl AnswerAnswer {
    /// The line about a question that was answered, which is about a step or about its run.
    pub(super) fn new(
        question: QuestionId,
        answer: &str,
        run: Option<&Run>,
        step: Option<StepNumber>,
        asked: Option<String>,
    ) -> Self {
        let step = run.zip(step);
        Self {
            question: Some(question.0),
            answer: answer.to_owned(),
            run: run.map_or_else(String::new, |run| run.name.clone()),
            step: step.map(|(run, step)| StepName::of(run, step).id),
            number: step.map(|(_, step)| step.0),
            status: step.map(|(run, step)| step_status(run, step)),
            run_status: run.map_or_else(String::new, run_status),
            asked,
        }
    }
}

/// The person whom a question was for, if it is another one than its author.
pub(super) fn other_asked(question: &Question, by: &str) -> Option<String> {
    question.asked.to.clone().filter(|to| to != by && !plan_ledger::mutant!(OtherAnswererSilent))
}

/// The step of the answered question in a commit.
fn answered_step(events: &[(u64, Event)]) -> Option<StepNumber> {
    events.iter().find_map(|(_, event)| match event {
        Event::Step(record) if matches!(record.event, StepEvent::StepAnswered(_)) => {
            Some(record.step)
        }
        _ => None,
    })
}

/// The author of an answer, a note, and the hash that the author was shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    pub(super) by: &'a str,
    pub(super) note: &'a str,
    pub(super) shown: Option<&'a str>,
}

impl Reply<'_> {
    /// An answer that is bound to the hash that was shown.
    pub(super) fn answer(
        &self,
        id: QuestionId,
        question: &Question,
        answer: &str,
    ) -> Result<Command, Failure> {
        self.expect_shown(question)?;
        Ok(self.command(id, answer, question.asked.shown))
    }

    /// Checks that the author was shown what the question is about.
    fn expect_shown(&self, question: &Question) -> Result<(), Failure> {
        let shown = question.asked.shown;
        match self.shown.filter(|seen| !begins_with(shown, seen)) {
            None => Ok(()),
            Some(seen) => Err(Failure::Rejected(format!(
                "you were shown {seen}, but the question is about {}; read it again with `ledger \
                 questions`",
                shown.short()
            ))),
        }
    }

    /// The command that answers a question.
    pub(super) fn command(
        &self,
        question: QuestionId,
        answer: &str,
        shown: ContentHash,
    ) -> Command {
        let (by, note) = (self.by.to_owned(), self.note.to_owned());
        Command::Answer { question, answer: answer.to_owned(), by, note, shown }
    }
}

impl AnswerLine for AnswerAnswer {
    const WORD: &'static str = "answered";
}

impl fmt::Display for AnswerAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(question) = self.question {
            write!(f, "question {question}: answered {}; ", self.answer)?;
        }
        match (self.number, &self.step, self.status) {
            (Some(number), Some(id), Some(status)) => {
                let step = StepName { number: StepNumber(number), id: id.clone() };
                write!(f, "{step}: the step is {status}")
            }
            _ => write!(f, "run {} is {}", self.run, recorded_text(&self.run_status)),
        }?;
        match &self.asked {
            Some(asked) => write!(f, "\n  the question was for {asked}"),
            None => Ok(()),
        }
    }
}
