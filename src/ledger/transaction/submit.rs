//! Submits transactions: decides their commands on the state, and passes their events to the log.
//!
//! Invariant: from the first change of the state until the log accepts the events, the state is
//! marked as stale, so that any failure in between, even a panic, lets it be folded again.

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::blobs::blob_of;
use crate::ledger::codec::event::{decode, encode};
use crate::ledger::snapshot::load::expect_valid;
use crate::log::{Batch, BatchKey, Durability, Ticket};
use crate::plan::{Command, EvaluationPool, Evaluator, State};

use super::commit::Commit;
use super::engine::{Engine, Freshness};
use super::execution::Transaction;
use super::prepared::Prepared;
use super::submitted::{DependsOn, Submitted};

/// How a transaction is committed.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommitOptions<'a> {
    /// The key under which it is committed once.
    pub key: Option<&'a BatchKey>,
    /// The steps that its evaluations share with those of other commits; by default they have the
    /// budget of one commit.
    pub evaluations: Option<&'a EvaluationPool>,
    /// The command that is prepared before the lock is taken: a large output is stored beside the log.
    /// `Transaction::record_receipt` executes it.
    pub command: Option<&'a Command>,
}

impl<'a> From<Option<&'a BatchKey>> for CommitOptions<'a> {
    fn from(key: Option<&'a BatchKey>) -> Self {
        Self { key, ..Self::default() }
    }
}

impl CommitOptions<'_> {
    fn evaluator(self) -> Evaluator {
        self.evaluations.map_or_else(Evaluator::default, |pool| Evaluator::new(pool.left()))
    }
}

impl Engine {
    /// Run the commands of a closure and submit their events as one batch. It is the only way to the
    /// log for events. The closure may be called more than once, since the log may append a record of
    /// its own in the meantime. The command of the options is prepared first, without the lock.
    ///
    /// If the closure fails, nothing is submitted; if it executed a command before, the state must
    /// then be folded again. Under a key that was already committed, the closure gets that commit.
    pub(crate) fn transact<T, E: From<Error>>(
        &self,
        options: CommitOptions<'_>,
        run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> Submitted<'_, T, E> {
        let submitted = self.log.check_process().and_then(|()| {
            let _reservation = self.outputs.reserve();
            let prepared =
                options.command.map(|command| Prepared::of(self, command)).transpose()?;
            self.submit(options, prepared.as_ref(), run)
        });
        submitted.unwrap_or_else(|error| Submitted::failed(self, error.into()))
    }

    /// Execute a command.
    ///
    /// # Errors
    /// As [`crate::Ledger::execute_once`].
    pub(crate) fn execute(&self, key: Option<&BatchKey>, command: &Command) -> Result<Commit> {
        let options = CommitOptions { command: Some(command), ..key.into() };
        let run = |transaction: &mut Transaction<'_>| transaction.run_prepared();
        let committed = self.transact(options, run).wait_commit();
        committed.map(|(commit, ())| commit)
    }

    /// Read from the state without copying it.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Submitted<'_, T> {
        let read = || {
            let mut shared = self.lock()?;
            shared.refresh(&self.log)?;
            let value = read(&shared.state);
            expect_valid(&shared.state)?;
            Ok(value)
        };
        match read() {
            Ok(value) => Submitted::new(self, Ok(value), Vec::new(), DependsOn::STATE),
            Err(error) => Submitted::failed(self, error),
        }
    }

    /// Submit a transaction while its blobs are reserved. If it names one, it is durable on return.
    fn submit<T, E: From<Error>>(
        &self,
        options: CommitOptions<'_>,
        prepared: Option<&Prepared<'_>>,
        mut run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> Result<Submitted<'_, T, E>> {
        let key = options.key;
        let mut guard = self.lock()?;
        if let Some(ticket) = key.map(|key| self.log.recent_ticket(key)).transpose()?.flatten() {
            drop(guard);
            return self.repeat(ticket, prepared, run);
        }
        let shared = &mut *guard;
        loop {
            self.log.check_status()?;
            shared.refresh(&self.log)?;
            let now = self.now();
            let expected = self.log.last_submitted().seq + 1;
            // The record of the key comes before the events.
            let first = expected + u64::from(key.is_some());
            // From here until the log accepts the events, the state may be ahead of the log. If
            // anything fails before that, even by a panic, the state stays marked as stale.
            shared.freshness = Freshness::Stale;
            let (backlog, evaluator) = (shared.has_backlog, options.evaluator());
            let mut transaction =
                Transaction::new(&mut shared.state, first, now, backlog, evaluator)
                    .with_salts(self.environment.ids.clone())
                    .with_prepared(prepared);
            let result = run(&mut transaction);
            if let Some(pool) = options.evaluations {
                pool.keep(transaction.steps_left());
            }
            let (has_backlog, events) = (transaction.has_backlog(), transaction.into_events());
            expect_valid(&shared.state)?;
            if events.as_ref().is_none_or(Vec::is_empty) {
                shared.freshness = Freshness::Current;
            }
            let events = match events {
                Some(events) if result.is_ok() => events,
                _ => return Ok(Submitted::new(self, result, Vec::new(), DependsOn::STATE)),
            };
            if key.is_some() && events.is_empty() {
                shared.freshness = Freshness::Stale;
                shared.state.skip_record(expected, now);
            }
            let batch = Batch {
                records: events.iter().map(|(_, event)| encode(event)).collect(),
                time: now,
                durability: Durability::Sync,
                expected_seq: Some(expected),
                key: key.cloned(),
            };
            let ticket = match self.log.submit(&batch) {
                // The ledger appended a note of its own in the meantime: decide again.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    shared.freshness = Freshness::Stale;
                    continue;
                }
                submitted => submitted?,
            };
            shared.freshness = Freshness::Current;
            shared.has_backlog = has_backlog;
            shared.cache_records(key.map(|_| expected), &events);
            self.finished.follow(&events);
            drop(guard);
            let names_blob = events.iter().any(|(_, event)| blob_of(event).is_some());
            let submitted = Submitted::new(self, result, events, DependsOn::records(ticket));
            return Ok(if names_blob { submitted.settle() } else { submitted });
        }
    }

    /// Run a transaction that was already submitted under its key. The result depends on durable
    /// records only.
    fn repeat<T, E: From<Error>>(
        &self,
        ticket: Ticket,
        prepared: Option<&Prepared<'_>>,
        mut run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> Result<Submitted<'_, T, E>> {
        let Commit { ack, events } = self.earlier_commit(ticket)?;
        let state = self.state()?;
        let mut transaction = Transaction::repeated(&state, events).with_prepared(prepared);
        let result = run(&mut transaction);
        let events = transaction.into_events().unwrap_or_default();
        expect_valid(&state)?;
        Ok(Submitted::new(self, result, events, DependsOn::durable(ack)))
    }

    /// The commit of an earlier batch, read from the log.
    fn earlier_commit(&self, ticket: Ticket) -> Result<Commit> {
        let (first, last) = (ticket.first_seq(), ticket.last_seq());
        let ack = self.log.wait(ticket)?;
        let mut events = Vec::new();
        for record in self.log.reader()?.records_to(first, last) {
            let record = record?;
            events.extend(decode(&record)?.map(|event| (record.seq, event)));
        }
        Ok(Commit { ack, events })
    }
}
