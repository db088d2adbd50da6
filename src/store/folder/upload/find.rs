//! Finding what a store lost (`format/store.md`, section 7), by listings and by the slots that no segment object covers.
//!
//! Invariants:
//! - The end of the log is known before anything is listed: everything up to it must be there.
//! - Only what a restore needs counts. What readers do not read is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::format::Chain;
use crate::log::{Anchor, BlobId, LogReader};
use crate::store::derived::{anchor_object, snapshot_object};
use crate::store::folder::blobs::blob_name;
use crate::store::folder::common::{first_seq, read_ahead};
use crate::store::name::{
    BLOBS, ObjectName, SEGMENTS, SNAPSHOTS, SegmentObject, TAIL, segments_from,
};
use crate::store::objects::ListedObject;
use crate::store::segments::{Before, VerifiedSegment, preferred_objects, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{KIND_WRITER_NOTE, SlotBytes};

use super::segments::{object_of, segment_with};

/// Something that a restore needs, and that the store does not have as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreFault {
    /// The name of the object.
    pub(super) object: String,
    /// What is wrong with it.
    pub(super) what: String,
    pub(super) place: FaultPlace,
}

/// What is missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FaultPlace {
    /// A segment object with this record.
    Gap(u64),
    /// A segment object that exists.
    Segment(SegmentObject),
    /// A slot that no segment object covers.
    Slot,
    /// The opening slot with this record.
    Opening(u64),
    Blob(BlobId),
    Anchor(Anchor),
}

impl StoreFault {
    pub(super) fn is_missing(&self) -> bool {
        self.what == MISSING
    }
}

pub(super) const MISSING: &str = "it is missing";

/// What is in a store at one moment.
pub(super) struct Listings {
    slots: Vec<ListedObject>,
    segments: Vec<ListedObject>,
    blobs: Vec<ListedObject>,
    snapshots: Vec<ListedObject>,
}

impl Listings {
    /// Slots first: whatever the other listing covers of them needs none.
    pub(super) fn make(session: &StoreSession<'_>) -> Result<Self> {
        let list = |folder| session.list(folder, &mut 0);
        let (slots, segments, blobs) = (list(TAIL)?, list(SEGMENTS)?, list(BLOBS)?);
        let is_pruned = preferred_objects(&segments).next().is_some_and(|it| it.0.base_seq > 1);
        let snapshots = if is_pruned { list(SNAPSHOTS)? } else { Vec::new() };
        Ok(Self { slots, segments, blobs, snapshots })
    }

    fn find(&self, name: &str) -> Option<&ListedObject> {
        let folders = [&self.slots, &self.segments, &self.blobs, &self.snapshots];
        folders.into_iter().flatten().find(|listed| listed.name == name)
    }

    /// Whether an object is as it was when it was read, and readers still use it.
    pub(super) fn has_unchanged(&self, known: &ListedObject, place: &FaultPlace) -> bool {
        let is_used = match place {
            FaultPlace::Segment(object) => {
                preferred_objects(&self.segments).any(|(preferred, _)| preferred == *object)
            }
            _ => true,
        };
        is_used && self.find(&known.name) == Some(known)
    }

