//! Approves or rejects a plan version that waits for review.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{NO, PlanReviewed, QuestionSubject, Review, YES};
use plan_ledger::{Command, ContentHash, Event, Question, QuestionId, Run, State};

use plan_ledger_views::recorded_text;

use crate::protocol::{Failure, Peer};

use super::answer::Reply;
use super::answer_line::AnswerLine;
use super::commands_approval::approval_of_commands;
use super::context::RequestContext;
use super::find::{begins_with, request_command, run_after, run_or_only, run_status};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger plan review my-plan                       show the version that waits, and how it differs
  ledger plan approve my-plan --by ana             make it active
  ledger plan approve my-plan --by ana --shown 1f3a9c04d2b7   only if it is what was shown
  ledger plan reject my-plan --by ana --note 'step 3 is too risky'";

/// Approve or reject the version that waits for review. If a question asks for the approval, the
/// review answers that question.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The decision.
    // `ledger plan approve` and `ledger plan reject` set it.
    #[arg(skip = Review::Approved)]
    pub review: Review,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The reason.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub note: String,
    /// The hash that the review showed, or a prefix of it: if it has changed, the review is
    /// rejected.
    #[arg(long, value_name = "HASH")]
    #[serde(default)]
    pub shown: Option<String>,
}

/// A version was approved or rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReviewAnswer {
    /// The run.
    pub run: String,
    /// The number of the version.
    pub version: u32,
    /// The hash of its plan.
    pub hash: ContentHash,
    /// The decision.
    pub review: Review,
    /// The status of the run.
    pub status: String,
    /// The folder in which a judge runs the approved commands; absent without an approval, or if it
    /// is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl RequestKind for ReviewRequest {
    const RULES: Rules =
        Rules::of(Role::Operator).of_person().at(HttpMethod::Post, "/v1/runs/{run}/plan/reviews");

    type Answer = ReviewAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ReviewAnswer, Failure> {
        let peer = context.origin.peer;
        let make = |state: &State| self.command(state, peer);
        let then = |state: &State| self.commands(state, peer);
        context.execute_with(&make, &then, |state, events| {
            let run = run_after(state, events, self.run.name())?;
            let reviews: Vec<&PlanReviewed> = events
                .iter()
                .filter_map(|(_, event)| match event {
                    Event::PlanReviewed(reviewed) => Some(reviewed),
                    _ => None,
                })
                .collect();
            let reviewed = reviews.first().map(|reviewed| (reviewed.version, reviewed.hash));
            let (version, hash) = reviewed.unwrap_or_default();
            let folder = reviews.iter().find_map(|it| it.commands.as_ref()?.folder.clone());
            let (review, status) = (self.review, run_status(run));
            Ok(ReviewAnswer { run: run.name.clone(), version, hash, review, status, folder })
        })?
    }
}

impl ReviewRequest {
    fn command(&self, state: &State, peer: &Peer) -> Result<Command, Failure> {
        let run = run_or_only(state, self.run.name())?;
        // The hash of the active version stands for its commands.
        let shown = |hash| self.shown.as_ref().is_some_and(|seen| begins_with(hash, seen));
        let is_active = run.active_version().is_some_and(|active| shown(active.hash));
        let Some((version, proposed)) = run.newest_proposal().filter(|_| !is_active) else {
            let unapproved = self.commands(state, peer).zip(run.active_version());
            let Some((command, active)) = unapproved else {
                let message = format!("run {}: no version waits for review", run.name);
                return Err(Failure::Rejected(message));
            };
            self.expect_shown(&run.name, run.active, active.hash)?;
            return Ok(command);
        };
        let hash = proposed.hash;
        self.expect_shown(&run.name, version, hash)?;
        if let Some((id, question)) = question_about(run, version) {
            let answer = match self.review {
                Review::Approved => YES,
                Review::Rejected => NO,
            };
            let reply = Reply { by: &self.by, note: &self.note, shown: self.shown.as_deref() };
            return Ok(reply.command(id, answer, question.asked.shown));
        }
        let (by, note) = (self.by.to_string(), self.note.clone());
        Ok(Command::ReviewPlan { run: run.id, version, hash, review: self.review, by, note })
    }

    fn expect_shown(&self, run: &str, version: u32, hash: ContentHash) -> Result<(), Failure> {
        let Some(seen) = self.shown.as_ref().filter(|seen| !begins_with(hash, seen)) else {
            return Ok(());
        };
        let found = hash.short();
        Err(Failure::Rejected(format!(
            "you were shown {seen}, but version {version} is {found}: read it again with \
             `{}`",
            request_command("plan review", &[run])
        )))
    }

    /// The approval of the commands of the active version.
    fn commands(&self, state: &State, peer: &Peer) -> Option<Command> {
        let run = run_or_only(state, self.run.name()).ok()?;
        (self.review == Review::Approved).then(|| approval_of_commands(run, &self.by, peer))?
    }
}

/// The open question about a version.
pub(crate) fn question_about(run: &Run, version: u32) -> Option<(QuestionId, &Question)> {
    let subject = QuestionSubject::Plan { version };
    let mut about = run.questions.iter().filter(|(_, each)| each.asked.subject == subject);
    about.next().map(|(id, question)| (*id, question))
}

impl AnswerLine for ReviewAnswer {
    const WORD: &'static str = "reviewed";
}

impl fmt::Display for ReviewAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, version, status, .. } = self;
        let review = match self.review {
            Review::Approved => "approved",
            Review::Rejected => "rejected",
        };
        let status = recorded_text(status);
        write!(f, "run {run}: version {version} is {review}; the run is {status}")?;
        let Some(folder) = &self.folder else { return Ok(()) };
        write!(f, "; a judge runs its commands in {folder}")
    }
}
