//! Writing a new segment: in full and synced under a temporary name, and only then renamed.
//!
//! So a segment that readers see is always complete, and a full disk shows before any record
//! depends on the segment. The header is written last.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{
    ChainKey, NewRecord, Placement, SegmentHeader, SegmentName, Stamp, encode_frame, frame_size,
};
use crate::log::bytes::{len_u64, to_u64};
use crate::log::errors::fenced;
use crate::log::folder::{DATA_START, LedgerPaths};
use crate::log::record::Ack;
use crate::storage::{Storage, StorageFile};

use super::active::low_bits;

/// Size of a write of records in bytes, or of one frame if that is larger.
const CHUNK: usize = 1 << 20;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How far the creation of a segment got before it failed.
#[derive(Debug)]
pub(crate) enum CreateError {
    /// The segment was not renamed: nothing changed.
    BeforePublish(Error),
    /// The segment was not renamed because the writer lost the right to write, for this reason.
    OwnershipLost(String),
    /// The rename may or may not have happened, or may be lost in a crash.
    PublishUnknown(Error),
}

impl CreateError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::BeforePublish(error) | Self::PublishUnknown(error) => error,
            Self::OwnershipLost(why) => fenced(&why),
        }
    }
}

/// Checks the right to write right before the rename. The sync before it takes time, and another
/// writer may meanwhile have created a segment of the same name with acknowledged records.
pub(crate) type PublishGuard<'a> = &'a dyn Fn() -> std::result::Result<(), CreateError>;

/// A file that will become a segment. Readers ignore its temporary name.
#[derive(Debug)]
pub(crate) struct SegmentDraft {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    /// Everything between the header and this offset is written.
    end: u64,
}

impl SegmentDraft {
    /// A file of zeros for a segment with this ordinal and length, unless `keep_going` returns
    /// false.
    pub(crate) fn preallocate(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        ordinal: u64,
        length: u64,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<Self> {
        // No segment has base_seq 0, so this name is never used for anything else.
        let name = SegmentName { base_seq: 0, ordinal };
        let mut draft = Self::create(storage, paths.temporary(name))?;
        match draft.fill(length, keep_going).and_then(|()| draft.sync()) {
            Ok(()) => Ok(draft),
            Err(error) => {
                draft.discard(storage);
                Err(error)
            }
        }
    }

    fn create(storage: &dyn Storage, path: PathBuf) -> Result<Self> {
        // An earlier attempt of this process may have left a file behind.
        let _ = storage.remove(&path);
        let created = storage.create(&path);
        let file = created.map_err(|error| Error::io("create the new segment", &path, error))?;
        Ok(Self { file, path, end: DATA_START })
    }

    /// Its length so far.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    /// Turn the file into the segment that `header` describes.
    pub(crate) fn publish(
        &mut self,
        storage: &dyn Storage,
        paths: &LedgerPaths,
        header: &SegmentHeader,
        publish_guard: PublishGuard<'_>,
    ) -> std::result::Result<(), CreateError> {
        if let Err(error) = self.complete(header) {
            self.discard(storage);
            return Err(CreateError::BeforePublish(error));
        }
        publish_guard()?;
        let (path, folder) = (paths.segment(header.name()), paths.log());
        storage
            .rename(&self.path, &path)
            .map_err(|error| Error::io("rename the new segment", &path, error))
            .and_then(|()| {
                mutant!(SegmentDirEntryUnsynced => return Ok(()));
                storage
                    .sync_dir(&folder)
                    .map_err(|error| Error::io("sync the folder", &folder, error))
            })
            .map_err(CreateError::PublishUnknown)
    }

    pub(crate) fn into_file(self) -> Box<dyn StorageFile> {
        self.file
    }

    /// Free the disk space: otherwise nothing can continue on a full disk.
    pub(crate) fn discard(&self, storage: &dyn Storage) {
        // The next opening removes the remaining file.
        let _ = storage.remove(&self.path);
    }

    fn complete(&mut self, header: &SegmentHeader) -> Result<()> {
        self.fill(header.prealloc_len, &|| true)?;
        write(&*self.file, &self.path, &header.encode(), 0)?;
        mutant!(FenceSegmentUnsynced => if header.born_end > 0 { return Ok(()) });
        self.sync()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        write(&*self.file, &self.path, bytes, self.end)?;
        self.end += len_u64(bytes);
        Ok(())
    }

    /// The zeros are written, not only allocated. Later writes then change no metadata, a full disk
    /// shows here and not during a commit, and no stale bytes of the device show through.
    fn fill(&mut self, length: u64, keep_going: &dyn Fn() -> bool) -> Result<()> {
        mutant!(SegmentSparse => return self.file.set_length(length).map_err(|e| Error::io("", &self.path, e)));
        while self.end < length {
            if !keep_going() {
                let why = std::io::ErrorKind::Interrupted.into();
                return Err(Error::io("write the new segment", &self.path, why));
            }
            let rest = usize::try_from(length - self.end).unwrap_or(ZEROS.len());
            self.append(ZEROS.get(..rest).unwrap_or(&ZEROS))?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        mutant!(SegmentUnsynced => return Ok(()));
        self.file.sync().map_err(|error| Error::io("sync the new segment", &self.path, error))
    }
}

fn write(file: &dyn StorageFile, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
    file.write_at(bytes, offset).map_err(|error| Error::io("write the new segment", path, error))
}

/// Writes the records of a new segment. They stay in memory in part until it is published.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub(crate) header: SegmentHeader,
    draft: SegmentDraft,
    key: ChainKey,
    /// Frames that are not written yet.
    buffer: Vec<u8>,
    /// The last record.
    ack: Ack,
    /// Offset of the next frame.
    end: u64,
}

impl SegmentWriter {
    pub(crate) fn create(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        header: SegmentHeader,
    ) -> Result<Self> {
        let draft = SegmentDraft::create(storage, paths.temporary(header.name()))?;
        let (key, buffer) = (ChainKey::new(&header.genesis), Vec::new());
        let ack = Ack { seq: header.prev_last_seq, chain: header.prev_chain };
        Ok(Self { header, draft, key, buffer, ack, end: DATA_START })
    }

