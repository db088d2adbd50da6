//! Appending a batch, and waiting until it is durable.
//!
//! `submit` assigns sequence numbers to a batch and encodes it in memory; `wait` makes it durable.
//! The first waiter becomes the leader: it writes and syncs everything pending and wakes the
//! waiters that it covered.

use std::sync::PoisonError;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{HeadState, NewRecord};
use crate::log::errors::fenced;
use crate::log::notes::BatchKey;
use crate::log::options::NotKept;
use crate::log::record::Ack;

use super::batch::{Batch, DigestedBatch, Durability, Ticket};
use super::idempotency::KeyWindow;
use super::log::Log;
use super::shared::{SharedWriter, StateGuard};
use super::state::{BackgroundState, Capacity, FlushState, WriterStatus, not_kept};
use super::waiters::{WaitFor, Wakeup};

impl Log {
    /// Append a batch durably: all of it or nothing. `time` is in microseconds since the Unix
    /// epoch, and is moved forward if the log is ahead of it.
    ///
    /// # Errors
    /// `TooLarge`, `Unencodable`, `DiskFull` and `Io`: nothing was written, and the log is still usable.
    /// `OutcomeUnknown`: a write or sync failed; only opening the log again shows whether the
    /// records are in it, and this handle refuses everything with `Poisoned`. `Fenced`: the right
    /// to write is lost; nothing was written, and this handle refuses everything.
    pub fn append(&self, records: &[NewRecord], time: u64) -> Result<Ack> {
        let batch = Batch::new(records.to_vec(), time);
        let (ticket, state) = self.shared.place_batch(&batch)?;
        self.shared.wait_with(state, &ticket)
    }

    /// Assign sequence numbers to a batch without waiting until it is durable. If a batch with the
    /// same key is among the last [`super::KEY_WINDOW`] records, nothing is written and the ticket
    /// is that of the earlier batch.
    ///
    /// # Errors
    /// As [`Log::append`]; `KeyReused` if the earlier batch was of another request: nothing was written;
    /// `Conflict` if the batch would not start at the expected sequence
    /// number: nothing was written. After any error except `OutcomeUnknown` no part of the batch is
    /// in the log.
    pub fn submit(&self, batch: &Batch) -> Result<Ticket> {
        self.shared.place_batch(batch).map(|(ticket, _)| ticket)
    }

    /// Wait until a batch is durable. If no flush is in progress, this thread writes and syncs
    /// everything submitted.
    ///
    /// # Errors
    /// `OutcomeUnknown` and `Fenced` as for [`Log::append`]; `OutOfRange` for a ticket of another
    /// log.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used once")]
    pub fn wait(&self, ticket: Ticket) -> Result<Ack> {
        self.shared.wait_with(self.shared.enter()?, &ticket)
    }

    /// Wait until everything submitted so far is durable.
    ///
    /// # Errors
    /// As [`Log::wait`], and `Poisoned`.
    pub fn flush(&self) -> Result<Ack> {
        self.shared.flush()
    }

    /// The ticket of an earlier batch with this key, if it is among the last [`super::KEY_WINDOW`]
    /// records: the result of submitting it again.
    ///
    /// # Errors
    /// `KeyReused` if that batch was of another request; `Corrupt` if these records are damaged, and
    /// `Io`.
    pub fn recent_ticket(&self, key: &BatchKey) -> Result<Option<Ticket>> {
        self.shared.check_process()?;
        self.shared.load_keys()?;
        self.shared.lock().recent_ticket(Some(key))
    }

    /// Find the durable batch with this key: see [`crate::log::LogReader::find_key`].
    ///
    /// # Errors
    /// As [`crate::log::LogReader::find_key`].
    pub fn find_key(&self, key: &BatchKey, since_seq: u64) -> Result<Option<(u64, u64)>> {
        self.reader()?.find_key(key, since_seq)
    }
}

impl SharedWriter {
    fn place_batch(&self, batch: &Batch) -> Result<(Ticket, StateGuard<'_>)> {
        mutant!(NoOp => ());
        let key_record = batch.key.as_ref().map(BatchKey::record);
        let digested = DigestedBatch::new(key_record.as_ref(), &batch.records)?;
        if let Some(keeper) = &self.options.keeper {
            check_size(digested.size, keeper.size_max())?;
        }
        if batch.key.is_some() {
            self.check_process()?;
            self.load_keys()?;
        }
        let mut state = self.enter()?;
        loop {
            state.check_status()?;
            if state.flush == FlushState::Rotating {
                state = self.wait_for_flush(state, WaitFor::Idle)?;
                continue;
            }
            if let Some(landed) = state.recent_ticket(batch.key.as_ref())? {
                return Ok((landed, state));
            }
            state.check_expected_seq(batch)?;
            if digested.is_empty() {
                return Ok((state.empty_ticket(), state));
            }
            state = match state.capacity_for(digested.size) {
                Capacity::Available => break,
                _ if state.flush != FlushState::Idle => {
                    self.wait_for_flush(state, WaitFor::Idle)?
                }
                Capacity::AfterSync => {
                    self.check_process()?;
                    self.commit(state, Durability::Sync).map_err(|state| state.append_refusal())?
                }
                Capacity::NextSegment => self.rotate(state, digested.size, batch.time)?,
            };
        }
        let ticket = state.encode(&digested, batch, &self.key);
        if state.background == BackgroundState::Idle {
            self.background_wake.notify_one();
        }
        if batch.durability == Durability::Buffered {
            state = self.write_out(state, &ticket)?;
        }
        Ok((ticket, state))
    }

