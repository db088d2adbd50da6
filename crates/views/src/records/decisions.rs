//! The decisions of people among the records: their authors, and the questions that they answer.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{Origin, PauseCause, ReplanTrigger, StepEvent};
use plan_ledger::{Event, QuestionId, Run, StepNumber};

use crate::words::{WorkerKind, step_name};

/// A question that was answered by a person other than its addressee.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AnswerOfAnother {
    /// The addressee.
    pub asked: String,
    /// The person who answered.
    pub by: String,
    /// The record of the answer.
    pub seq: u64,
    /// The step; null for a question about the run.
    pub step: Option<StepNumber>,
}

impl AnswerOfAnother {
    /// The sentence for people.
    #[must_use]
    pub fn text(&self, run: &Run) -> String {
        let Self { asked, by, .. } = self;
        let about = self.step.map(|step| format!("{}: ", step_name(run, step))).unwrap_or_default();
        format!("{about}the question was for {asked}, and {by} answered")
    }
}

/// The question that an event asks, and its addressee.
#[must_use]
pub fn asked_person(seq: u64, event: &Event) -> Option<(QuestionId, &str)> {
    let body = match event {
        Event::QuestionAsked(event) => &event.asked,
        Event::Step(record) => match &record.event {
            StepEvent::StepAsked(asked) => asked,
            _ => return None,
        },
        _ => return None,
    };
    Some((QuestionId(seq), body.to.as_deref()?))
}

/// The question that an event answers.
#[must_use]
pub fn answered(event: &Event) -> Option<QuestionId> {
    match event {
        Event::QuestionAnswered(event) => Some(event.answered.question),
        Event::Step(record) => match &record.event {
            StepEvent::StepAnswered(event) => Some(event.question),
            _ => None,
        },
        _ => None,
    }
}

/// The person who decided in an event; `None` if a worker, a rule, a runner or one of its helpers did.
#[must_use]
pub fn decided_by(event: &Event) -> Option<&str> {
    author(event).filter(|by| !is_program(by))
}

fn author(event: &Event) -> Option<&str> {
    match event {
        Event::PlanReviewed(event) => Some(&event.by),
        Event::QuestionAnswered(event) => Some(&event.answered.by),
        Event::RunPaused(event) => match &event.cause {
            PauseCause::Person { by } => Some(by),
            _ => None,
        },
        Event::PlanVerdict(event) => Some(&event.verdict.by),
        Event::RunResumed(event) => Some(&event.by),
        Event::RunReopened(event) => Some(&event.by),
        Event::BudgetChanged(event) => Some(&event.by),
        Event::CapChanged(event) => Some(&event.by),
        Event::FailureSettingsChanged(event) => Some(&event.by),
        Event::ReplanWithdrawn(event) => Some(&event.by),
        Event::ReplanRequested(event) => match &event.trigger {
            ReplanTrigger::ScopeChange { by }
            | ReplanTrigger::NewEvidence { by }
            | ReplanTrigger::Requested { by } => Some(by),
            _ => None,
        },
        Event::VariableSet(event) => match &event.origin {
            Origin::Person { who } => Some(who),
            Origin::Step { .. } | Origin::Fallback { .. } | Origin::Agent { .. } => None,
        },
        Event::Step(record) => match &record.event {
            StepEvent::StepAnswered(event) => Some(&event.by),
            StepEvent::Skipped(event) => Some(&event.by),
            StepEvent::Reopened(event) => Some(&event.by),
            StepEvent::OutcomeResolved(event) => Some(&event.by),
            StepEvent::FailureDecided(event) => Some(&event.by),
            StepEvent::CostCorrected(event) => Some(&event.by),
            StepEvent::VerdictRecorded(event) => Some(&event.verdict.by),
            _ => None,
        },
        _ => None,
    }
}

/// Whether rules of the plan, a runner or its helpers decided, and no person.
fn is_program(by: &str) -> bool {
    let judges = [WorkerKind::Process, WorkerKind::Stub].map(WorkerKind::judge);
    let programs = ["policy:", "runner:", "judge:", "planner:", "decider:"];
    by.is_empty() || judges.contains(&by) || programs.iter().any(|name| by.starts_with(name))
}