    /// The objects that can be read to verify them, beside slots; of the blobs, those that the folder has: it may have
    /// given up others.
    pub(super) fn readable(&self, reader: &LogReader) -> Result<Vec<(FaultPlace, ListedObject)>> {
        let own: BTreeSet<[u8; 32]> =
            reader.blobs().list()?.blobs.into_iter().map(|blob| blob.id.hash).collect();
        let segments = preferred_objects(&self.segments);
        let segments =
            segments.map(|(object, listed)| (FaultPlace::Segment(object), listed.clone()));
        let anchors = anchors_of(reader).into_iter().filter_map(|anchor| {
            let listed = self.find(&anchor_object(&anchor.name()?))?.clone();
            Some((FaultPlace::Anchor(anchor), listed))
        });
        let blobs = self.blobs.iter().filter_map(|listed| {
            let hash = parse_hash(listed.name.strip_prefix(BLOBS)?)?;
            own.contains(&hash).then_some(())?;
            let id = BlobId { hash, length: listed.length };
            Some((FaultPlace::Blob(id), listed.clone()))
        });
        Ok(segments.chain(anchors).chain(blobs).collect())
    }
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn anchors_of(reader: &LogReader) -> Vec<Anchor> {
    reader.retention().map_or_else(Vec::new, |logged| logged.note.anchors.clone())
}

/// Compare a store with the folder that writes to it, up to the end of the log in the store before the listings were made.
/// `queued` are blobs of the folder that go to the store later.
///
/// # Errors
/// `Io`, and `Corrupt` if the folder is damaged.
pub(super) fn find(
    reader: &LogReader,
    session: &StoreSession<'_>,
    end: &StoreEnd,
    (listings, queued): (&Listings, &BTreeSet<BlobId>),
) -> Result<Vec<StoreFault>> {
    let floor = segment_floor(&listings.segments);
    if floor >= end.position.next_seq {
        // Another process continued the log.
        return Ok(Vec::new());
    }
    let mut faults = Vec::new();
    let next = look_at_segments(reader, session, (listings, end), &mut faults)?;
    let slots = look_at_slots(reader, session, (&listings.slots, next), end)?;
    if !mutant!(UncoveredSlotsTrusted) {
        faults.extend(slots);
    }
    look_at_openings(reader, &listings.slots, end, &mut faults)?;
    look_at_blobs(reader, &listings.blobs, queued, &mut faults)?;
    look_at_anchors(reader, listings, &mut faults);
    Ok(faults)
}

/// Look for records up to the floor that no segment object has, and for objects of another length. Returns the record
/// after the floor.
fn look_at_segments(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (listings, end): (&Listings, &StoreEnd),
    faults: &mut Vec<StoreFault>,
) -> Result<u64> {
    let objects: Vec<_> = preferred_objects(&listings.segments).collect();
    let end_seq = end.position.next_seq - 1;
    // The log may begin later, if the ledger says so.
    let noted = reader.retention().filter(|logged| logged.seq <= end_seq);
    let pruned = noted.map_or(0, |logged| logged.note.last_seq);
    let lowest = match objects.first() {
        Some((object, _)) => object.base_seq,
        None => listings.slots.first().and_then(first_seq).unwrap_or(1),
    };
    let mut next = lowest.min(pruned.saturating_add(1));
    for (object, listed) in &objects {
        while next < object.base_seq && !mutant!(SegmentGapIgnored) {
            let segment = segment_with(reader, next, end)?;
            let (name, last) = match &segment {
                Some(segment) => {
                    (ObjectName::Segment(object_of(segment)).to_string(), segment.last_seq)
                }
                None => (segments_from(next), object.base_seq - 1),
            };
            let place = FaultPlace::Gap(next);
            faults.push(StoreFault { object: name, what: MISSING.to_owned(), place });
            next = last.saturating_add(1);
        }
        if let Some(length) = length_of(reader, object, end)?
            && length != listed.length
        {
            let place = FaultPlace::Segment(*object);
            faults.extend(read_object(reader, session, (&place, &listed.name))?);
        }
        next = next.max(object.last_seq.saturating_add(1));
    }
    Ok(next)
}

/// The length of a segment object, by the folder; `None` if the folder does not show it.
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
    reader: &LogReader,
    session: &StoreSession<'_>,
    (slots, next): (&[ListedObject], u64),
    end: &StoreEnd,
) -> Result<Option<StoreFault>> {
    let after = end.position.next_seq;
    let is_needed = |first: u64| (next..after).contains(&first);
    let needed = slots.iter().filter(|slot| first_seq(slot).is_some_and(is_needed));
    let before = match next.checked_sub(1) {
        Some(0) | None => Some(Chain([0; 32])),
        Some(seq) => reader.chain_at(seq)?,
    };
    read_ahead(session, needed.cloned().collect(), |session| {
        let (mut next, mut chain, mut last) = (next, before, next);
        while next < after {
            let object = ObjectName::Slot(next).to_string();
            let fault = |what: &str| {
                let (object, what) = (object.clone(), what.to_owned());
                Ok(Some(StoreFault { object, what, place: FaultPlace::Slot }))
            };
            let Some(found) = session.get(&object, &mut 0)? else { return fault(MISSING) };
            let slot = match SlotBytes(found.bytes).check(next, &session.identity) {
                Ok(slot) => slot,
                Err(error) => return fault(&error.to_string()),
            };
            let header = slot.header();
            if chain.is_some_and(|chain| chain != header.chain_before) {
                return fault("it does not continue the record before");
            }
            (last, next, chain) =
                (next, header.last_seq.saturating_add(1), Some(header.chain_after));
        }
        let is_end = (next, chain.unwrap_or(end.position.chain)) == (after, end.position.chain);
        Ok((!is_end).then(|| StoreFault {
            object: ObjectName::Slot(last).to_string(),
            what: "it does not end where the log does".to_owned(),
            place: FaultPlace::Slot,
        }))
    })
}

/// Look for opening slots that are missing: without one, a process that was replaced could continue there.
fn look_at_openings(
    reader: &LogReader,
    slots: &[ListedObject],
    end: &StoreEnd,
    faults: &mut Vec<StoreFault>,
) -> Result<()> {
    let present: BTreeSet<u64> = slots.iter().filter_map(first_seq).collect();
    let headers = reader.segments().into_iter().filter_map(|segment| segment.header.ok());
    for seq in headers.map(|header| header.base_seq).collect::<BTreeSet<_>>() {
        let is_unknown = present.contains(&seq) || seq < reader.first_seq();
        if is_unknown || seq >= end.position.next_seq || mutant!(LostOpeningSlotIgnored) {
            continue;
        }
        if reader.record(seq)?.is_some_and(|record| record.kind == KIND_WRITER_NOTE) {
            let object = ObjectName::Slot(seq).to_string();
            let place = FaultPlace::Opening(seq);
            // It may have been found as one that no segment object covers, which is repaired in another way.
            faults.push(StoreFault { object, what: MISSING.to_owned(), place });
        }
    }
    Ok(())
}

