//! The handle of an open ledger: opening, closing, commands and transactions.
//!
//! # Errors
//! Every method that writes fails with `Rejected` and the reason if the command is invalid, and
//! with the other errors that [`Ledger::execute`] lists.

use std::path::Path;

use crate::error::{Error, Result};
use crate::ledger::codec::note::Note;
use crate::ledger::environment::Environment;
use crate::ledger::open;
use crate::ledger::open::{FollowedState, OpenReport};
use crate::ledger::transaction::commit::Commit;
use crate::ledger::transaction::engine::Engine;
use crate::ledger::transaction::execution::Transaction;
use crate::ledger::transaction::submit::CommitOptions;
use crate::ledger::transaction::submitted::Submitted;
use crate::ledger::transaction::task::Task;
use crate::ledger::transaction::{prepared, tick};
use crate::log::{Ack, BatchKey, Log, RecoveryReport};
use crate::plan::{AttemptToken, Command, State};

/// A ledger that is open for writing. At most one exists per folder, over all processes.
#[derive(Debug)]
pub struct Ledger {
    pub(super) engine: Engine,
    report: OpenReport,
}

/// Opening with a given environment.
#[doc(hidden)]
impl Ledger {
    /// Create a ledger in a folder that does not exist yet, or is empty.
    ///
    /// # Errors
    /// `Io`, `DiskFull`; `Locked` if another process is creating it; `TooLarge` for the segment sizes.
    pub fn create(dir: &Path, environment: &Environment) -> Result<Self> {
        open::create(dir, environment).map(Self::new)
    }

    /// Open a ledger that exists, and recover it if necessary.
    ///
    /// # Errors
    /// As [`Ledger::open`]; `NotALedger`.
    pub fn open_with(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        open::open(dir, environment).map(Self::with_report)
    }

    /// The ledger of a log that is open already, with these options: [`Environment::log_options`].
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn of_log(
        log: Log,
        recovery: &RecoveryReport,
        environment: &Environment,
    ) -> Result<(Self, OpenReport)> {
        open::of_log(log, recovery, environment, None).map(Self::with_report)
    }

    /// As [`Ledger::of_log`], where the state is known up to a record.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn of_followed_log(
        log: Log,
        recovery: &RecoveryReport,
        environment: &Environment,
        followed: FollowedState,
    ) -> Result<(Self, OpenReport)> {
        open::of_log(log, recovery, environment, Some(followed)).map(Self::with_report)
    }

    /// Open the ledger in a folder, or create one if the folder does not exist or is empty.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_or_create(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        open::open_or_create(dir, environment).map(Self::with_report)
    }
}

impl Ledger {
    fn new((engine, report): (Engine, OpenReport)) -> Self {
        Self { engine, report }
    }

    fn with_report(opened: (Engine, OpenReport)) -> (Self, OpenReport) {
        let ledger = Self::new(opened);
        let report = ledger.report.clone();
        (ledger, report)
    }
}

/// Opening and closing.
impl Ledger {
    /// The result of opening the ledger: whether it was created, and what recovery changed.
    #[must_use]
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Mark the ledger as cleanly closed. Dropping it does the same but cannot report an error.
    /// Acknowledged records are durable in both cases.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Warnings since the ledger was opened: snapshots that could not be used or made. Each is listed
    /// once, up to 256.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }
}

/// Commands.
impl Ledger {
    /// Execute a command: decide it, append its events durably as one batch, and apply them.
    ///
    /// # Errors
    /// `Rejected`, with the reason: nothing was written. `DiskFull` and `TooLarge`: nothing was
    /// written, and the ledger can still be used. `OutcomeUnknown`: a write or sync failed; open
    /// the ledger again to learn whether the command was committed. `Poisoned`: an earlier write
    /// failed. `Fenced`: this process lost the right to write, and nothing was written.
    pub fn execute(&self, command: &Command) -> Result<Commit> {
        self.engine.execute(None, command)
    }

    /// Execute a command. If a command was already committed under this key, return that commit
    /// instead. A caller that does not know the outcome of a command can therefore repeat it, even
    /// after opening the ledger again. Keys are kept for [`crate::log::KEY_WINDOW`] records. A
    /// rejected command leaves no key.
    ///
    /// # Errors
    /// As [`Ledger::execute`]; `Corrupt` if the last records cannot be read.
    pub fn execute_once(&self, key: &BatchKey, command: &Command) -> Result<Commit> {
        self.engine.execute(Some(key), command)
    }

