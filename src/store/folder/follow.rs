//! Makes a folder equal to the log in a store: finds the last common record, copies missing records into the folder,
//! and adds to the store the records that only the folder has.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SEGMENT_HEADER_SIZE, Uid, to_u64};
use crate::log::{Ack, BoundAck, FolderPart, LogCopy, StoreBinding};
use crate::store::binding::parse_uid;
use crate::store::name::{ObjectName, SEGMENTS, SegmentObject, TAIL, slots_from};
use crate::store::objects::ListedObject;
use crate::store::protocol::StorePosition;
use crate::store::segments::{ends_too_early, lost_end, segment_floor};
use crate::store::session::{HeldStore, StoreEnd, StoreReading, StoreSession, TakenIn};
use crate::store::slot::{SLOT_HEADER_SIZE, SegmentPlace, SlotHeader, SlotPart, SlotWriter};

use super::blobs::{ship_blobs, take_in_blobs};
use super::common::{
    AHEAD_FROM, CommonSegment, begins_later, common_segment, emptied, first_seq, objects_ahead,
    pruned_before, read_ahead, slots_ahead,
};
use super::ship::SHIPPED_SIZE;
use super::upload::cover;

/// The changes that made a folder equal to the log in a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderProgress {
    /// The number of records that the folder took in.
    pub taken_in: u64,
    /// The number of records that were added to the store.
    pub shipped: u64,
    /// The first and the last record that the folder had and the log has not. They were never
    /// acknowledged: another process opened an epoch instead.
    pub dropped: Option<(u64, u64)>,
    /// The last record of the folder.
    pub last_seq: u64,
    /// The epoch of the last record that was read.
    pub epoch: u64,
    /// The first sealed segment of the store with an invalid index or footer: its records are
    /// intact.
    pub derived_damage: Option<SegmentObject>,
    /// The sealed segment after which the store lost its newest records, if the folder does not have them either.
    pub lost_after: Option<SegmentObject>,
    /// The first and the last record that the store had and lost, and that the folder added again.
    pub returned: Option<(u64, u64)>,
}

/// Records that the folder may have acknowledged, although the log has other records in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divergence {
    /// The first of them. The record before is the last common one.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The last one that HEAD or a segment header proves to be durable; below `first` without any.
    pub(super) proven: u64,
}

/// How many bytes of records are gathered before they are written to the folder, with one sync.
const GATHERED_MAX: usize = 4 << 20;

/// A position that folder and store have in common.
#[derive(Debug)]
pub(super) struct CommonPosition {
    pub(super) end: StoreEnd,
    /// The objects that follow it, sorted by name, as far as they were listed.
    pub(super) ahead: Vec<ListedObject>,
}

/// A folder while it is made equal to the log in a store.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) copy: LogCopy,
    /// Records of the log that follow those of the folder, and are written to it at the next [`Self::flush`].
    gathered: Option<FolderPart>,
    pub(super) progress: FolderProgress,
    /// The writer of the last slot.
    pub(super) last_writer: Option<(u64, Uid)>,
    /// The folder has every blob that records up to this one reference.
    blobs_seq: Option<u64>,
    /// HEAD was written here up to this record.
    head_seq: Option<u64>,
    /// The content of STORE.json, written when the folder receives records, unless it already exists.
    binding: StoreBinding,
    /// Why the folder was refused.
    pub(super) divergence: Option<Divergence>,
    /// It was refused because the log in the store begins after its end.
    pub(super) begins_later: bool,
    /// The segment objects when they were listed last.
    segments: Vec<ListedObject>,
}

impl Follower {
    pub(super) fn new(copy: LogCopy, binding: StoreBinding) -> Self {
        let progress = FolderProgress { last_seq: copy.last().seq, ..FolderProgress::default() };
        Self {
            copy,
            gathered: None,
            progress,
            last_writer: None,
            blobs_seq: None,
            head_seq: None,
            binding,
            divergence: None,
            begins_later: false,
            segments: Vec::new(),
        }
    }

    /// Whether the last writer of the folder acknowledged no record before the store had it.
    pub(super) fn acknowledged_by_store(&self) -> bool {
        let ack = self.copy.binding().map(|binding| binding.ack);
        ack == Some(BoundAck::Store) || mutant!(LocalAckForgotten)
    }

