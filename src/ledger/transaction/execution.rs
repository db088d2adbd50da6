//! A transaction: commands that are decided on one state and committed together.
//!
//! Invariants:
//! - All commands of a transaction are one atomic batch, and no other command is decided in between.
//! - All of its commands share the budget of evaluations of one commit.
//! - Under a key that was already committed, a transaction executes nothing: it has the events of
//!   that commit.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::environment::IdSource;
use crate::plan::{
    Command, Evaluator, Event, Executed, MAX_BATCH_EVENTS, Salt, State, Timestamp, execute_within,
};

use super::prepared::Prepared;

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
    /// Whether the consequences of all of its commands are among its events.
    is_settled: bool,
    has_backlog: bool,
    evaluator: Evaluator,
    /// The source of the salts of values.
    salts: Option<Arc<dyn IdSource>>,
    /// The command of the options.
    prepared: Option<&'a Prepared<'a>>,
}

#[derive(Debug)]
enum TransactionState<'a> {
    /// Commands change this state.
    New(&'a mut State),
    /// The key was already committed, and commands are skipped.
    Repeated(&'a State),
}

impl<'a> Transaction<'a> {
    /// A transaction that begins at the sequence number `first`. `has_backlog`: some consequences
    /// of earlier commands did not fit into their batches.
    pub(super) fn new(
        state: &'a mut State,
        first: u64,
        now: Timestamp,
        has_backlog: bool,
        evaluator: Evaluator,
    ) -> Self {
        let (state, events) = (TransactionState::New(state), Vec::new());
        let (is_executed, is_settled) = (false, true);
        Self {
            state,
            first,
            now,
            events,
            is_executed,
            is_settled,
            has_backlog,
            evaluator,
            salts: None,
            prepared: None,
        }
    }

    /// The same transaction, with values that can be erased.
    pub(super) fn with_salts(self, salts: Arc<dyn IdSource>) -> Self {
        Self { salts: Some(salts), ..self }
    }

    /// The same transaction, with the command of its options.
    pub(super) fn with_prepared(self, prepared: Option<&'a Prepared<'a>>) -> Self {
        Self { prepared, ..self }
    }

    /// A transaction that was already committed with these events.
    pub(super) fn repeated(state: &'a State, events: Vec<(u64, Event)>) -> Self {
        let (now, state) = (state.time, TransactionState::Repeated(state));
        let (is_executed, is_settled, has_backlog) = (true, true, false);
        Self {
            state,
            first: 0,
            now,
            events,
            is_executed,
            is_settled,
            has_backlog,
            evaluator: Evaluator::new(0),
            salts: None,
            prepared: None,
        }
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

    /// Execute the command of the options, if there is one.
    pub(super) fn run_prepared(&mut self) -> Result<()> {
        self.prepared.map_or(Ok(()), |prepared| self.run(&prepared.command))
    }

    /// The command of the options.
    pub(super) fn prepared(&self) -> Option<&'a Prepared<'a>> {
        self.prepared
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
        let salt = || self.salts.as_ref().map(|salts| Salt(salts.next_id()));
        let command = salted(command, salt);
        let next = self.first.saturating_add(u64::try_from(self.events.len()).unwrap_or(u64::MAX));
        let executed = execute_within(state, next, self.now, &command, &mut self.evaluator);
        let Executed { events, is_settled } = executed.map_err(Error::from)?;
        // Only a tick settles all runs; other commands keep an existing backlog.
        let keeps_backlog = self.has_backlog && !matches!(*command, Command::Tick);
        self.has_backlog = keeps_backlog || !is_settled;
        self.is_settled &= is_settled;
        self.events.extend((next..).zip(events));
        self.is_executed = true;
        Ok(())
    }

    /// Whether the consequences of all of its commands are among its events.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The rest of the budget of evaluations.
    pub(super) fn steps_left(&self) -> u64 {
        self.evaluator.steps_left()
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

/// The command with a salt for each of its values. Values of one command share a salt: they are
/// erased together.
fn salted(mut command: Cow<'_, Command>, salt: impl FnOnce() -> Option<Salt>) -> Cow<'_, Command> {
    if command.has_values()
        && let Some(salt) = salt()
    {
        command.to_mut().set_salt(salt);
    }
    command
}

fn no_room(events: usize) -> Error {
    let message = format!(
        "transaction: expected at most {} events before another command, found {events}",
        MAX_BATCH_EVENTS / 2 - 1
    );
    Error::new(ErrorKind::TooLarge, message)
        .with_hint("execute the command in a separate transaction")
}
