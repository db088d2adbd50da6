//! The part of a log that its threads share: submitting, waiting, and who goes to the disk.
//!
//! Group commit: whoever waits first, and finds nobody at the disk, takes all that is pending
//! there and answers everybody; meanwhile the others encode the next group, and one of them takes
//! it to the disk when the turn ends, and those who were answered had a moment to come back. There
//! is no thread for it, and at most one sync of the log is going on.
//!
//! Invariants:
//! - The order of locks is HEAD, then the queue. Nobody holds the queue's while at the disk.
//! - Every turn at the disk ends: a turn that ends in a panic poisons the log ([`AtDisk`]). So
//!   every waiter is answered.
//! - Whose turn failed is refused and does not take another one: nobody spins on a disk that fails.
//! - A ticket is answered with an ack only if its last record is durable and HEAD says so.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ChainKey, HeadState};

use super::batch::{Ack, BatchKey, DigestedBatch, Durability, Request, Ticket};
use super::head_file::HeadFile;
use super::keys::KeyWindow;
use super::layout::Layout;
use super::options::LogOptions;
use super::ownership::{FORKED, Ownership};
use super::queue::{Health, Helper, Queue, Room, Turn, fenced, head_content};
use super::reader::LogReader;
use super::retention::Retention;
use super::seek::PlaceCache;
use super::waiting::{Until, Woken};

/// What the threads of a log share.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) options: LogOptions,
    pub(super) layout: Layout,
    pub(super) key: ChainKey,
    pub(super) ownership: Ownership,
    pub(super) head: Mutex<HeadFile>,
    queue: Mutex<Queue>,
    /// There may be something to do for the thread that can wait.
    pub(super) chores: Condvar,
    /// Held while the keys of the last records are read.
    loading: Mutex<()>,
    /// The newest retention note.
    pub(super) retention: Mutex<Option<Retention>>,
    /// Places in segments, for all readers.
    places: PlaceCache,
}

pub(super) type QueueGuard<'a> = MutexGuard<'a, Queue>;

impl Engine {
    pub(super) fn new(
        options: LogOptions,
        layout: Layout,
        ownership: Ownership,
        head: HeadFile,
        queue: Queue,
        retention: Option<Retention>,
        places: PlaceCache,
    ) -> Self {
        Self {
            key: ChainKey::new(&queue.active.header.genesis),
            options,
            layout,
            ownership,
            head: Mutex::new(head),
            queue: Mutex::new(queue),
            chores: Condvar::new(),
            loading: Mutex::new(()),
            retention: Mutex::new(retention),
            places,
        }
    }

    pub(super) fn lock(&self) -> QueueGuard<'_> {
        // A panic in a turn is noted by its guard; encoding that panics changes nothing.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until a turn ended that may have brought what is wanted. It is somebody's turn.
    fn wait_for<'a>(&'a self, queue: QueueGuard<'a>, until: Until) -> Result<QueueGuard<'a>> {
        self.sleep(queue, until)?;
        Ok(self.lock())
    }

    /// The same, without looking what it brought.
    fn sleep(&self, mut queue: QueueGuard<'_>, until: Until) -> Result<Woken> {
        let bed = queue.lie_down(until);
        drop(queue);
        self.expect_own_process()?;
        Ok(bed.sleep())
    }

    /// Wake whom the queue as it is now has an answer for, and who goes to the disk next; the
    /// thread that can wait, too, if it need not. Much may have happened when this returns.
    pub(super) fn hand_on<'a>(&'a self, mut queue: QueueGuard<'a>) -> QueueGuard<'a> {
        if queue.helper == Helper::Asleep
            || queue.wants_segment().is_some()
            || !queue.to_seal.is_empty()
        {
            self.chores.notify_one();
        }
        let risers = queue.risers();
        if risers.is_empty() {
            return queue;
        }
        // With the lock held, each of them would run into it.
        drop(queue);
        for (bed, why) in risers {
            bed.wake(why);
        }
        self.lock()
    }

