//! The files of a ledger, put together from slots and segment objects.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};
use crate::log::{LogOptions, archive_head, seal_all};
use crate::storage::StorageFile;
use crate::store::derived::{IndexObject, SegmentKeys, index_ranges_to_read};
use crate::store::name::{ObjectName, SegmentForm, SegmentObject};
use crate::store::objects::ListedObject;
use crate::store::segments::{ends_too_early, lost_end};
use crate::store::session::{StoreEnd, StoreSession, TakenIn, no_record};

use super::memory::MemoryFile;
use super::storage::{Content, StoreStorage};
use crate::store::folder::with_objects_ahead;

/// Makes an empty file without a name, for a part of the files. The argument is the maximum number of bytes of all of
/// them: they may not fit into memory.
pub type NewFile<'n> = &'n mut dyn FnMut(u64) -> io::Result<Arc<dyn StorageFile>>;

fn kept_error(error: io::Error) -> Error {
    Error::io("keep what was read from the store", Path::new(""), error)
}

/// The segments, while they are put together.
pub(super) struct Image<'n> {
    new_file: NewFile<'n>,
    /// The objects to read, sorted.
    needed: Vec<ListedObject>,
    /// The length of all of them.
    total: u64,
    segments: Vec<(SegmentHeader, Arc<dyn StorageFile>)>,
    sealed: Vec<SealedObject>,
}

impl<'n> Image<'n> {
    pub(super) fn new(new_file: NewFile<'n>, mut needed: Vec<ListedObject>) -> Self {
        needed.sort();
        let total = needed.iter().map(|listed| listed.length).sum();
        Self { new_file, needed, total, segments: Vec::new(), sealed: Vec::new() }
    }

    /// Read the log from a position to its end.
    pub(super) fn read(&mut self, session: &StoreSession<'_>, from: StoreEnd) -> Result<StoreEnd> {
        let needed = std::mem::take(&mut self.needed);
        with_objects_ahead(session.objects, needed, |objects| {
            let session = StoreSession { objects, ..*session };
            session.find_end(from, &mut |taken| self.take_in(taken))
        })
    }

    /// Compare index objects with the segments that were read.
    pub(super) fn check_index_objects(
        &self,
        session: &StoreSession<'_>,
        segments: &[ListedObject],
    ) -> Result<()> {
        let objects: Vec<SegmentObject> = self.sealed.iter().map(|sealed| sealed.object).collect();
        for range in index_ranges_to_read(segments, &objects) {
            let name = ObjectName::Index(range).to_string();
            let Some(found) = session.get(&name, &mut 0)? else { continue };
            let index = IndexObject::decode(&found.bytes, &range, &session.identity);
            let says = index.map(IndexObject::into_segments);
            let is_true = says.is_some_and(|says| says.iter().all(|says| self.agrees(says)));
            if !is_true {
                let message = "the index object does not match the segments";
                let hint = "move this object out of the prefix: it is derived data, and readers work without it";
                return Err(Error::new(ErrorKind::Corrupt, message)
                    .with_hint(hint)
                    .at_path(name.as_ref()));
            }
        }
        Ok(())
    }

    /// Whether a read segment has the footer and the keys of the index object. Pruned segments were not read.
    fn agrees(&self, says: &SegmentKeys) -> bool {
        let ordinal = says.header().ordinal;
        let mut sealed = self.sealed.iter().filter(|sealed| sealed.object.ordinal == ordinal);
        sealed.all(|sealed| sealed.keys.as_ref() == Some(says))
    }

    /// Add the files to those that are known: the segments, sealed where another one follows, and HEAD at the end of
    /// the log. `listing` has the segment objects.
    pub(super) fn finish(
        &mut self,
        files: &mut StoreStorage,
        root: &Path,
        options: &LogOptions,
        (end, listing): (&StoreEnd, &[ListedObject]),
    ) -> Result<()> {
        if let Some(sealed) = ends_too_early(listing, end.position.next_seq) {
            return Err(lost_end(&sealed));
        }
        let place = end.place.as_ref().ok_or_else(no_record)?;
        let next = SegmentHeader {
            prev_last_seq: end.position.next_seq - 1,
            prev_chain: end.position.chain,
            prev_data_end: place.end,
            ..place.header.clone()
        };
        let head = MemoryFile::default();
        head.write_at(&archive_head(&place.header, &next), 0).map_err(kept_error)?;
        files.add("HEAD".to_owned(), Content::File(Arc::new(head)));
        for (header, file) in self.segments.drain(..) {
            files.add(format!("log/{}", header.name()), Content::File(file));
        }
        files.is_writable = true;
        seal_all(&*files, root, options.stream_rule)?;
        files.is_writable = false;
        self.sealed.iter().try_for_each(SealedObject::check)
    }

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
            let object = *segment.object();
            let keys = SegmentKeys::of(&object, segment.bytes());
            self.sealed.push(SealedObject { object, end: place.end, rest, file, keys });
        }
        Ok(())
    }

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

/// The bytes after the frames of a sealed segment: index and footer depend only on the frames.
struct SealedObject {
    object: SegmentObject,
    /// The end of the frames.
    end: u64,
    rest: Vec<u8>,
    /// The segment that was put together.
    file: Arc<dyn StorageFile>,
    /// The content of its footer and index, if they are valid.
    keys: Option<SegmentKeys>,
}

impl SealedObject {
    /// Compare it with the derived one.
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
            .at_path(ObjectName::Segment(self.object).to_string().as_ref())
            .at_offset(self.end.saturating_add(to_u64(same))))
    }
}
