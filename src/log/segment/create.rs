//! Creating a segment: written in full and synced under a temporary name, and only then renamed.
//!
//! So a segment that readers see is always complete, and a full disk shows before any record
//! depends on the segment.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{Chain, SegmentHeader, SegmentName, SegmentReason};
use crate::log::bytes::len_u64;
use crate::log::errors::fenced;
use crate::log::folder::{DATA_START, LedgerPaths};
use crate::log::options::LogOptions;
use crate::storage::{Access, Storage, StorageFile};

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

/// A file of zeros that will become a segment. Readers ignore its temporary name.
#[derive(Debug)]
pub(crate) struct PreallocatedSegment {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    pub(crate) length: u64,
}

/// Checks the right to write right before the rename. The sync before it takes time, and another
/// writer may meanwhile have created a segment of the same name with acknowledged records.
pub(crate) type PublishGuard<'a> = &'a dyn Fn() -> std::result::Result<(), CreateError>;

/// Create the segment that `header` describes, without records.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
    publish_guard: PublishGuard<'_>,
) -> std::result::Result<Box<dyn StorageFile>, CreateError> {
    create_segment_with(storage, paths, header, publish_guard, |_, _| Ok(DATA_START))
}

/// Create the segment that `header` describes. `content` writes its first records and returns where
/// they end.
pub(crate) fn create_segment_with(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
    publish_guard: PublishGuard<'_>,
    content: impl FnOnce(&dyn StorageFile, &Path) -> Result<u64>,
) -> std::result::Result<Box<dyn StorageFile>, CreateError> {
    let temporary = paths.temporary(header.name());
    let write_all = |file: &dyn StorageFile| {
        write(file, &temporary, &header.encode(), 0)?;
        let end = content(file, &temporary)?;
        fill_with_zeros(file, &temporary, end..header.prealloc_len, &|| true)?;
        mutant!(FenceSegmentUnsynced => if header.born_end > 0 { return Ok(()) });
        sync(file, &temporary)
    };
    let file = create(storage, &temporary, write_all).map_err(CreateError::BeforePublish)?;
    publish_guard()?;
    publish(storage, paths, &temporary, header)?;
    Ok(file)
}

/// Create a file of zeros for a segment with this ordinal and length, unless `keep_going` returns
/// false.
pub(crate) fn preallocate_segment(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    ordinal: u64,
    length: u64,
    keep_going: &dyn Fn() -> bool,
) -> Result<PreallocatedSegment> {
    // No segment has base_seq 0, so this name is never used for anything else.
    let path = paths.temporary(SegmentName { base_seq: 0, ordinal });
    let file = create(storage, &path, |file| {
        fill_with_zeros(file, &path, 0..length, keep_going)?;
        sync(file, &path)
    })?;
    Ok(PreallocatedSegment { file, path, length })
}

impl PreallocatedSegment {
    /// Turn the file into the segment that `header` describes.
    pub(crate) fn publish_as(
        self,
        storage: &dyn Storage,
        paths: &LedgerPaths,
        header: &SegmentHeader,
        publish_guard: PublishGuard<'_>,
    ) -> std::result::Result<Box<dyn StorageFile>, CreateError> {
        let begun = write(&*self.file, &self.path, &header.encode(), 0)
            .and_then(|()| sync(&*self.file, &self.path));
        if let Err(error) = begun {
            self.discard(storage);
            return Err(CreateError::BeforePublish(error));
        }
        publish_guard()?;
        publish(storage, paths, &self.path, header)?;
        Ok(self.file)
    }

    /// Free the disk space.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        // The next opening removes what is left.
        let _ = storage.remove(&self.path);
    }
}

fn create(
    storage: &dyn Storage,
    path: &Path,
    fill: impl FnOnce(&dyn StorageFile) -> Result<()>,
) -> Result<Box<dyn StorageFile>> {
    // An earlier attempt of this process may have left a file behind.
    let _ = storage.remove(path);
    let created = storage
        .create(path)
        .map_err(|error| Error::io("create the new segment", path, error))
        .and_then(|file| fill(&*file).map(|()| file));
    created.inspect_err(|_| {
        // Free the disk space: on a full disk nothing else can continue otherwise.
        let _ = storage.remove(path);
    })
}

fn publish(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    temporary: &Path,
    header: &SegmentHeader,
) -> std::result::Result<(), CreateError> {
    let (path, folder) = (paths.segment(header.name()), paths.log());
    storage
        .rename(temporary, &path)
        .map_err(|error| Error::io("rename the new segment", &path, error))
        .and_then(|()| {
            mutant!(SegmentDirEntryUnsynced => return Ok(()));
            storage.sync_dir(&folder).map_err(|error| Error::io("sync the folder", &folder, error))
        })
        .map_err(CreateError::PublishUnknown)
}

/// The zeros are written, not only allocated. Later writes then change no metadata, a full disk
/// shows here and not during a commit, and no stale bytes of the device show through.
fn fill_with_zeros(
    file: &dyn StorageFile,
    path: &Path,
    range: std::ops::Range<u64>,
    keep_going: &dyn Fn() -> bool,
) -> Result<()> {
    let mut offset = range.start;
    mutant!(SegmentSparse => return file.set_length(range.end).map_err(|e| Error::io("", path, e)));
    while offset < range.end {
        if !keep_going() {
            let why = std::io::ErrorKind::Interrupted.into();
            return Err(Error::io("write the new segment", path, why));
        }
        let rest = usize::try_from(range.end - offset).unwrap_or(ZEROS.len());
        let zeros = ZEROS.get(..rest).unwrap_or(&ZEROS);
        write(file, path, zeros, offset)?;
        offset += len_u64(zeros);
    }
    Ok(())
}

/// Write a part of a segment that still has its temporary name.
pub(crate) fn write(file: &dyn StorageFile, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
    file.write_at(bytes, offset).map_err(|error| Error::io("write the new segment", path, error))
}

fn sync(file: &dyn StorageFile, path: &Path) -> Result<()> {
    mutant!(SegmentUnsynced => return Ok(()));
    file.sync().map_err(|error| Error::io("sync the new segment", path, error))
}

pub(crate) fn open_segment(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
) -> Result<(std::path::PathBuf, Box<dyn crate::storage::StorageFile>)> {
    let path = paths.segment(header.name());
    let file = storage
        .open(&path, Access::ReadWrite)
        .map_err(|error| Error::io("open the segment", &path, error))?;
    Ok((path, file))
}

pub(crate) fn first_header(options: &LogOptions, time: u64) -> SegmentHeader {
    let ledger = options.uids.next();
    SegmentHeader {
        ledger,
        segment: options.uids.next(),
        ordinal: 0,
        base_seq: 1,
        prev_chain: Chain::GENESIS,
        prev_segment: [0; 16],
        prev_data_end: 0,
        prev_last_seq: 0,
        writer_epoch: CREATION_EPOCH,
        created: time,
        prealloc_len: options.segments.size_for(0, 0),
        reason: SegmentReason::Create,
        born_last: 0,
        born_end: 0,
        genesis: ledger,
        ro_compat: 0,
    }
}

/// `writer_epoch` of a ledger that was created and never opened.
pub(crate) const CREATION_EPOCH: u64 = 0;
