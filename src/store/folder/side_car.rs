//! Shipping a folder that another process writes, without its lock.
//!
//! The side-car reads the records that HEAD covers and makes slots of them, in the epoch in which
//! the log ends in the store. It opens no epoch: a writer note of the folder, from an earlier store
//! of the ledger, becomes an opening slot again. Two side-cars of one folder make slots of the same
//! records, so either of them may be first.
//!
//! Invariants:
//! - The folder is not changed, and not bound.
//! - If the records of the store differ from those of the folder, or the store has more, the
//!   side-car ships nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{BlobId, BlobList, LogReader, bound_store};
use crate::storage::Storage;
use crate::store::binding::{LedgerIdentity, bind, has_log};
use crate::store::name::{ObjectName, SEGMENTS, TAIL, slots_from};
use crate::store::protocol::StorePosition;
use crate::store::segments::segment_floor;
use crate::store::session::{HeldStore, StoreEnd, StoreSession, TakenIn};
use crate::store::slot::{SegmentPlace, SlotBytes, SlotWriter};

use super::ack::{MonotonicClock, StoreLag, Unshipped};
use super::client::StoreClient;
use super::common::{begins_later, bound_elsewhere, pruned_before};
use super::open::StoreOpening;
use super::ship::{ship_durable, ship_queued_blobs};
use super::upload::{Covered, Health, StoreDamage, Whole, check, upload_shipped};

/// The newest slot is first searched among this many records before the end of the folder.
const NEAR: u64 = 10_000;

/// Ships a folder that another process writes.
#[derive(Debug)]
pub struct SideCar {
    client: StoreClient,
    storage: Arc<dyn Storage>,
    reader: LogReader,
    writer: SlotWriter,
    clock: MonotonicClock,
    held: HeldStore,
    unshipped: Unshipped,
    /// The blobs that the store has.
    blobs: BTreeSet<BlobId>,
    /// The part of the log that segment objects cover.
    covered: Covered,
    health: Health,
}