    /// Make sure that a batch is written to the file.
    fn write_out<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        ticket: &Ticket,
    ) -> Result<StateGuard<'a>> {
        let (first, last) = (ticket.first, ticket.last.seq);
        while state.written.ack.seq < last {
            if let Some(error) = state.stop_error(first, last) {
                return Err(error);
            }
            state = match state.flush {
                FlushState::Idle => {
                    self.check_process()?;
                    self.commit(state, Durability::Buffered)
                        .map_err(|state| state.flush_error(first, last))?
                }
                FlushState::Flushing | FlushState::Rotating => {
                    self.wait_for_flush(state, WaitFor::Written(last))?
                }
            };
        }
        Ok(state)
    }

    fn wait_with<'a>(&'a self, mut state: StateGuard<'a>, ticket: &Ticket) -> Result<Ack> {
        let Ticket { first, last } = *ticket;
        if last.seq > state.encoded.ack.seq {
            let message = format!(
                "the ticket for record {} belongs to another log; this one ends at record {}",
                last.seq, state.encoded.ack.seq
            );
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        while state.durable.ack.seq < last.seq {
            if let Some(error) = state.stop_error(first, last.seq) {
                return Err(error);
            }
            state = match state.flush {
                FlushState::Idle => {
                    self.check_process()?;
                    self.commit(state, Durability::Sync)
                        .map_err(|state| state.flush_error(first, last.seq))?
                }
                FlushState::Flushing | FlushState::Rotating => {
                    match self.park(state, WaitFor::Durable(last.seq))? {
                        Wakeup::Done => break,
                        Wakeup::Recheck => self.lock(),
                    }
                }
            };
        }
        Ok(last)
    }

    /// Wait until everything submitted is durable.
    pub(crate) fn flush(&self) -> Result<Ack> {
        self.check_process()?;
        let ticket = {
            let state = self.lock();
            state.check_status()?;
            let first = state.durable.ack.seq + 1;
            Ticket { first, last: state.encoded.ack }
        };
        self.wait_with(self.enter()?, &ticket)
    }

    /// Read the keys of the last records, once. No key can have been added before.
    fn load_keys(&self) -> Result<()> {
        let _loading = self.key_load.lock().unwrap_or_else(PoisonError::into_inner);
        let next_seq = {
            let state = self.lock();
            if state.keys.is_some() {
                return Ok(());
            }
            state.durable.ack.seq + 1
        };
        let keys = KeyWindow::load(&self.reader()?, next_seq)?;
        self.lock().keys = Some(keys);
        Ok(())
    }

    /// Make everything submitted durable, and write HEAD in the clean state.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.enter()?.status {
            WriterStatus::Open => {}
            WriterStatus::Fenced(why) => return Err(fenced(why)),
            WriterStatus::NotKept(why @ NotKept::Fenced(_)) => return Err(not_kept(why)),
            // The callers with affected records already have the error.
            WriterStatus::Poisoned(_)
            | WriterStatus::NotKept(NotKept::Unknown(_))
            | WriterStatus::Closed => return Ok(()),
        }
        let flushed = self.flush();
        let content = {
            let mut state = self.lock();
            // From here on this handle accepts nothing more, even if the rest fails.
            let is_healthy = state.status == WriterStatus::Open;
            state.status = WriterStatus::Closed;
            let (header, position) = (&state.active.header, &state.durable);
            is_healthy.then(|| self.head_content(header, position, HeadState::Clean))
        };
        flushed?;
        let Some(content) = content else { return Ok(()) };
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.write_both(&content, || self.ownership.check().map_err(|why| fenced(&why)))
    }
}

/// Refuse a batch that the keeper cannot store, before any of it is written.
fn check_size(found: u64, size_max: u64) -> Result<()> {
    if found <= size_max {
        return Ok(());
    }
    let message = format!(
        "batch: expected at most {size_max} bytes of records (the limit of the store), found \
         {found}; split it"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}
