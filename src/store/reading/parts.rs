//! Reading a ledger in its store without reading all of its log: sealed segments stay in the store, and are read in
//! blocks where a reader needs them.
//!
//! The listings are made once: first of `tail/`, then of `seg/`. A slot of the first one was there before the second
//! one was made, so a slot above the floor belongs to the log or does not continue it, and the first name that is
//! missing is the end (`format/store.md`, section 4). The slots after the floor are read and verified as always.
//!
//! Invariants:
//! - A reader checks all bytes that it reads, as on a disk: headers and their links, footers, indexes, frames.
//! - If a check fails, the log is read as a whole instead, which finds and names the damage.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    FOOTER_SIZE, Footer, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentReason, to_u64,
};
use crate::log::LogOptions;
use crate::storage::StorageFile as _;
use crate::store::derived::{IndexObject, SegmentKeys, index_ranges_to_read, sealed_footer};
use crate::store::folder::StoreClient;
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm, SegmentObject, TAIL};
use crate::store::objects::{CreatedObject, ListedObject, Objects, StoredObject, Unclear};
use crate::store::protocol::StorePosition;
use crate::store::segments::{object_with, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{SegmentPlace, SlotHeader};

use super::blocks::{BlockFile, Blocks};
use super::image::{Image, NewFile};
use super::storage::{Content, StoreStorage};
use super::whole::{read, read_with_names, stored_ledger};

/// As [`super::read_in_place`], for a reader of few records: sealed segments are read in blocks, only when their bytes
/// are needed.
///
/// # Errors
/// As [`super::read_in_place`], for the needed objects.
pub fn read_parts_in_place(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    read_with_names(root, || match assemble(root, options, client, new_file) {
        Err(error) if !is_final(error.kind()) => read(root, options, client, new_file),
        assembled => assembled,
    })
}

/// Whether reading the whole log would end with the same error.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotALedger | ErrorKind::OutOfRange | ErrorKind::Io)
}

/// A sealed segment, or the first part of a fenced one, that stays in the store.
struct Kept {
    header: SegmentHeader,
    file: BlockFile,
    keys: Option<SegmentKeys>,
    /// The footer of a sealed segment.
    footer: Option<Footer>,
}

fn assemble(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    let identity = stored_ledger(client)?;
    let session = client.session(identity);
    let mut unclear = 0;
    let slots = session.list(TAIL, &mut unclear)?;
    let segments = session.list(SEGMENTS, &mut unclear)?;
    let listed = Listed { objects: client.objects(), slots, segments, seen: Mutex::default() };
    let session = StoreSession { objects: &listed, ..session };

    let kept = keep(&session, client, &listed)?;
    let from = match kept.last() {
        Some(last) => position_after(&session, last, &listed)?,
        None => session.start()?,
    };
    let mut needed: Vec<ListedObject> =
        listed.slots.iter().filter(|slot| is_after(slot, listed.floor())).cloned().collect();
    let mut next_seq = from.position.next_seq;
    while let Some(object) = object_with(&listed.segments, next_seq) {
        needed.extend(listed.of(&ObjectName::Segment(object)).cloned());
        next_seq = object.last_seq.saturating_add(1);
    }
    let mut image = Image::new(new_file, needed);
    let end = image.read(&session, from)?;
    let mut files = StoreStorage::new(root, client, &options.storage);
    for Kept { header, file, keys, .. } in kept {
        let name = format!("log/{}", header.name());
        if let Some(keys) = keys {
            files.add_keys(name.clone(), keys);
        }
        files.add(name, Content::File(Arc::new(file)));
    }
    image.finish(&mut files, root, options, (&end, &listed.segments))?;
    Ok(files)
}

fn is_after(slot: &ListedObject, floor: u64) -> bool {
    matches!(ObjectName::parse(&slot.name), Some(ObjectName::Slot(first)) if first > floor)
}