    /// The last record, or the last one of the predecessor.
    pub(crate) fn ack(&self) -> Ack {
        self.ack
    }

    /// Offset of the next frame.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Add the next record. `inflight` counts the records, this one included, that are not durable.
    pub(crate) fn push(
        &mut self,
        record: &NewRecord,
        time: u64,
        inflight: u32,
        batch_left: u16,
    ) -> Result<()> {
        let seq = self.ack.seq + 1;
        let ordinal = low_bits(self.header.ordinal);
        let stamp = Stamp { seq, time, ordinal, inflight, batch_left };
        let placement = Placement { segment: self.header.segment, offset: self.end };
        let (buffer, previous) = (&mut self.buffer, &self.ack.chain);
        let chain = encode_frame(buffer, record, stamp, placement, &self.key, previous);
        self.ack = Ack { seq, chain };
        self.end += to_u64(frame_size(record.payload.len()));
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.draft.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn publish(
        &mut self,
        storage: &dyn Storage,
        paths: &LedgerPaths,
        publish_guard: PublishGuard<'_>,
    ) -> std::result::Result<(), CreateError> {
        if let Err(error) = self.flush() {
            self.discard(storage);
            return Err(CreateError::BeforePublish(error));
        }
        self.draft.publish(storage, paths, &self.header, publish_guard)
    }

    /// See [`SegmentDraft::discard`].
    pub(crate) fn discard(&self, storage: &dyn Storage) {
        self.draft.discard(storage);
    }

    pub(crate) fn into_file(self) -> Box<dyn StorageFile> {
        self.draft.file
    }
}

/// Create the segment that `header` describes, without records.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
    publish_guard: PublishGuard<'_>,
) -> std::result::Result<Box<dyn StorageFile>, CreateError> {
    let path = paths.temporary(header.name());
    let mut draft = SegmentDraft::create(storage, path).map_err(CreateError::BeforePublish)?;
    draft.publish(storage, paths, header, publish_guard)?;
    Ok(draft.file)
}

/// As [`create_segment`], with frames that another copy of the segment has from its start on.
pub(crate) fn create_segment_with(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
    frames: &[u8],
    publish_guard: PublishGuard<'_>,
) -> std::result::Result<(), CreateError> {
    let path = paths.temporary(header.name());
    let mut draft = SegmentDraft::create(storage, path).map_err(CreateError::BeforePublish)?;
    if let Err(error) = draft.append(frames) {
        draft.discard(storage);
        return Err(CreateError::BeforePublish(error));
    }
    draft.publish(storage, paths, header, publish_guard)
}
