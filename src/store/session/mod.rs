//! Carrying out the protocol on a store: reading to the end, opening an epoch, committing.
//!
//! Invariants:
//! - The machines decide only on verified bytes: a slot is accepted after every frame of it was verified.
//! - After an unclear answer a session checks again, as often as its caller wants. If the caller gives up, the commit
//!   stays unresolved, and [`HeldStore::resolve`] continues with the same bytes.

mod errors;
mod prune;

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Record, SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};

use crate::store::binding::LedgerIdentity;
use crate::store::name::{
    ObjectName, SEGMENTS, SegmentForm, SegmentObject, TAIL, segments_from, slots_from,
};
use crate::store::objects::{ListedObject, Objects, StoredObject, Unclear};
use crate::store::protocol::{
    EndFinder, FoundSlot, SlotFacts, SlotKeeper, StoreAnswer, StoreCall, StorePosition, Takeover,
};
use crate::store::segments::{Before, VerifiedSegment, object_with, segment_floor, segment_object};
use crate::store::slot::{
    CheckedSlot, EncodedSlot, SLOT_HEADER_SIZE, SegmentPlace, SlotBytes, SlotFault, SlotHeader,
    VerifiedSlot,
};

pub(super) use errors::no_record;
use errors::{fault_error, fenced};
pub(super) use prune::retention_note;
use prune::{Prune, unnoted};

/// A client of a store that speaks for a ledger.
#[derive(Clone, Copy)]
pub struct StoreSession<'a> {
    pub objects: &'a dyn Objects,
    pub identity: LedgerIdentity,
    /// Called after the n-th unclear answer: waits, and decides whether to try again.
    pub retry: &'a dyn Fn(u32) -> bool,
}

/// The end of a log in a store, or any other position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreEnd {
    pub position: StorePosition,
    /// Time of the record before.
    pub time: u64,
    /// Its place in the segment; `None` at the start of the log.
    pub place: Option<SegmentPlace>,
}

impl StoreEnd {
    /// The start of a log.
    #[must_use]
    pub fn start() -> Self {
        Self { position: StorePosition::START, time: 0, place: None }
    }

    /// Create the segment object with the first part of the segment that has the last record, up to that record:
    /// `bytes` are those of the segment's file up to there. Slots that it covers may be collected later.
    ///
    /// It ends where a slot does. A reader that continues in the middle of a slot would not find it, since
    /// a slot has the name of its first record.
    ///
    /// # Errors
    /// `Conflict` if the bytes are not these; `Corrupt` if there is another object of that name; `Io` if the
    /// store does not answer.
    pub(in crate::store) fn create_part(
        &self,
        session: &StoreSession<'_>,
        bytes: &[u8],
    ) -> Result<SegmentObject> {
        let Self { position, place, .. } = self;
        let place = place.as_ref().expect("an open epoch has a segment");
        let last_seq = position.next_seq - 1;
        let is_end = SegmentHeader::decode(bytes).as_ref() == Ok(&place.header)
            && to_u64(bytes.len()) == place.end
            && bytes.last_chunk() == Some(&position.chain.0);
        if !is_end {
            let message = format!(
                "segment object: expected the {} bytes of the segment up to this record, found different ones",
                place.end
            );
            return Err(Error::new(ErrorKind::Conflict, message).at_seq(last_seq));
        }
        let SegmentHeader { base_seq, ordinal, .. } = place.header;
        let object = SegmentObject { base_seq, last_seq, ordinal, form: SegmentForm::Part };
        session.create_segment(&object, bytes)?;
        Ok(object)
    }

    /// The first record from which a segment object can hold the next one, or slots reach it after
    /// a segment object: the first record of the segment with the previous record. Every earlier
    /// object of the log ends before this record.
    fn listed_from(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.header.base_seq)
    }
}

/// How far a process has read the log of a store.
#[derive(Debug, Clone)]
pub struct StoreReading {
    finder: EndFinder,
    end: StoreEnd,
    prune: Prune,
}

