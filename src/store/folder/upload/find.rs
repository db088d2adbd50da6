//! Finds damage in a store (`format/store.md`, section 7), by listings and by reading the slots that no segment object
//! covers.
//!
//! Invariants:
//! - The end of the log is known before the objects are listed: all records up to it must be there. The log may have
//!   continued since then: later records are not checked.
//! - Only objects that a restore needs are checked.
//! - If the folder cannot show the right bytes, the object is reported as not compared, not as damaged, and the check
//!   continues.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::format::Chain;
use crate::log::{
    Anchor, BlobId, BlobState, KIND_RETENTION_NOTE, LogItem, LogReader, LoggedRetentionNote,
    RecordStatus,
};
use crate::store::binding::{expect_own_log, named_ledger};
use crate::store::derived::{anchor_object, has_valid_index, snapshot_object};
use crate::store::folder::blobs::blob_name;
use crate::store::folder::common::{first_seq, read_ahead};
use crate::store::name::{
    BLOBS, ObjectName, SEGMENTS, SNAPSHOTS, SegmentObject, TAIL, segments_from,
};
use crate::store::objects::ListedObject;
use crate::store::segments::{Before, VerifiedSegment, preferred_objects, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{KIND_WRITER_NOTE, SlotBytes};

use super::segments::{object_of, segment_with, valid_headers};

/// The folder, the store, and the end of the log in it.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Whole<'a> {
    pub(in crate::store) reader: &'a LogReader,
    pub(in crate::store) session: &'a StoreSession<'a>,
    pub(in crate::store) end: &'a StoreEnd,
    /// Blobs of the folder that go to the store later.
    pub(in crate::store) queued: &'a BTreeSet<BlobId>,
}

/// An object that a restore needs and that is missing or differs in the store, as far as it can be
/// compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreFault {
    /// The name of the object.
    pub(super) object: String,
    pub(super) defect: Defect,
    pub(super) place: FaultPlace,
}

/// The problem of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Defect {
    Missing,
    Damaged(String),
    /// Only derived data is damaged: a restore has every record.
    Derived(String),
    /// The folder cannot be read at this place, so nothing is known about the object.
    Uncompared(String),
}

/// The missing and damaged objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FaultPlace {
    /// A segment object with this record, after the lowest one that was listed.
    Gap {
        seq: u64,
        lowest: u64,
    },
    /// A segment object that exists.
    Segment(SegmentObject),
    /// A slot that no segment object covers.
    Slot,
    /// The opening slot with this record.
    Opening(u64),
    Blob(BlobId),
    Anchor(Anchor),
    /// The object that names the ledger.
    Ledger,
    /// Several objects that cannot be compared.
    Folder,
}

impl StoreFault {
    fn new(object: impl Into<String>, defect: Defect, place: FaultPlace) -> Self {
        Self { object: object.into(), defect, place }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.defect == Defect::Missing
    }

    pub(super) fn is_uncompared(&self) -> bool {
        matches!(self.defect, Defect::Uncompared(_))
    }

    /// The problem, for people.
    pub(super) fn what(&self) -> String {
        match &self.defect {
            Defect::Missing => "it is missing".to_owned(),
            Defect::Damaged(what) | Defect::Derived(what) => what.clone(),
            Defect::Uncompared(why) => {
                format!("it cannot be compared, since the folder cannot be read there: {why}")
            }
        }
    }
}

/// The relevant content of a store at one moment.
pub(super) struct Listings {
    /// The last record in a segment object.
    floor: u64,
    /// Slots after the floor, and opening slots, by their first record.
    slots: BTreeMap<u64, ListedObject>,
    /// The segment objects that readers prefer, by their first record.
    segments: Vec<(SegmentObject, ListedObject)>,
    blobs: BTreeMap<String, ListedObject>,
    snapshots: BTreeMap<String, ListedObject>,
    /// The blobs that the folder had before, or why that is unknown.
    own_blobs: std::result::Result<Vec<BlobId>, String>,
}

