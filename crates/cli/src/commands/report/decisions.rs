//! The decisions of people among the records.

use plan_ledger::plan::{Origin, PauseCause, ReplanTrigger, StepEvent};
use plan_ledger::{Event, StepNumber, Timestamp};

use crate::commands::inspect::is_program;
use plan_ledger_views::event_text;

/// A decision, and its author.
pub(super) struct Decision {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) by: String,
    pub(super) step: Option<StepNumber>,
    pub(super) text: String,
}

/// The decision in a record, if any.
pub(super) fn decision(seq: u64, time: Timestamp, event: &Event) -> Option<Decision> {
    let by = author(event).filter(|by| !is_program(by))?.to_owned();
    let step = match event {
        Event::Step(record) => Some(record.step),
        _ => None,
    };
    Some(Decision { seq, time, by, step, text: event_text(event) })
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