impl StoreReading {
    /// Read from a position that is known to be in the log.
    #[must_use]
    pub fn from(end: StoreEnd) -> Self {
        let StorePosition { next_seq, chain, .. } = end.position;
        Self {
            finder: EndFinder::from(end.position),
            prune: Prune::new(end.place.is_none().then_some((next_seq, chain))),
            end,
        }
    }

    /// How far the log was read.
    #[must_use]
    pub fn end(&self) -> &StoreEnd {
        &self.end
    }

    /// Whether this was the end when it was read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        matches!(self.finder.call(), StoreCall::Rest(_))
    }

    /// Before an epoch is opened here, check that nothing follows, unless the position was just read.
    pub(in crate::store) fn confirm_end(&mut self) {
        self.finder.confirm_end();
    }
}

/// Records that belong to the log, verified.
#[derive(Debug, Clone, Copy)]
pub enum TakenIn<'a> {
    /// A segment object. It may contain records before the position from which the log was read.
    Segment(&'a VerifiedSegment),
    Slot(&'a VerifiedSlot),
}

impl TakenIn<'_> {
    /// Pass each record to `take`, in order.
    pub fn for_each_record(&self, take: &mut dyn FnMut(&Record<'_>)) {
        match self {
            Self::Segment(segment) => segment.for_each_record(take),
            Self::Slot(slot) => slot.for_each_record(take),
        }
    }
}

/// The caller's use of the records of the log.
type Take<'t> = &'t mut dyn FnMut(&TakenIn<'_>) -> Result<()>;

/// How a caller makes the opening slot for the end of the log.
type Build<'b> = &'b mut dyn FnMut(&StoreEnd) -> Result<EncodedSlot>;

/// An open epoch.
#[derive(Debug, Clone)]
pub struct HeldStore {
    keeper: SlotKeeper,
    end: StoreEnd,
    /// A slot with an unresolved commit.
    unresolved: Option<EncodedSlot>,
    /// How many slots were committed, the opening slot included.
    commits: u64,
}

/// The working state of a machine.
struct Run<'s, 'a> {
    session: &'s StoreSession<'a>,
    end: StoreEnd,
    found: Option<CheckedSlot>,
    fault: Option<SlotFault>,
    own: Option<EncodedSlot>,
    /// The number of unclear answers since the last progress.
    unclear: u32,
    /// Why the last create was unclear. Reading the name may show its outcome.
    create_unclear: Option<Unclear>,
}

impl std::fmt::Debug for StoreSession<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSession").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl StoreSession<'_> {
    /// Read the log from a position to its end, and pass everything in it to `take`.
    ///
    /// # Errors
    /// `Corrupt` with the name of the damaged object; `Unsupported`; `Io` if the store does not answer;
    /// any error of `take`.
    pub fn find_end(&self, from: StoreEnd, take: Take<'_>) -> Result<StoreEnd> {
        let mut reading = StoreReading::from(from);
        self.read_to_end(&mut reading, take)?;
        Ok(reading.end)
    }

    /// Continue to read, up to the end of the log. After an error the reading is unusable.
    ///
    /// # Errors
    /// As [`Self::find_end`].
    pub fn read_to_end(&self, reading: &mut StoreReading, take: Take<'_>) -> Result<()> {
        reading.finder.confirm_end();
        self.read(reading, take, &mut |call| !matches!(call, StoreCall::Rest(_)))?;
        reading.prune.check()
    }

    /// As [`Self::read_to_end`], but at most this many slots: a writer may be as fast as this reader. Returns whether
    /// it is the end.
    ///
    /// # Errors
    /// As [`Self::find_end`].
    pub(in crate::store) fn read_to_end_within(
        &self,
        reading: &mut StoreReading,
        slots_max: usize,
        take: Take<'_>,
    ) -> Result<bool> {
        reading.finder.confirm_end();
        let mut slots = 0;
        self.read(reading, take, &mut |call| {
            slots += usize::from(matches!(call, StoreCall::GetSlot(_)));
            let is_bounded = slots > slots_max && !mutant!(FollowedWithoutBound);
            !matches!(call, StoreCall::Rest(_)) && !is_bounded
        })?;
        reading.prune.check()?;
        Ok(reading.is_at_end())
    }

    /// Continue to read: accept at most this many slots, up to a missing one. Returns whether a
    /// slot is missing. This does not prove the end of the log: a later call, or
    /// [`Self::read_to_end`], continues. Without new records, this is one request. After an error
    /// the reading is unusable.
    ///
    /// # Errors
    /// As [`Self::find_end`].
    pub fn read_on(
        &self,
        reading: &mut StoreReading,
        slots_max: usize,
        take: Take<'_>,
    ) -> Result<bool> {
        reading.finder.look_again();
        let (mut slots, mut is_missing) = (0, false);
        self.read(reading, take, &mut |call| {
            is_missing = matches!(call, StoreCall::ListSlots | StoreCall::Rest(_));
            if matches!(call, StoreCall::GetSlot(_)) {
                slots += 1;
            }
            !is_missing && slots <= slots_max
        })?;
        Ok(is_missing)
    }

    /// Carry out the calls of a reader while `continues` returns true.
    fn read(
        &self,
        reading: &mut StoreReading,
        take: Take<'_>,
        continues: &mut dyn FnMut(&StoreCall) -> bool,
    ) -> Result<()> {
        let mut run = Run::new(self, reading.end.clone());
        loop {
            let call = reading.finder.call();
            if !continues(&call) {
                reading.end = run.end;
                return Ok(());
            }
            let prune = &mut reading.prune;
            let mut take = |taken: &TakenIn<'_>| {
                if prune.is_sought() {
                    taken.for_each_record(&mut |record| prune.look(record));
                }
                take(taken)
            };
            reading.finder.answer(run.perform(&call, &mut take, None)?);
        }
    }

    /// The start of the log in the store: record 1, or the first record after the segments that a prune deleted. A
    /// reader that begins there finds the retention note about the prune, or fails.
    ///
    /// # Errors
    /// `Corrupt` if the first segment object is damaged; `Io` if the store does not answer.
    pub fn start(&self) -> Result<StoreEnd> {
        let mut unclear = 0;
        let listing = self.list(SEGMENTS, &mut unclear)?;
        let objects = listing.iter().filter_map(segment_object);
        let first = objects.min_by_key(|object| (object.base_seq, std::cmp::Reverse(object.form)));
        let Some(first) = first.filter(|first| first.base_seq > 1) else {
            return Ok(StoreEnd::start());
        };
        let name = ObjectName::Segment(first).to_string();
        let found = self.get_part(&name, &(0..to_u64(SEGMENT_HEADER_SIZE)), &mut unclear)?;
        let found = found.ok_or_else(|| unnoted(first.base_seq))?;
        let header = SegmentHeader::decode(&found.bytes)
            .map_err(|fault| fault_error(&name, &SlotFault::Segment(fault), None))?;
        // The epoch that the first slot after the floor continues: perhaps no writer note of it is left.
        let floor = segment_floor(&listing);
        let slots = self.list(TAIL, &mut unclear)?;
        let after = slots.iter().find(|slot| {
            matches!(ObjectName::parse(&slot.name), Some(ObjectName::Slot(seq)) if seq > floor)
        });
        let slot = match after {
            Some(slot) => {
                self.get_part(&slot.name, &(0..to_u64(SLOT_HEADER_SIZE)), &mut unclear)?
            }
            None => None,
        };
        let slot = slot.and_then(|found| SlotHeader::decode(&found.bytes).ok());
        let epoch = slot.map_or(0, |slot| slot.epoch.saturating_sub(u64::from(slot.opens)));
        let (next_seq, chain) = (first.base_seq, header.prev_chain);
        let position = StorePosition { next_seq, chain, epoch, at: None };
        Ok(StoreEnd { position, time: 0, place: None })
    }

    /// Open an epoch at the end of the log: read to it, and create the slot that `build` makes for it. `build` is
    /// called again if another process was first.
    ///
    /// # Errors
    /// As [`Self::find_end`], and any error of `build`.
    pub fn take_over(&self, from: StoreEnd, take: Take<'_>, build: Build<'_>) -> Result<HeldStore> {
        self.take_over_after(StoreReading::from(from), take, build)
    }

    /// As [`Self::take_over`], where a reading is. If it has just reached the end, the opening slot is created at
    /// once.
    ///
    /// # Errors
    /// As [`Self::take_over`].
    pub fn take_over_after(
        &self,
        reading: StoreReading,
        take: Take<'_>,
        build: Build<'_>,
    ) -> Result<HeldStore> {
        let mut takeover = Takeover::continuing(reading.finder);
        let mut run = Run::new(self, reading.end);
        loop {
            if let Some(keeper) = takeover.keeper() {
                run.append_own();
                let end = StoreEnd { position: *keeper.position(), ..run.end };
                return Ok(HeldStore { keeper, end, unresolved: None, commits: 1 });
            }
            let call = takeover.call();
            takeover.answer(run.perform(&call, take, Some(build))?);
        }
    }

    /// Create a segment object. Its records are in slots that are written, and it ends where a slot does.
    ///
    /// # Errors
    /// `Corrupt` if there is another one of that name; `Io` if the store does not answer.
    pub(in crate::store) fn create_segment(
        &self,
        object: &SegmentObject,
        bytes: &[u8],
    ) -> Result<()> {
        self.create_same(&ObjectName::Segment(*object).to_string(), bytes)
    }

    /// Create an object, which may already exist with the same bytes.
    ///
    /// # Errors
    /// `Corrupt` if there is another one of that name; `Io` if the store does not answer.
    pub(in crate::store) fn create_same(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut unclear = 0;
        loop {
            let Err(why) = self.objects.create(name, bytes) else { return Ok(()) };
            match self.get(name, &mut unclear)? {
                Some(found) if found.bytes == bytes => return Ok(()),
                Some(_) => {
                    let message = "another object has this name";
                    return Err(Error::new(ErrorKind::Corrupt, message).at_path(name.as_ref()));
                }
                None => self.ask_again(&mut unclear, &why)?,
            }
        }
    }

    /// All objects of a folder, sorted.
    pub(in crate::store) fn list(
        &self,
        folder: &str,
        unclear: &mut u32,
    ) -> Result<Vec<ListedObject>> {
        self.list_after(folder, folder, unclear)
    }

    /// The objects of a folder with names after a text, sorted.
    pub(in crate::store) fn list_after(
        &self,
        folder: &str,
        after: &str,
        unclear: &mut u32,
    ) -> Result<Vec<ListedObject>> {
        loop {
            let listing = if after == folder || mutant!(ListedFromStart) {
                self.objects.list(folder)
            } else {
                self.objects.list_after(folder, after)
            };
            match listing {
                Ok(mut listing) => {
                    listing.sort();
                    return Ok(listing);
                }
                Err(why) => self.ask_again(unclear, &why)?,
            }
        }
    }

    pub(in crate::store) fn get(
        &self,
        name: &str,
        unclear: &mut u32,
    ) -> Result<Option<StoredObject>> {
        loop {
            match self.objects.get(name, None) {
                Ok(found) => return Ok(found),
                Err(why) => self.ask_again(unclear, &why)?,
            }
        }
    }

    /// Some bytes of an object.
    pub(in crate::store) fn get_part(
        &self,
        name: &str,
        range: &Range<u64>,
        unclear: &mut u32,
    ) -> Result<Option<StoredObject>> {
        loop {
            match self.objects.get(name, Some(range.clone())) {
                Ok(found) => return Ok(found),
                Err(why) => self.ask_again(unclear, &why)?,
            }
        }
    }

    pub(in crate::store) fn ask_again(&self, unclear: &mut u32, why: &Unclear) -> Result<()> {
        *unclear = unclear.saturating_add(1);
        if (self.retry)(*unclear) {
            return Ok(());
        }
        Err(why.error())
    }
}