impl Listings {
    /// Slots first: those that the later listing covers are not needed.
    pub(super) fn make(reader: &LogReader, session: &StoreSession<'_>) -> Result<Self> {
        let list = |folder| session.list(folder, &mut 0);
        let by_name = |listed: Vec<ListedObject>| {
            listed.into_iter().map(|object| (object.name.clone(), object)).collect()
        };
        // A blob that is put from now on may reach the store later.
        let own_blobs = reader.blobs().list().map_err(|error| error.to_string());
        let own_blobs =
            own_blobs.map(|list| list.blobs.into_iter().map(|blob| blob.id).collect::<Vec<_>>());
        let (slots, segments) = (list(TAIL)?, list(SEGMENTS)?);
        let floor = segment_floor(&segments);
        let openings: BTreeSet<u64> = valid_headers(reader).map(|header| header.base_seq).collect();
        let is_needed = |first: &u64| *first > floor || openings.contains(first);
        let slots = slots.into_iter().filter_map(|slot| Some((first_seq(&slot)?, slot)));
        let slots = slots.filter(|(first, _)| is_needed(first)).collect();
        let segments: Vec<_> =
            preferred_objects(&segments).map(|(object, listed)| (object, listed.clone())).collect();
        let blobs = by_name(list(BLOBS)?);
        let is_pruned = lowest(&segments) > 1;
        let snapshots = by_name(if is_pruned { list(SNAPSHOTS)? } else { Vec::new() });
        Ok(Self { floor, slots, segments, blobs, snapshots, own_blobs })
    }

    pub(super) fn find(&self, name: &str) -> Option<&ListedObject> {
        match ObjectName::parse(name) {
            Some(ObjectName::Slot(first)) => self.slots.get(&first),
            Some(ObjectName::Segment(object)) => {
                let at = self.segments.binary_search_by_key(&object.base_seq, |it| it.0.base_seq);
                let found = self.segments.get(at.ok()?)?;
                (found.0 == object).then_some(&found.1)
            }
            _ => self.blobs.get(name).or_else(|| self.snapshots.get(name)),
        }
    }

    /// The objects that can be read to verify them, except slots. Of the blobs, only those that the folder has: it may
    /// have deleted others.
    pub(super) fn readable(&self, reader: &LogReader) -> Vec<(FaultPlace, ListedObject)> {
        let segments = self.segments.iter();
        let segments =
            segments.map(|(object, listed)| (FaultPlace::Segment(*object), listed.clone()));
        let note = retention(reader, self).ok().flatten();
        let anchors = note.map_or_else(Vec::new, |logged| logged.note.anchors);
        let anchors = anchors.into_iter().filter_map(|anchor| {
            let listed = self.snapshots.get(&anchor_object(&anchor.name()?))?.clone();
            Some((FaultPlace::Anchor(anchor), listed))
        });
        let blobs = self.own_blobs.iter().flatten().filter_map(|id| {
            Some((FaultPlace::Blob(*id), self.blobs.get(&blob_name(&id.hex()))?.clone()))
        });
        segments.chain(anchors).chain(blobs).collect()
    }
}

/// The first record that a segment object has.
fn lowest(segments: &[(SegmentObject, ListedObject)]) -> u64 {
    segments.first().map_or(1, |(object, _)| object.base_seq)
}

/// The newest retention note in the folder, if the log in the store begins later. The folder may still have the records
/// that the note covers, as a standby's does. An error is the reason why it is unknown.
fn retention(
    reader: &LogReader,
    listings: &Listings,
) -> std::result::Result<Option<LoggedRetentionNote>, String> {
    let lowest = lowest(&listings.segments);
    if lowest <= 1 || reader.retention().is_some() || mutant!(StoreNoteIgnored) {
        return Ok(reader.retention().cloned());
    }
    let (mut newest, mut damage) = (None, None);
    for item in reader.walk_of_kind(KIND_RETENTION_NOTE, lowest) {
        match item {
            Ok(LogItem::Record(record, RecordStatus::Durable | RecordStatus::AfterDamage)) => {
                newest = LoggedRetentionNote::from_record(&record).or(newest);
            }
            Ok(LogItem::Damage(found)) => damage = Some(found.into_error().to_string()),
            Ok(_) => {}
            Err(error) => damage = Some(error.to_string()),
        }
    }
    match (newest, damage) {
        (None, Some(why)) => Err(why),
        (newest, _) => Ok(newest),
    }
}

/// The slots that were read, as they are listed, and how they continue the log.
pub(super) type ReadSlots = BTreeMap<u64, (ListedObject, SlotLink)>;

#[derive(Debug, Clone, Copy)]
pub(super) struct SlotLink {
    chain_before: Chain,
    last_seq: u64,
    chain_after: Chain,
}

