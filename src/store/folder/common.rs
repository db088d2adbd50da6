//! Finds the last common position of a folder and the log in a store if no common slot exists: a position at which a
//! segment object begins or ends. So for a folder that is nearly up to date, the length of the history does not matter.
//!
//! Invariant: the folder has every record before such a position, in the same segments. The chain value in the name of
//! an object proves this; the rest of the object is not read.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, SegmentHeader, Uid, to_u64};
use crate::log::LogCopy;
use crate::store::binding::parse_uid;
use crate::store::name::{ObjectName, SegmentForm, SegmentObject, TAIL, slots_from};
use crate::store::objects::ListedObject;
use crate::store::protocol::StorePosition;
use crate::store::segments::{object_with, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{FrameWalk, SegmentPlace, walk_frames};

use super::ahead::with_objects_ahead;

/// From how many objects on they are read several at a time.
pub(super) const AHEAD_FROM: usize = 16;

/// The size of a chain value, at the end of each frame of a segment.
const CHAIN_SIZE: u64 = 32;

/// The first record of a slot that a store listed.
pub(super) fn first_seq(listed: &ListedObject) -> Option<u64> {
    match ObjectName::parse(&listed.name) {
        Some(ObjectName::Slot(first)) => Some(first),
        _ => None,
    }
}

/// The objects that hold the log from a record on, sorted by name. Both listings are sorted.
pub(super) fn objects_ahead(
    segments: &[ListedObject],
    slots: &[ListedObject],
    mut next_seq: u64,
) -> Vec<ListedObject> {
    let floor = segment_floor(segments);
    let mut ahead = Vec::new();
    while let Some(object) = object_with(segments, next_seq) {
        let name = ObjectName::Segment(object).to_string();
        let place = segments.binary_search_by(|listed| listed.name.cmp(&name));
        ahead.extend(place.ok().and_then(|place| segments.get(place)).cloned());
        next_seq = object.last_seq.saturating_add(1);
    }
    let is_ahead = |first: u64| first >= next_seq && first > floor;
    let slots = slots.iter().filter(|listed| first_seq(listed).is_some_and(is_ahead));
    ahead.extend(slots.cloned());
    ahead.sort();
    ahead
}

/// The slots that follow a position.
pub(super) fn slots_ahead(session: &StoreSession<'_>, end: &StoreEnd) -> Result<Vec<ListedObject>> {
    let after = slots_from(end.position.next_seq);
    let slots = session.list_after(TAIL, &after, &mut 0)?;
    Ok(objects_ahead(&[], &slots, end.position.next_seq))
}

/// Read with a session that has these objects read ahead, if they are many.
pub(super) fn read_ahead<T>(
    session: &StoreSession<'_>,
    ahead: Vec<ListedObject>,
    read: impl FnOnce(&StoreSession<'_>) -> T,
) -> T {
    if ahead.len() < AHEAD_FROM {
        return read(session);
    }
    with_objects_ahead(session.objects, ahead, |objects| {
        read(&StoreSession { objects, ..*session })
    })
}

/// The error of a folder that ends before the log in the store begins: a prune removed the records in between.
pub(super) fn begins_later(dir: &Path, first: u64, last: u64, had_all: bool) -> Error {
    let message = format!(
        "the store begins at record {first}, after a prune, and this folder ends at record {last}"
    );
    let hint = if had_all {
        "nothing of this folder is lost, and nothing was changed: the store had all that it acknowledged; rename it, \
         and restore the store into a new folder"
    } else {
        "nothing was changed; the store no longer has these records, so they cannot be compared: rename this folder, \
         keep it, and restore the store into a new one"
    };
    Error::new(ErrorKind::Rejected, message).with_hint(hint).at_path(dir).at_seq(last)
}

/// The error of a folder that begins after the end of the log in the store: a prune removed the records that the store
/// lacks.
pub(super) fn pruned_before(dir: &Path, first: u64, next_seq: u64) -> Error {
    let message = format!(
        "the store needs record {next_seq} next, and this folder begins at record {first}, after a prune"
    );
    Error::new(ErrorKind::Rejected, message)
        .with_hint(
            "nothing was added to the store; copy every object of a store that has these records to this place, and \
             try again; the folder itself is whole, and works without a store (remove STORE.json if it is there)",
        )
        .at_path(dir)
        .at_seq(next_seq)
}

/// The error of a folder after its store was emptied. Another folder may have more records than
/// this one.
pub(super) fn emptied(copy: &LogCopy, url: &str) -> Error {
    let (dir, first, last) = (copy.dir(), copy.first_seq(), copy.last().seq);
    if first > 1 {
        return pruned_before(dir, first, 1);
    }
    let message = format!(
        "this folder is bound to {url}, which no longer has a record of the ledger; the folder ends at record {last}"
    );
    let hint = format!(
        "check the address; if the store was emptied, choose the folder of the last owner, which has every record, remove \
         {}, and start the server with it: it fills the store",
        dir.join("STORE.json").display()
    );
    Error::new(ErrorKind::Rejected, message).with_hint(hint).at_path(dir).at_seq(last)
}

/// The error of a folder that is bound to a store, for a process that would bind it to another one. `instead` is a
/// command that keeps the binding.
pub(super) fn bound_elsewhere(dir: &Path, message: String, instead: &str) -> Error {
    let hint = format!(
        "{instead} that store; to move the ledger to another store: end every process of it, standbys first, remove \
         {}, and try again",
        dir.join("STORE.json").display()
    );
    Error::new(ErrorKind::Rejected, message).with_hint(hint).at_path(dir)
}

/// A position at which a segment object ends or begins, and the last writer before it.
#[derive(Debug)]
pub(super) struct CommonSegment {
    pub(super) end: StoreEnd,
    pub(super) last_writer: Option<(u64, Uid)>,
}

/// The newest common position of the folder and the store's segment objects, or an older one. The
/// listing is sorted.
pub(super) fn common_segment(
    copy: &mut LogCopy,
    session: &StoreSession<'_>,
    segments: &[ListedObject],
) -> Result<Option<CommonSegment>> {
    let last = copy.last().seq;
    if last == 0 {
        return Ok(None);
    }
    let mut objects: Vec<(SegmentObject, u64)> = segments
        .iter()
        .filter_map(|listed| match ObjectName::parse(&listed.name) {
            Some(ObjectName::Segment(object)) => Some((object, listed.length)),
            _ => None,
        })
        .filter(|(object, _)| object.base_seq <= last.saturating_add(1))
        .collect();
    objects.sort_by_key(|(object, _)| (object.base_seq, object.form, object.last_seq));
    let (mut index, mut step) = (objects.len(), 1);
    // A folder that did not diverge has everything before the first one.
    while index > 0 {
        index = index.saturating_sub(step);
        step = step.saturating_mul(2);
        let Some((object, length)) = objects.get(index) else { break };
        let Some((place, seq)) = common_place(copy, session, object, *length)? else { continue };
        let Some(found) = copy.find(seq)? else { continue };
        let Some((epoch, node)) = writer_in(copy, &place.header)? else { continue };
        let last_writer = node.map(|node| (epoch, node));
        let (next_seq, chain) = (seq.saturating_add(1), found.chain);
        let position = StorePosition { next_seq, chain, epoch, at: None };
        let end = StoreEnd { position, time: found.time, place: Some(place) };
        return Ok(Some(CommonSegment { end, last_writer }));
    }
    Ok(None)
}

/// The end or start of an object, and the record before it, if the folder has this record there.
fn common_place(
    copy: &mut LogCopy,
    session: &StoreSession<'_>,
    object: &SegmentObject,
    length: u64,
) -> Result<Option<(SegmentPlace, u64)>> {
    let SegmentObject { base_seq, last_seq, ordinal, form } = *object;
    let name = ObjectName::Segment(*object).to_string();
    let header = range_of(session, &name, &(0..to_u64(SEGMENT_HEADER_SIZE)))?;
    let header = header.and_then(|bytes| SegmentHeader::decode(&bytes).ok());
    let is_own = |header: &SegmentHeader| {
        (header.ledger, header.genesis) == (session.identity.ledger, session.identity.genesis)
            && (header.base_seq, header.ordinal) == (base_seq, ordinal)
    };
    let Some(header) = header.filter(is_own) else { return Ok(None) };
    // A first part ends with the chain value of its last record.
    let is_copied = copy.segment(ordinal) == Some(&header);
    if form == SegmentForm::Part && is_copied && last_seq <= copy.last().seq {
        let own = copy.find(last_seq)?.filter(|own| own.segment == header.segment);
        let chain = range_of(session, &name, &(length.saturating_sub(CHAIN_SIZE)..length))?;
        if own.is_some_and(|own| chain.as_deref() == Some(own.chain.0.as_slice())) {
            return Ok(Some((SegmentPlace { header, end: length }, last_seq)));
        }
    }
    // Its header names the record before it.
    let Some((before, ordinal)) = base_seq.checked_sub(1).zip(ordinal.checked_sub(1)) else {
        return Ok(None);
    };
    let own = copy.find(before)?.map(|own| (own.chain, own.segment));
    let is_common = own == Some((header.prev_chain, header.prev_segment));
    let place = copy.segment(ordinal).filter(|own| own.segment == header.prev_segment);
    let place = place.map(|own| SegmentPlace { header: own.clone(), end: header.prev_data_end });
    Ok(place.filter(|_| is_common).map(|place| (place, before)))
}

fn range_of(session: &StoreSession<'_>, name: &str, range: &Range<u64>) -> Result<Option<Vec<u8>>> {
    Ok(session.get_part(name, range, &mut 0)?.map(|found| found.bytes))
}

/// The epoch of the records in a segment, and its writer: an epoch begins with the first record of
/// a segment. Before the first epoch, that is 0 without a writer. `None` if the folder does not
/// have this information.
fn writer_in(copy: &mut LogCopy, segment: &SegmentHeader) -> Result<Option<(u64, Option<Uid>)>> {
    for ordinal in (0..=segment.ordinal).rev() {
        // It was pruned.
        let Some(header) = copy.segment(ordinal).cloned() else { return Ok(None) };
        let part = copy.part(header.base_seq, 1)?.filter(|part| part.segment == header);
        let Some(part) = part else { continue };
        let (next_seq, chain) = (part.before.seq + 1, part.before.chain);
        let walk = FrameWalk::at(next_seq, chain, part.offset);
        let walked = walk_frames(&part.frames, &header, walk, part.last.seq, &mut |_| ());
        let Some((_, note)) = walked.ok().and_then(|walked| walked.note) else { continue };
        return Ok(parse_uid(&note.node).map(|node| (note.epoch, Some(node))));
    }
    Ok(Some((0, None)))
}
