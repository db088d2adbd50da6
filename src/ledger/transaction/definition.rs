//! A transaction: a command, which is given or built from the state, and an optional second command
//! in the same commit.
//!
//! Invariant: both commands are one atomic batch. If the second is rejected, the first is committed
//! alone.

use crate::error::Error;
use crate::log::BatchKey;
use crate::plan::{Command, Event, State};

/// Commands that are decided on one state and committed together.
pub struct Transaction<'a, E = Error> {
    /// An idempotency key: the transaction is committed once per key; see
    /// [`super::super::Ledger::execute_once`].
    pub key: Option<&'a BatchKey>,
    /// The command.
    pub command: CommandSource<'a, E>,
    /// Builds a second command for the same commit after the first was executed.
    pub follow_up: Option<FollowUp<'a>>,
}

/// The origin of a command.
pub enum CommandSource<'a, E = Error> {
    /// A given command. A command with a receipt must be given, since a large output is stored
    /// before the command is decided.
    Given(&'a Command),
    /// Built from the state on which it is decided. The function may be called more than once.
    FromState(&'a dyn Fn(&State) -> std::result::Result<Command, E>),
}

/// Builds the second command of a transaction from the state and the events after the first.
pub type FollowUp<'a> = &'a dyn Fn(&State, &[Event]) -> Option<Command>;

impl<'a> Transaction<'a> {
    /// One given command.
    #[must_use]
    pub fn of(command: &'a Command) -> Self {
        Transaction { key: None, command: CommandSource::Given(command), follow_up: None }
    }
}

impl<E> Clone for Transaction<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Transaction<'_, E> {}

impl<E> Clone for CommandSource<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for CommandSource<'_, E> {}

impl<E> std::fmt::Debug for Transaction<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<E> std::fmt::Debug for CommandSource<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given(command) => f.debug_tuple("Given").field(command).finish(),
            Self::FromState(_) => f.write_str("FromState(..)"),
        }
    }
}