/// Compare a store with the folder that writes to it, up to the end of the log in the store before the listings were made.
/// Slots that were `read` and are listed unchanged are not read again.
///
/// # Errors
/// `Rejected` if the prefix belongs to another ledger by now; `Io` if the store does not answer.
pub(super) fn find(
    whole: &Whole<'_>,
    listings: &Listings,
    read: &mut ReadSlots,
) -> Result<Vec<StoreFault>> {
    let mut faults = Vec::from_iter(look_at_ledger(whole.session)?);
    let note = retention(whole.reader, listings);
    let next = look_at_segments(whole, listings, &note, &mut faults)?;
    let slots = look_at_slots(whole, listings, next, read)?;
    if !mutant!(UncoveredSlotsTrusted) {
        faults.extend(slots);
    }
    look_at_openings(whole, listings, &mut faults);
    look_at_blobs(whole, listings, &mut faults)?;
    if let Ok(Some(note)) = &note {
        look_at_anchors(whole, listings, note, &mut faults);
    }
    Ok(faults)
}

/// Check the object that names the ledger: without it, readers do not find the ledger of the store.
fn look_at_ledger(session: &StoreSession<'_>) -> Result<Option<StoreFault>> {
    let name = ObjectName::Ledger.to_string();
    let defect = match session.get(&name, &mut 0)? {
        None => Defect::Missing,
        Some(found) => match named_ledger(&found.bytes) {
            Ok(named) if named == session.identity => return Ok(None),
            Ok(named) => {
                expect_own_log(session.objects, &named, &session.identity, session.retry)?;
                Defect::Damaged("it names another ledger".to_owned())
            }
            Err(error) => Defect::Damaged(error.message().to_owned()),
        },
    };
    let fault = StoreFault::new(name, defect, FaultPlace::Ledger);
    Ok(Some(fault).filter(|_| !mutant!(LostLedgerObjectIgnored)))
}

/// Look for records up to the floor that are in no segment object, and for objects of another length. Returns the
/// record after the floor.
fn look_at_segments(
    whole: &Whole<'_>,
    listings: &Listings,
    note: &std::result::Result<Option<LoggedRetentionNote>, String>,
    faults: &mut Vec<StoreFault>,
) -> Result<u64> {
    let Whole { reader, session, end, .. } = *whole;
    let end_seq = end.position.next_seq - 1;
    let lowest = lowest(&listings.segments);
    // The log may begin later, if a note of the ledger covers the first records.
    let mut next = match note {
        Ok(note) => {
            let pruned = note.as_ref().map_or(0, |logged| logged.note.last_seq);
            lowest.min(pruned.saturating_add(1))
        }
        Err(why) => {
            let defect = Defect::Uncompared(why.clone());
            faults.push(StoreFault::new(segments_from(1), defect, FaultPlace::Folder));
            lowest
        }
    };
    for (object, listed) in &listings.segments {
        while next < object.base_seq && next <= end_seq && !mutant!(SegmentGapIgnored) {
            let (name, last) = match segment_with(reader, next, end) {
                Ok(Some(segment)) => {
                    (ObjectName::Segment(object_of(&segment)).to_string(), segment.last_seq)
                }
                _ => (segments_from(next), object.base_seq - 1),
            };
            let place = FaultPlace::Gap { seq: next, lowest };
            faults.push(StoreFault::new(name, Defect::Missing, place));
            next = last.saturating_add(1);
        }
        if object.base_seq > end_seq {
            break;
        }
        let place = FaultPlace::Segment(*object);
        match length_of(reader, object, end) {
            Ok(Some(length)) if length != listed.length => {
                faults.extend(read_object(reader, session, (&place, &listed.name))?);
            }
            Ok(_) => {}
            Err(error) => {
                let defect = Defect::Uncompared(error.to_string());
                faults.push(StoreFault::new(&listed.name, defect, place));
            }
        }
        next = next.max(object.last_seq.saturating_add(1));
    }
    Ok(next)
}

/// The length of a segment object, according to the folder; `None` if the folder does not show it.
fn length_of(reader: &LogReader, object: &SegmentObject, end: &StoreEnd) -> Result<Option<u64>> {
    if let Some(segment) = segment_with(reader, object.base_seq, end)?
        && object_of(&segment) == *object
    {
        return Ok(Some(segment.length));
    }
    if object.last_seq < reader.first_seq() || mutant!(SegmentLengthUnchecked) {
        return Ok(None);
    }
    let last = reader.record(object.last_seq)?.filter(|last| last.segment == object.ordinal);
    Ok(last.map(|last| last.offset + last.size))
}