/// The segments that stay in the store: all but those that slots after the floor, or the end of the log, may need.
fn keep(
    session: &StoreSession<'_>,
    client: &StoreClient,
    listed: &Listed<'_>,
) -> Result<Vec<Kept>> {
    let mut next_seq = session.start()?.position.next_seq;
    let mut objects = Vec::new();
    while let Some(object) = object_with(&listed.segments, next_seq) {
        objects.push(object);
        next_seq = object.last_seq.saturating_add(1);
    }
    let has_slots = listed.slots.iter().any(|slot| is_after(slot, listed.floor()));
    if !has_slots {
        objects.pop();
    }
    while objects.last().is_some_and(|object| object.form == SegmentForm::Part) {
        objects.pop();
    }
    let mut known = known_keys(session, listed, &objects)?;
    let blocks = Arc::new(Blocks::new(client));
    let mut kept = Vec::new();
    for object in objects {
        let place = known.iter().position(|keys| is_of(keys, &object));
        let keys = place.map(|place| known.swap_remove(place));
        kept.push(keep_one(session, &blocks, listed, &object, keys)?);
    }
    let mut pairs = kept.iter().zip(kept.iter().skip(1));
    if pairs.any(|(one, next)| one.footer.is_none() && next.header.reason == SegmentReason::Rotate)
    {
        // Reading all of the log seals it.
        return Err(Error::new(ErrorKind::Corrupt, "a complete segment is not sealed"));
    }
    Ok(kept)
}

fn is_of(keys: &SegmentKeys, object: &SegmentObject) -> bool {
    let (header, last_seq) = (keys.header(), keys.footer().last_seq);
    object.form == SegmentForm::Sealed
        && (header.base_seq, last_seq, header.ordinal)
            == (object.base_seq, object.last_seq, object.ordinal)
}

/// The content of index objects about some segments.
fn known_keys(
    session: &StoreSession<'_>,
    listed: &Listed<'_>,
    objects: &[SegmentObject],
) -> Result<Vec<SegmentKeys>> {
    let mut known = Vec::new();
    for range in index_ranges_to_read(&listed.segments, objects) {
        let found = session.get(&ObjectName::Index(range).to_string(), &mut 0)?;
        let index =
            found.and_then(|found| IndexObject::decode(&found.bytes, &range, &session.identity));
        known.extend(index.map(IndexObject::into_segments).unwrap_or_default());
    }
    Ok(known)
}

fn keep_one(
    session: &StoreSession<'_>,
    blocks: &Arc<Blocks>,
    listed: &Listed<'_>,
    object: &SegmentObject,
    keys: Option<SegmentKeys>,
) -> Result<Kept> {
    let name = ObjectName::Segment(*object).to_string();
    let wrong = |what: &str| Error::new(ErrorKind::Corrupt, what).at_path(name.as_ref());
    let failed = |error| Error::io("read a segment object", name.as_ref(), error);
    let stored = listed.of(&ObjectName::Segment(*object)).map_or(0, |listed| listed.length);
    let file = BlockFile::new(blocks, &name, stored);
    let (header, footer) = if let Some(keys) = &keys {
        if keys.footer().file_length() != stored {
            return Err(wrong("its length differs from that in its index object"));
        }
        (keys.header().clone(), Some(keys.footer().clone()))
    } else if object.form == SegmentForm::Sealed {
        let mut page = vec![0; FOOTER_SIZE];
        let offset = stored.saturating_sub(to_u64(FOOTER_SIZE));
        file.read_at(&mut page, offset).map_err(failed)?;
        let found = sealed_footer(object, &page, stored);
        let (footer, header) = found.ok_or_else(|| wrong("its footer is not valid"))?;
        (header, Some(footer))
    } else {
        let mut page = vec![0; SEGMENT_HEADER_SIZE];
        file.read_at(&mut page, 0).map_err(failed)?;
        let header = SegmentHeader::decode(&page).map_err(|fault| wrong(&fault.to_string()))?;
        (header, None)
    };
    let is_own = (header.base_seq, header.ordinal) == (object.base_seq, object.ordinal)
        && (header.ledger, header.genesis) == (session.identity.ledger, session.identity.genesis);
    if !is_own {
        return Err(wrong("it is not the segment in its name"));
    }
    let file = match &footer {
        Some(footer) => {
            file.with_known(0, header.encode()).with_known(footer.offset(), footer.encode(&header))
        }
        None => {
            let length = header.prealloc_len.max(stored);
            file.with_length(length)
        }
    };
    Ok(Kept { header, file, keys, footer })
}

