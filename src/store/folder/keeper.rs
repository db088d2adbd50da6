//! Copies the records of an open log to a store: one slot for each group before it is acknowledged, or slots with all
//! records since the last [`StoreKeeper::ship`].
//!
//! Invariants:
//! - In the mode `store` no group is acknowledged before its slot is written.
//! - In the mode `bounded` no group is acknowledged while the store lacks one that became durable longer ago
//!   than the bound.
//! - After another process took over, no group is acknowledged in any mode.
//! - Lock order: the open epoch, then the unshipped records.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, to_u64};
use crate::log::{BlobId, Keeper, KeptGroup, LogReader, NotKept};
use crate::store::binding::LedgerIdentity;
use crate::store::name::ObjectName;
use crate::store::session::{HeldStore, StoreEnd};
use crate::store::slot::{SLOT_HEADER_SIZE, SLOT_SIZE_MAX, SlotPart, SlotWriter};

use super::ack::{AckMode, AckedBy, MonotonicClock, StoreLag, Unshipped};
use super::blobs::blob_name;
use super::client::StoreClient;
use super::ship::{SHIPPED_SIZE, ship_durable, ship_queued_blobs};
use super::upload::{Covered, Health, ScrubStep, StoreDamage, Whole, check, upload};

/// Brings each group of records to a store, in an open epoch: before the log acknowledges it, or later.
#[derive(Debug)]
pub struct StoreKeeper {
    client: StoreClient,
    writer: SlotWriter,
    ack: AckMode,
    clock: MonotonicClock,
    /// The folder.
    reader: LogReader,
    held: Mutex<HeldStore>,
    pending: Mutex<Pending>,
    /// The part of the log that segment objects cover.
    covered: Mutex<Covered>,
    /// The damage that was found.
    health: Mutex<Health>,
    /// More waits to be shipped.
    is_due: Condvar,
}

/// The records that the store does not have yet.
#[derive(Debug)]
struct Pending {
    unshipped: Unshipped,
    /// Blobs that unshipped records may reference.
    blobs: BTreeSet<BlobId>,
    /// Why the process no longer holds the log.
    fenced: Option<String>,
    /// A thread in [`StoreKeeper::wait`] is to continue.
    is_woken: bool,
}

impl StoreKeeper {
    pub(super) fn new(
        client: StoreClient,
        writer: SlotWriter,
        held: HeldStore,
        reader: LogReader,
        (ack, clock): (AckMode, MonotonicClock),
    ) -> Self {
        let pending = Pending {
            unshipped: Unshipped::after(last_seq(&held)),
            blobs: BTreeSet::new(),
            fenced: None,
            is_woken: false,
        };
        let (held, pending) = (Mutex::new(held), Mutex::new(pending));
        let (covered, health, is_due) = (Mutex::default(), Mutex::default(), Condvar::new());
        Self { client, writer, ack, clock, reader, held, pending, covered, health, is_due }
    }

    #[must_use]
    pub fn identity(&self) -> LedgerIdentity {
        self.writer.identity
    }

    /// Address of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// Another process took over: no record is acknowledged any longer. From now on [`Self::lag`] counts every
    /// acknowledged record that the store lacks.
    pub fn fence(&self, why: &str) {
        self.pending().fenced.get_or_insert_with(|| why.to_owned());
    }

    /// The reason why a group is not kept. The log names the records.
    fn not_kept(&self, error: &Error) -> NotKept {
        match error.kind() {
            ErrorKind::Fenced => NotKept::Fenced(error.message().to_owned()),
            _ => NotKept::Unknown(self.cause(error)),
        }
    }

    /// An error in one line: the place, the cause, and the advice.
    fn cause(&self, error: &Error) -> String {
        let place = match &error.location().path {
            Some(path) if ObjectName::is_below_prefix(path) => Path::new(self.url()).join(path),
            Some(path) => path.clone(),
            None => self.url().into(),
        };
        let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
        format!("{}: {}{hint}", place.display(), error.message())
    }

    /// When a commit is acknowledged.
    #[must_use]
    pub fn ack(&self) -> AckMode {
        self.ack
    }

