//! Answers the open item of a step: the unknown outcome of a lost attempt, a question, or a failure.

use std::cell::RefCell;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::ResolvedOutcome;
use plan_ledger::{Command, Run, State, StepNumber, StepStatus};

use crate::protocol::{Failure, StepName};

use super::answer::{AnswerAnswer, Reply, other_asked};
use super::context::RequestContext;
use super::decide::decision_of;
use super::find::{name, run_after, run_or_only, run_status, step_of, step_status};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

/// Answer the open item of a step: a question, a failure or an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerStepRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[serde(default)]
    pub run: RunArg,
    /// The step's id or number.
    pub step: String,
    /// One of the options of the question; a decision about the failure; or `landed` or
    /// `did-not-happen`.
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
}

impl RequestKind for AnswerStepRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/steps/{step}/answer");

    type Answer = AnswerAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<AnswerAnswer, Failure> {
        let reply = Reply { by: &self.by, note: &self.note, shown: self.shown.as_deref() };
        let asked = RefCell::new(None);
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?;
            let number = step_of(run, &self.step)?;
            let question = run.step(number).and_then(|step| step.hold().question);
            let question = question.and_then(|id| run.questions.get(&id));
            *asked.borrow_mut() = question.and_then(|it| other_asked(it, &self.by));
            about_step(run, number, &self.answer, &reply)
        };
        context.execute(&make, |state, events| {
            let run = run_after(state, events, self.run.name())?;
            let number = step_of(run, &self.step)?;
            Ok(AnswerAnswer {
                question: None,
                answer: self.answer.clone(),
                run: run.name.clone(),
                step: Some(StepName::of(run, number).id),
                number: Some(number.0),
                status: Some(step_status(run, number)),
                run_status: run_status(run),
                asked: asked.borrow().clone(),
            })
        })?
    }
}

fn about_step(
    run: &Run,
    number: StepNumber,
    answer: &str,
    reply: &Reply<'_>,
) -> Result<Command, Failure> {
    let state = run.step(number);
    let status = state.map_or(StepStatus::Removed, |step| step.status);
    let question = state.and_then(|step| step.hold().question);
    let question = question.and_then(|id| Some((id, run.questions.get(&id)?)));
    match (finding(answer), question, decision_of(answer)) {
        (Some(finding), _, _) if status == StepStatus::OutcomeUnknown => {
            let (run, by, evidence) = (run.id, reply.by.to_owned(), reply.note.to_owned());
            Ok(Command::ResolveOutcome { run, step: number, finding, by, evidence })
        }
        (_, Some((id, question)), _) => reply.answer(id, question, answer),
        (_, None, Some(decision)) if status == StepStatus::Reported => {
            let (rule, reason) = (format!("answer:{}", reply.by), reply.note.to_owned());
            let (class, from) = (None, None);
            Ok(Command::DecideFailure {
                run: run.id,
                step: number,
                decision,
                class,
                from,
                rule,
                reason,
                by: reply.by.to_owned(),
            })
        }
        _ if status == StepStatus::OutcomeUnknown => {
            let message = format!("`{answer}`: expected `landed` or `did-not-happen`");
            Err(Failure::Usage(message))
        }
        _ => {
            let name = name(run, number);
            let message = format!("{name}: no question is open; the step is {status}");
            Err(Failure::Rejected(message))
        }
    }
}

fn finding(word: &str) -> Option<ResolvedOutcome> {
    match word {
        "landed" => Some(ResolvedOutcome::Landed),
        "did-not-happen" | "did_not_happen" => Some(ResolvedOutcome::DidNotHappen),
        _ => None,
    }
}
