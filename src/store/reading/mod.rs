//! Reading a ledger in its store, without a folder of its own.
//!
//! The log is read to its end as the protocol says, and every object is verified on the way. Its
//! records are put in the place that they have in their segments, segments with a successor are sealed, and HEAD
//! states the end: the files are those of a folder that was closed there, so everything that reads a folder
//! reads them.
//!
//! Invariants:
//! - Nothing is written to the store.
//! - What the store does not prove is not shown: a damaged or missing object is an error with its name.

mod ahead;
mod memory;
mod storage;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};
use crate::log::{LogOptions, archive_head, seal_all};
use crate::storage::StorageFile;

use super::binding::bound_ledger;
use super::folder::StoreClient;
use super::name::{BLOBS, ObjectName, SEGMENTS, SegmentForm, TAIL};
use super::segments::{object_with, segment_floor};
use super::session::{StoreEnd, StoreSession, TakenIn};

use ahead::with_objects_ahead;
use storage::Content;

pub use memory::MemoryFile;
pub use storage::StoreStorage;

/// Make an empty file that has no name, for a part of the files. It is told how many bytes all of them will
/// have, at most: they may not fit into memory.
pub type NewFile<'n> = &'n mut dyn FnMut(u64) -> io::Result<Arc<dyn StorageFile>>;

/// Read the ledger in a store, whose files then appear below the path `root`. It is not the path of a file:
/// errors and findings name files with it.
///
/// # Errors
/// `NotALedger` if the store has no ledger; `OutOfRange` if the log has no record; `Corrupt` with the name of a
/// damaged object; `Unsupported` if a newer program wrote it; `Io` if the store does not answer.
pub fn read_in_place(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    read(root, options, client, new_file).map_err(|error| located(error, root))
}

/// An error about an object names its place in the store.
fn located(error: Error, root: &Path) -> Error {
    match error.location().path.clone() {
        None => error.at_path(root),
        Some(path) if path.starts_with(root) => error,
        Some(path) => error.at_path(&root.join(path)),
    }
}

fn read(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    let identity = bound_ledger(client.objects(), client.retry())?.ok_or_else(|| {
        let message = "the store has no ledger at this place";
        Error::new(ErrorKind::NotALedger, message).with_hint("check the address")
    })?;
    let session = client.session(identity);
    let mut unclear = 0;
    let segments = session.list(SEGMENTS, &mut unclear)?;
    let floor = segment_floor(&segments);
    let slots = session.list(TAIL, &mut unclear)?;
    let mut needed = Vec::new();
    let mut next_seq = 1;
    while let Some(object) = object_with(&segments, next_seq) {
        let name = ObjectName::Segment(object).to_string();
        needed.extend(segments.iter().find(|listed| listed.name == name).cloned());
        next_seq = object.last_seq.saturating_add(1);
    }
    needed.extend(slots.into_iter().filter(|listed| {
        matches!(ObjectName::parse(&listed.name), Some(ObjectName::Slot(first)) if first > floor)
    }));
    needed.sort();
    let total = needed.iter().map(|listed| listed.length).sum();

    let mut image = Image { new_file, total, segments: Vec::new(), sealed: Vec::new() };
    let end = with_objects_ahead(client.objects(), needed, |objects| {
        let session = StoreSession { objects, ..session };
        session.find_end(StoreEnd::start(), &mut |taken| image.take_in(taken))
    })?;
    let Image { segments, sealed, .. } = image;
    let Some(place) = &end.place else {
        let message = "the store has a ledger, but no record of it yet";
        return Err(Error::new(ErrorKind::OutOfRange, message));
    };
    let next = SegmentHeader {
        prev_last_seq: end.position.next_seq - 1,
        prev_chain: end.position.chain,
        prev_data_end: place.end,
        ..place.header.clone()
    };
    let head = MemoryFile::default();
    head.write_at(&archive_head(&place.header, &next), 0).map_err(kept_error)?;

    let mut files = StoreStorage::new(root, client, &options.storage);
    files.add("HEAD".to_owned(), Content::File(Arc::new(head)));
    for (header, file) in segments {
        files.add(format!("log/{}", header.name()), Content::File(file));
    }
    for listed in session.list(BLOBS, &mut unclear)? {
        let hash = listed.name.strip_prefix(BLOBS).filter(|hash| hash.len() == 64);
        if let Some((hash, folder)) = hash.and_then(|hash| Some((hash, hash.get(..2)?))) {
            let content = Content::Object(listed.name.clone(), listed.length);
            files.add(format!("blob/{folder}/{hash}"), content);
        }
    }
    files.is_writable = true;
    seal_all(&files, root, options.stream_rule)?;
    files.is_writable = false;
    sealed.iter().try_for_each(SealedObject::check)?;
    Ok(files)
}

