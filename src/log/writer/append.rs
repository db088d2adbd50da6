//! Appending a batch, and waiting until it is durable.
//!
//! `submit` assigns sequence numbers to a batch and encodes it in memory; `wait` makes it durable.
//! The first waiter becomes the leader: it writes and syncs everything pending and wakes the
//! waiters that it covered.

use std::sync::PoisonError;

use crate::error::{Error, ErrorKind, Result};
use crate::format::HeadState;
use crate::log::errors::fenced;
use crate::log::notes::BatchKey;
use crate::log::record::Ack;

use super::batch::{DigestedBatch, Durability, Request, Ticket};
use super::idempotency::KeyWindow;
use super::shared::{SharedWriter, StateGuard};
use super::state::{BackgroundState, Capacity, FlushState, WriterStatus, head_content};
use super::waiters::{WaitFor, Wakeup};

impl SharedWriter {
    /// Assign sequence numbers to a batch.
    pub(crate) fn submit(&self, request: &Request<'_>) -> Result<Ticket> {
        self.place_batch(request).map(|(ticket, _)| ticket)
    }

    /// Assign sequence numbers to a batch, and wait until it is durable.
    pub(crate) fn append(&self, request: &Request<'_>) -> Result<Ack> {
        let (ticket, state) = self.place_batch(request)?;
        self.wait_with(state, &ticket)
    }

    fn place_batch(&self, request: &Request<'_>) -> Result<(Ticket, StateGuard<'_>)> {
        mutant!(NoOp => ());
        let key_record = request.key_record();
        let batch = DigestedBatch::new(key_record.as_ref(), request.records)?;
        if request.key.is_some() {
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
            if let Some(landed) = state.recent_ticket(request.key)? {
                return Ok((landed, state));
            }
            state.check_expected_seq(request)?;
            if batch.is_empty() {
                return Ok((state.empty_ticket(), state));
            }
            state = match state.capacity_for(batch.size) {
                Capacity::Available => break,
                _ if state.flush != FlushState::Idle => {
                    self.wait_for_flush(state, WaitFor::Idle)?
                }
                Capacity::AfterSync => {
                    self.check_process()?;
                    self.commit(state, Durability::Sync).map_err(|state| state.append_refusal())?
                }
                Capacity::NextSegment => self.rotate(state, batch.size, request.time)?,
            };
        }
        let ticket = state.encode(&batch, request, &self.key);
        if state.background == BackgroundState::Idle {
            self.background_wake.notify_one();
        }
        if request.durability == Durability::Buffered {
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

    /// Wait until a batch is durable; flush it if no leader is doing so.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<Ack> {
        self.wait_with(self.enter()?, ticket)
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
        self.wait(&ticket)
    }

    /// The ticket of an earlier batch with this key, if it is among the last records.
    pub(crate) fn recent_ticket(&self, key: &BatchKey) -> Result<Option<Ticket>> {
        self.check_process()?;
        self.load_keys()?;
        self.lock().recent_ticket(Some(key))
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
            // The callers whose records are affected already have the error.
            WriterStatus::Poisoned(_) | WriterStatus::Closed => return Ok(()),
        }
        let flushed = self.flush();
        let content = {
            let mut state = self.lock();
            // From here on this handle accepts nothing more, even if the rest fails.
            let is_healthy = state.status == WriterStatus::Open;
            state.status = WriterStatus::Closed;
            let (header, position) = (&state.active.header, &state.durable);
            let (epoch, mode) = (self.ownership.epoch, self.options.head_sync);
            is_healthy.then(|| head_content(header, position, epoch, mode, HeadState::Clean))
        };
        flushed?;
        let Some(content) = content else { return Ok(()) };
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.write_both(&content, || self.ownership.check().map_err(|why| fenced(&why)))
    }
}