    /// The lock, for whoever may be a fork: there nobody may let go of it. Free, it can be taken
    /// without asking the system which process this is.
    pub(super) fn enter(&self) -> Result<QueueGuard<'_>> {
        match self.queue.try_lock() {
            Ok(queue) => Ok(queue),
            Err(TryLockError::Poisoned(queue)) => Ok(queue.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.expect_own_process()?;
                Ok(self.lock())
            }
        }
    }

    /// To be asked before anything is written or waited for: in a fork, nobody may ever come.
    pub(super) fn expect_own_process(&self) -> Result<()> {
        if self.ownership.is_own_process() { Ok(()) } else { Err(fenced(FORKED)) }
    }

    /// To be asked before anything beside the log is removed.
    pub(super) fn expect_writer(&self) -> Result<()> {
        self.expect_own_process()?;
        self.lock().expect_good()?;
        self.ownership.check().map_err(|why| fenced(&why))
    }

    /// Give a batch its place.
    pub(super) fn submit(&self, request: &Request<'_>) -> Result<Ticket> {
        self.place(request).map(|(ticket, _)| ticket)
    }

    /// Give a batch its place, and wait until it is durable.
    pub(super) fn append(&self, request: &Request<'_>) -> Result<Ack> {
        let (ticket, queue) = self.place(request)?;
        self.wait_with(queue, &ticket)
    }

    fn place(&self, request: &Request<'_>) -> Result<(Ticket, QueueGuard<'_>)> {
        bug!(Harmless => ());
        let key_record = request.key_record();
        let batch = DigestedBatch::new(key_record.as_ref(), request.records)?;
        if request.key.is_some() {
            self.expect_own_process()?;
            self.load_keys()?;
        }
        let mut queue = self.enter()?;
        loop {
            queue.expect_good()?;
            if queue.turn == Turn::Rotate {
                queue = self.wait_for(queue, Until::Free)?;
                continue;
            }
            if let Some(landed) = queue.landed(request.key) {
                return Ok((landed, queue));
            }
            queue.expect_seq(request)?;
            if batch.is_empty() {
                return Ok((queue.empty_ticket(), queue));
            }
            queue = match queue.room_for(batch.size) {
                Room::Here => break,
                _ if queue.turn != Turn::Free => self.wait_for(queue, Until::Free)?,
                Room::AfterSync => {
                    self.expect_own_process()?;
                    self.commit(queue, Durability::Sync).map_err(|queue| queue.no_place())?
                }
                Room::NextSegment => self.rotate(queue, batch.size, request.time)?,
            };
        }
        let ticket = queue.encode(&batch, request, &self.key);
        if queue.helper == Helper::Asleep {
            self.chores.notify_one();
        }
        if request.durability == Durability::Buffered {
            queue = self.write_out(queue, &ticket)?;
        }
        Ok((ticket, queue))
    }

    /// Have a batch written to the file.
    fn write_out<'a>(
        &'a self,
        mut queue: QueueGuard<'a>,
        ticket: &Ticket,
    ) -> Result<QueueGuard<'a>> {
        let (first, last) = (ticket.first, ticket.last.seq);
        while queue.written.ack.seq < last {
            if let Some(error) = queue.outcome(first, last) {
                return Err(error);
            }
            queue = match queue.turn {
                Turn::Free => {
                    self.expect_own_process()?;
                    self.commit(queue, Durability::Buffered)
                        .map_err(|queue| queue.refusal(first, last))?
                }
                Turn::Commit | Turn::Rotate => self.wait_for(queue, Until::Written(last))?,
            };
        }
        Ok(queue)
    }

    /// Wait until a batch is durable; have it written and synced if nobody else does.
    pub(super) fn wait(&self, ticket: &Ticket) -> Result<Ack> {
        self.wait_with(self.enter()?, ticket)
    }

    fn wait_with<'a>(&'a self, mut queue: QueueGuard<'a>, ticket: &Ticket) -> Result<Ack> {
        let Ticket { first, last } = *ticket;
        if last.seq > queue.encoded.ack.seq {
            let message = format!(
                "a ticket for record {}: expected one of this log, which ends at record {}",
                last.seq, queue.encoded.ack.seq
            );
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        while queue.durable.ack.seq < last.seq {
            if let Some(error) = queue.outcome(first, last.seq) {
                return Err(error);
            }
            queue = match queue.turn {
                Turn::Free => {
                    self.expect_own_process()?;
                    self.commit(queue, Durability::Sync)
                        .map_err(|queue| queue.refusal(first, last.seq))?
                }
                Turn::Commit | Turn::Rotate => match self.sleep(queue, Until::Durable(last.seq))? {
                    Woken::Answered => break,
                    Woken::ToLook => self.lock(),
                },
            };
        }
        Ok(last)
    }

    /// Wait until all that was submitted is durable.
    pub(super) fn flush(&self) -> Result<Ack> {
        self.expect_own_process()?;
        let ticket = {
            let queue = self.lock();
            queue.expect_good()?;
            let first = queue.durable.ack.seq + 1;
            Ticket { first, last: queue.encoded.ack }
        };
        self.wait(&ticket)
    }

    /// Where a batch of that key stands, if it is among the last records.
    pub(super) fn landed(&self, key: &BatchKey) -> Result<Option<Ticket>> {
        self.expect_own_process()?;
        self.load_keys()?;
        Ok(self.lock().landed(Some(key)))
    }

    /// Read the keys of the last records, once. Nobody can have added a key before.
    fn load_keys(&self) -> Result<()> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let next_seq = {
            let queue = self.lock();
            if queue.keys.is_some() {
                return Ok(());
            }
            queue.durable.ack.seq + 1
        };
        let keys = KeyWindow::load(&self.reader()?, next_seq)?;
        self.lock().keys = Some(keys);
        Ok(())
    }

    pub(super) fn reader(&self) -> Result<LogReader> {
        let known = self.retention();
        let (storage, dir) = (&self.options.storage, self.layout.dir());
        let reader = LogReader::open_superseded(storage, dir, known.as_ref(), &self.places)?;
        let own = self.enter()?.active.header.ledger;
        if reader.ledger_uid().is_some_and(|found| found != own) && !bug!(AnotherLedgerRead) {
            return Err(fenced(MOVED).at_path(dir));
        }
        Ok(reader)
    }

    /// The newest retention note.
    pub(super) fn retention(&self) -> Option<Retention> {
        self.retention.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Make all durable that was submitted, and write HEAD as that of a log at rest.
    pub(super) fn close(&self) -> Result<()> {
        match &self.enter()?.health {
            Health::Good => {}
            Health::Fenced(why) => return Err(fenced(why)),
            // Whoever had to know was told.
            Health::Poisoned(_) | Health::Closed => return Ok(()),
        }
        let flushed = self.flush();
        let content = {
            let mut queue = self.lock();
            // From here on this handle is done, whatever becomes of the rest.
            let is_good = queue.health == Health::Good;
            queue.health = Health::Closed;
            let (header, tip) = (&queue.active.header, &queue.durable);
            let (epoch, mode) = (self.ownership.epoch, self.options.head_sync);
            is_good.then(|| head_content(header, tip, epoch, mode, HeadState::Clean))
        };
        flushed?;
        let Some(content) = content else { return Ok(()) };
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        self.ownership.check().map_err(|why| fenced(&why))?;
        head.write(content)?;
        head.sync()
    }
}

const MOVED: &str = "another ledger is in the place of the one that was opened: the folder was \
                     moved, or the working folder changed";

impl Queue {
    fn landed(&self, key: Option<&BatchKey>) -> Option<Ticket> {
        self.keys.as_ref()?.find(key?, self.encoded.ack.seq + 1)
    }

    fn expect_seq(&self, request: &Request<'_>) -> Result<()> {
        let next = self.encoded.ack.seq + 1;
        match request.expected_seq {
            Some(expected) if expected != next => {
                let message = format!(
                    "a batch: expected to begin with record {expected}, found that {next} is next; \
                     look at what was recorded in the meantime, and decide again"
                );
                Err(Error::new(ErrorKind::Conflict, message).at_seq(next))
            }
            _ => Ok(()),
        }
    }

    /// A ticket for no records: it is durable when everything before it is.
    fn empty_ticket(&self) -> Ticket {
        let last = self.encoded.ack;
        Ticket { first: last.seq + 1, last }
    }
}