fn kept_error(error: io::Error) -> Error {
    Error::io("keep what was read from the store", Path::new(""), error)
}

/// The segments, while they are put together.
struct Image<'n> {
    new_file: NewFile<'n>,
    /// The length of all objects.
    total: u64,
    segments: Vec<(SegmentHeader, Arc<dyn StorageFile>)>,
    sealed: Vec<SealedObject>,
}

impl Image<'_> {
    /// Put records in their place.
    fn take_in(&mut self, taken: &TakenIn<'_>) -> Result<()> {
        let start = to_u64(SEGMENT_HEADER_SIZE);
        let (place, offset, frames) = match taken {
            TakenIn::Slot(slot) => (slot.place(), slot.header().offset, slot.frames()),
            TakenIn::Segment(segment) => {
                let end = usize::try_from(segment.place().end).unwrap_or(usize::MAX);
                let frames = segment.bytes().get(SEGMENT_HEADER_SIZE..end);
                (segment.place(), start, frames.unwrap_or_default())
            }
        };
        let file = self.file(&place.header).map_err(kept_error)?;
        file.write_at(frames, offset).map_err(kept_error)?;
        if let TakenIn::Segment(segment) = taken
            && segment.object().form == SegmentForm::Sealed
        {
            let end = usize::try_from(place.end).unwrap_or(usize::MAX);
            let rest = segment.bytes().get(end..).unwrap_or_default().to_vec();
            let name = ObjectName::Segment(*segment.object()).to_string();
            self.sealed.push(SealedObject { name, end: place.end, rest, file });
        }
        Ok(())
    }

    /// The file of a segment.
    fn file(&mut self, header: &SegmentHeader) -> io::Result<Arc<dyn StorageFile>> {
        if let Some((_, file)) = self.segments.last().filter(|(newest, _)| newest == header) {
            return Ok(file.clone());
        }
        let file = (self.new_file)(self.total)?;
        file.write_at(&header.encode(), 0)?;
        file.set_length(header.prealloc_len)?;
        self.segments.push((header.clone(), file.clone()));
        Ok(file)
    }
}

/// What follows the frames in a sealed segment: index and footer depend on the frames alone.
struct SealedObject {
    name: String,
    /// The end of the frames.
    end: u64,
    rest: Vec<u8>,
    /// The segment that was put together.
    file: Arc<dyn StorageFile>,
}

impl SealedObject {
    /// Compare it with what was derived.
    fn check(&self) -> Result<()> {
        let length = self.file.length().map_err(kept_error)?;
        let derived = usize::try_from(length.saturating_sub(self.end)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; derived.min(self.rest.len() + 1)];
        self.file.read_at(&mut bytes, self.end).map_err(kept_error)?;
        if bytes == self.rest {
            return Ok(());
        }
        let same = bytes.iter().zip(&self.rest).take_while(|(ours, theirs)| ours == theirs).count();
        let message = "index or footer differ from the records of the segment";
        Err(Error::new(ErrorKind::Corrupt, message)
            .at_path(self.name.as_ref())
            .at_offset(self.end.saturating_add(to_u64(same))))
    }
}
