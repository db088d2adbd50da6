//! Requests of reviewers: verdicts, answers, decisions, notes.
//!
//! An answer about a step applies to its open item: the unknown outcome of a lost attempt, a
//! question, or an escalated failure.

use serde_json::{Value, json};

use plan_ledger::error::Error;
use plan_ledger::ledger::Note;
use plan_ledger::plan::{
    AttemptToken, Command, CompactStep, Criterion, Decision, Event, Question, QuestionId,
    Rejection, ResolvedOutcome, Ruling, Run, State, StepNumber, StepState, StepStatus, Verdict,
};

use super::context::RequestContext;
use super::find::{
    attempt_of, begins_with, name, run_of, run_or_only, status, step_json, step_of, step_status,
    step_to_change, with,
};
use super::work::Judged;
use crate::protocol::{Answer, Failure};

/// The word for the plan itself, where a step is expected.
const PLAN: &str = "plan";

/// The author of an answer, a note, and the hash that the author was shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply<'a> {
    pub(crate) by: &'a str,
    pub(crate) note: &'a str,
    pub(crate) shown: Option<&'a str>,
}

/// Judges the open text criteria of a step or of the plan.
pub(crate) fn judge(
    context: RequestContext<'_, '_>,
    (run_name, word): (&str, &str),
    ruling: Ruling,
    by: &str,
    evidence: &str,
) -> Result<Answer, Failure> {
    let verdicts = |open: Vec<u32>| -> Vec<Verdict> {
        let (by, evidence) = (by.to_owned(), evidence.to_owned());
        let verdict =
            |criterion| Verdict { criterion, ruling, by: by.clone(), evidence: evidence.clone() };
        open.into_iter().map(verdict).collect()
    };
    let make = |state: &State| {
        let run = run_of(state, run_name)?;
        let found = step_of(run, word);
        if means_plan(run, word, &found) {
            let verdicts = verdicts(open_plan_criteria(run)?);
            return Ok(Command::JudgePlan { run: run.id, verdicts });
        }
        let (token, open) = open_step_criteria(run, found?)?;
        Ok(Command::Judge { token, verdicts: verdicts(open) })
    };
    context
        .execute(&make, |state, events| Ok(judged(run_of(state, run_name)?, ruling, by, events)))?
}

/// Records the verdict on one criterion of an attempt, or of a run's plan.
pub(crate) fn verdict(
    context: RequestContext<'_, '_>,
    (token, run_name): (Option<u64>, Option<&str>),
    verdict: &Verdict,
) -> Result<Answer, Failure> {
    let token = token.map(AttemptToken);
    let make = |state: &State| {
        let verdicts = vec![verdict.clone()];
        Ok(match token {
            Some(token) => Command::Judge { token, verdicts },
            None => Command::JudgePlan { run: run_or_only(state, run_name)?.id, verdicts },
        })
    };
    context.execute(&make, |state, events| {
        let run = match token {
            Some(token) => attempt_of(state, token)?.0,
            None => run_or_only(state, run_name)?,
        };
        Ok(judged(run, verdict.ruling, &verdict.by, events))
    })?
}

/// The response to a recorded verdict.
fn judged(run: &Run, ruling: Ruling, by: &str, events: &[(u64, Event)]) -> Answer {
    let ruling = match ruling {
        Ruling::Pass => "pass",
        Ruling::Fail => "fail",
    };
    let Judged { count, step } = super::work::judged(events, by);
    let now = status(Some(run));
    let Some(number) = step else {
        let line = json!({
            "type": "judged", "run": run.name, "step": null, "number": null, "ruling": ruling,
            "criteria": count, "status": null, "run_status": now,
        });
        return Answer::success(
            line,
            format!("the plan: {count} judged; run {} is {now}", run.name),
        );
    };
    let step = step_status(run, number);
    let line = with(
        step_json("judged", run, number),
        json!({
            "ruling": ruling, "criteria": count, "status": step.to_string(), "run_status": now,
        }),
    );
    Answer::success(line, format!("{}: {count} judged; the step is {step}", name(run, number)))
}