    /// The end of the log in the store.
    #[must_use]
    pub fn end(&self) -> StoreEnd {
        self.held().end().clone()
    }

    /// How far the store is behind the folder.
    #[must_use]
    pub fn lag(&self) -> StoreLag {
        self.pending().unshipped.lag(self.clock.now())
    }

    /// The place of an acknowledged record.
    #[must_use]
    pub fn acked_by(&self, seq: u64) -> AckedBy {
        if seq <= self.pending().unshipped.shipped_seq { AckedBy::Store } else { AckedBy::Local }
    }

    /// Make slots of all durable records of the folder, and return the remaining lag of the store.
    /// A program calls this again and again, and once more before it closes the log: see
    /// [`Self::wait`]. In the mode `store` this does nothing.
    ///
    /// # Errors
    /// `OutcomeUnknown` and `Io`: the store does not answer; a later call continues. `Fenced`:
    /// another process took over, and the log accepts no more records. `Corrupt` if a file is
    /// damaged; `Pruned` if the folder no longer has the records that the store lacks.
    pub fn ship(&self) -> Result<StoreLag> {
        if self.ack == AckMode::Store {
            return Ok(self.lag());
        }
        let mut held = self.held();
        if let Some(why) = self.pending().fenced.clone() {
            return Err(
                Error::new(ErrorKind::Fenced, why).with_hint("open the ledger again to continue")
            );
        }
        let shipped = self.ship_to(&mut held);
        let mut pending = self.pending();
        pending.unshipped.shipped(last_seq(&held));
        if let Err(error) = &shipped
            && error.kind() == ErrorKind::Fenced
        {
            pending.fenced = Some(error.message().to_owned());
        }
        drop(pending);
        shipped?;
        Ok(self.lag())
    }

    fn ship_to(&self, held: &mut HeldStore) -> Result<()> {
        let session = self.client.session(self.writer.identity);
        // Read before the blobs are taken, so that these records refer only to blobs that were queued before.
        let reader = self.reader.reload()?;
        let mut blobs = std::mem::take(&mut self.pending().blobs);
        let shipped = if mutant!(BlobShippedLate) {
            ship_durable(&reader, &session, &self.writer, held)
                .and_then(|()| ship_queued_blobs(&reader, &session, &mut blobs))
        } else {
            ship_queued_blobs(&reader, &session, &mut blobs)
                .and_then(|()| ship_durable(&reader, &session, &self.writer, held))
        };
        self.pending().blobs.append(&mut blobs);
        shipped
    }