impl HeldStore {
    /// Continue at the end of the log, in its epoch. The process that opened the epoch wrote to the folder of the
    /// caller, and has ended.
    pub(in crate::store) fn at(end: StoreEnd) -> Self {
        Self { keeper: SlotKeeper::at(end.position), end, unresolved: None, commits: 0 }
    }

    /// The end of the log.
    #[must_use]
    pub fn end(&self) -> &StoreEnd {
        &self.end
    }

    /// How many slots were committed, the opening slot included.
    #[must_use]
    pub(in crate::store) fn commits(&self) -> u64 {
        self.commits
    }

    /// Whether the commit of a slot is not resolved.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.unresolved.is_some()
    }

    /// Create the segment object with the first part of the current segment, up to the end of the log: see
    /// [`StoreEnd::create_part`].
    ///
    /// # Errors
    /// As there.
    pub fn create_part(&self, session: &StoreSession<'_>, bytes: &[u8]) -> Result<SegmentObject> {
        self.end.create_part(session, bytes)
    }

    /// Commit a slot: it continues the end of the log.
    ///
    /// # Errors
    /// `Fenced`: another process opened an epoch, and the records are not in the log. `Corrupt`:
    /// the object under the name is impossible. `OutcomeUnknown`: the caller gave up, or an earlier
    /// commit is not resolved; see [`Self::resolve`]. `Conflict` if the slot does not continue the
    /// log.
    pub fn commit(&mut self, session: &StoreSession<'_>, slot: EncodedSlot) -> Result<()> {
        self.commit_with(session, slot, SlotKeeper::start)
    }

    /// Commit a slot with records of a folder, which may be an opening slot.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(in crate::store) fn commit_copied(
        &mut self,
        session: &StoreSession<'_>,
        slot: EncodedSlot,
    ) -> Result<()> {
        self.commit_with(session, slot, SlotKeeper::start_copied)
    }

    fn commit_with(
        &mut self,
        session: &StoreSession<'_>,
        slot: EncodedSlot,
        start: fn(&mut SlotKeeper, SlotFacts) -> bool,
    ) -> Result<()> {
        if self.is_unresolved() {
            let message = "the commit before this one is not resolved";
            return Err(Error::new(ErrorKind::OutcomeUnknown, message));
        }
        if let StoreCall::Fenced(first_seq) = self.keeper.call() {
            return Err(fenced(first_seq));
        }
        if let Err(fault) = slot.continues(self.end.place.as_ref()) {
            let message = format!("these records cannot follow those in the store: {fault}");
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("export the ledger, and import it into a new one")
                .at_seq(slot.header().first_seq));
        }
        if !start(&mut self.keeper, slot.facts()) {
            let message = format!(
                "expected a slot for record {} in epoch {}, found one for record {} in epoch {}",
                self.end.position.next_seq,
                self.end.position.epoch,
                slot.header().first_seq,
                slot.header().epoch
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.unresolved = Some(slot);
        self.resolve(session)
    }

    /// Find out the outcome of the last commit. Sends the same bytes again if necessary.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn resolve(&mut self, session: &StoreSession<'_>) -> Result<()> {
        let Some(slot) = self.unresolved.clone() else { return Ok(()) };
        let mut run = Run { own: Some(slot), ..Run::new(session, self.end.clone()) };
        loop {
            match self.keeper.call() {
                StoreCall::Rest(position) => {
                    run.append_own();
                    self.end = StoreEnd { position, ..run.end };
                    self.unresolved = None;
                    self.commits += 1;
                    return Ok(());
                }
                StoreCall::Fenced(first_seq) => {
                    self.unresolved = None;
                    return Err(fenced(first_seq));
                }
                call => {
                    let answer = run.perform(&call, &mut |_| Ok(()), None).map_err(|error| {
                        let error = match error.kind() {
                            ErrorKind::Io => error.as_kind(ErrorKind::OutcomeUnknown),
                            _ => error,
                        };
                        let seq = error.location().seq.unwrap_or(self.end.position.next_seq);
                        error.at_seq(seq)
                    })?;
                    self.keeper.answer(answer);
                }
            }
        }
    }
}