/// Read the slots from a record to the end of the log. At the first one that a reader would not take in, all are lost.
fn look_at_slots(
    whole: &Whole<'_>,
    listings: &Listings,
    next: u64,
    read: &mut ReadSlots,
) -> Result<Option<StoreFault>> {
    let Whole { reader, session, end, .. } = *whole;
    let after = end.position.next_seq;
    // Segment objects reach the end, or the log continued since.
    if next >= after || listings.floor >= after {
        return Ok(None);
    }
    let before = match next.checked_sub(1) {
        Some(0) | None => Some(Chain([0; 32])),
        // If the folder does not show it, the first slot begins the chain.
        Some(seq) => reader.chain_at(seq).unwrap_or_default(),
    };
    let link_of = |read: &ReadSlots, first: u64| {
        let (listed, link) = read.get(&first)?;
        (listings.slots.get(&first) == Some(listed)).then_some(*link)
    };
    let needed = listings.slots.range(next..after);
    let needed = needed.filter(|(first, _)| link_of(read, **first).is_none());
    let needed = needed.map(|(_, listed)| listed.clone()).collect();
    read_ahead(session, needed, |session| {
        let (mut next, mut chain, mut last) = (next, before, next);
        while next < after {
            let object = ObjectName::Slot(next).to_string();
            let fault = |defect| Ok(Some(StoreFault::new(&object, defect, FaultPlace::Slot)));
            let link = match link_of(read, next) {
                Some(link) => link,
                None => {
                    let Some(found) = session.get(&object, &mut 0)? else {
                        return fault(Defect::Missing);
                    };
                    let slot = match SlotBytes(found.bytes).check(next, &session.identity) {
                        Ok(slot) => slot,
                        Err(error) => return fault(Defect::Damaged(error.to_string())),
                    };
                    let header = slot.header();
                    SlotLink {
                        chain_before: header.chain_before,
                        last_seq: header.last_seq,
                        chain_after: header.chain_after,
                    }
                }
            };
            if chain.is_some_and(|chain| chain != link.chain_before) {
                let what = "it does not continue the record before";
                return fault(Defect::Damaged(what.to_owned()));
            }
            if let Some(listed) = listings.slots.get(&next) {
                read.insert(next, (listed.clone(), link));
            }
            (last, next, chain) = (next, link.last_seq.saturating_add(1), Some(link.chain_after));
        }
        let is_end = (next, chain.unwrap_or(end.position.chain)) == (after, end.position.chain);
        Ok((!is_end).then(|| {
            let defect = Defect::Damaged("it does not end where the log does".to_owned());
            StoreFault::new(ObjectName::Slot(last).to_string(), defect, FaultPlace::Slot)
        }))
    })
}

/// Look for missing opening slots: without one, a replaced process could continue there.
fn look_at_openings(whole: &Whole<'_>, listings: &Listings, faults: &mut Vec<StoreFault>) {
    let Whole { reader, end, .. } = *whole;
    for seq in valid_headers(reader).map(|header| header.base_seq).collect::<BTreeSet<_>>() {
        let is_unknown = listings.slots.contains_key(&seq) || seq < reader.first_seq();
        if is_unknown || seq >= end.position.next_seq || mutant!(LostOpeningSlotIgnored) {
            continue;
        }
        let defect = match reader.record(seq) {
            Ok(Some(record)) if record.kind == KIND_WRITER_NOTE => Defect::Missing,
            Ok(_) => continue,
            Err(error) => Defect::Uncompared(error.to_string()),
        };
        // It may have been reported as uncovered, which has another repair.
        let object = ObjectName::Slot(seq).to_string();
        faults.push(StoreFault::new(object, defect, FaultPlace::Opening(seq)));
    }
}

/// Look for blobs that records up to the end need.
fn look_at_blobs(
    whole: &Whole<'_>,
    listings: &Listings,
    faults: &mut Vec<StoreFault>,
) -> Result<()> {
    let Whole { reader, session, queued, .. } = *whole;
    let own = match &listings.own_blobs {
        Ok(own) => own,
        Err(why) => {
            let defect = Defect::Uncompared(why.clone());
            faults.push(StoreFault::new(BLOBS, defect, FaultPlace::Folder));
            return Ok(());
        }
    };
    let mut missing = BTreeMap::new();
    for id in own {
        let object = blob_name(&id.hex());
        let defect = match listings.blobs.get(&object) {
            Some(listed) if listed.length == id.length => continue,
            Some(listed) => match reader.blobs().check(id) {
                BlobState::Intact => Defect::Damaged(format!(
                    "it has {} bytes instead of {}",
                    listed.length, id.length
                )),
                BlobState::Missing => continue,
                damaged => {
                    Defect::Uncompared(format!("{}: {damaged}", reader.blobs().path(id).display()))
                }
            },
            None => {
                if !queued.contains(id) && !mutant!(LostBlobIgnored) {
                    missing.insert(id.hash, *id);
                }
                continue;
            }
        };
        faults.push(StoreFault::new(object, defect, FaultPlace::Blob(*id)));
    }
    for id in named(reader, missing, whole.end.position.next_seq - 1) {
        let object = blob_name(&id.hex());
        // It may have been created since the listing.
        if session.get_part(&object, &(0..1), &mut 0)?.is_none() {
            faults.push(StoreFault::new(object, Defect::Missing, FaultPlace::Blob(id)));
        }
    }
    Ok(())
}

