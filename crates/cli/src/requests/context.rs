//! The context in which a request is executed.

use plan_ledger::ledger::{CommandSource, Ledger, PendingCommits, Transaction};
use plan_ledger::log::BatchKey;
use plan_ledger::plan::{Command, Event, State};

use crate::protocol::Failure;

/// The ledger, the idempotency key of a request, and the commits that its response depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) key: Option<&'a BatchKey>,
    pub(crate) commits: &'a PendingCommits,
}

impl RequestContext<'_> {
    /// Builds a command from the state, executes it, and reads the result, with no other command in
    /// between.
    pub(crate) fn execute<T>(
        self,
        make: &dyn Fn(&State) -> Result<Command, Failure>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> Result<T, Failure> {
        let command = CommandSource::FromState(make);
        let transaction = Transaction { key: self.key, command, follow_up: None };
        self.ledger.transact_deferred(&transaction, read, self.commits)
    }

    /// Reads the state, which may not be durable yet.
    pub(crate) fn read<T>(self, read: impl FnOnce(&State) -> T) -> Result<T, Failure> {
        Ok(self.ledger.read_deferred(read, self.commits)?)
    }
}