impl<'s, 'a> Run<'s, 'a> {
    fn new(session: &'s StoreSession<'a>, end: StoreEnd) -> Self {
        let (found, fault, own) = (None, None, None);
        Self { session, end, found, fault, own, unclear: 0, create_unclear: None }
    }

    /// Carry out a call.
    fn perform(
        &mut self,
        call: &StoreCall,
        take: Take<'_>,
        build: Option<Build<'_>>,
    ) -> Result<StoreAnswer> {
        match call {
            StoreCall::ListSegments(_) => {
                Ok(StoreAnswer::Floor(segment_floor(&self.list_segments()?)))
            }
            StoreCall::ListSlots => {
                // After a segment object, a slot may begin before the position and reach it.
                let from = match self.end.position.at {
                    Some(_) => self.end.position.next_seq,
                    None => self.end.listed_from(),
                };
                let after = slots_from(from);
                let listing = self.session.list_after(TAIL, &after, &mut self.unclear)?;
                let slots = listing.iter().filter_map(|listed| ObjectName::parse(&listed.name));
                let names =
                    slots.map(|name| if let ObjectName::Slot(first) = name { first } else { 0 });
                Ok(StoreAnswer::LastSlot(names.max().unwrap_or(0)))
            }
            StoreCall::ReadSegments(floor) => {
                self.read_segments(*floor, take)?;
                Ok(StoreAnswer::Position(self.end.position))
            }
            StoreCall::GetSlot(first_seq) => self.look(*first_seq),
            StoreCall::CheckLastSlot(first_seq) => self.check_last(*first_seq),
            StoreCall::TakeIn(slot) => {
                self.take_in(slot, take)?;
                Ok(StoreAnswer::TakenIn)
            }
            StoreCall::BuildOpening(_) => {
                let build = build.expect("only a takeover builds an opening slot");
                let slot = build(&self.end)?;
                let facts = slot.facts();
                if !(facts.opens && self.end.position.is_continued_by(&facts)) {
                    let message = "the opening slot does not continue the log with a new epoch";
                    let error = Error::new(ErrorKind::Conflict, message);
                    return Err(error.at_seq(self.end.position.next_seq));
                }
                self.own = Some(slot);
                Ok(StoreAnswer::Opening(facts))
            }
            StoreCall::CreateSlot(_) => self.create(),
            StoreCall::Damaged(first_seq) | StoreCall::Fenced(first_seq) => {
                Err(self.damaged(*first_seq))
            }
            StoreCall::Rest(position) => Ok(StoreAnswer::Position(*position)),
        }
    }

