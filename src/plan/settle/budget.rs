//! An exhausted budget pauses the run and asks a question. Attempts in flight continue.

use crate::plan::event::Event;
use crate::plan::event::question::{ABORT, QuestionBody, QuestionSubject, RAISE, REPLAN};
use crate::plan::event::run_event::{PauseCause, QuestionAsked, RunPaused};
use crate::plan::state::run::Run;

/// The events that pause a run and ask about its budget, without those that it needs no longer.
pub(crate) fn pause_for_budget(run: &Run, cause: PauseCause) -> Vec<Event> {
    let is_asked = run.questions.values().any(|each| each.asked.subject == QuestionSubject::Budget);
    let [paused, asked] = pause_and_ask(run, cause);
    let paused = run.pause.is_none().then_some(paused);
    paused.into_iter().chain((!is_asked).then_some(asked)).collect()
}

/// The events that pause a run and ask about its budget.
pub(crate) fn pause_and_ask(run: &Run, cause: PauseCause) -> [Event; 2] {
    let what = match &cause {
        PauseCause::RunBudget { part } => {
            format!("the run's {} budget is exhausted", part.adjective())
        }
        PauseCause::LedgerBudget { part } => {
            format!("the ledger's {} budget is exhausted", part.adjective())
        }
        PauseCause::StepLimit { step } => {
            format!("an attempt of step #{step} exceeded its cost limit")
        }
        PauseCause::Person { by } => format!("paused by {by}"),
        PauseCause::Runner { reason } => reason.clone(),
    };
    let (how, options): (_, &[&str]) = match &cause {
        PauseCause::RunBudget { .. } | PauseCause::LedgerBudget { .. } => {
            ("raise it", &[RAISE, REPLAN, ABORT])
        }
        // The cost was spent already, so there is no limit to raise.
        PauseCause::StepLimit { .. } | PauseCause::Person { .. } | PauseCause::Runner { .. } => {
            ("unpause the run", &[REPLAN, ABORT])
        }
    };
    let asked = QuestionBody {
        subject: QuestionSubject::Budget,
        text: format!("{what}: {how} to continue").into(),
        shown: run.active_version().map(|version| version.hash).unwrap_or_default(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        to: None,
        deadline: None,
        on_timeout: None,
    };
    [
        Event::RunPaused(RunPaused { run: run.id, cause, reason: what }),
        Event::QuestionAsked(QuestionAsked { run: run.id, asked }),
    ]
}
