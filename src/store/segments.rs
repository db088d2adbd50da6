//! Segment objects: sealed segments, and first parts of segments, in a store.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind};
use crate::format::{Chain, Record, SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};

use super::binding::LedgerIdentity;
use super::name::{ObjectName, SegmentForm, SegmentObject};
use super::objects::ListedObject;
use super::slot::{FrameWalk, SegmentPlace, SlotFault, WriterNote, walk_frames};

/// The last record that a segment object of a listing covers; 0 without any.
#[must_use]
pub fn segment_floor(listing: &[ListedObject]) -> u64 {
    listing.iter().filter_map(segment_object).map(|object| object.last_seq).max().unwrap_or(0)
}

pub(super) fn segment_object(listed: &ListedObject) -> Option<SegmentObject> {
    match ObjectName::parse(&listed.name) {
        Some(ObjectName::Segment(object)) => Some(object),
        _ => None,
    }
}

/// The object of a listing to read next: it holds record `next_seq`. A sealed segment is preferred, then
/// the longest part.
pub(super) fn object_with(listing: &[ListedObject], next_seq: u64) -> Option<SegmentObject> {
    let holds = |object: &SegmentObject| (object.base_seq..=object.last_seq).contains(&next_seq);
    let objects = listing.iter().filter_map(segment_object).filter(holds);
    objects.max_by_key(|object| (object.form, object.last_seq))
}

/// The objects of a listing that readers use, sorted by their first record: of each segment the sealed one, or else the
/// longest part. As they are listed.
pub(super) fn preferred_objects(
    listing: &[ListedObject],
) -> impl Iterator<Item = (SegmentObject, &ListedObject)> {
    let mut preferred: BTreeMap<u64, (SegmentObject, &ListedObject)> = BTreeMap::new();
    for listed in listing {
        let Some(object) = segment_object(listed) else { continue };
        let rank = |object: &SegmentObject| (object.form, object.last_seq);
        let known = preferred.get(&object.base_seq);
        if known.is_none_or(|(known, _)| rank(known) < rank(&object)) {
            preferred.insert(object.base_seq, (object, listed));
        }
    }
    preferred.into_values()
}

/// The last segment object of a listing, if the log in the store ends with it, before record `next_seq`, although it is
/// sealed: a sealed one is created only after a record that follows it. So the store lost its newest records.
pub(super) fn ends_too_early(listing: &[ListedObject], next_seq: u64) -> Option<SegmentObject> {
    let (last, _) = preferred_objects(listing).last()?;
    let is_last =
        last.form == SegmentForm::Sealed && last.last_seq.checked_add(1) == Some(next_seq);
    (is_last && !mutant!(LostEndIgnored)).then_some(last)
}

/// The error of such a log.
pub(super) fn lost_end(sealed: &SegmentObject) -> Error {
    let next_seq = sealed.last_seq.saturating_add(1);
    let message = format!(
        "the slot is missing, and so may be later ones: {} is there, which is created after this slot",
        ObjectName::Segment(*sealed)
    );
    Error::new(ErrorKind::Corrupt, message)
        .with_hint(
            "start the server with the folder of the last owner: it adds again what the store lost; if no folder has it: end \
             every process of the ledger, restore what is left, move that segment object out of the prefix, keep it, and start with \
             the restored folder",
        )
        .at_path(ObjectName::Slot(next_seq).to_string().as_ref())
        .at_seq(next_seq)
}

/// A segment object with verified frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSegment {
    object: SegmentObject,
    place: SegmentPlace,
    bytes: Vec<u8>,
    /// Chain value and time of the last record.
    last: (Chain, u64),
    /// The last writer note.
    note: Option<WriterNote>,
}

/// The position after a segment object.
#[derive(Debug, Clone)]
pub(super) struct SegmentEnd {
    pub(super) chain: Chain,
    pub(super) time: u64,
    /// The epoch that the last writer note in it opens.
    pub(super) epoch: Option<u64>,
}

/// The position before the records of a segment object that are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before<'a> {
    pub(super) next_seq: u64,
    pub(super) chain: Chain,
    pub(super) time: u64,
    pub(super) place: Option<&'a SegmentPlace>,
}