/// Whether the word stands for the plan. A reported step with that id takes precedence.
fn means_plan(run: &Run, word: &str, found: &Result<StepNumber, Failure>) -> bool {
    let step = found.as_ref().ok().and_then(|number| run.step(*number));
    word == PLAN && step.is_none_or(|step| step.status != StepStatus::Reported)
}

/// The attempt of a reported step and its text criteria without a verdict.
fn open_step_criteria(run: &Run, number: StepNumber) -> Result<(AttemptToken, Vec<u32>), Failure> {
    let step = run.step(number);
    let status = step.map_or(StepStatus::Removed, |step| step.status);
    let attempt = step.and_then(|step| step.attempt());
    let (StepStatus::Reported, Some(attempt)) = (status, attempt) else {
        return Err(Failure::Rejected(format!(
            "{}: nothing to judge: the step is {status}, expected reported",
            name(run, number)
        )));
    };
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let open = open_text(&criteria, |index| attempt.verdicts.contains_key(index));
    if open.is_empty() {
        return Err(Failure::Rejected(format!(
            "{}: no text criterion is open; `ledger run` judges the others",
            name(run, number)
        )));
    }
    Ok((attempt.token, open))
}

/// The plan's own text criteria without a verdict.
fn open_plan_criteria(run: &Run) -> Result<Vec<u32>, Failure> {
    let plan = run.plan().ok_or(Rejection::NoActivePlan).map_err(Error::from)?;
    let open =
        open_text(&plan.header().test_criteria, |index| run.plan_verdicts.contains_key(index));
    if open.is_empty() {
        let message = format!("run {}: the plan has no open text criterion", run.name);
        return Err(Failure::Rejected(message));
    }
    Ok(open)
}

fn open_text(criteria: &[Criterion], is_judged: impl Fn(&u32) -> bool) -> Vec<u32> {
    (0..)
        .zip(criteria)
        .filter(|(index, each)| matches!(each, Criterion::Text(_)) && !is_judged(index))
        .map(|(index, _)| index)
        .collect()
}

/// Answers a question by its number.
pub(crate) fn answer(
    context: RequestContext<'_, '_>,
    question: u64,
    answer: &str,
    reply: &Reply<'_>,
) -> Result<Answer, Failure> {
    let id = QuestionId(question);
    let make = |state: &State| {
        let found =
            state.questions.get(&id).and_then(|run| state.runs.get(run)?.questions.get(&id));
        let question = found.ok_or(Rejection::NoSuchQuestion(id)).map_err(Error::from)?;
        answer_command(id, question, answer, reply)
    };
    context.execute(&make, |state, events| {
        let about =
            events.iter().find_map(|(_, event)| event.run()).and_then(|run| state.runs.get(&run));
        let line = json!({ "type": "answered", "question": question, "answer": answer });
        let what = match (about, super::work::answered(events)) {
            (Some(run), Some(step)) => {
                format!("{}: the step is {}", name(run, step), step_status(run, step))
            }
            (run, _) => {
                format!("run {} is {}", run.map_or("", |run| &run.name), status(run))
            }
        };
        Answer::success(line, format!("question {question}: answered {answer}; {what}"))
    })
}

/// An answer that is bound to the hash that was shown.
fn answer_command(
    id: QuestionId,
    question: &Question,
    answer: &str,
    reply: &Reply<'_>,
) -> Result<Command, Failure> {
    let shown = question.asked.shown;
    if let Some(seen) = reply.shown
        && !begins_with(shown, seen)
    {
        return Err(Failure::Rejected(format!(
            "you were shown {seen}, but the question is about {}; read it again with `ledger \
             questions`",
            shown.short()
        )));
    }
    Ok(reply.command(id, answer, shown))
}

impl Reply<'_> {
    /// The command that answers a question.
    pub(crate) fn command(
        &self,
        question: QuestionId,
        answer: &str,
        shown: plan_ledger::plan::ContentHash,
    ) -> Command {
        let (by, note) = (self.by.to_owned(), self.note.to_owned());
        Command::Answer { question, answer: answer.to_owned(), by, note, shown }
    }
}

