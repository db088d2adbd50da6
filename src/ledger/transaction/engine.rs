//! The writer of a ledger. It decides and applies commands under a lock and waits for the sync
//! outside of the lock, so that concurrent commands share syncs.
//!
//! A command goes through three steps: `submit` decides it on the state, applies its events and
//! assigns their sequence numbers; the log's group commit syncs them; `wait` returns once they are
//! durable.
//!
//! Invariants:
//! - No result is returned before its own records and all records that it depends on are durable.
//!   This includes rejections.
//! - The state is ahead of the durable records by exactly the submitted ones. If a write fails, the
//!   state is folded again from the log before it is used.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{NewRecord, PAYLOAD_LENGTH_MAX};
use crate::ledger::blobs::OutputStore;
use crate::ledger::codec::event::{decode, encode};
use crate::ledger::codec::values::encoded_length;
use crate::ledger::environment::Environment;
use crate::ledger::snapshot::load::expect_valid;
use crate::ledger::snapshot::scheduler::SnapshotScheduler;
use crate::ledger::snapshot::store;
use crate::log::{Ack, Batch, BatchKey, Durability, Log, LogReader, Ticket};
use crate::plan::{AttemptToken, Command, Event, MAX_BATCH_EVENTS, Receipt, State, Timestamp};

use super::backlog::Backlog;
use super::commit::Commit;
use super::definition::{CommandSource, FollowUp, Transaction};
use super::planned_files::PlannedFilesCache;
use super::state_cache::StateCache;

/// An open ledger.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Dropped first, so that a snapshot in progress ends while the ledger is still locked.
    scheduler: Mutex<SnapshotScheduler>,
    pub(crate) log: Log,
    shared: Mutex<SharedState>,
    pub(crate) environment: Environment,
    pub(crate) outputs: OutputStore,
    pub(crate) planned_files: PlannedFilesCache,
}

/// The data that all threads of a ledger share, besides its log.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// The writer's own state; readers get copies.
    pub(crate) state: State,
    cache: StateCache,
    freshness: Freshness,
    pub(crate) backlog: Backlog,
}

/// Whether the state in memory is the fold of the submitted records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Current,
    /// The state contains events that are not in the log, or a fold did not finish.
    Stale,
    /// The log accepts no more records, and the state is the fold of the durable ones.
    Final,
}

/// A transaction that was submitted to the log; it may not be durable yet.
pub(crate) struct SubmittedTransaction<T> {
    pub(crate) ticket: Ticket,
    events: Vec<(u64, Event)>,
    /// The value that the caller read from the state.
    pub(crate) value: T,
}

/// The outcome of submitting a transaction; `R` reads the value from the state.
pub(crate) enum SubmitOutcome<T, E, R> {
    Submitted(SubmittedTransaction<T>),
    NotSubmitted(SubmitError<E>),
    /// A transaction with the same key was already submitted.
    AlreadySubmitted(Ticket, R),
}

/// The reason why a transaction was not submitted.
pub(crate) enum SubmitError<E> {
    /// It was rejected. The state that it was decided on may not be durable yet.
    Rejected(E),
    /// The log failed.
    Failed(E),
}

/// A transaction that is ready to be submitted: its outputs are stored.
pub(crate) struct Prepared<'a, 'c, E> {
    pub(crate) build: &'a dyn Fn(&State) -> std::result::Result<Cow<'c, Command>, E>,
    pub(crate) follow_up: Option<FollowUp<'a>>,
    pub(crate) key: Option<&'a BatchKey>,
}

