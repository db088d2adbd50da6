//! A transaction: commands that are decided on one state and committed together.
//!
//! Invariants:
//! - All commands of a transaction are one atomic batch, and no other command is decided in between.
//! - Under a key that was already committed, a transaction executes nothing: it has the events of
//!   that commit.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Command, Event, MAX_BATCH_EVENTS, State, Timestamp};

/// Commands that are decided on one state and committed together. [`crate::Ledger::transact`]
/// creates it and passes it to a closure.
#[derive(Debug)]
pub struct Transaction<'a> {
    state: TransactionState<'a>,
    /// The sequence number of the first event.
    first: u64,
    now: Timestamp,
    events: Vec<(u64, Event)>,
    is_executed: bool,
    has_backlog: bool,
}

#[derive(Debug)]
enum TransactionState<'a> {
    /// Commands change this state.
    New(&'a mut State),
    /// The key was already committed, and commands are skipped.
    Repeated(&'a State),
}

impl<'a> Transaction<'a> {
    /// A transaction whose first event gets the sequence number `first`. `has_backlog`: some
    /// consequences of earlier commands did not fit into their batches.
    pub(super) fn new(state: &'a mut State, first: u64, now: Timestamp, has_backlog: bool) -> Self {
        let (state, events) = (TransactionState::New(state), Vec::new());
        Self { state, first, now, events, is_executed: false, has_backlog }
    }

    /// A transaction that was already committed with these events.
    pub(super) fn repeated(state: &'a State, events: Vec<(u64, Event)>) -> Self {
        let (now, state) = (state.time, TransactionState::Repeated(state));
        Self { state, first: 0, now, events, is_executed: true, has_backlog: false }
    }

    /// The state, with the events of this transaction applied.
    #[must_use]
    pub fn state(&self) -> &State {
        match &self.state {
            TransactionState::New(state) => state,
            TransactionState::Repeated(state) => state,
        }
    }

    /// Whether it was already committed under its key, so that its commands are skipped.
    pub(super) fn is_repetition(&self) -> bool {
        matches!(self.state, TransactionState::Repeated(_))
    }

    /// The events of this transaction with their sequence numbers.
    #[must_use]
    pub fn events(&self) -> &[(u64, Event)] {
        &self.events
    }

    /// Execute a command.
    ///
    /// # Errors
    /// `Rejected`, with the reason: the state is unchanged, and the transaction can continue.
    /// `TooLarge` if the earlier commands have so many events that another command may not fit.
    pub fn run(&mut self, command: &Command) -> Result<()> {
        self.run_cow(|_| Ok(Cow::Borrowed(command)))
    }

    /// Build a command from the state and execute it. `build` is not called if the transaction was
    /// already committed under its key.
    ///
    /// # Errors
    /// As [`Transaction::run`]; those of `build`.
    pub fn run_with<E: From<Error>>(
        &mut self,
        build: impl FnOnce(&State) -> std::result::Result<Command, E>,
    ) -> std::result::Result<(), E> {
        self.run_cow(|state| build(state).map(Cow::Owned))
    }

    fn run_cow<'c, E: From<Error>>(
        &mut self,
        build: impl FnOnce(&State) -> std::result::Result<Cow<'c, Command>, E>,
    ) -> std::result::Result<(), E> {
        let TransactionState::New(state) = &mut self.state else { return Ok(()) };
        if self.events.len() >= MAX_BATCH_EVENTS / 2 {
            return Err(no_room(self.events.len()).into());
        }
        let command = build(state)?;
        let next = self.first.saturating_add(u64::try_from(self.events.len()).unwrap_or(u64::MAX));
        let events = crate::plan::execute(state, next, self.now, &command).map_err(Error::from)?;
        // Only a tick settles all runs; other commands keep an existing backlog.
        let keeps_backlog = self.has_backlog && !matches!(*command, Command::Tick);
        self.has_backlog = keeps_backlog || is_full(events.len());
        self.events.extend((next..).zip(events));
        self.is_executed = true;
        Ok(())
    }

    /// Whether consequences of its commands, or of earlier ones, are not recorded yet.
    pub(super) fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// The events, or `None` if no command was executed.
    pub(super) fn into_events(self) -> Option<Vec<(u64, Event)>> {
        self.is_executed.then_some(self.events)
    }
}

/// Whether a command with this number of events filled its batch, so that consequences may be
/// missing.
pub(super) fn is_full(events: usize) -> bool {
    events >= MAX_BATCH_EVENTS
}

fn no_room(events: usize) -> Error {
    let message = format!(
        "transaction: expected at most {} events before another command, found {events}",
        MAX_BATCH_EVENTS / 2 - 1
    );
    Error::new(ErrorKind::TooLarge, message)
        .with_hint("execute the command in a transaction of its own")
}