    fn create(&mut self) -> Result<StoreAnswer> {
        let own = self.own.as_ref().expect("a slot is built before it is created");
        let name = ObjectName::Slot(own.header().first_seq).to_string();
        match self.session.objects.create(&name, own.bytes()) {
            Ok(created) => Ok(StoreAnswer::Created(created.at)),
            Err(why) => {
                if mutant!(LostRaceIsUnclear) {
                    self.session.ask_again(&mut self.unclear, &why)?;
                }
                self.create_unclear = Some(why);
                Ok(StoreAnswer::Unclear)
            }
        }
    }

    /// Get a slot. Bytes are compared with those of the own slot first.
    fn look(&mut self, first_seq: u64) -> Result<StoreAnswer> {
        let name = ObjectName::Slot(first_seq).to_string();
        let Some(object) = self.session.get(&name, &mut self.unclear)? else {
            self.fault = Some(SlotFault::Missing);
            // Only now the outcome of the create is unknown.
            if let Some(why) = self.create_unclear.take() {
                self.session.ask_again(&mut self.unclear, &why)?;
            }
            return Ok(StoreAnswer::Found(None));
        };
        self.fault = None;
        self.create_unclear = None;
        let checked = SlotBytes(object.bytes).check(first_seq, &self.session.identity);
        Ok(StoreAnswer::Found(Some(match checked {
            Ok(slot) => {
                let facts = slot.facts(object.at);
                self.found = Some(slot);
                FoundSlot::Slot(facts)
            }
            Err(fault) if fault.is_version() => {
                let error = Error::new(ErrorKind::Unsupported, fault.to_string());
                return Err(error.at_path(name.as_ref()));
            }
            Err(fault) => {
                self.fault = Some(fault);
                FoundSlot::Invalid
            }
        })))
    }

