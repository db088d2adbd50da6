//! Making a folder equal to the log in a store: finding the last common record, taking in what the
//! folder lacks, and adding to the store what only the folder has.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SEGMENT_HEADER_SIZE, Uid};
use crate::log::{Ack, BoundAck, FolderPart, LogCopy, StoreBinding};
use crate::store::binding::parse_uid;
use crate::store::name::{ObjectName, SEGMENTS, TAIL};
use crate::store::protocol::StorePosition;
use crate::store::segments::segment_floor;
use crate::store::session::{HeldStore, StoreEnd, StoreSession, TakenIn};
use crate::store::slot::{
    SLOT_HEADER_SIZE, SegmentPlace, SlotHeader, SlotPart, SlotWriter, WriterNote,
};

use super::blobs::{ship_blobs, take_in_blobs};
use super::ship::SHIPPED_SIZE;

/// What was done to make a folder equal to the log in a store.
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
}

/// Records that a folder may have acknowledged, and in whose place the log has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divergence {
    /// The first of them. The record before is the last common one.
    pub(super) first: u64,
    /// The last one.
    pub(super) last: u64,
    /// The last one that HEAD or a segment header proves to be durable; below `first` without any.
    pub(super) proven: u64,
}

/// A folder while it is made equal to the log in a store.
#[derive(Debug)]
pub(super) struct Follower<'c> {
    pub(super) copy: &'c mut LogCopy,
    pub(super) progress: FolderProgress,
    /// The writer of the last slot.
    pub(super) last_writer: Option<(u64, Uid)>,
    /// The folder had every blob of the store once.
    has_blobs: bool,
    /// What STORE.json says from when the folder takes in records, unless it says something already.
    binding: StoreBinding,
    /// Why the folder was refused.
    pub(super) divergence: Option<Divergence>,
}

impl<'c> Follower<'c> {
    pub(super) fn new(copy: &'c mut LogCopy, binding: StoreBinding) -> Self {
        let progress = FolderProgress { last_seq: copy.last().seq, ..FolderProgress::default() };
        Self { copy, progress, last_writer: None, has_blobs: false, binding, divergence: None }
    }

    /// Whether the last writer of the folder acknowledged nothing before the store had it.
    fn acknowledged_by_store(&self) -> bool {
        let ack = self.copy.binding().map(|binding| binding.ack);
        ack == Some(BoundAck::Store) || mutant!(LocalAckForgotten)
    }

