//! Answers all open questions that take an answer, as after a night in which many steps failed for one reason.
//!
//! Invariants:
//! - All answers are one commit. A question whose answer is rejected stays open, and the others are answered.
//! - What a person must see or choose alone is never answered here: a version of the plan, a value, an amount, and what
//!   another person was asked.

use std::collections::BTreeMap;
use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{QuestionAnswer, QuestionSubject, RAISE, StepEvent, UsageLimit, VALUE};
use plan_ledger::{
    Command, Event, FailureClass, Question, QuestionId, Rejection, Run, RunId, State, StepNumber,
};

use crate::protocol::{ANSWERED_CLASSES, Answer, Failure, StepName, parse_words};

use super::answer::AnswerAnswer;
use super::answer_line::{AnswerLine, answer_of};
use super::context::RequestContext;
use super::find::{request_command, run_of};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::pending_answer::PendingAnswer;
use super::rules::{HttpMethod, Role, Rules};

/// The word for failures of any class that met a usage limit.
const USAGE_LIMIT: &str = "usage_limit";

/// The maximum number of questions that one request answers.
const QUESTIONS_MAX: usize = 1_000;

/// The maximum number of questions that an error lists.
const LISTED_MAX: usize = 3;

/// Answer all open questions that take this answer.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerAllRequest {
    /// The run's name or number; all runs by default.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunOption,
    /// One of the options of each question.
    #[arg(skip)]
    pub answer: String,
    /// Only questions about failures of this class, or `usage_limit`; all questions by default.
    #[arg(long, value_name = "CLASS", conflicts_with = "shown")]
    #[arg(value_parser = parse_words::<String>(&ANSWERED_CLASSES))]
    #[arg(help = "As --all, but only questions about failures of this class")]
    #[serde(default)]
    pub class: Option<String>,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The reason.
    #[arg(long, value_name = "TEXT", default_value = "", help = "The reason, or your observation")]
    #[serde(default)]
    pub note: String,
}

/// An open question that was not answered with the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NotAnswered {
    /// The number of the question.
    pub question: u64,
    /// The run.
    pub run: String,
    /// The step's id; null for a question about the run.
    pub step: Option<String>,
    /// The step number.
    pub number: Option<u32>,
    /// Why it was not answered.
    pub why: String,
}

impl RequestKind for AnswerAllRequest {
    const RULES: Rules =
        Rules::of(Role::Operator).of_person().long().at(HttpMethod::Post, "/v1/answers");

    type Answer = PendingAnswer;

    const LINES: &'static [&'static str] = &[AnswerAnswer::WORD, NotAnswered::WORD];

    fn prepare(&self) -> Result<(), Failure> {
        match self.class.as_deref() {
            Some(class) if class != USAGE_LIMIT && FailureClass::named(class).is_none() => {
                Err(Failure::Usage(format!("unknown failure class `{class}`")))
            }
            _ => Ok(()),
        }
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PendingAnswer, Failure> {
        context.transact(|transaction| {
            let state = transaction.state();
            let only = self.run.name().map(|name| run_of(state, name)).transpose()?;
            let only = only.map(|run| run.id);
            let mut refused = BTreeMap::new();
            let mut commands = Vec::new();
            let open: Vec<QuestionId> = questions(state, only).map(|(_, id, _)| id).collect();
            for (run, id, question) in questions(state, only) {
                let why = match self.obstacle(run, question) {
                    None if commands.len() >= QUESTIONS_MAX => {
                        Some(format!("{QUESTIONS_MAX} are answered at once: repeat the command"))
                    }
                    obstacle => obstacle,
                };
                match why {
                    Some(why) => drop(refused.insert(id, why)),
                    None => commands.push((id, self.command(id, question))),
                }
            }
            for (id, command) in commands {
                if let Err(error) = transaction.run(&command) {
                    let Some(rejection) = error.rejection() else { return Err(error.into()) };
                    let why = match rejection {
                        Rejection::NoSuchQuestion(_) => "an earlier answer closed it".to_owned(),
                        rejection => rejection.to_string(),
                    };
                    refused.insert(id, why);
                }
            }
            let (state, events) = (transaction.state(), transaction.events());
            let answered: Vec<AnswerAnswer> =
                events.iter().filter_map(|(_, event)| self.answered(state, event)).collect();
            let still_open = questions(state, only).filter(|(_, id, _)| open.contains(id));
            let others = still_open.filter_map(|(run, id, question)| {
                Some(NotAnswered::new(run, (id, question), refused.get(&id)?))
            });
            let others: Vec<NotAnswered> = others.collect();
            if answered.is_empty() {
                return Err(none_answered(&others));
            }
            let pauses: BTreeMap<&str, String> = answered
                .iter()
                .filter_map(|it| {
                    let run = state.run_named(&it.run)?;
                    Some((it.run.as_str(), run.pause.as_ref()?.to_string()))
                })
                .collect();
            let lines = answered.iter().map(answer_of).chain(others.iter().map(answer_of));
            let mut answer = lines.fold(Answer::default(), Answer::and);
            answer.messages.extend(pauses.iter().map(|(run, cause)| {
                let unpause = request_command("unpause", &[run]);
                format!("run {run} is {cause}; nothing is dispatched until `{unpause}`")
            }));
            Ok(PendingAnswer::Complete(answer))
        })
    }
}

