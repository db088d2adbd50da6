//! Requests about plan versions: propose, add a step, review, withdraw.
//!
//! An approval is bound to the hash that the reviewer was shown. If a question asks for the
//! approval, the review answers that question.

use serde_json::json;

use plan_ledger::error::Error;
use plan_ledger::ledger::plan_draft;
use plan_ledger::plan::{
    ApprovalPolicy, Command, Event, NO, NameKind, OnFailure, Plan, PlanDraft, Question, QuestionId,
    QuestionSubject, Rejection, Review, Run, RunPolicy, State, Step, TextPolicy, YES,
};

use super::context::RequestContext;
use super::find::{begins_with, check_name, run_of, run_or_only, status};
use super::review::Reply;
use crate::protocol::{Answer, Approval, Failure, OnFailureWord, Policy, ReviewDecision, TextWord};

/// A proposed plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proposal<'a> {
    pub(crate) run: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) reason: &'a str,
    pub(crate) policy: Policy,
}

impl From<Policy> for RunPolicy {
    fn from(policy: Policy) -> Self {
        Self {
            approval: match policy.approval {
                Approval::Automatic => ApprovalPolicy::Automatic,
                Approval::Required => ApprovalPolicy::Required,
            },
            text: match policy.text {
                TextWord::Judge => TextPolicy::Judge,
                TextWord::Trust => TextPolicy::Trust,
            },
            on_failure: match policy.on_failure {
                OnFailureWord::Continue => OnFailure::Continue,
                OnFailureWord::FailFast => OnFailure::FailFast,
            },
        }
    }
}

/// Starts a run, or proposes the next version of its plan.
pub(crate) fn propose(
    context: RequestContext<'_, '_>,
    proposal: &Proposal<'_>,
) -> Result<Answer, Failure> {
    let Proposal { run: name, plan, reason, policy } = *proposal;
    let draft = plan_draft(plan).map_err(Error::from)?;
    let make = |state: &State| {
        Ok(if let Some(run) = state.names.get(name) {
            next_version(*run, draft.clone(), reason)
        } else {
            check_name(NameKind::Run, name)?;
            let (name, draft, reason) = (name.to_owned(), draft.clone(), reason.to_owned());
            Command::StartRun { name, policy: policy.into(), reason, draft }
        })
    };
    context.execute(&make, proposed)?
}

/// Proposes a version with one more step.
pub(crate) fn add_step(
    context: RequestContext<'_, '_>,
    run: Option<&str>,
    step: &Step,
    reason: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let run = run_or_only(state, run)?;
        // Build on the version that waits for review, if any, so that two additions do not
        // conflict.
        let newest = run.newest_proposal().map(|(_, version)| &*version.plan);
        let plan = newest.or(run.plan()).ok_or(Rejection::NoActivePlan).map_err(Error::from)?;
        let mut plan = plan.decode();
        plan.steps.push(step.clone());
        Ok(next_version(run.id, plan_draft(&plan).map_err(Error::from)?, reason))
    };
    context.execute(&make, proposed)?
}

fn next_version(run: plan_ledger::plan::RunId, draft: PlanDraft, reason: &str) -> Command {
    Command::ProposePlan {
        run,
        draft,
        reason: reason.to_owned(),
        trigger: None,
        approval: ApprovalPolicy::Automatic,
    }
}

fn proposed(state: &State, events: &[(u64, Event)]) -> Result<Answer, Failure> {
    let found = events.iter().find_map(|(_, event)| match event {
        Event::PlanProposed(proposed) => Some((proposed.run, proposed.version, proposed.hash)),
        _ => None,
    });
    let Some((Some(run), version, hash)) =
        found.map(|(run, version, hash)| (state.runs.get(&run), version, hash))
    else {
        return Err(Failure::Rejected("the run has ended".to_owned()));
    };
    let is_active = run.active >= version;
    let steps = usize::try_from(version.saturating_sub(1)).ok();
    let steps = steps.and_then(|place| run.versions.get(place)).map_or(0, |each| each.step_count);
    let line = json!({
        "type": "proposed", "run": run.name, "version": version, "hash": hash, "steps": steps,
        "active": is_active, "status": status(Some(run)),
    });
    let status = if is_active { "active" } else { "waiting for review" };
    let text = format!("run {}: version {version}, {steps} steps, {status}", run.name);
    Ok(Answer::success(line, text))
}

/// Approves or rejects the version that waits for review.
pub(crate) fn review(
    context: RequestContext<'_, '_>,
    run_name: &str,
    word: ReviewDecision,
    reply: &Reply<'_>,
) -> Result<Answer, Failure> {
    let (review, answer, word) = match word {
        ReviewDecision::Approved => (Review::Approved, YES, "approved"),
        ReviewDecision::Rejected => (Review::Rejected, NO, "rejected"),
    };
    let make = |state: &State| {
        let run = run_of(state, run_name)?;
        let Some((version, proposed)) = run.newest_proposal() else {
            let message = format!("run {}: no version waits for review", run.name);
            return Err(Failure::Rejected(message));
        };
        let hash = proposed.hash;
        if let Some(seen) = reply.shown.filter(|seen| !begins_with(hash, seen)) {
            let found = hash.short();
            return Err(Failure::Rejected(format!(
                "you were shown {seen}, but version {version} is {found}: read it again with \
                 `ledger plan review`"
            )));
        }
        if let Some((id, question)) = question_about(run, version) {
            return Ok(reply.command(id, answer, question.asked.shown));
        }
        let (by, note) = (reply.by.to_owned(), reply.note.to_owned());
        Ok(Command::ReviewPlan { run: run.id, version, hash, review, by, note })
    };
    context.execute(&make, |state, events| {
        let run = run_of(state, run_name)?;
        let reviewed = events.iter().find_map(|(_, event)| match event {
            Event::PlanReviewed(reviewed) => Some((reviewed.version, reviewed.hash)),
            _ => None,
        });
        let (version, hash) = reviewed.unwrap_or_default();
        let line = json!({
            "type": "reviewed", "run": run.name, "version": version, "hash": hash, "review": word,
        });
        let now = status(Some(run));
        let text = format!("run {}: version {version} is {word}; the run is {now}", run.name);
        Ok(Answer::success(line, text))
    })?
}

/// The open question about a version.
pub(crate) fn question_about(run: &Run, version: u32) -> Option<(QuestionId, &Question)> {
    let subject = QuestionSubject::Plan { version };
    let mut about = run.questions.iter().filter(|(_, each)| each.asked.subject == subject);
    about.next().map(|(id, question)| (*id, question))
}

/// Withdraws the request for another version.
pub(crate) fn withdraw(
    context: RequestContext<'_, '_>,
    run_name: &str,
    by: &str,
    reason: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let run = run_of(state, run_name)?.id;
        Ok(Command::WithdrawReplan { run, by: by.to_owned(), reason: reason.to_owned() })
    };
    context.execute(&make, |state, _| {
        let run = run_of(state, run_name)?;
        let now = status(Some(run));
        let line = json!({ "type": "withdrawn", "run": run.name, "status": now });
        let text = format!("run {}: the replan request is withdrawn; the run is {now}", run.name);
        Ok(Answer::success(line, text))
    })?
}