impl<E> Prepared<'_, '_, E> {
    /// The events of the first command and of the follow-up, if it is accepted. `first` is the number
    /// of the first event.
    fn follow_up(
        &self,
        state: &mut State,
        first: u64,
        now: Timestamp,
        mut events: Vec<Event>,
    ) -> Vec<Event> {
        // Skip a follow-up that may not fit into the batch; the caller executes it as its next
        // command.
        if let Some(build) = self.follow_up.filter(|_| events.len() < MAX_BATCH_EVENTS / 2)
            && let Some(command) = build(state, &events)
        {
            let next = first.saturating_add(u64::try_from(events.len()).unwrap_or(u64::MAX));
            events.extend(crate::plan::execute(state, next, now, &command).unwrap_or_default());
        }
        events
    }
}

impl SharedState {
    /// `state` is the fold of all records.
    fn new(state: State) -> Self {
        let (freshness, backlog) = (Freshness::Current, Backlog::Empty);
        Self { state, cache: StateCache::default(), freshness, backlog }
    }

    /// Fold the state again if it is stale.
    pub(crate) fn refresh(&mut self, log: &Log) -> Result<()> {
        if self.freshness == Freshness::Stale {
            // A reader sees only durable records. If the flush fails, no further records become
            // durable.
            let flushed = log.flush();
            let projected = store::project::<State>(&log.reader()?, u64::MAX)?;
            self.state = projected.value;
            self.cache.clear();
            self.freshness = if flushed.is_ok() { Freshness::Current } else { Freshness::Final };
        }
        Ok(())
    }

    /// Add the records of a batch to the cache: the record of its key, if any, and its events.
    fn cache_records(&mut self, key: Option<u64>, first: u64, events: &[Event]) {
        let time = self.state.time;
        if let Some(seq) = key {
            self.cache.add_record(seq, time, None);
        }
        for (seq, event) in (first..).zip(events) {
            self.cache.add_record(seq, time, Some(event));
        }
    }

    /// A copy of the state, which must not be stale.
    fn copy(&mut self) -> Arc<State> {
        self.cache.get(&self.state)
    }
}

impl Engine {
    /// `state` is the fold of all records of the log.
    pub(crate) fn new(
        log: Log,
        environment: &Environment,
        scheduler: SnapshotScheduler,
        state: State,
    ) -> Self {
        Self {
            outputs: OutputStore::new(log.blobs()),
            scheduler: Mutex::new(scheduler),
            shared: Mutex::new(SharedState::new(state)),
            environment: environment.clone(),
            planned_files: PlannedFilesCache::default(),
            log,
        }
    }

    /// Execute a transaction, and read a value from the state right after it. If a transaction was
    /// already committed under its key, this one is not executed: that commit is returned, and
    /// `read` gets the current state.
    ///
    /// # Errors
    /// Those of building the command; as [`crate::Ledger::execute_once`].
    pub(crate) fn transact<T, E: From<Error>>(
        &self,
        transaction: &Transaction<'_, E>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> std::result::Result<(Commit, T), E> {
        self.log.check_process()?;
        let _reservation = self.outputs.reserve();
        let command = self.prepare(transaction)?;
        match self.submit(transaction, command.as_deref(), read) {
            SubmitOutcome::Submitted(submitted) => self.wait(Ok(submitted)),
            SubmitOutcome::NotSubmitted(error) => self.wait(Err(error)),
            SubmitOutcome::AlreadySubmitted(ticket, read) => self.wait_for_earlier(ticket, read),
        }
    }