impl SideCar {
    /// Find the end of the log in the store, or bind the prefix to the ledger. The folder stays an ordinary
    /// one. The mode of `opening` does not matter.
    ///
    /// # Errors
    /// `NotALedger`; `Rejected` if the folder is bound to a store, since the process that writes it ships
    /// it then, or the store has the log of another ledger; `Diverged` if the store has records that the folder
    /// has not; `Corrupt` with the name of a damaged object; `Io`.
    pub fn open(
        dir: &Path,
        storage: &Arc<dyn Storage>,
        client: &StoreClient,
        opening: &StoreOpening,
    ) -> Result<Self> {
        let reader = LogReader::open(storage, dir)?;
        check_unbound(&**storage, &reader)?;
        let (ledger, genesis) = reader.uids().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the folder has no segment").at_path(dir)
        })?;
        let identity = LedgerIdentity { ledger, genesis };
        if reader.first_seq() > 1 && !has_log(client.objects(), client.retry())? {
            return Err(pruned_before(dir, reader.first_seq(), 1));
        }
        bind(client.objects(), &identity, opening.time, client.retry())?;
        let session = client.session(identity);
        let end = common_end(&reader, &session)?;
        let durable = reader.head().map_or(0, |head| head.durable_seq);
        if end.position.next_seq > durable.saturating_add(1) {
            return Err(begins_later(dir, end.position.next_seq, durable, false));
        }
        let end = session.find_end(end, &mut |taken| check_common(&reader, taken))?;
        expect_unpruned(&reader, &end)?;
        let writer = SlotWriter { identity, node: opening.node, epoch: end.position.epoch };
        let unshipped = Unshipped::after(end.position.next_seq - 1);
        let held = HeldStore::at(end);
        Ok(Self {
            client: client.clone(),
            storage: storage.clone(),
            reader,
            writer,
            clock: opening.clock.clone(),
            held,
            unshipped,
            blobs: BTreeSet::new(),
            covered: Covered::default(),
            health: Health::default(),
        })
    }

    /// The end of the log in the store.
    #[must_use]
    pub fn end(&self) -> &StoreEnd {
        self.held.end()
    }

    /// Make slots of all durable records of the folder, and return the remaining lag of the store.
    /// A program calls this again and again. The age of a record is measured from the call that saw
    /// it first.
    ///
    /// # Errors
    /// `Rejected` if the folder was bound meanwhile, or no longer has the records that the store
    /// lacks; `Diverged` if another process took over in the store; `OutcomeUnknown` and `Io`: the
    /// store does not answer, and a later call continues; `Corrupt`.
    pub fn ship(&mut self) -> Result<StoreLag> {
        self.reader = self.reader.reload()?;
        check_unbound(&*self.storage, &self.reader)?;
        self.note_durable();
        let shipped = self.ship_durable();
        self.unshipped.shipped(self.held.end().position.next_seq - 1);
        shipped?;
        Ok(self.lag())
    }

    /// Upload complete segments with slots in the store, so that a restore needs fewer requests,
    /// and at most one snapshot; returns the number of objects. A program calls this after
    /// [`Self::ship`].
    ///
    /// # Errors
    /// `Corrupt` if a file is damaged; `Io`: a later call continues.
    pub fn upload_segments(&mut self) -> Result<u64> {
        let Self { client, reader, writer, held, covered, .. } = self;
        let session = client.session(writer.identity);
        // No part of the newest one: after it, a side-car that starts again would find no slot to continue at.
        upload_shipped(reader, &session, held.end().position.next_seq - 1, covered)
    }

    /// Check that the store has everything that a restore needs, and repair it from the folder: see
    /// [`super::StoreKeeper::check_store`].
    ///
    /// # Errors
    /// `Diverged` if another process took over: objects that it pruned are not created again. `Io`
    /// if the store does not answer: a later call continues.
    pub fn check_store(&mut self) -> Result<Vec<StoreDamage>> {
        let Self { client, reader, writer, held, covered, health, .. } = self;
        let session = client.session(writer.identity);
        let is_continued = |reader: &LogReader| {
            session.find_end(held.end().clone(), &mut |taken| {
                if mutant!(IdleSideCarRepairs) { Ok(()) } else { check_common(reader, taken) }
            })
        };
        // Another side-car of this folder may have shipped records that this side-car has not read
        // yet.
        if is_continued(&reader.reload()?).is_err_and(|error| error.kind() == ErrorKind::Diverged) {
            is_continued(&reader.reload()?)?;
        }
        // With records that are not shipped, their blobs are not either.
        let is_behind =
            reader.head().is_some_and(|head| head.durable_seq >= held.end().position.next_seq);
        // If the blobs cannot be listed, none of them is compared.
        let blobs =
            if is_behind { reader.blobs().list().unwrap_or_default() } else { BlobList::default() };
        let queued: BTreeSet<BlobId> = blobs.blobs.into_iter().map(|blob| blob.id).collect();
        let whole = Whole { reader, session: &session, end: held.end(), queued: &queued };
        let damage = check(&whole, health)?;
        if !damage.is_empty() {
            *covered = Covered::default();
        }
        Ok(damage)
    }

    /// How far the store is behind the folder, as the last call of [`Self::ship`] saw it.
    #[must_use]
    pub fn lag(&self) -> StoreLag {
        let place = self.held.end().place.as_ref().map(|place| (&place.header, place.end));
        let bytes = self.reader.durable_bytes_after(place);
        StoreLag { bytes, ..self.unshipped.lag(self.clock.now()) }
    }

    fn note_durable(&mut self) {
        let durable = self.reader.head().map_or(0, |head| head.durable_seq);
        let known = self.unshipped.shipped_seq + self.unshipped.lag(self.clock.now()).records;
        if durable > known {
            self.unshipped.add(self.clock.now(), durable, 0);
        }
    }

    fn ship_durable(&mut self) -> Result<()> {
        let Self { client, reader, writer, held, blobs, covered, .. } = self;
        let session = client.session(writer.identity);
        let durable = reader.head().map_or(0, |head| head.durable_seq);
        if durable >= held.end().position.next_seq {
            // Listed after HEAD was read, so that the records that HEAD covers refer only to these.
            let all = reader.blobs().list()?.blobs.into_iter().map(|blob| blob.id);
            let mut queued: BTreeSet<BlobId> = all.filter(|id| !blobs.contains(id)).collect();
            let new = queued.clone();
            ship_queued_blobs(reader, &session, &mut queued)?;
            blobs.extend(new);
        }
        loop {
            expect_unpruned(reader, held.end())?;
            match ship_durable(reader, &session, writer, held) {
                Err(error) if error.kind() == ErrorKind::Fenced => {
                    // Another side-car of this folder was first, or a process that took over.
                    let from = held.end().clone();
                    let end = session.find_end(from, &mut |taken| check_common(reader, taken))?;
                    *held = HeldStore::at(end);
                    *covered = Covered::default();
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    return Err(other_segments(reader, held.end()));
                }
                shipped => return shipped,
            }
        }
    }
}

