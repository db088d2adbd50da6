//! Making a segment: written in full, synced, and only then given its name.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{SegmentHeader, SegmentName};
use crate::storage::{Storage, StorageFile};

use super::layout::{DATA_START, Layout};
use super::queue::fenced;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How far a segment came that could not be made.
#[derive(Debug)]
pub(super) enum BuildError {
    /// It never got its name: nothing changed.
    BeforeName(Error),
    /// The same, since a writer lost the right to write: this is how.
    NotOurs(String),
    /// It may or may not have its name, now or after a crash.
    AfterName(Error),
}

impl BuildError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::BeforeName(error) | Self::AfterName(error) => error,
            Self::NotOurs(why) => fenced(&why),
        }
    }
}

/// A file of zeros that will be a segment. It has a name that readers ignore.
#[derive(Debug)]
pub(super) struct Blank {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    pub(super) length: u64,
}

/// Asked when all but the name is durable, which takes as long as a disk takes: whether there is
/// still the right to write. Another writer may have given another file that very name, with
/// records in it that were acknowledged since.
pub(super) type MayName<'a> = &'a dyn Fn() -> std::result::Result<(), BuildError>;

/// Make the segment that `header` describes, without records.
pub(super) fn build_segment(
    storage: &dyn Storage,
    layout: &Layout,
    header: &SegmentHeader,
    may_name: MayName<'_>,
) -> std::result::Result<Box<dyn StorageFile>, BuildError> {
    build_with(storage, layout, header, may_name, |_, _| Ok(DATA_START))
}

/// Make the segment that `header` describes. `content` writes the records that it is born with,
/// and says where they end.
pub(super) fn build_with(
    storage: &dyn Storage,
    layout: &Layout,
    header: &SegmentHeader,
    may_name: MayName<'_>,
    content: impl FnOnce(&dyn StorageFile, &Path) -> Result<u64>,
) -> std::result::Result<Box<dyn StorageFile>, BuildError> {
    let temporary = layout.temporary(header.name());
    let write_all = |file: &dyn StorageFile| {
        write(file, &temporary, &header.encode(), 0)?;
        let end = content(file, &temporary)?;
        fill_with_zeros(file, &temporary, end..header.prealloc_len, &|| true)?;
        bug!(FenceUnsynced => if header.born_end > 0 { return Ok(()) });
        sync(file, &temporary)
    };
    let file = create(storage, &temporary, write_all).map_err(BuildError::BeforeName)?;
    may_name()?;
    give_name(storage, layout, &temporary, header)?;
    Ok(file)
}

/// Make a file of zeros for a segment with that ordinal, unless `goes_on` says no on the way.
pub(super) fn build_blank(
    storage: &dyn Storage,
    layout: &Layout,
    (ordinal, length): (u64, u64),
    goes_on: &dyn Fn() -> bool,
) -> Result<Blank> {
    // No segment has base_seq 0, so nobody else ever makes a file of this name.
    let path = layout.temporary(SegmentName { base_seq: 0, ordinal });
    let file = create(storage, &path, |file| {
        fill_with_zeros(file, &path, 0..length, goes_on)?;
        sync(file, &path)
    })?;
    Ok(Blank { file, path, length })
}

impl Blank {
    /// Make it the segment that `header` describes.
    pub(super) fn become_segment(
        self,
        storage: &dyn Storage,
        layout: &Layout,
        header: &SegmentHeader,
        may_name: MayName<'_>,
    ) -> std::result::Result<Box<dyn StorageFile>, BuildError> {
        let begun = write(&*self.file, &self.path, &header.encode(), 0)
            .and_then(|()| sync(&*self.file, &self.path));
        if let Err(error) = begun {
            self.discard(storage);
            return Err(BuildError::BeforeName(error));
        }
        may_name()?;
        give_name(storage, layout, &self.path, header)?;
        Ok(self.file)
    }

    /// Give the room back.
    pub(super) fn discard(self, storage: &dyn Storage) {
        // What is left is removed by the next open.
        let _ = storage.remove(&self.path);
    }
}

fn create(
    storage: &dyn Storage,
    path: &Path,
    fill: impl FnOnce(&dyn StorageFile) -> Result<()>,
) -> Result<Box<dyn StorageFile>> {
    // An attempt of this process may have left one behind.
    let _ = storage.remove(path);
    let made = storage
        .create(path)
        .map_err(|error| Error::io("create the new segment", path, error))
        .and_then(|file| fill(&*file).map(|()| file));
    made.inspect_err(|_| {
        // Give the room back: on a full disk this is what lets anything else go on.
        let _ = storage.remove(path);
    })
}

fn give_name(
    storage: &dyn Storage,
    layout: &Layout,
    temporary: &Path,
    header: &SegmentHeader,
) -> std::result::Result<(), BuildError> {
    let (path, folder) = (layout.segment(header.name()), layout.log());
    storage
        .rename(temporary, &path)
        .map_err(|error| Error::io("give the new segment its name", &path, error))
        .and_then(|()| {
            bug!(SegmentNameUnsynced => return Ok(()));
            storage.sync_dir(&folder).map_err(|error| Error::io("sync the folder", &folder, error))
        })
        .map_err(BuildError::AfterName)
}

/// The zeros are written, not just allocated: later writes then change no metadata, a full disk
/// shows here and not in the middle of a commit, and no stale bytes of the device show through.
fn fill_with_zeros(
    file: &dyn StorageFile,
    path: &Path,
    range: std::ops::Range<u64>,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    let mut offset = range.start;
    bug!(SegmentSparse => return file.set_length(range.end).map_err(|e| Error::io("", path, e)));
    while offset < range.end {
        if !goes_on() {
            let why = std::io::ErrorKind::Interrupted.into();
            return Err(Error::io("write the new segment", path, why));
        }
        let rest = usize::try_from(range.end - offset).unwrap_or(ZEROS.len());
        let zeros = ZEROS.get(..rest).unwrap_or(&ZEROS);
        write(file, path, zeros, offset)?;
        offset += length(zeros);
    }
    Ok(())
}

/// Write a part of a segment that has no name yet.
pub(super) fn write(file: &dyn StorageFile, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
    file.write_at(bytes, offset).map_err(|error| Error::io("write the new segment", path, error))
}

fn sync(file: &dyn StorageFile, path: &Path) -> Result<()> {
    bug!(SegmentUnsynced => return Ok(()));
    file.sync().map_err(|error| Error::io("sync the new segment", path, error))
}

/// A length in memory as a length on disk.
pub(super) fn length(bytes: &[u8]) -> u64 {
    super::batch::to_u64(bytes.len())
}