    /// Whether the last slot has the record before the position, and continues after it.
    fn check_last(&mut self, first_seq: u64) -> Result<StoreAnswer> {
        let name = ObjectName::Slot(first_seq).to_string();
        let Some(object) = self.session.get(&name, &mut self.unclear)? else {
            return Ok(StoreAnswer::Found(None));
        };
        let StoreEnd { position, place, .. } = &self.end;
        let checked = SlotBytes(object.bytes).check(first_seq, &self.session.identity).ok();
        let is_inside = checked.zip(place.as_ref()).is_some_and(|(slot, place)| {
            slot.chain_at(position.next_seq - 1, &place.header) == Some(position.chain)
                && slot.header().last_seq >= position.next_seq
        });
        if is_inside {
            let fault = SlotFault::Link("a segment object ends inside it");
            return Err(fault_error(&name, &fault, Some(position.next_seq)));
        }
        Ok(StoreAnswer::EndsInside(false))
    }

    fn take_in(&mut self, facts: &SlotFacts, take: Take<'_>) -> Result<()> {
        let found = self.found.take().expect("a slot is read before it is taken in");
        let StoreEnd { position, time, place } = &self.end;
        let slot = match found.verify(position, *time, place.as_ref()) {
            Ok(slot) => slot,
            Err(fault) => {
                self.fault = Some(fault);
                return Err(self.damaged(facts.first_seq));
            }
        };
        take(&TakenIn::Slot(&slot))?;
        self.end = StoreEnd {
            position: StorePosition::after(facts),
            time: slot.header().time,
            place: Some(slot.place().clone()),
        };
        self.unclear = 0;
        Ok(())
    }