/// The position after a sealed segment. The epoch is the one that the next slot continues, unless that slot opens one:
/// its chain value shows that its writer knew every earlier record.
fn position_after(
    session: &StoreSession<'_>,
    last: &Kept,
    listed: &Listed<'_>,
) -> Result<StoreEnd> {
    let Kept { header, footer: Some(footer), .. } = last else {
        return Err(Error::new(ErrorKind::Corrupt, "the last kept segment is not sealed"));
    };
    let next_seq = footer.last_seq.saturating_add(1);
    let next = listed.slots.iter().find(|slot| is_after(slot, listed.floor()));
    let next = match next {
        Some(slot) => session.get(&slot.name, &mut 0)?,
        None => None,
    };
    let slot = next.and_then(|found| SlotHeader::decode(&found.bytes).ok());
    let epoch = slot.map_or(0, |slot| slot.epoch.saturating_sub(u64::from(slot.opens)));
    let position = StorePosition { next_seq, chain: footer.chain_last, epoch, at: None };
    let place = Some(SegmentPlace { header: header.clone(), end: footer.data_end });
    Ok(StoreEnd { position, time: footer.time_last, place })
}

type Answer<T> = std::result::Result<T, Unclear>;

/// A store as two listings show it. Unlisted objects are missing.
#[derive(Debug)]
struct Listed<'a> {
    objects: &'a dyn Objects,
    /// Made first, sorted.
    slots: Vec<ListedObject>,
    segments: Vec<ListedObject>,
    /// A slot that was read before the log.
    seen: Mutex<Option<(String, StoredObject)>>,
}

impl Listed<'_> {
    fn floor(&self) -> u64 {
        segment_floor(&self.segments)
    }

    fn of(&self, name: &ObjectName) -> Option<&ListedObject> {
        let name = name.to_string();
        self.segments.iter().find(|listed| listed.name == name)
    }
}

impl Objects for Listed<'_> {
    fn create(&self, name: &str, bytes: &[u8]) -> Answer<CreatedObject> {
        self.objects.create(name, bytes)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Answer<Option<StoredObject>> {
        let is_listed = self.slots.binary_search_by(|slot| slot.name.as_str().cmp(name)).is_ok();
        if name.starts_with(TAIL) && !is_listed {
            return Ok(None);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = seen.as_ref().filter(|(seen, _)| range.is_none() && seen == name)
        {
            return Ok(Some(found.clone()));
        }
        let is_first = seen.is_none() && range.is_none() && name.starts_with(TAIL);
        if !is_first {
            drop(seen);
            return self.objects.get(name, range);
        }
        let found = self.objects.get(name, None)?;
        *seen = found.clone().map(|found| (name.to_owned(), found));
        Ok(found)
    }

    fn list_after(&self, folder: &str, after: &str) -> Answer<Vec<ListedObject>> {
        let known = match folder {
            TAIL => &self.slots,
            SEGMENTS => &self.segments,
            other => return self.objects.list_after(other, after),
        };
        Ok(known.iter().filter(|listed| listed.name.as_str() > after).cloned().collect())
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Answer<()> {
        self.objects.put_hint(name, bytes)
    }

    fn delete(&self, name: &str) -> Answer<()> {
        self.objects.delete(name)
    }
}