    /// The last record, written or gathered.
    fn last(&self) -> Ack {
        self.gathered.as_ref().map_or(self.copy.last(), |gathered| gathered.last)
    }

    /// A position in the store from which the folder may lack records: after the newest slot that
    /// the folder has in the same place, at the start or end of a segment object, or at the start
    /// of the log.
    pub(super) fn common_position(&mut self, session: &StoreSession<'_>) -> Result<CommonPosition> {
        let mut unclear = 0;
        let segments = session.list(SEGMENTS, &mut unclear)?;
        // A slot up to the floor may not belong to the log.
        let floor = segment_floor(&segments);
        let after = slots_from(floor.saturating_add(1));
        let listed = session.list_after(TAIL, &after, &mut unclear)?;
        let end = match self.common_slot(session, &listed, &mut unclear)? {
            Some(end) => end,
            None => self.common_segment(session, &segments)?,
        };
        self.expect_start(&end)?;
        let ahead = objects_ahead(&segments, &listed, end.position.next_seq);
        self.segments = segments;
        Ok(CommonPosition { end, ahead })
    }

    /// Refuse a store that lost all of its records, since another folder may have more; and one that lost its newest
    /// records, unless the folder has them.
    pub(super) fn expect_end(&mut self, end: &StoreEnd) -> Result<()> {
        // A folder is bound after the store has its records.
        let is_emptied =
            end == &StoreEnd::start() && self.copy.binding().is_some() && self.copy.last().seq > 0;
        if is_emptied && !mutant!(EmptiedStoreFilled) {
            return Err(emptied(&self.copy, &self.binding.url));
        }
        match self.lost_after(end) {
            Some(sealed) => Err(lost_end(&sealed)),
            None => Ok(()),
        }
    }

    /// The sealed segment after which the store lost its newest records, unless the folder has them.
    pub(super) fn lost_after(&mut self, end: &StoreEnd) -> Option<SegmentObject> {
        let segments = std::mem::take(&mut self.segments);
        let next_seq = end.position.next_seq;
        ends_too_early(&segments, next_seq).filter(|_| self.last().seq < next_seq)
    }

    /// Refuse a folder that ends before the start of the log in the store.
    fn expect_start(&mut self, start: &StoreEnd) -> Result<()> {
        let (first, last) = (start.position.next_seq, self.copy.last().seq);
        let is_new = self.copy.identity().is_none();
        if is_new || first <= last.saturating_add(1) || mutant!(LaterStartIgnored) {
            return Ok(());
        }
        self.begins_later = true;
        Err(begins_later(self.copy.dir(), first, last, self.acknowledged_by_store()))
    }