    /// A position in the store from which the folder lacks or doubts records: after the newest slot that
    /// the folder has in the same place, or the start of the log.
    pub(super) fn common_position(&mut self, session: &StoreSession<'_>) -> Result<StoreEnd> {
        let mut unclear = 0;
        // A slot up to the floor may be one that does not belong to the log.
        let floor = segment_floor(&session.list(SEGMENTS, &mut unclear)?);
        let last = self.copy.last().seq;
        let mut slots: Vec<u64> = session
            .list(TAIL, &mut unclear)?
            .iter()
            .filter_map(|listed| match ObjectName::parse(&listed.name) {
                Some(ObjectName::Slot(first)) if first > floor && first <= last => Some(first),
                _ => None,
            })
            .collect();
        slots.sort_unstable();
        // Common slots come first. Nearly always the last slot, or the one before, is common.
        let (mut known, mut common) = (slots.len(), None);
        let mut step = 1;
        let mut least = 0;
        while known > least {
            let probe = known.saturating_sub(step).max(least);
            let Some(first) = slots.get(probe) else { break };
            match self.common_end(session, *first, &mut unclear)? {
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
        let Some((end, writer)) = common else { return session.start() };
        (self.last_writer, self.progress.epoch) = (Some(writer), writer.0);
        Ok(end)
    }

    /// The position after a slot and its writer, if the folder has the records of the slot.
    fn common_end(
        &mut self,
        session: &StoreSession<'_>,
        first_seq: u64,
        unclear: &mut u32,
    ) -> Result<Option<(StoreEnd, (u64, Uid))>> {
        let name = ObjectName::Slot(first_seq).to_string();
        let range = u64::try_from(SLOT_HEADER_SIZE).unwrap_or(u64::MAX);
        let found = loop {
            match session.objects.get(&name, Some(0..range)) {
                Ok(found) => break found,
                Err(why) => session.ask_again(unclear, &why)?,
            }
        };
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

    /// Read the log from a position on, and take in what the folder lacks.
    pub(super) fn follow(
        &mut self,
        session: &StoreSession<'_>,
        from: StoreEnd,
    ) -> Result<StoreEnd> {
        let before = self.progress.taken_in;
        let end = session.find_end(from, &mut |taken| self.take_in(taken))?;
        // A crash may have left records without their blobs.
        if self.progress.taken_in > before || !self.has_blobs {
            self.has_blobs = true;
            take_in_blobs(session, self.copy)?;
        }
        self.progress.epoch = end.position.epoch;
        Ok(end)
    }

    /// Whether the folder has everything that was acknowledged is certain, although the folder alone does not
    /// show it: if its last writer acknowledged nothing that the store does not have.
    pub(super) fn expect_no_doubt(&mut self, end: &StoreEnd) -> Result<()> {
        let epoch = end.position.epoch;
        let is_known = self.acknowledged_by_store() && epoch > 0 && epoch >= self.copy.head_epoch();
        match self.copy.take_doubt() {
            Some(doubt) if !is_known => Err(doubt),
            _ => Ok(()),
        }
    }

    /// Take in records of the log, or check that the folder has them.
    pub(super) fn take_in(&mut self, taken: &TakenIn<'_>) -> Result<()> {
        let part = part_of(taken);
        let last = self.copy.last().seq;
        let both = part.last.seq.min(last);
        if both > part.before.seq {
            let chain = chain_at(taken, &part, both);
            match self.copy.find(both)? {
                Some(own) if own.chain != chain => self.drop_rest(taken)?,
                Some(own) if own.segment != part.segment.segment => {
                    return Err(other_segments(self.copy, &part));
                }
                // The same record, or one that was pruned here.
                _ => {}
            }
        }
        let last = self.copy.last().seq;
        if part.last.seq > last {
            // From here on the folder is written only with the store.
            if self.copy.binding().is_none() {
                self.copy.bind(self.binding.clone())?;
            }
            self.copy.append(&part)?;
            self.progress.taken_in += part.last.seq - last.max(part.before.seq);
        }
        self.progress.last_seq = self.copy.last().seq;
        self.last_writer = writer_of(taken).or(self.last_writer);
        Ok(())
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
        let message = format!(
            "records {first} to {last} are only in this folder ({count}, of which {sure} are known to \
             be acknowledged); after record {}, the last common one, the store has those of another process",
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

    /// Add to the store what only the folder has after a position that is the end of the log. Its epoch
    /// continues: the process that opened it in this folder does not run any more, since this one has the
    /// lock.
    pub(super) fn ship(
        &mut self,
        session: &StoreSession<'_>,
        node: Uid,
        mut end: StoreEnd,
    ) -> Result<StoreEnd> {
        loop {
            let StorePosition { next_seq, chain, epoch, .. } = end.position;
            let Some(part) = self.copy.part(next_seq, SHIPPED_SIZE)? else { return Ok(end) };
            if part.before.chain != chain {
                let last = self.copy.last().seq;
                return Err(self.diverged(next_seq, last));
            }
            let writer = SlotWriter { identity: session.identity, node, epoch };
            let slot = writer.encode(&SlotPart {
                segment: &part.segment,
                offset: part.offset,
                frames: &part.frames,
                last_seq: next_seq - 1,
                chain,
                time: end.time,
            })?;
            if self.progress.shipped == 0 {
                ship_blobs(session, self.copy)?;
            }
            self.copy.rewrite(&part)?;
            let mut held = HeldStore::at(end.clone());
            match held.commit(session, slot) {
                Ok(()) => {
                    self.progress.shipped += part.last.seq - part.before.seq;
                    end = held.end().clone();
                }
                // Another process was first, or an earlier one of this folder.
                Err(error) if error.kind() == ErrorKind::Fenced => {
                    end = self.follow(session, end)?;
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
            let (mut chain, mut time) = (header.prev_chain, header.created);
            taken.for_each_record(&mut |record| {
                (chain, time) = (record.chain, record.header.stamp.time);
            });
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

/// The epoch and process of the last writer in some records, as far as they tell.
fn writer_of(taken: &TakenIn<'_>) -> Option<(u64, Uid)> {
    if let TakenIn::Slot(slot) = taken {
        return Some((slot.header().epoch, slot.header().node));
    }
    let mut last = None;
    taken.for_each_record(&mut |record| {
        if let Some(note) = WriterNote::from_record(&record.header, record.payload) {
            last = Some(note);
        }
    });
    let note = last?;
    Some((note.epoch, parse_uid(&note.node)?))
}

fn other_segments(copy: &LogCopy, part: &FolderPart) -> Error {
    let message = "the folder has the records of the log in other segments than the store";
    Error::new(ErrorKind::Diverged, message)
        .with_hint("nothing was changed; keep this folder, and restore the store into a new one")
        .at_path(copy.dir())
        .at_seq(part.before.seq + 1)
}