    /// Upload complete segments with slots in the store, a first part of the newest segment if more
    /// than 256 slots or 4 MiB are in no segment object, and at most one snapshot, so that a
    /// machine without a folder needs few requests. Returns the number of objects. A program calls
    /// this after [`Self::ship`]. It delays no commit, and sends no request without a reason to
    /// upload.
    ///
    /// # Errors
    /// `Corrupt` if a file is damaged; `Io`: a later call continues.
    pub fn upload_segments(&self) -> Result<u64> {
        let session = self.client.session(self.writer.identity);
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, commits) = {
            let held = self.held();
            (held.end().clone(), held.commits())
        };
        upload(&self.reader.reload()?, &session, (&end, commits), &mut covered)
    }

    /// Check that the store has everything that a restore needs, as far as listings and uncovered slots show it, and
    /// repair the store from the folder. Returns all findings. A program calls this when it has opened the log, once a
    /// day, and more often while something is damaged. It delays no commit.
    ///
    /// # Errors
    /// `Io`: a later call continues.
    pub fn check_store(&self) -> Result<Vec<StoreDamage>> {
        let session = self.client.session(self.writer.identity);
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self.end();
        let queued = self.pending().blobs.clone();
        let reader = self.reader.reload()?;
        let whole = Whole { reader: &reader, session: &session, end: &end, queued: &queued };
        let damage = check(&whole, &mut health)?;
        if !damage.is_empty() {
            // The covered part may differ from the known one.
            *self.covered.lock().unwrap_or_else(PoisonError::into_inner) = Covered::default();
        }
        Ok(damage)
    }

    /// Read one object of the store and verify it: a segment object, an anchor, or a blob. Each call reads another one, until
    /// all were read.
    ///
    /// # Errors
    /// As [`Self::check_store`].
    pub fn scrub(&self) -> Result<ScrubStep> {
        let session = self.client.session(self.writer.identity);
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.scrub(&self.reader.reload()?, &session, &self.writer.node)
    }

    /// Wait until 4 MiB more wait to be shipped, until some time passed, or until [`Self::wake`] is called.
    /// A thread that ships does so in turn: wait, then [`Self::ship`].
    pub fn wait(&self, every: Duration) {
        let waited =
            self.is_due.wait_timeout_while(self.pending(), every, |pending| !pending.is_woken);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.is_woken = false;
    }

    /// End a wait.
    pub fn wake(&self) {
        self.pending().is_woken = true;
        self.is_due.notify_all();
    }

    fn held(&self) -> MutexGuard<'_, HeldStore> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commit a group before it is acknowledged.
    fn commit(&self, group: &KeptGroup<'_>) -> std::result::Result<(), NotKept> {
        let KeptGroup { segment, offset, frames, last_seq: before, chain, time, .. } = *group;
        let part = SlotPart { segment, offset, frames, last_seq: before, chain, time };
        let slot = self.writer.encode(&part).map_err(|error| self.not_kept(&error))?;
        let session = self.client.session(self.writer.identity);
        let mut held = self.held();
        held.commit(&session, slot).map_err(|error| self.not_kept(&error))?;
        self.pending().unshipped.shipped(last_seq(&held));
        Ok(())
    }

    /// Note a group that is shipped later.
    fn queue(&self, group: &KeptGroup<'_>) -> std::result::Result<(), NotKept> {
        let mut before_ship = None;
        loop {
            let mut pending = self.pending();
            if let Some(why) = pending.fenced.clone().filter(|_| !mutant!(FencedShipperIgnored)) {
                return Err(NotKept::Fenced(why));
            }
            let now = self.clock.now();
            let is_overdue = match (self.ack, pending.unshipped.oldest()) {
                (AckMode::Bounded(bound), Some(oldest)) => now.saturating_sub(oldest) > bound,
                _ => false,
            };
            if !is_overdue || mutant!(BoundIgnored) {
                let before = pending.unshipped.lag(now).bytes / SHIPPED_SIZE;
                pending.unshipped.add(now, group.end_seq, to_u64(group.frames.len()));
                if pending.unshipped.lag(now).bytes / SHIPPED_SIZE > before {
                    pending.is_woken = true;
                    self.is_due.notify_all();
                }
                return Ok(());
            }
            let oldest = pending.unshipped.oldest();
            drop(pending);
            if before_ship == Some(oldest) {
                let why = "HEAD does not cover what was acknowledged";
                return Err(NotKept::Unknown(why.to_owned()));
            }
            before_ship = Some(oldest);
            // Everything before this group, as HEAD covers it.
            self.ship().map_err(|error| self.not_kept(&error))?;
        }
    }
}

fn last_seq(held: &HeldStore) -> u64 {
    held.end().position.next_seq - 1
}

impl Keeper for StoreKeeper {
    fn keep(&self, group: &KeptGroup<'_>) -> std::result::Result<(), NotKept> {
        match self.ack {
            AckMode::Store => self.commit(group),
            AckMode::Local | AckMode::Bounded(_) => self.queue(group),
        }
    }

    fn keep_blob(&self, hash: &str, bytes: &[u8]) -> std::result::Result<(), String> {
        if self.ack != AckMode::Store {
            self.pending().blobs.insert(BlobId::of(bytes));
            return Ok(());
        }
        let session = self.client.session(self.writer.identity);
        session.create_same(&blob_name(hash), bytes).map_err(|error| self.cause(&error))
    }

    fn size_max(&self) -> u64 {
        to_u64(SLOT_SIZE_MAX - SLOT_HEADER_SIZE - SEGMENT_HEADER_SIZE)
    }

    fn kept_seq(&self) -> u64 {
        self.pending().unshipped.shipped_seq
    }
}
