//! The writer: one handle on a log, shared by as many threads as like.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::NewRecord;

use super::batch::{Ack, Batch, BatchKey, Durability, Request, Ticket};
use super::blob_store::BlobStore;
use super::engine::Engine;
use super::housekeeper::Housekeeper;
use super::options::Housekeeping;
use super::prune::Removal;
use super::reader::LogReader;
use super::retention::Retention;

/// A log that is open for writing. At most one exists per folder, in all processes.
///
/// Threads that append at the same time share syncs: while one group is being made durable, the
/// next is encoded. A single thread gets the same from tickets: it submits many batches, and waits
/// once for the last.
#[derive(Debug)]
pub struct Log {
    engine: Arc<Engine>,
    /// Ends with the log.
    housekeeper: Option<Housekeeper>,
}

impl Log {
    pub(super) fn new(engine: Engine) -> Self {
        let engine = Arc::new(engine);
        let housekeeper = match engine.options.housekeeping {
            Housekeeping::Inline => None,
            Housekeeping::Thread => Some(Housekeeper::start(&engine)),
        };
        Self { engine, housekeeper }
    }

    /// The last durable record.
    #[must_use]
    pub fn ack(&self) -> Ack {
        self.engine.lock().durable.ack
    }

    /// The last record that was submitted, durable or not.
    #[must_use]
    pub fn last_submitted(&self) -> Ack {
        self.engine.lock().encoded.ack
    }

    /// Time of the last record that was submitted: the next one will not be earlier.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.engine.lock().encoded.time
    }

    /// Write a batch durably: all of it or nothing. `time` is in microseconds since the Unix
    /// epoch, and is moved forward if the log is ahead of it.
    ///
    /// # Errors
    /// `TooLarge`, `DiskFull` and `Io`: nothing was written, and the log may be used further.
    /// `OutcomeUnknown`: a write or sync failed; the records may or may not be there after the
    /// log was opened again, and this handle refuses from now on with `Poisoned`.
    /// `Fenced`: the right to write is lost; nothing was written, and this handle refuses from now
    /// on.
    pub fn append(&self, records: &[NewRecord], time: u64) -> Result<Ack> {
        let (durability, expected_seq, key) = (Durability::Sync, None, None);
        let request = Request { records, time, durability, expected_seq, key };
        self.engine.append(&request)
    }

    /// Give a batch its place, without waiting until it is durable. A batch with a key that is
    /// already among the last [`super::KEY_WINDOW`] records is not written again: the ticket is
    /// that of the earlier one.
    ///
    /// # Errors
    /// As [`Log::append`], and `Conflict` if the batch would not begin with the sequence number
    /// that it expects: nothing was written. After an error no part of the batch has a place,
    /// except after `OutcomeUnknown`.
    pub fn submit(&self, batch: &Batch) -> Result<Ticket> {
        self.engine.submit(&batch.request())
    }

    /// Wait until a batch is durable. If nobody is at the disk, this thread goes, and takes along
    /// all that was submitted.
    ///
    /// # Errors
    /// `OutcomeUnknown` and `Fenced` as for [`Log::append`]; `OutOfRange` for a ticket of another
    /// log.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is answered once")]
    pub fn wait(&self, ticket: Ticket) -> Result<Ack> {
        self.engine.wait(&ticket)
    }

    /// Wait until everything that was submitted so far is durable.
    ///
    /// # Errors
    /// As [`Log::wait`], and `Poisoned`.
    pub fn flush(&self) -> Result<Ack> {
        self.engine.flush()
    }

    /// Whether batches are still taken, and if not, why.
    ///
    /// # Errors
    /// `Poisoned` and `Fenced`.
    pub fn expect_good(&self) -> Result<()> {
        self.engine.enter()?.expect_good()
    }

    /// That this is the process that opened the log. In a fork nothing else may be asked for that
    /// returns no error: who holds a lock of this handle may not exist there.
    ///
    /// # Errors
    /// `Fenced`.
    pub fn expect_own_process(&self) -> Result<()> {
        self.engine.expect_own_process()
    }

    /// Look whether this handle may change what is beside the log: it may still append, and nobody
    /// has taken over.
    ///
    /// # Errors
    /// `Poisoned` and `Fenced`.
    pub fn expect_writer(&self) -> Result<()> {
        self.engine.expect_writer()
    }

    /// The ticket of a batch with that key, if it is among the last [`super::KEY_WINDOW`] records:
    /// what submitting it again would return.
    ///
    /// # Errors
    /// `Corrupt` if these records are damaged, and `Io`.
    pub fn landed(&self, key: &BatchKey) -> Result<Option<Ticket>> {
        self.engine.landed(key)
    }

    /// Where the durable batch with that key stands: see [`LogReader::find_key`].
    ///
    /// # Errors
    /// As [`LogReader::find_key`].
    pub fn find_key(&self, key: &BatchKey, since_seq: u64) -> Result<Option<(u64, u64)>> {
        self.reader()?.find_key(key, since_seq)
    }

    /// Make durable all that was submitted, mark the log as cleanly closed, and make that durable.
    ///
    /// # Errors
    /// As [`Log::flush`]; `Fenced` if the right to write was lost: then nothing was marked.
    pub fn close(mut self) -> Result<()> {
        self.close_in_place()
    }

    fn close_in_place(&mut self) -> Result<()> {
        self.housekeeper = None;
        self.engine.close()
    }

    /// A reader of this log: it sees what is durable now.
    pub fn reader(&self) -> Result<LogReader> {
        self.engine.reader()
    }

    /// Remove the segments that a durable retention note of this log covers, and the snapshots that
    /// nothing can be folded on from any more.
    ///
    /// # Errors
    /// `Corrupt` if what the log would stand on does not hold: nothing was removed. `Fenced`; `Io`:
    /// the next opening, or the next call, goes on.
    pub fn remove_pruned(&self, retention: &Retention) -> Result<Removal> {
        self.engine.remove_pruned(retention)
    }

    /// The blobs of this log, for its writer. Make one store and share it.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(&self.engine.options.storage, &self.engine.layout)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A fork leaves alone what is its parent's, locks of this process included.
        if self.engine.ownership.is_own_process() {
            // Nothing that was acknowledged depends on this; `close` is there for who wants to
            // know.
            let _ = self.close_in_place();
        }
    }
}

/// Where a ledger's folder is, for messages.
pub(super) fn not_a_ledger(dir: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::NotALedger,
        format!("not a ledger: {why}; name a folder that `ledger init` or `ledger run` made"),
    )
    .at_path(dir)
}