/// Those of some blobs that a record up to `last` names: a put that failed leaves a file that no record names. All of them
/// if that is unknown.
fn named(reader: &LogReader, mut blobs: BTreeMap<[u8; 32], BlobId>, last: u64) -> Vec<BlobId> {
    // The anchors of a pruned log may name them.
    if blobs.is_empty() || reader.first_seq() > 1 || mutant!(UnnamedBlobMissed) {
        return blobs.into_values().collect();
    }
    let mut named = Vec::new();
    for item in reader.walk(1).up_to(last) {
        match item {
            Ok(LogItem::Record(record, _)) => {
                let hashes = record.payload.windows(32);
                named.extend(hashes.filter_map(|hash| blobs.remove(hash)));
            }
            // A damaged record may name any of them.
            Ok(LogItem::Damage(_)) | Err(_) => {
                named.extend(blobs.into_values());
                return named;
            }
            Ok(_) => {}
        }
        if blobs.is_empty() {
            break;
        }
    }
    named
}

/// Look for the anchors of a pruned log. A snapshot object also counts as an anchor.
fn look_at_anchors(
    whole: &Whole<'_>,
    listings: &Listings,
    note: &LoggedRetentionNote,
    faults: &mut Vec<StoreFault>,
) {
    if lowest(&listings.segments) <= 1 || note.seq >= whole.end.position.next_seq {
        return;
    }
    for anchor in &note.note.anchors {
        let Some(name) = anchor.name() else { continue };
        let object = anchor_object(&name);
        if [&object, &snapshot_object(&name)].iter().all(|name| listings.find(name).is_none()) {
            let place = FaultPlace::Anchor(anchor.clone());
            faults.push(StoreFault::new(object, Defect::Missing, place));
        }
    }
}

/// Read an object and verify it.
pub(super) fn read_object(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (place, object): (&FaultPlace, &str),
) -> Result<Option<StoreFault>> {
    let fault = |defect| StoreFault::new(object, defect, place.clone());
    let Some(found) = session.get(object, &mut 0)? else {
        return Ok(Some(fault(Defect::Missing)));
    };
    let damaged = |what: &str| Defect::Damaged(what.to_owned());
    let defect = match place {
        FaultPlace::Segment(segment) => read_segment(reader, session, segment, found.bytes),
        FaultPlace::Blob(id) => (BlobId::of(&found.bytes).hash != id.hash)
            .then(|| damaged("its bytes do not have the hash of its name")),
        FaultPlace::Anchor(anchor) => {
            let own = anchor.name().and_then(|name| reader.open_snapshot(&name).ok());
            let own = own.and_then(|own| own.bytes().ok());
            own.is_some_and(|own| own != found.bytes)
                .then(|| damaged("it is not the snapshot of the folder"))
        }
        _ => None,
    };
    Ok(defect.map(fault))
}

/// Index and footer are compared with the records that the object has: those of the folder may be damaged.
fn read_segment(
    reader: &LogReader,
    session: &StoreSession<'_>,
    object: &SegmentObject,
    bytes: Vec<u8>,
) -> Option<Defect> {
    let header = crate::format::SegmentHeader::decode(&bytes);
    let chain = header.map_or(Chain([0; 32]), |header| header.prev_chain);
    let before = Before { next_seq: object.base_seq, chain, time: 0, place: None };
    let (segment, end) = match VerifiedSegment::verify(*object, bytes, &session.identity, &before) {
        Ok(verified) => verified,
        Err(fault) => return Some(Defect::Damaged(fault.to_string())),
    };
    let mut derived = None;
    if !has_valid_index(&segment) {
        let what = "its index or footer does not match its records, which are intact";
        derived = Some(Defect::Derived(what.to_owned()));
    }
    if object.last_seq < reader.first_seq() {
        return derived;
    }
    for (seq, chain) in [(object.base_seq.saturating_sub(1), chain), (object.last_seq, end.chain)] {
        match reader.chain_at(seq) {
            Ok(own) if own.is_some_and(|own| own != chain) => {
                return Some(Defect::Damaged(
                    "its records differ from those of the folder".to_owned(),
                ));
            }
            Ok(_) => {}
            Err(error) => {
                return derived.or_else(|| Some(Defect::Uncompared(error.to_string())));
            }
        }
    }
    derived
}
