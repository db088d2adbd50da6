//! Answers to questions: the addressee of each question, and the author of the answer.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::log::LogReader;
use plan_ledger::plan::{PauseCause, StepEvent};
use plan_ledger::{Event, QuestionId, Run, RunId, StepNumber};

use crate::output::escape_control;
use crate::protocol::WorkerKind;

use super::lookup::step_name;
use plan_ledger_views::event_subject;

/// A question that was answered by a person other than its addressee.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AnswerOfAnother {
    /// The addressee.
    asked: String,
    /// The person who answered.
    by: String,
    /// The record of the answer.
    pub(crate) seq: u64,
    /// The step; null for a question about the run.
    step: Option<StepNumber>,
}

impl AnswerOfAnother {
    /// Those of all runs, oldest first. Only the records of questions and of answers are read, and the records of
    /// each kind once.
    pub(crate) fn by_run(log: &LogReader) -> BTreeMap<RunId, Vec<Self>> {
        // Unreadable records are reported as damage.
        let read = |kinds: [Kind; 2]| {
            let records = kinds.map(|kind| log.records_of_kind(kind.number(), log.first_seq()));
            let records = records.into_iter().flatten().filter_map(Result::ok);
            records.filter_map(|record| Some((record.seq, decode(&record).ok()??)))
        };
        let answers: Vec<(u64, Event)> =
            read([Kind::QuestionAnswered, Kind::StepAnswered]).collect();
        let mut found: BTreeMap<RunId, Vec<Self>> = BTreeMap::new();
        if answers.is_empty() {
            return found;
        }
        let asked: BTreeMap<QuestionId, String> = read([Kind::QuestionAsked, Kind::StepAsked])
            .filter_map(|(seq, event)| {
                let (question, to) = asked_person(seq, &event)?;
                Some((question, to.to_owned()))
            })
            .collect();
        for (seq, event) in answers {
            let (run, step) = event_subject(&event);
            let to = answered(&event).and_then(|question| asked.get(&question));
            if let (Some(run), Some(asked), Some(by)) = (run, to, author(&event))
                && asked != by
            {
                let answer = Self { asked: asked.clone(), by: by.to_owned(), seq, step };
                found.entry(run).or_default().push(answer);
            }
        }
        for answers in found.values_mut() {
            answers.sort_by_key(|answer| answer.seq);
        }
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

/// The question that an event asks, and its addressee.
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