    /// Execute a command, and read a value from the state right after it.
    pub(crate) fn execute<T>(
        &self,
        command: &Command,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> Result<(Commit, T)> {
        self.transact(&Transaction::of(command), read)
    }

    /// The command of a transaction with its large output stored, if the command is
    /// [`CommandSource::Given`].
    pub(crate) fn prepare<'a, E>(
        &self,
        transaction: &Transaction<'a, E>,
    ) -> Result<Option<Cow<'a, Command>>> {
        match &transaction.command {
            CommandSource::Given(command) => {
                let command = self.store_output(command)?;
                expect_fitting(&command)?;
                Ok(Some(command))
            }
            CommandSource::FromState(_) => Ok(None),
        }
    }

    /// The command with its large inline output replaced by a blob.
    fn store_output<'a>(&self, command: &'a Command) -> Result<Cow<'a, Command>> {
        let Command::RecordReceipt { token, receipt } = command else {
            return Ok(Cow::Borrowed(command));
        };
        let threshold = self.environment.blob_threshold;
        let declared = || self.declared_outputs(*token);
        Ok(match self.outputs.store(receipt, threshold, declared)? {
            None => Cow::Borrowed(command),
            Some(output) => {
                let receipt = Receipt { output, ..receipt.clone() };
                Cow::Owned(Command::RecordReceipt { token: *token, receipt })
            }
        })
    }

    /// The names of the outputs that the step of an attempt declares; `None` if the attempt was never
    /// dispatched.
    fn declared_outputs(&self, token: AttemptToken) -> Result<Option<Vec<String>>> {
        let mut shared = self.lock()?;
        shared.refresh(&self.log)?;
        let state = &shared.state;
        let Some((run, step)) = state.dispatched.get(&token) else { return Ok(None) };
        let step = state.runs.get(run).and_then(|run| run.plan_step(*step));
        Ok(Some(step.map(|step| step.outputs().owned()).unwrap_or_default()))
    }

    /// Submit a transaction to the log, unless one with its key was already submitted.
    pub(crate) fn submit<T, E: From<Error>, R>(
        &self,
        transaction: &Transaction<'_, E>,
        command: Option<&Command>,
        read: R,
    ) -> SubmitOutcome<T, E, R>
    where
        R: FnOnce(&State, &[(u64, Event)]) -> T,
    {
        let mut shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return SubmitOutcome::NotSubmitted(SubmitError::Failed(error.into())),
        };
        match transaction
            .key
            .map(|key| self.log.recent_ticket(key))
            .transpose()
            .map(Option::flatten)
        {
            Err(error) => return SubmitOutcome::NotSubmitted(SubmitError::Failed(error.into())),
            Ok(Some(ticket)) => return SubmitOutcome::AlreadySubmitted(ticket, read),
            Ok(None) => {}
        }
        let build = |state: &State| match (command, &transaction.command) {
            (Some(command), _) => Ok(Cow::Borrowed(command)),
            (None, CommandSource::FromState(build)) => build(state).map(Cow::Owned),
            (None, CommandSource::Given(command)) => Ok(Cow::Borrowed(*command)),
        };
        let prepared =
            Prepared { build: &build, follow_up: transaction.follow_up, key: transaction.key };
        match self.submit_prepared(&mut shared, &prepared, read) {
            Ok(submitted) => SubmitOutcome::Submitted(submitted),
            Err(error) => SubmitOutcome::NotSubmitted(error),
        }
    }

    pub(crate) fn submit_prepared<T, E: From<Error>>(
        &self,
        shared: &mut SharedState,
        prepared: &Prepared<'_, '_, E>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> std::result::Result<SubmittedTransaction<T>, SubmitError<E>> {
        let failed = |error: Error| SubmitError::Failed(E::from(error));
        loop {
            self.log.check_status().map_err(failed)?;
            shared.refresh(&self.log).map_err(failed)?;
            let now = self.now();
            let expected = self.log.last_submitted().seq + 1;
            // The record of the key comes before the events.
            let first = expected + u64::from(prepared.key.is_some());
            let command = (prepared.build)(&shared.state);
            expect_valid(&shared.state).map_err(failed)?;
            let command = command.map_err(SubmitError::Rejected)?;
            // From here until the log accepts the events, the state is ahead of the log. If
            // anything fails before that, even by a panic, the state stays marked as stale.
            shared.freshness = Freshness::Stale;
            let state = &mut shared.state;
            let decided = crate::plan::execute(state, first, now, &command)
                .map(|events| prepared.follow_up(state, first, now, events));
            expect_valid(state).map_err(failed)?;
            let events = match decided {
                Ok(events) => events,
                Err(rejection) => {
                    shared.freshness = Freshness::Current;
                    return Err(SubmitError::Rejected(Error::from(rejection).into()));
                }
            };
            if prepared.key.is_some() && events.is_empty() {
                state.skip_record(expected, now);
            }
            let batch = Batch {
                records: events.iter().map(encode).collect(),
                time: now,
                durability: Durability::Sync,
                expected_seq: Some(expected),
                key: prepared.key.cloned(),
            };
            let ticket = match self.log.submit(&batch) {
                // The ledger appended a note of its own in the meantime: decide again.
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                submitted => submitted.map_err(failed)?,
            };
            shared.freshness = Freshness::Current;
            shared.backlog = shared.backlog.after(&command, &events);
            shared.cache_records(prepared.key.map(|_| expected), first, &events);
            let events: Vec<_> = (first..).zip(events).collect();
            let value = read(&shared.state, &events);
            return Ok(SubmittedTransaction { ticket, events, value });
        }
    }

    /// Wait until a submitted transaction is durable. No lock is held.
    pub(crate) fn wait<T, E: From<Error>>(
        &self,
        submitted: std::result::Result<SubmittedTransaction<T>, SubmitError<E>>,
    ) -> std::result::Result<(Commit, T), E> {
        let SubmittedTransaction { ticket, events, value } = match submitted {
            Ok(submitted) => submitted,
            Err(SubmitError::Rejected(error)) => {
                mutant!(RejectionBeforeDurable => return Err(error));
                self.log.flush().map_err(|error| self.write_failed(error))?;
                return Err(error);
            }
            Err(SubmitError::Failed(error)) => return Err(error),
        };
        let ack = self.wait_durable(ticket)?;
        Ok((Commit { ack, events }, value))
    }

    /// Wait for the transaction that was already submitted under this key, and read a value from
    /// the current state.
    pub(crate) fn wait_for_earlier<T, E: From<Error>>(
        &self,
        ticket: Ticket,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> std::result::Result<(Commit, T), E> {
        let commit = self.earlier_commit(ticket)?;
        let mut shared = self.lock()?;
        shared.refresh(&self.log)?;
        let value = read(&shared.state, &commit.events);
        Ok((commit, value))
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

    /// Wait until a batch is durable.
    pub(crate) fn wait_durable(&self, ticket: Ticket) -> Result<Ack> {
        mutant!(AnswerBeforeDurable => return Ok(self.log.last_durable()));
        match self.log.wait(ticket) {
            Ok(ack) => {
                self.scheduler().on_commit(ack.seq);
                self.append_snapshot_notes();
                Ok(ack)
            }
            Err(error) => {
                self.mark_stale();
                Err(error)
            }
        }
    }

    /// Wait until everything submitted so far is durable.
    ///
    /// # Errors
    /// The write errors of [`crate::Ledger::execute`].
    pub(crate) fn flush(&self) -> Result<()> {
        self.log.flush().map(drop).map_err(|error| self.write_failed(error))
    }

    /// The error for a caller that wrote nothing itself, after another caller's write failed.
    fn write_failed(&self, error: Error) -> Error {
        self.mark_stale();
        match error.kind() {
            ErrorKind::OutcomeUnknown => error.as_kind(ErrorKind::Poisoned),
            _ => error,
        }
    }

    /// The ledger's time, which all decisions use: the time of the clock, or of the last submitted
    /// record if that is later. If the clock goes back, an expired lease therefore stays expired.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now().max(self.log.last_submitted_time())
    }

    /// See [`crate::Ledger::state`].
    pub(crate) fn state(&self) -> Result<Arc<State>> {
        let state = {
            let mut shared = self.lock()?;
            shared.refresh(&self.log)?;
            shared.copy()
        };
        if self.log.flush().is_ok() {
            return Ok(state);
        }
        let mut shared = self.lock()?;
        if shared.freshness != Freshness::Final {
            shared.freshness = Freshness::Stale;
            shared.refresh(&self.log)?;
        }
        Ok(shared.copy())
    }

    pub(crate) fn reader(&self) -> Result<LogReader> {
        self.log.reader()
    }

    /// The shared state. A forked process gets an error, since the threads of its parent could hold
    /// the lock.
    ///
    /// # Errors
    /// `Fenced` in a forked process.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, SharedState>> {
        self.log.check_process()?;
        // A thread that panicked left the state marked as stale, so it is folded again.
        Ok(self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Mark the state as stale, so that it is folded again before the next use.
    fn mark_stale(&self) {
        // In a forked process the state is not used, so the error is ignored.
        if let Ok(mut shared) = self.lock() {
            shared.freshness = Freshness::Stale;
        }
    }

    pub(crate) fn scheduler(&self) -> MutexGuard<'_, SnapshotScheduler> {
        // A thread that panicked here can at most have skipped a snapshot.
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.scheduler().warnings()
    }

    /// Append the notes of snapshots that were made.
    fn append_snapshot_notes(&self) {
        // Do not hold the scheduler's lock while a note waits for the disk.
        let notes = self.scheduler().take_notes();
        for note in notes {
            if let Err(error) = self.append_note(note.record(), None) {
                let seq = note.seq;
                self.scheduler().warn(format!("the snapshot at record {seq} has no note: {error}"));
            }
        }
    }

    /// Append a record that changes no state, and wait until it is durable; once per key.
    pub(crate) fn append_note(&self, note: NewRecord, key: Option<&BatchKey>) -> Result<Ack> {
        let submitted = self.submit_note(&mut *self.lock()?, note, key);
        let waited = self.log.wait(submitted?);
        if waited.is_err() {
            self.mark_stale();
        }
        waited
    }

    fn submit_note(
        &self,
        shared: &mut SharedState,
        note: NewRecord,
        key: Option<&BatchKey>,
    ) -> Result<Ticket> {
        if let Some(earlier) = key.map(|key| self.log.recent_ticket(key)).transpose()?.flatten() {
            return Ok(earlier);
        }
        let mut batch = Batch {
            records: vec![note],
            time: 0,
            durability: Durability::Sync,
            expected_seq: None,
            key: key.cloned(),
        };
        loop {
            self.log.check_status()?;
            shared.refresh(&self.log)?;
            let time = self.now();
            let expected = self.log.last_submitted().seq + 1;
            (batch.time, batch.expected_seq) = (time, Some(expected));
            match self.log.submit(&batch) {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    shared.freshness = Freshness::Stale;
                }
                Err(error) => return Err(error),
                Ok(ticket) => {
                    for seq in ticket.first_seq()..=ticket.last_seq() {
                        shared.state.skip_record(seq, time);
                        shared.cache.add_record(seq, time, None);
                    }
                    return Ok(ticket);
                }
            }
        }
    }

    /// See [`crate::Ledger::close`].
    pub(crate) fn close(self) -> Result<()> {
        self.log.check_process()?;
        self.scheduler().finish();
        self.append_snapshot_notes();
        self.log.close()
    }
}

/// Reject a payload that exceeds a record's limit. The log would reject it too, but only after its
/// events were applied, and the state would have to be folded again. Other commands that are too
/// large are rare.
fn expect_fitting(command: &Command) -> Result<()> {
    let (what, length) = match command {
        Command::RecordReceipt { receipt, .. } => ("receipt", encoded_length(receipt)),
        Command::SetVariable { value, .. } => ("value", encoded_length(value)),
        _ => return Ok(()),
    };
    if length <= u64::from(PAYLOAD_LENGTH_MAX) {
        return Ok(());
    }
    let message = format!(
        "{what} is too large: expected at most {PAYLOAD_LENGTH_MAX} bytes, found {length}; put large \
         results into a file and record its path"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}