fn look_at_blobs(
    reader: &LogReader,
    listed: &[ListedObject],
    queued: &BTreeSet<BlobId>,
    faults: &mut Vec<StoreFault>,
) -> Result<()> {
    let stored: BTreeMap<&str, u64> =
        listed.iter().map(|blob| (blob.name.as_str(), blob.length)).collect();
    for id in reader.blobs().list()?.blobs.into_iter().map(|blob| blob.id) {
        let object = blob_name(&id.hex());
        let what = match stored.get(object.as_str()) {
            Some(length) if *length == id.length => continue,
            Some(length) => format!("it has {length} bytes instead of {}", id.length),
            None if queued.contains(&id) || mutant!(LostBlobIgnored) => continue,
            None => MISSING.to_owned(),
        };
        faults.push(StoreFault { object, what, place: FaultPlace::Blob(id) });
    }
    Ok(())
}

/// Look for the anchors from which a pruned log starts. A snapshot object with one is as good.
fn look_at_anchors(reader: &LogReader, listings: &Listings, faults: &mut Vec<StoreFault>) {
    let is_pruned =
        preferred_objects(&listings.segments).next().is_some_and(|it| it.0.base_seq > 1);
    for anchor in anchors_of(reader).into_iter().filter(|_| is_pruned) {
        let Some(name) = anchor.name() else { continue };
        let object = anchor_object(&name);
        if [&object, &snapshot_object(&name)].iter().all(|name| listings.find(name).is_none()) {
            let place = FaultPlace::Anchor(anchor);
            faults.push(StoreFault { object, what: MISSING.to_owned(), place });
        }
    }
}

/// Read an object and verify it.
pub(super) fn read_object(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (place, object): (&FaultPlace, &str),
) -> Result<Option<StoreFault>> {
    let fault = |what: String| StoreFault { object: object.to_owned(), what, place: place.clone() };
    let Some(found) = session.get(object, &mut 0)? else {
        return Ok(Some(fault(MISSING.to_owned())));
    };
    let what = match place {
        FaultPlace::Segment(segment) => read_segment(reader, session, segment, found.bytes)?,
        FaultPlace::Blob(id) => (BlobId::of(&found.bytes).hash != id.hash)
            .then(|| "its bytes do not have the hash of its name".to_owned()),
        FaultPlace::Anchor(anchor) => {
            let own = anchor.name().and_then(|name| reader.open_snapshot(&name).ok());
            let own = own.and_then(|own| own.bytes().ok());
            own.is_some_and(|own| own != found.bytes)
                .then(|| "it is not the snapshot of the folder".to_owned())
        }
        FaultPlace::Gap(_) | FaultPlace::Slot | FaultPlace::Opening(_) => None,
    };
    Ok(what.map(fault))
}

fn read_segment(
    reader: &LogReader,
    session: &StoreSession<'_>,
    object: &SegmentObject,
    bytes: Vec<u8>,
) -> Result<Option<String>> {
    let header = crate::format::SegmentHeader::decode(&bytes);
    let chain = header.map_or(Chain([0; 32]), |header| header.prev_chain);
    let before = Before { next_seq: object.base_seq, chain, time: 0, place: None };
    let (segment, end) = match VerifiedSegment::verify(*object, bytes, &session.identity, &before) {
        Ok(verified) => verified,
        Err(fault) => return Ok(Some(fault.to_string())),
    };
    if object.last_seq < reader.first_seq() {
        return Ok(None);
    }
    let own = [object.base_seq.saturating_sub(1), object.last_seq].map(|seq| reader.chain_at(seq));
    let [own_before, own_last] = own;
    if own_before?.is_some_and(|own| own != chain) || own_last?.is_some_and(|own| own != end.chain)
    {
        return Ok(Some("it has other records than the folder".to_owned()));
    }
    let own = reader.complete_segment(object.base_seq)?.filter(|own| object_of(own) == *object);
    // Its records are proven: only what follows them is compared with the file, whose records may be damaged.
    let is_other = match own {
        Some(own) => {
            let data_end = usize::try_from(own.data_end).unwrap_or(usize::MAX);
            reader.bytes_of(&own)?.get(data_end..) != segment.bytes().get(data_end..)
        }
        None => false,
    };
    Ok(is_other.then(|| "its index or its footer is not that of its records".to_owned()))
}
