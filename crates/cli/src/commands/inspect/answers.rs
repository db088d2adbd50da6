//! Answers to questions: whom a question was for, and who answered it.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::plan::{PauseCause, StepEvent};
use plan_ledger::{Event, QuestionId, Run, RunId, StepNumber};

use crate::output::escape_control;
use crate::protocol::WorkerKind;

use super::ledger_at::LedgerAt;
use super::lookup::step_name;
use super::text::event::event_subject;

/// A question that another person answered than the one whom it was for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AnswerOfAnother {
    /// The person whom it was for.
    asked: String,
    /// The person who answered.
    by: String,
    /// The record of the answer.
    seq: u64,
    /// The step; null for a question about the run.
    step: Option<StepNumber>,
}

impl AnswerOfAnother {
    /// Those of a run, up to the state that is shown. Only the records of answers are read, and of
    /// the questions that they answer.
    pub(crate) fn of_run(ledger: &LedgerAt<'_>, run: RunId) -> Vec<Self> {
        let log = ledger.view.log();
        let kinds = [Kind::QuestionAnswered, Kind::StepAnswered];
        let answers =
            kinds.iter().flat_map(|kind| log.records_of_kind(kind.number(), log.first_seq()));
        // What cannot be read is reported as damage.
        let answers = answers.filter_map(Result::ok).filter(|it| it.seq <= ledger.state.seq);
        let mut found: Vec<Self> = answers
            .filter_map(|record| {
                let event = decode(&record).ok()??;
                let (of, step) = event_subject(&event);
                let question = answered(&event).filter(|_| of == Some(run))?.0;
                let by = author(&event)?;
                let asked = log.record(question).ok()??;
                let asked = decode(&asked).ok()??;
                let (_, asked) = asked_person(question, &asked)?;
                let (asked, by) = (asked.to_owned(), by.to_owned());
                (asked != by).then_some(Self { asked, by, seq: record.seq, step })
            })
            .collect();
        found.sort_by_key(|answer| answer.seq);
        found
    }

    /// The sentence for people.
    pub(crate) fn text(&self, run: &Run) -> String {
        let Self { asked, by, .. } = self;
        let about = self.step.map(|step| format!("{}: ", step_name(run, step))).unwrap_or_default();
        format!(
            "{about}the question was for {}, and {} answered",
            escape_control(asked),
            escape_control(by)
        )
    }
}

/// The question that an event asks, and the person whom it is for.
pub(super) fn asked_person(seq: u64, event: &Event) -> Option<(QuestionId, &str)> {
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
pub(super) fn answered(event: &Event) -> Option<QuestionId> {
    match event {
        Event::QuestionAnswered(event) => Some(event.answered.question),
        Event::Step(record) => match &record.event {
            StepEvent::StepAnswered(event) => Some(event.question),
            _ => None,
        },
        _ => None,
    }
}

/// The person who caused an event; `None` for workers, policies, the runner and its helpers.
pub(super) fn author(event: &Event) -> Option<&str> {
    let by = match event {
        Event::PlanReviewed(event) => &event.by,
        Event::PlanVerdict(event) => &event.verdict.by,
        Event::CapChanged(event) => &event.by,
        Event::RunReopened(event) => &event.by,
        Event::RunResumed(event) => &event.by,
        Event::BudgetChanged(event) => &event.by,
        Event::QuestionAnswered(event) => &event.answered.by,
        Event::ReplanWithdrawn(event) => &event.by,
        Event::RunPaused(event) => match &event.cause {
            PauseCause::Person { by } => by,
            _ => return None,
        },
        Event::Step(record) => match &record.event {
            StepEvent::StepAnswered(event) => &event.by,
            StepEvent::VerdictRecorded(event) => &event.verdict.by,
            StepEvent::OutcomeResolved(event) => &event.by,
            StepEvent::Skipped(event) => &event.by,
            StepEvent::Reopened(event) => &event.by,
            StepEvent::CostCorrected(event) => &event.by,
            _ => return None,
        },
        _ => return None,
    };
    (!is_program(by)).then_some(by.as_str())
}

/// Whether rules of the plan, a runner or its helpers decided, and no person.
pub(crate) fn is_program(by: &str) -> bool {
    let judges = [WorkerKind::Process, WorkerKind::Stub].map(WorkerKind::judge);
    let programs = ["policy:", "runner:", "judge:", "planner:", "decider:"];
    by.is_empty() || judges.contains(&by) || programs.iter().any(|name| by.starts_with(name))
}