    /// Execute several commands as one atomic commit, or build a command from the state that
    /// decides it. The result is revealed by [`Submitted::wait`], after everything that it depends
    /// on is durable; several transactions can be submitted before the first wait, and share a
    /// sync.
    ///
    /// The closure may be called more than once, since the ledger may append a note of its own in
    /// the meantime. If it fails, nothing is written. If a transaction was already committed under
    /// the key, the closure runs on the current state, its commands are skipped, and it gets the
    /// events of that commit.
    ///
    /// The closure runs under the ledger's lock. If it calls the ledger, it deadlocks.
    ///
    /// # Errors
    /// Those of the closure; as [`Ledger::execute_once`].
    pub fn transact<T>(
        &self,
        key: Option<&BatchKey>,
        run: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Submitted<'_, T> {
        self.engine.transact(key.into(), run)
    }

    /// Execute a command, and read a value from the state right after it.
    pub(super) fn execute_and_read<T>(
        &self,
        command: &Command,
        read: impl Fn(&State) -> T,
    ) -> Result<T> {
        let run = |transaction: &mut Transaction<'_>| {
            transaction.run(command)?;
            Ok(read(transaction.state()))
        };
        self.transact(None, run).wait()
    }

    /// Record everything that is due: expired leases, delays, questions, barriers and wall time,
    /// and consequences of earlier commands that did not fit into their batches. Call it at
    /// [`State::next_due`] or later. An item is due once the ledger's time has reached it. That time
    /// advances with the boot clock ([`Clock::boot_time`]), so an item is due when its time has passed,
    /// whatever the wall clock shows; it is never before that of the last record.
    ///
    /// [`Clock::boot_time`]: crate::Clock::boot_time
    pub fn tick(&self) -> Result<()> {
        tick::tick(&self.engine)
    }

    /// Append a note, once per key. It changes no state.
    ///
    /// # Errors
    /// `TooLarge`, and the write errors of [`Ledger::execute`].
    pub fn add_note(&self, note: &Note, key: Option<&BatchKey>) -> Result<Ack> {
        let record = note.to_record(self.engine.environment.ids.next_id())?;
        let ack = self.engine.append_note(record, key)?;
        self.engine.notes.add(ack.seq, note);
        Ok(ack)
    }
}

/// For the server: results that are revealed later.
impl Ledger {
    /// As [`Ledger::transact`], with options and any error.
    #[doc(hidden)]
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: CommitOptions<'_>,
        run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> Submitted<'_, T, E> {
        self.engine.transact(options, run)
    }

    /// Whether [`Ledger::tick`] has something to record.
    #[doc(hidden)]
    pub fn is_tick_due(&self) -> Result<bool> {
        self.engine.is_tick_due()
    }

    /// Whether consequences of earlier commands are not recorded yet: [`Ledger::tick`] records them.
    #[doc(hidden)]
    pub fn has_backlog(&self) -> Result<bool> {
        self.engine.has_backlog()
    }

    /// Whether a receipt of this attempt comes late, and must be compared with one in the log, which
    /// takes time.
    #[doc(hidden)]
    pub fn must_read_receipt(&self, token: AttemptToken) -> Result<bool> {
        prepared::must_read_receipt(&self.engine, token)
    }

    /// Read from the state without copying it.
    ///
    /// # Errors
    /// `Corrupt` if a run that was read is invalid.
    #[doc(hidden)]
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Submitted<'_, T> {
        self.engine.read(read)
    }

    /// A result that depends on no record.
    #[doc(hidden)]
    pub fn settled<T, E>(&self, result: std::result::Result<T, E>) -> Submitted<'_, T, E> {
        Submitted::settled(&self.engine, result)
    }

    /// Fail if a write has failed.
    ///
    /// # Errors
    /// The write errors of [`Ledger::execute`].
    #[doc(hidden)]
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }
}

impl Ledger {
    /// Complete a task with the data that is read without the lock.
    #[doc(hidden)]
    pub fn complete_task(&self, task: Task) -> Task {
        crate::ledger::transaction::task::complete(&self.engine, task)
    }

    /// The log, for tests that append records that no command writes.
    #[cfg(any(test, feature = "sim"))]
    #[doc(hidden)]
    pub fn log(&self) -> &crate::log::Log {
        &self.engine.log
    }
}
