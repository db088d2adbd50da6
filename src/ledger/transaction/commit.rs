//! The result of a command, and the step of an attempt in a state.

use crate::log::Ack;
use crate::plan::{AttemptToken, Event, State, StepEvent, StepState, StepStatus};

/// The result of a command.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The acknowledgement of the last event, or of the last durable record if there is no event.
    pub ack: Ack,
    /// The events, each with its sequence number.
    pub events: Vec<(u64, Event)>,
}

impl Commit {
    /// Whether the command was a receipt that was recorded as rejected.
    pub(crate) fn rejects_receipt(&self) -> bool {
        self.events.iter().any(|(_, event)| {
            matches!(event, Event::Step(record)
                if matches!(record.event, StepEvent::ReceiptRefused(_)))
        })
    }
}

/// The step of an attempt that was dispatched.
pub(crate) fn step_of_attempt(state: &State, token: AttemptToken) -> Option<&StepState> {
    let (run, step, _) = state.dispatched.get(&token)?;
    state.runs.get(run)?.step(*step)
}

/// The status of the step of an attempt.
pub(crate) fn status_of_attempt(state: &State, token: AttemptToken) -> StepStatus {
    step_of_attempt(state, token).map_or(StepStatus::Removed, |step| step.status)
}
