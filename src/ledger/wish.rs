//! What is to be carried out in one commit: a command that is ready, or is made of the state; and
//! one more that follows from what the first one leaves.
//!
//! Invariant: both commands are one atomic batch. Where the second is refused, the first stands.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::log::BatchKey;
use crate::plan::{
    AttemptToken, Command, Event, MAX_BATCH_EVENTS, Micros, Receipt, Rejection, State, StepEvent,
    StepStatus,
};

use super::{Ledger, Task, is_refused, status};

/// What somebody wants of a ledger, in one commit.
pub struct Wish<'a, E = Error> {
    /// A name for it, by which it is fulfilled once; see [`Ledger::execute_once`].
    pub key: Option<&'a BatchKey>,
    /// The command.
    pub command: Make<'a, E>,
    /// What is to follow in the same commit, if anything, once the first command was carried out.
    pub then: Option<Follow<'a>>,
}

/// Where a command comes from.
pub enum Make<'a, E = Error> {
    /// It is ready. A receipt has to be, since a large output is stored before it is judged.
    Ready(&'a Command),
    /// It is made of the state by which it is judged, perhaps more than once.
    Of(&'a dyn Fn(&State) -> std::result::Result<Command, E>),
}

impl<'a> Wish<'a> {
    /// One command, and nothing else.
    #[must_use]
    pub fn of(command: &'a Command) -> Self {
        Wish { key: None, command: Make::Ready(command), then: None }
    }
}

impl<E> Clone for Wish<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Wish<'_, E> {}

impl<E> Clone for Make<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Make<'_, E> {}

impl<E> std::fmt::Debug for Wish<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wish").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<E> std::fmt::Debug for Make<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(command) => f.debug_tuple("Ready").field(command).finish(),
            Self::Of(_) => f.write_str("Of(..)"),
        }
    }
}

/// Makes what follows of the state and the events that the first command led to.
pub type Follow<'a> = &'a dyn Fn(&State, &[Event]) -> Option<Command>;

/// Makes a command of the state.
pub(super) type MakeCommand<'a, 'c, E> =
    &'a dyn Fn(&State) -> std::result::Result<Cow<'c, Command>, E>;

/// A wish whose outputs are stored.
pub(super) struct Course<'a, 'c, E> {
    pub(super) make: MakeCommand<'a, 'c, E>,
    pub(super) then: Option<Follow<'a>>,
    pub(super) key: Option<&'a BatchKey>,
}

impl<E> Course<'_, '_, E> {
    /// The events of the first command, and those of what follows, if it may. `first` is the
    /// number of the first of them.
    pub(super) fn go_on(
        &self,
        state: &mut State,
        first: u64,
        now: Micros,
        mut events: Vec<Event>,
    ) -> Vec<Event> {
        // What would not fit into the batch any more is asked for by itself.
        if let Some(then) = self.then.filter(|_| events.len() < MAX_BATCH_EVENTS / 2)
            && let Some(command) = then(state, &events)
        {
            let next = first.saturating_add(u64::try_from(events.len()).unwrap_or(u64::MAX));
            events.extend(crate::plan::execute(state, next, now, &command).unwrap_or_default());
        }
        events
    }
}

impl Ledger {
    /// Record what a worker returned and deal it the first step of the same run's queue, in one
    /// commit, so that a whole step costs one sync: how the reported step stands then, and what
    /// was dealt, if anything could be.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`]; then nothing was dealt.
    pub fn record_receipt_and_dispatch(
        &self,
        token: AttemptToken,
        receipt: Receipt,
        worker: &str,
    ) -> Result<(StepStatus, Option<Task>)> {
        let command = Command::RecordReceipt { token, receipt };
        let then = |state: &State, events: &[Event]| next_of(state, events, token, worker);
        let wish = Wish { then: Some(&then), ..Wish::of(&command) };
        let (commit, (status, task)) =
            self.fulfil(&wish, |state, events| (status(state, token), Task::dealt(state, events)))?;
        if is_refused(&commit) {
            return Err(Rejection::StaleToken(token).into());
        }
        Ok((status, task.map(|task| self.with_earlier(task))))
    }
}

/// The command that deals the next step of the run to a worker whose receipt was just recorded;
/// none if it was refused.
#[doc(hidden)]
pub fn next_of(
    state: &State,
    events: &[Event],
    token: AttemptToken,
    worker: &str,
) -> Option<Command> {
    let is_recorded = |event: &Event| {
        matches!(event, Event::Step(record)
            if matches!(&record.event, StepEvent::ReceiptRecorded(event) if event.token == token))
    };
    let is_recorded = events.iter().any(is_recorded) || bug!(RefusedReceiptDeals);
    let (run, _) = state.dealt.get(&token).filter(|_| is_recorded)?;
    Some(Command::Dispatch { run: *run, step: None, worker: worker.to_owned(), lease: None })
}