impl VerifiedSegment {
    /// Verify all frames of an object, and that it continues the log.
    pub(super) fn verify(
        object: SegmentObject,
        bytes: Vec<u8>,
        identity: &LedgerIdentity,
        before: &Before<'_>,
    ) -> Result<(Self, SegmentEnd), SlotFault> {
        let header = SegmentHeader::decode(&bytes).map_err(SlotFault::Segment)?;
        if (header.base_seq, header.ordinal) != (object.base_seq, object.ordinal) {
            return Err(SlotFault::Place("its header and its name are of different segments"));
        }
        if (header.ledger, header.genesis) != (identity.ledger, identity.genesis) {
            return Err(SlotFault::Ledger);
        }
        check_start(&header, before)?;
        let frames = bytes.get(SEGMENT_HEADER_SIZE..).unwrap_or_default();
        let start = FrameWalk::at_start(&header);
        let (mut chain_before, mut time_before) = (None, None);
        let walk = walk_frames(frames, &header, start, object.last_seq, &mut |record| {
            if record.header.stamp.seq + 1 == before.next_seq {
                chain_before = Some(record.chain);
            }
            if record.header.stamp.seq == before.next_seq {
                time_before = Some(record.header.stamp.time);
            }
        })?;
        if walk.next_seq != object.last_seq + 1 {
            return Err(SlotFault::Place("it ends before the last record in its name"));
        }
        if object.form == SegmentForm::Part && walk.offset != to_u64(bytes.len()) {
            return Err(SlotFault::Place("it continues after the last record in its name"));
        }
        if chain_before.is_some_and(|chain| chain != before.chain) {
            return Err(SlotFault::Link("it follows other records"));
        }
        if time_before.is_some_and(|time| time < before.time) {
            return Err(SlotFault::Link("its time is earlier than that of the previous record"));
        }
        let note = walk.note.map(|(_, note)| note);
        let epoch = note.as_ref().map(|note| note.epoch);
        let end = SegmentEnd { chain: walk.chain, time: walk.time, epoch };
        let place = SegmentPlace { header, end: walk.offset };
        Ok((Self { object, place, bytes, last: (walk.chain, walk.time), note }, end))
    }

    /// Chain value and time of its last record.
    pub(super) fn last(&self) -> (Chain, u64) {
        self.last
    }

    /// The last writer note in it.
    pub(super) fn note(&self) -> Option<&WriterNote> {
        self.note.as_ref()
    }

    /// Its name.
    #[must_use]
    pub fn object(&self) -> &SegmentObject {
        &self.object
    }

    /// The end of the log after this segment.
    #[must_use]
    pub fn place(&self) -> &SegmentPlace {
        &self.place
    }

    /// The bytes of the object.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the object.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Pass each record to `take`, in order.
    pub fn for_each_record(&self, take: &mut dyn FnMut(&Record<'_>)) {
        let header = &self.place.header;
        let frames = self.bytes.get(SEGMENT_HEADER_SIZE..).unwrap_or_default();
        let start = FrameWalk::at_start(header);
        walk_frames(frames, header, start, self.object.last_seq, take)
            .expect("the frames of a verified segment are valid");
    }
}

/// Check how a segment continues the log.
fn check_start(header: &SegmentHeader, before: &Before<'_>) -> Result<(), SlotFault> {
    let wrong = |what| Err(SlotFault::Place(what));
    if header.base_seq > before.next_seq {
        return wrong("records before the segment are missing");
    }
    if header.base_seq == before.next_seq && header.prev_chain != before.chain {
        return Err(SlotFault::Link("it follows other records"));
    }
    let Some(place) = before.place else {
        // The records before the first segment were pruned, or the log begins with it.
        let is_after_prune = header.base_seq == before.next_seq && before.next_seq > 1;
        let is_first = header.base_seq == 1 && header.ordinal == 0;
        return if is_first || is_after_prune {
            Ok(())
        } else {
            wrong("the segment before it is unknown")
        };
    };
    if header.base_seq < before.next_seq {
        let is_same = place.header == *header;
        return if is_same { Ok(()) } else { wrong("it belongs to another segment") };
    }
    let expected = (place.header.ordinal + 1, place.header.segment, place.end);
    if (header.ordinal, header.prev_segment, header.prev_data_end) != expected {
        return wrong("its segment header names another predecessor");
    }
    Ok(())
}