/// Refuse a folder that no longer has the records that the store needs next.
fn expect_unpruned(reader: &LogReader, end: &StoreEnd) -> Result<()> {
    let (first, next_seq) = (reader.first_seq(), end.position.next_seq);
    if next_seq < first { Err(pruned_before(reader.dir(), first, next_seq)) } else { Ok(()) }
}

/// A recovery wrote the records again, in another segment than the shipped one.
fn other_segments(reader: &LogReader, end: &StoreEnd) -> Error {
    let seq = end.position.next_seq;
    let message = "the folder has the records of the store, but in different segments";
    Error::new(ErrorKind::Diverged, message)
        .with_hint(
            "nothing was changed; ship this ledger to another place in the store: a power cut made it \
             write the last records again",
        )
        .at_path(reader.dir())
        .at_seq(seq)
}

/// Refuse a folder that is bound to a store.
fn check_unbound(storage: &dyn Storage, reader: &LogReader) -> Result<()> {
    let Some(binding) = bound_store(storage, reader.dir())? else { return Ok(()) };
    let message = format!(
        "this ledger is bound to the store {}: the process that writes it ships it",
        binding.url
    );
    Err(bound_elsewhere(reader.dir(), message, "open it with"))
}

/// The position after the newest slot, if the folder has its records in the same place; otherwise the
/// start of the log.
fn common_end(reader: &LogReader, session: &StoreSession<'_>) -> Result<StoreEnd> {
    let mut unclear = 0;
    let floor = segment_floor(&session.list(SEGMENTS, &mut unclear)?);
    // The newest slot is probably near the end of the folder.
    let durable = reader.head().map_or(0, |head| head.durable_seq);
    let near = durable.saturating_sub(NEAR).max(floor).saturating_add(1);
    let mut slots = session.list_after(TAIL, &slots_from(near), &mut unclear)?;
    if slots.is_empty() {
        slots = session.list_after(TAIL, &slots_from(floor + 1), &mut unclear)?;
    }
    let newest = slots.iter().filter_map(|listed| match ObjectName::parse(&listed.name) {
        Some(ObjectName::Slot(first)) if first > floor => Some(first),
        _ => None,
    });
    let Some(first_seq) = newest.max() else { return session.start() };
    let name = ObjectName::Slot(first_seq).to_string();
    let Some(found) = session.get(&name, &mut unclear)? else { return session.start() };
    let Ok(slot) = SlotBytes(found.bytes).check(first_seq, &session.identity) else {
        return session.start();
    };
    let header = slot.header();
    let place = reader.place_of(header.last_seq, &header.chain_after, &header.segment)?;
    let Some(place) = place.filter(|(_, end)| *end == header.end) else {
        return session.start();
    };
    let position = StorePosition::after(&slot.facts(found.at));
    Ok(StoreEnd {
        position,
        time: header.time,
        place: Some(SegmentPlace { header: place.0, end: place.1 }),
    })
}

/// Check that the folder has the records of the store.
fn check_common(reader: &LogReader, taken: &TakenIn<'_>) -> Result<()> {
    let mut last = None;
    taken.for_each_record(&mut |record| last = Some((record.header.stamp.seq, record.chain)));
    let Some((seq, chain)) = last else { return Ok(()) };
    // The pruned records were compared when they were shipped.
    if seq < reader.first_seq() {
        return Ok(());
    }
    let own = reader.record(seq)?;
    if own.as_ref().is_some_and(|own| own.chain == chain) {
        return Ok(());
    }
    let what = if own.is_some() {
        "other records than the folder"
    } else {
        "records that the folder lacks"
    };
    let message = format!("the store has {what}, up to record {seq}: another process took over");
    Err(Error::new(ErrorKind::Diverged, message)
        .with_hint("nothing was changed; keep this folder, and restore the store into a new one")
        .at_path(reader.dir())
        .at_seq(seq))
}