/// Answers the open item of a step.
pub(crate) fn answer_step(
    context: RequestContext<'_, '_>,
    (run_name, step): (&str, &str),
    answer: &str,
    reply: &Reply<'_>,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let run = run_of(state, run_name)?;
        let number = step_of(run, step)?;
        about_step(run, number, answer, reply)
    };
    context.execute(&make, |state, _| {
        let run = run_of(state, run_name)?;
        let number = step_of(run, step)?;
        let now = step_status(run, number);
        let more = json!({ "answer": answer, "status": now.to_string() });
        let line: Value = with(step_json("answered", run, number), more);
        Ok(Answer::success(line, format!("{}: the step is {now}", name(run, number))))
    })?
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
    match (finding(answer), question, decision(answer)) {
        (Some(finding), _, _) if status == StepStatus::OutcomeUnknown => {
            let (run, by, evidence) = (run.id, reply.by.to_owned(), reply.note.to_owned());
            Ok(Command::ResolveOutcome { run, step: number, finding, by, evidence })
        }
        (_, Some((id, question)), _) => answer_command(id, question, answer, reply),
        (_, None, Some(decision)) if status == StepStatus::Reported => {
            let (rule, reason) = (format!("answer:{}", reply.by), reply.note.to_owned());
            Ok(Command::DecideFailure { run: run.id, step: number, decision, rule, reason })
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

fn decision(word: &str) -> Option<Decision> {
    match word {
        "retry" => Some(Decision::Retry),
        "fail" => Some(Decision::Fail),
        "fallback" => Some(Decision::Fallback),
        "replan" => Some(Decision::Replan),
        "escalate" => Some(Decision::Escalate),
        "abort" => Some(Decision::Abort),
        _ => None,
    }
}

/// Records a note.
pub(crate) fn note(
    context: RequestContext<'_, '_>,
    (run, step): (Option<&str>, Option<&str>),
    text: &str,
    by: &str,
) -> Result<Answer, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::Usage("a note needs text".to_owned()));
    }
    let (found, named) = context.read(|state| {
        if run.is_none() && step.is_none() {
            let line = json!({ "run": null, "step": null, "number": null });
            return Ok(((None, None), line));
        }
        let run = run_or_only(state, run)?;
        let number = step.map(|step| step_of(run, step)).transpose()?;
        let id = number.and_then(|number| run.step(number)).map(StepState::id);
        let line = json!({ "run": run.name, "step": id, "number": number });
        Ok::<_, Failure>(((Some(run.id), number), line))
    })??;
    let note = Note { run: found.0, step: found.1, by: by.to_owned(), text: text.to_owned() };
    let seq = context.ledger.add_note(&note, context.key)?.seq;
    let line = with(json!({ "type": "noted", "seq": seq }), named);
    Ok(Answer::success(line, format!("record {seq}: noted")))
}

/// Decides about a failed attempt, if the plan leaves the decision to an external decider.
pub(crate) fn decide(
    context: RequestContext<'_, '_>,
    (run_name, step): (&str, &str),
    (word, after_seconds): (&str, Option<u64>),
    (rule, reason): (&str, &str),
) -> Result<Answer, Failure> {
    let now = context.ledger.now();
    let decided = match (word, after_seconds) {
        ("retry", Some(seconds)) => {
            Decision::RetryAt { due: now.saturating_add(seconds.saturating_mul(1_000_000)) }
        }
        (_, Some(_)) => {
            let message = format!("`{word}` takes no delay; only `retry` does");
            return Err(Failure::Usage(message));
        }
        ("outcome_unknown", None) => Decision::OutcomeUnknown,
        (word, None) => decision(word).ok_or_else(|| {
            Failure::Usage(format!(
                "unknown decision `{word}`; expected one of: retry, fail, fallback, replan, \
                 escalate, abort, outcome_unknown"
            ))
        })?,
    };
    let make = |state: &State| {
        let run = run_of(state, run_name)?;
        let (rule, reason) = (rule.to_owned(), reason.to_owned());
        let step = step_to_change(run, step)?;
        Ok(Command::DecideFailure { run: run.id, step, decision: decided, rule, reason })
    };
    context.execute(&make, |state, _| {
        let run = run_of(state, run_name)?;
        let number = step_of(run, step)?;
        let status = step_status(run, number);
        let more = json!({ "decision": word, "rule": rule, "status": status.to_string() });
        let line = with(step_json("decided", run, number), more);
        Ok(Answer::success(line, format!("{}: {word}; the step is {status}", name(run, number))))
    })?
}