impl AnswerAllRequest {
    fn command(&self, question: QuestionId, of: &Question) -> Command {
        let (answer, by, note) = (self.answer.clone(), self.by.to_string(), self.note.clone());
        Command::Answer { question, answer, by, note, shown: of.asked.shown }
    }

    /// Why a question is not answered with others, if it is not.
    fn obstacle(&self, run: &Run, question: &Question) -> Option<String> {
        let asked = &question.asked;
        if let Some(class) = &self.class
            && !is_of_class(run, question, class)
        {
            return Some(format!("it is not about a failure of the class {class}"));
        }
        let options = &asked.options;
        if options.iter().any(|option| option == VALUE) {
            return Some("it takes a value, which is given alone".to_owned());
        }
        if !options.contains(&self.answer) {
            return Some(format!("its answers are {}", options.join(", ")));
        }
        if matches!(asked.subject, QuestionSubject::Plan { .. }) {
            let review = request_command("plan review", &[&run.name]);
            return Some(format!("a version of a plan is reviewed alone: `{review}`"));
        }
        if self.answer == RAISE {
            return Some("it needs an amount, which is given alone".to_owned());
        }
        let other = asked.to.as_ref().filter(|to| to.as_str() != &*self.by);
        other.map(|other| format!("it is for {other}"))
    }

    /// The line about a question that this event answers.
    fn answered(&self, state: &State, event: &Event) -> Option<AnswerAnswer> {
        let is_own = |it: &QuestionAnswer| it.answer == self.answer && it.by == *self.by;
        let (run, step, answered) = match event {
            Event::Step(record) => match &record.event {
                StepEvent::StepAnswered(answered) => (record.run, Some(record.step), answered),
                _ => return None,
            },
            Event::QuestionAnswered(it) => (it.run, None, &it.answered),
            _ => return None,
        };
        let run = state.runs.get(&run);
        is_own(answered)
            .then(|| AnswerAnswer::new(answered.question, &self.answer, run, step, None))
    }
}

/// The failure where no question was answered.
fn none_answered(others: &[NotAnswered]) -> Failure {
    let mut parts: Vec<String> = others.iter().take(LISTED_MAX).map(NotAnswered::text).collect();
    if others.len() > LISTED_MAX {
        parts.push(format!("{} more", others.len() - LISTED_MAX));
    }
    if parts.is_empty() {
        return Failure::Rejected("no question is open".to_owned());
    }
    Failure::Rejected(format!(
        "no open question was answered: {}\nhint: `{}` lists them",
        parts.join("; "),
        request_command("questions", &[])
    ))
}

/// The open questions of a run, or of all runs, in their order.
fn questions(
    state: &State,
    only: Option<RunId>,
) -> impl Iterator<Item = (&Run, QuestionId, &Question)> {
    let of = state.questions.iter().filter(move |(_, run)| only.is_none_or(|only| **run == only));
    of.filter_map(|(id, run)| {
        let run = state.runs.get(run)?;
        Some((run, *id, run.questions.get(id)?))
    })
}

/// Whether a question is about a failure of this class.
fn is_of_class(run: &Run, question: &Question, class: &str) -> bool {
    let QuestionSubject::Failure { .. } = question.asked.subject else { return false };
    let Some(step) = question.step.and_then(|step| run.step(step)) else { return false };
    if class == USAGE_LIMIT {
        let receipt = step.attempt().and_then(|attempt| attempt.receipt.as_ref());
        return receipt.is_some_and(|receipt| UsageLimit::of(&receipt.outcome).is_some());
    }
    let failure = step.last_failure();
    failure.is_some_and(|(found, _)| Some(*found) == FailureClass::named(class))
}

impl NotAnswered {
    fn new(run: &Run, (id, question): (QuestionId, &Question), why: &str) -> Self {
        Self {
            question: id.0,
            run: run.name.clone(),
            step: question.step.map(|step| StepName::of(run, step).id),
            number: question.step.map(|step| step.0),
            why: why.to_owned(),
        }
    }

    /// The question, and why it was not answered.
    fn text(&self) -> String {
        let Self { question, step, number, why, .. } = self;
        match (number, step) {
            (Some(number), Some(id)) => {
                let step = StepName { number: StepNumber(*number), id: id.clone() };
                format!("question {question}, {step}: {why}")
            }
            _ => format!("question {question}: {why}"),
        }
    }
}

impl AnswerLine for NotAnswered {
    const WORD: &'static str = "not_answered";
}

impl fmt::Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not answered: {}", self.text())
    }
}