    /// The read failed, perhaps because the log in the store now begins later.
    fn explained<T>(&mut self, session: &StoreSession<'_>, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let start = session.start().ok();
                start.map_or(Ok(()), |start| self.expect_start(&start))?;
                Err(error)
            }
            read => read,
        }
    }

    /// The start or end of the last segment object that the folder has completely, or the start of
    /// the log.
    fn common_segment(
        &mut self,
        session: &StoreSession<'_>,
        segments: &[ListedObject],
    ) -> Result<StoreEnd> {
        let found = common_segment(&mut self.copy, session, segments)?;
        let Some(CommonSegment { end, last_writer }) = found.filter(|_| !mutant!(FloorReadAgain))
        else {
            return session.start();
        };
        (self.last_writer, self.progress.epoch) = (last_writer, end.position.epoch);
        Ok(end)
    }

    /// The position after the newest one of the slots above the floor that the folder has.
    fn common_slot(
        &mut self,
        session: &StoreSession<'_>,
        listed: &[ListedObject],
        unclear: &mut u32,
    ) -> Result<Option<StoreEnd>> {
        let last = self.copy.last().seq;
        let mut slots: Vec<u64> =
            listed.iter().filter_map(first_seq).filter(|first| *first <= last).collect();
        slots.sort_unstable();
        // Common slots come first. Nearly always the last slot, or the one before, is common.
        let (mut known, mut common) = (slots.len(), None);
        let mut step = 1;
        let mut least = 0;
        while known > least {
            let probe = known.saturating_sub(step).max(least);
            let Some(first) = slots.get(probe) else { break };
            match self.common_end(session, *first, unclear)? {
                Some(end) => {
                    (common, least) = (Some(end), probe + 1);
                    step = (known - least).div_ceil(2).max(1);
                }
                None => {
                    known = probe;
                    step = if common.is_some() {
                        (known - least).div_ceil(2).max(1)
                    } else {
                        step.saturating_mul(2)
                    };
                }
            }
        }
        let Some((end, writer)) = common else { return Ok(None) };
        (self.last_writer, self.progress.epoch) = (Some(writer), writer.0);
        Ok(Some(end))
    }

    /// The position after a slot and its writer, if the folder has the records of the slot.
    fn common_end(
        &mut self,
        session: &StoreSession<'_>,
        first_seq: u64,
        unclear: &mut u32,
    ) -> Result<Option<(StoreEnd, (u64, Uid))>> {
        let name = ObjectName::Slot(first_seq).to_string();
        let found = session.get_part(&name, &(0..to_u64(SLOT_HEADER_SIZE)), unclear)?;
        let Some(found) = found else { return Ok(None) };
        let Ok(slot) = SlotHeader::decode(&found.bytes) else { return Ok(None) };
        let SlotHeader { last_seq, chain_after, ordinal, .. } = slot;
        let is_own = slot.first_seq == first_seq
            && (slot.ledger, slot.genesis) == (session.identity.ledger, session.identity.genesis);
        let own = if is_own { self.copy.find(last_seq)? } else { None };
        let is_common =
            own.is_some_and(|own| (own.chain, own.segment) == (chain_after, slot.segment));
        let header = self.copy.segment(ordinal).filter(|header| header.segment == slot.segment);
        let (true, Some(header)) = (is_common, header) else { return Ok(None) };
        let place = Some(SegmentPlace { header: header.clone(), end: slot.end });
        let next_seq = last_seq.saturating_add(1);
        let position =
            StorePosition { next_seq, chain: chain_after, epoch: slot.epoch, at: found.at };
        let end = StoreEnd { position, time: slot.time, place };
        Ok(Some((end, (slot.epoch, slot.node))))
    }

    /// Read the log to its end, and copy missing records into the folder. `ahead` are the objects that are known to
    /// follow.
    pub(super) fn catch_up(
        &mut self,
        session: &StoreSession<'_>,
        reading: &mut StoreReading,
        ahead: Vec<ListedObject>,
    ) -> Result<()> {
        let read = read_ahead(session, ahead, |session| {
            session.read_to_end(reading, &mut |taken| self.take_in(taken))
        });
        self.explained(session, read)?;
        self.flush()?;
        self.progress.epoch = reading.end().position.epoch;
        self.take_in_blobs(session)
    }

    /// As [`Self::catch_up`], but only up to the known slots and a few new ones, because the owner may write as fast as
    /// this process reads. Returns whether this is the end.
    pub(super) fn catch_up_with(
        &mut self,
        session: &StoreSession<'_>,
        reading: &mut StoreReading,
        ahead: Vec<ListedObject>,
    ) -> Result<bool> {
        let slots_max = ahead.len() + AHEAD_FROM;
        let read = read_ahead(session, ahead, |session| {
            session.read_to_end_within(reading, slots_max, &mut |taken| self.take_in(taken))
        });
        let is_end = self.explained(session, read)?;
        self.flush()?;
        self.progress.epoch = reading.end().position.epoch;
        self.take_in_blobs(session)?;
        Ok(is_end)
    }

    /// The same, with the objects of a listing.
    pub(super) fn follow_to_end(
        &mut self,
        session: &StoreSession<'_>,
        reading: &mut StoreReading,
    ) -> Result<bool> {
        let ahead = slots_ahead(session, reading.end())?;
        self.catch_up_with(session, reading, ahead)
    }

    /// Read the log to its end from the last common position, and copy missing records into the folder. If a damaged
    /// slot was certainly written by this folder, segment objects from the folder replace it.
    pub(super) fn join(&mut self, session: &StoreSession<'_>) -> Result<StoreReading> {
        let mut is_covered = false;
        loop {
            let CommonPosition { end, ahead } = self.common_position(session)?;
            let mut reading = StoreReading::from(end);
            match self.catch_up(session, &mut reading, ahead) {
                Err(error) if !is_covered && self.is_own_damage(session, &error)? => {
                    is_covered = true;
                    self.cover(session)?;
                }
                caught => return caught.map(|()| reading),
            }
        }
    }

    /// Whether an error is about the newest slot, and this folder wrote that slot. In the mode
    /// `store`, HEAD covers only records that its process found in the store. After a later slot,
    /// another process may have continued the log from a store that had lost its newest slots: then
    /// the answer is no.
    fn is_own_damage(&self, session: &StoreSession<'_>, error: &Error) -> Result<bool> {
        let named = error
            .location()
            .path
            .as_ref()
            .and_then(|path| path.to_str())
            .and_then(ObjectName::parse);
        let (ErrorKind::Corrupt, Some(ObjectName::Slot(first))) = (error.kind(), named) else {
            return Ok(false);
        };
        if !self.acknowledged_by_store() || self.gathered.is_some() {
            return Ok(false);
        }
        let reader = self.copy.reader()?;
        let is_own = reader.head().is_some_and(|head| head.durable_seq >= first);
        let after = slots_from(first.saturating_add(1));
        Ok(is_own
            && !session.list_after(TAIL, &after, &mut 0)?.iter().any(|it| first_seq(it).is_some()))
    }

    /// Create segment objects up to the end of HEAD.
    fn cover(&mut self, session: &StoreSession<'_>) -> Result<()> {
        let reader = self.copy.reader()?;
        let Some(head) = reader.head() else { return Ok(()) };
        let Some(found) = self.copy.find(head.durable_seq)? else { return Ok(()) };
        let header = self.copy.segment(head.ordinal).filter(|it| it.segment == head.segment);
        let place =
            header.map(|header| SegmentPlace { header: header.clone(), end: head.data_end });
        let (next_seq, epoch) = (head.durable_seq.saturating_add(1), 0);
        let position = StorePosition { next_seq, chain: found.chain, epoch, at: None };
        cover(&reader, session, &StoreEnd { position, time: found.time, place })
    }

    /// Copy the next slots into the folder, without their blobs, up to a missing slot. If there are no new records,
    /// this is one request.
    pub(super) fn follow_on(
        &mut self,
        session: &StoreSession<'_>,
        reading: &mut StoreReading,
    ) -> Result<()> {
        let read = session.read_on(reading, AHEAD_FROM, &mut |taken| self.take_in(taken));
        let is_missing = self.explained(session, read)?;
        if !is_missing {
            let ahead = slots_ahead(session, reading.end())?;
            // The owner may write as fast as this process reads, so this process also checks the owner in between.
            let slots_max = ahead.len() + AHEAD_FROM;
            let read = read_ahead(session, ahead, |session| {
                session.read_on(reading, slots_max, &mut |taken| self.take_in(taken))
            });
            self.explained(session, read)?;
        }
        self.flush()?;
        self.progress.epoch = reading.end().position.epoch;
        Ok(())
    }

    /// Copy the blobs that the records of the folder reference. After a crash, records may lack
    /// their blobs.
    pub(super) fn take_in_blobs(&mut self, session: &StoreSession<'_>) -> Result<()> {
        let last = self.last().seq;
        let has_all = self.blobs_seq == Some(last)
            || (self.blobs_seq.is_some() && mutant!(BlobsOfTakeoverMissing));
        if has_all {
            return Ok(());
        }
        take_in_blobs(session, &self.copy)?;
        self.blobs_seq = Some(last);
        Ok(())
    }

    /// Write to HEAD that the folder has everything up to its end, unless HEAD already has it.
    pub(super) fn write_head(&mut self) -> Result<()> {
        let last = self.copy.last().seq;
        if self.head_seq != Some(last) {
            self.copy.write_head()?;
            self.head_seq = Some(last);
        }
        Ok(())
    }

    /// Whether the folder ends where the log was read to.
    pub(super) fn is_equal_to(&self, end: &StoreEnd) -> bool {
        self.last().seq.checked_add(1) == Some(end.position.next_seq)
    }

    /// Whether the folder certainly has every acknowledged record. The folder alone does not show this, but it is true
    /// if its last writer acknowledged only records that the store has.
    pub(super) fn expect_no_doubt(&mut self, end: &StoreEnd) -> Result<()> {
        let epoch = end.position.epoch;
        let is_known = self.acknowledged_by_store() && epoch > 0 && epoch >= self.copy.head_epoch();
        match self.copy.take_doubt() {
            Some(doubt) if !is_known => Err(doubt),
            _ => Ok(()),
        }
    }

    /// Take in records of the log, or check that the folder has them. They are in the folder after the next
    /// [`Self::flush`].
    pub(super) fn take_in(&mut self, taken: &TakenIn<'_>) -> Result<()> {
        let part = part_of(taken);
        if part.before.seq < self.last().seq {
            self.flush()?;
        }
        let last = self.copy.last().seq;
        let both = part.last.seq.min(last);
        if both > part.before.seq {
            let chain = chain_at(taken, &part, both);
            match self.copy.find(both)? {
                Some(own) if own.chain != chain => self.drop_rest(taken)?,
                Some(own) if own.segment != part.segment.segment => {
                    return Err(other_segments(&self.copy, &part));
                }
                // The same record, or one that was pruned here.
                _ => {}
            }
        }
        let last = self.last().seq;
        if part.last.seq > last {
            self.progress.taken_in += part.last.seq - last.max(part.before.seq);
            self.gather(part)?;
        }
        self.progress.last_seq = self.last().seq;
        self.last_writer = writer_of(taken).or(self.last_writer);
        Ok(())
    }

    /// Keep records until enough are there for a write and a sync.
    fn gather(&mut self, part: FolderPart) -> Result<()> {
        if let Some(gathered) = &mut self.gathered {
            let end = gathered.offset + to_u64(gathered.frames.len());
            let is_next = (&gathered.segment, end, gathered.last)
                == (&part.segment, part.offset, part.before);
            if is_next && gathered.frames.len() + part.frames.len() <= GATHERED_MAX {
                gathered.frames.extend_from_slice(&part.frames);
                (gathered.last, gathered.time) = (part.last, part.time);
                return Ok(());
            }
            self.flush()?;
        }
        self.gathered = Some(part);
        Ok(())
    }

    /// Write the collected records to the folder.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(part) = self.gathered.take() else { return Ok(()) };
        // From here on the folder is written only with the store.
        if self.copy.binding().is_none() {
            self.copy.bind(self.binding.clone())?;
        }
        self.copy.append(&part)
    }

    /// The folder has other records than the log. Drop them, unless they may be acknowledged.
    fn drop_rest(&mut self, taken: &TakenIn<'_>) -> Result<()> {
        let last = self.copy.last().seq;
        let mut chains = Vec::new();
        taken.for_each_record(&mut |record| chains.push((record.header.stamp.seq, record.chain)));
        let mut first = None;
        for (seq, chain) in chains {
            let own = self.copy.find(seq)?;
            if own.is_some_and(|own| own.chain != chain) {
                first = Some(seq);
                break;
            }
        }
        let Some(first) = first else { return Ok(()) };
        let may_be_acknowledged = self.copy.proven_seq() >= first || !self.acknowledged_by_store();
        if may_be_acknowledged && !mutant!(AcknowledgedRecordsDropped) {
            return Err(self.diverged(first, last));
        }
        self.copy.cut(first - 1)?;
        let dropped = self.progress.dropped.map_or(first, |(before, _)| before.min(first));
        self.progress.dropped = Some((dropped, last));
        Ok(())
    }

    /// The folder has records that may be acknowledged, and the log has others in their place.
    fn diverged(&mut self, first: u64, last: u64) -> Error {
        let proven = self.copy.proven_seq();
        self.divergence = Some(Divergence { first, last, proven });
        let count = last.saturating_sub(first) + 1;
        let sure = proven.min(last).saturating_add(1).saturating_sub(first);
        let lost = if sure > 0 && self.acknowledged_by_store() {
            ", so the store had these and lost them"
        } else {
            ""
        };
        let message = format!(
            "records {first} to {last} are only in this folder ({count}, of which {sure} are known to \
             be acknowledged{lost}); after record {}, the last common one, the store has those of another process",
            first - 1
        );
        Error::new(ErrorKind::Diverged, message)
            .with_hint(
                "nothing was changed; keep this folder for its records, and restore the store into a new \
                 one; joining the store again does both",
            )
            .at_path(self.copy.dir())
            .at_seq(first)
    }

    /// Add to the store the records that only the folder has, after a position that is the end of the log. Their epoch
    /// continues: the process that opened it in this folder has ended, because this process has the lock. A writer note
    /// that the store lacks becomes an opening slot again.
    pub(super) fn ship(
        &mut self,
        session: &StoreSession<'_>,
        node: Uid,
        mut end: StoreEnd,
    ) -> Result<StoreEnd> {
        let (first, proven) = (end.position.next_seq, self.copy.proven_seq());
        if proven >= first && self.copy.binding().is_some() && self.acknowledged_by_store() {
            self.progress.returned = Some((first, proven));
        }
        loop {
            let StorePosition { next_seq, chain, epoch, .. } = end.position;
            let Some(part) = self.copy.part(next_seq, SHIPPED_SIZE)? else {
                let last = self.copy.last().seq;
                let is_pruned = last >= next_seq && !mutant!(PrunedFolderBound);
                let first = self.copy.first_seq();
                let pruned = || pruned_before(self.copy.dir(), first, next_seq);
                return if is_pruned { Err(pruned()) } else { Ok(end) };
            };
            if part.before.chain != chain {
                let last = self.copy.last().seq;
                return Err(self.diverged(next_seq, last));
            }
            let writer = SlotWriter { identity: session.identity, node, epoch };
            let slot = writer.encode_copied(&SlotPart {
                segment: &part.segment,
                offset: part.offset,
                frames: &part.frames,
                last_seq: next_seq - 1,
                chain,
                time: end.time,
            })?;
            if self.progress.shipped == 0 {
                ship_blobs(session, &self.copy)?;
            }
            self.copy.rewrite(&part)?;
            let mut held = HeldStore::at(end.clone());
            let SlotHeader { opens, epoch, node, .. } = *slot.header();
            match held.commit_copied(session, slot) {
                Ok(()) => {
                    self.progress.shipped += part.last.seq - part.before.seq;
                    if opens && !mutant!(CopiedWriterForgotten) {
                        (self.last_writer, self.progress.epoch) = (Some((epoch, node)), epoch);
                    }
                    end = held.end().clone();
                }
                // Another process was first, or an earlier one of this folder.
                Err(error) if error.kind() == ErrorKind::Fenced => {
                    let mut reading = StoreReading::from(end);
                    self.catch_up(session, &mut reading, Vec::new())?;
                    end = reading.end().clone();
                }
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                    return Err(Error::new(ErrorKind::Io, error.message())
                        .with_hint("check the connection, and try again"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Records of a store, as a part of a folder.
fn part_of(taken: &TakenIn<'_>) -> FolderPart {
    match taken {
        TakenIn::Slot(slot) => {
            let header = slot.header();
            FolderPart {
                segment: slot.place().header.clone(),
                offset: header.offset,
                frames: slot.frames().to_vec(),
                before: Ack { seq: header.first_seq - 1, chain: header.chain_before },
                last: Ack { seq: header.last_seq, chain: header.chain_after },
                time: header.time,
            }
        }
        TakenIn::Segment(segment) => {
            let place = segment.place();
            let header = &place.header;
            let end = usize::try_from(place.end).unwrap_or(usize::MAX);
            let frames = segment.bytes().get(SEGMENT_HEADER_SIZE..end).unwrap_or_default().to_vec();
            let (chain, time) = segment.last();
            FolderPart {
                segment: header.clone(),
                offset: u64::try_from(SEGMENT_HEADER_SIZE).unwrap_or(u64::MAX),
                frames,
                before: Ack { seq: header.prev_last_seq, chain: header.prev_chain },
                last: Ack { seq: segment.object().last_seq, chain },
                time,
            }
        }
    }
}

/// The chain value of a record of a store.
fn chain_at(taken: &TakenIn<'_>, part: &FolderPart, seq: u64) -> Chain {
    let mut chain = part.last.chain;
    if seq != part.last.seq {
        taken.for_each_record(&mut |record| {
            if record.header.stamp.seq == seq {
                chain = record.chain;
            }
        });
    }
    chain
}

/// The epoch and process of the last writer in some records, if they contain a writer note.
fn writer_of(taken: &TakenIn<'_>) -> Option<(u64, Uid)> {
    match taken {
        TakenIn::Slot(slot) => Some((slot.header().epoch, slot.header().node)),
        TakenIn::Segment(segment) => {
            let note = segment.note()?;
            Some((note.epoch, parse_uid(&note.node)?))
        }
    }
}

fn other_segments(copy: &LogCopy, part: &FolderPart) -> Error {
    let message = "the folder has the records of the store, but in different segments";
    Error::new(ErrorKind::Diverged, message)
        .with_hint("nothing was changed; keep this folder, and restore the store into a new one")
        .at_path(copy.dir())
        .at_seq(part.before.seq + 1)
}
