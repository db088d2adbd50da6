//! What happens when a budget is used up: the run pauses and somebody is asked. Nothing is killed.

use crate::plan::event::Event;
use crate::plan::event::question::{ABORT, Asked, REPLAN, Subject};
use crate::plan::event::run_event::{PauseCause, QuestionAsked, RunPaused};
use crate::plan::state::run::Run;

/// The run pauses, and somebody is asked.
pub(crate) fn used_up(run: &Run, cause: PauseCause) -> Vec<Event> {
    let what = match &cause {
        PauseCause::RunBudget(part) => format!("the run's budget of {part} is used up"),
        PauseCause::LedgerBudget(part) => format!("the ledger's budget of {part} is used up"),
        PauseCause::StepLimit(step) => format!("an attempt of step {step} cost more than it may"),
        PauseCause::Person(by) => format!("{by} said so"),
    };
    let how = match &cause {
        PauseCause::RunBudget(_) | PauseCause::LedgerBudget(_) => "raise it",
        // Of what was spent already, nothing can be raised.
        PauseCause::StepLimit(_) | PauseCause::Person(_) => "resume the run",
    };
    let asked = Asked {
        subject: Subject::Budget,
        text: format!("{what}: {how} to go on"),
        shown: run.active_version().map(|version| version.hash).unwrap_or_default(),
        options: [REPLAN, ABORT].map(str::to_owned).to_vec(),
        to: None,
        deadline: None,
        on_timeout: None,
    };
    let mut events = Vec::new();
    if run.pause.is_none() {
        events.push(Event::RunPaused(RunPaused { run: run.id, cause, reason: what }));
    }
    if !run.questions.values().any(|each| each.asked.subject == Subject::Budget) {
        events.push(Event::QuestionAsked(QuestionAsked { run: run.id, asked }));
    }
    events
}
