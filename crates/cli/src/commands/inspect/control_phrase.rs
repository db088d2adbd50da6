//! Events about pauses, budgets, questions, requests and forks, each in one phrase, for people.

use std::fmt::Write as _;

use plan_ledger::plan::{
    BudgetChanged, Condition, ConditionJudged, Cost, CostCorrected, Decision, Ending, Limits,
    OnTimeout, QuestionAnswer, QuestionBody, QuestionExpiry, ReplanRequested, ReplanTrigger,
    Ruling, Run, RunForked, RunPaused, RunStatus,
};

pub(super) use crate::output::{
    cost_text, limits_text, paused_text, question_subject_text as subject_text,
};

use super::phrase::because;
use super::text::{Paint, counted, plain, seconds, words};

pub(super) fn paused(event: &RunPaused) -> String {
    format!("run {}{}", paused_text(&event.cause), because(&event.reason))
}

pub(super) fn budget(event: &BudgetChanged) -> String {
    let whose = if event.run.is_some() { "the run" } else { "the ledger" };
    let by = plain(&event.by);
    match event.limits {
        None => format!("budget of {whose} left to the plan by {by}"),
        Some(limits) => format!("budget of {whose} set to {} by {by}", limits_text(limits)),
    }
}

pub(super) fn asked(asked: &QuestionBody) -> String {
    let about = subject_text(&asked.subject);
    let who = asked.to.as_ref().map_or("somebody".to_owned(), |who| plain(who));
    let until = asked.deadline.map(|time| format!(", until {}", seconds(time))).unwrap_or_default();
    format!("{who} is asked {about}{until}{}", because(&asked.text))
}

pub(super) fn answered(answered: &QuestionAnswer) -> String {
    let QuestionAnswer { question, answer, by, note, .. } = answered;
    let note = because(note);
    format!("question @{} answered {} by {}{note}", question.0, plain(answer), plain(by))
}

pub(super) fn expired(expired: &QuestionExpiry) -> String {
    let then = match &expired.then {
        Some(OnTimeout::EscalateTo(who)) => format!("{} is asked", plain(who)),
        Some(OnTimeout::Answer(answer)) => format!("taken as {}", plain(answer)),
        Some(OnTimeout::Abort) => "the run ends".to_owned(),
        None => "it stays open".to_owned(),
    };
    format!("nobody answered question @{} in time: {then}", expired.question.0)
}

pub(super) fn requested(event: &ReplanRequested) -> String {
    let why = match &event.trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            let number = u64::from(*precondition) + 1;
            format!("precondition {number} of step #{step} cannot become true")
        }
        ReplanTrigger::AssumptionBroken { token } => format!("@{token} broke an assumption"),
        ReplanTrigger::RetriesExhausted { token } => format!("@{token} was the last attempt"),
        ReplanTrigger::ExecutorRequest { token } => format!("@{token} asks for it"),
        ReplanTrigger::BudgetExhausted => "the budget is used up".to_owned(),
        ReplanTrigger::ScopeChange { by } => format!("{} wants something else", plain(by)),
        ReplanTrigger::NewEvidence { by } => format!("{} brings new evidence", plain(by)),
        ReplanTrigger::Extension => "few steps are left".to_owned(),
        ReplanTrigger::Failure { token } => format!("@{token} failed"),
    };
    let from = event.from.map(|step| format!(" from step #{step}")).unwrap_or_default();
    format!("another plan is needed{from}, {why}{}", because(&event.reason))
}

pub(super) fn forked(event: &RunForked) -> String {
    let RunForked { parent, at_seq, chain, .. } = event;
    format!("forked from run {parent} at record {at_seq}, chain {}", chain.short())
}

pub(super) fn judged(event: &ConditionJudged) -> String {
    let which = match event.which {
        Condition::RunIf => "its condition".to_owned(),
        Condition::Pre(place) => format!("precondition {}", u64::from(place) + 1),
    };
    let ruling = match event.ruling {
        Ruling::Pass => "holds",
        Ruling::Fail => "does not hold",
    };
    format!("{which} {ruling}{}", because(&event.evidence))
}

pub(super) fn corrected(event: &CostCorrected) -> String {
    let CostCorrected { token, cost, charged, by } = event;
    let (cost, charged, by) = (cost_text(*cost), cost_text(*charged), plain(by));
    format!("@{token} cost {cost}, not {charged}, says {by}")
}

/// What is done about a failure.
pub(super) fn decision(decision: &Decision) -> String {
    match decision {
        Decision::Retry => "to be tried again".to_owned(),
        Decision::Fail => "failed for good".to_owned(),
        Decision::RetryAt(due) => format!("to be tried again at {}", seconds(*due)),
        Decision::Fallback => "its fallback stands in".to_owned(),
        Decision::Replan => "another plan is asked for".to_owned(),
        Decision::Escalate => "somebody is asked".to_owned(),
        Decision::Abort => "the run ends".to_owned(),
        Decision::Doubt => "somebody must say what it did".to_owned(),
    }
}

/// What a run has spent, and may.
pub(super) fn spent(run: &Run) -> String {
    let variables = u64::try_from(run.variables.len()).unwrap_or(u64::MAX);
    let cost = cost_text(run.spent());
    let mut text = format!("{}, cost {cost}", counted(variables, "variable"));
    let limits = run.limits();
    if limits != Limits::default() {
        let attempts = counted(run.account.attempts, "attempt");
        let _ = write!(text, " in {attempts}; it may spend {}", limits_text(limits));
    }
    if run.account.reserved != Cost::default() {
        let _ = write!(text, "; {} reserved", cost_text(run.account.reserved));
    }
    if run.account.estimated != Cost::default() {
        let _ = write!(text, "; {} of it estimated", cost_text(run.account.estimated));
    }
    text
}

/// How a run stands, and how that stands out.
pub(super) fn run_status(status: RunStatus) -> (Paint, String) {
    match status {
        RunStatus::Proposed => (Paint::Notice, "proposed".to_owned()),
        RunStatus::Running => (Paint::None, "running".to_owned()),
        RunStatus::Ended(ending) => {
            let paint = if ending == Ending::Done { Paint::Good } else { Paint::Bad };
            (paint, words(&ending, ' '))
        }
    }
}