    /// The segment objects that can hold the next record, or later ones.
    fn list_segments(&mut self) -> Result<Vec<ListedObject>> {
        let after = segments_from(self.end.listed_from());
        self.session.list_after(SEGMENTS, &after, &mut self.unclear)
    }

    /// Read the segment objects up to a record.
    fn read_segments(&mut self, floor: u64, take: Take<'_>) -> Result<()> {
        let listing = self.list_segments()?;
        while self.end.position.next_seq <= floor {
            let next_seq = self.end.position.next_seq;
            let missing = || {
                let message = "no segment object holds this record, although later ones exist";
                Error::new(ErrorKind::Corrupt, message).at_seq(next_seq)
            };
            let object = object_with(&listing, next_seq).ok_or_else(missing)?;
            let name = ObjectName::Segment(object).to_string();
            let found = self.session.get(&name, &mut self.unclear)?.ok_or_else(missing)?;
            let StoreEnd { position, time, place } = &self.end;
            let place = place.as_ref();
            let before = Before { next_seq, chain: position.chain, time: *time, place };
            let verified =
                VerifiedSegment::verify(object, found.bytes, &self.session.identity, &before);
            let (segment, end) = verified.map_err(|fault| fault_error(&name, &fault, None))?;
            take(&TakenIn::Segment(&segment))?;
            let position = StorePosition {
                next_seq: object.last_seq.saturating_add(1),
                chain: end.chain,
                epoch: end.epoch.unwrap_or(position.epoch),
                at: None,
            };
            self.end = StoreEnd { position, time: end.time, place: Some(segment.place().clone()) };
        }
        Ok(())
    }

    /// The own slot is written.
    fn append_own(&mut self) {
        if let Some(own) = self.own.take() {
            self.end.time = own.header().time;
            self.end.place = Some(own.place().clone());
        }
    }

    fn damaged(&mut self, first_seq: u64) -> Error {
        let name = ObjectName::Slot(first_seq).to_string();
        let fault = self.fault.take();
        let fault =
            fault.unwrap_or(SlotFault::Link("it follows other records, or an epoch is wrong"));
        fault_error(&name, &fault, Some(first_seq))
    }
}
