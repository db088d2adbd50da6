//! Making a segment: written in full, synced, and only then given its name.

use crate::error::{Error, Result};
use crate::format::SegmentHeader;
use crate::storage::{Storage, StorageFile};

use super::layout::Layout;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How far a segment came that could not be made.
#[derive(Debug)]
pub(super) enum BuildError {
    /// It never got its name: nothing changed.
    BeforeName(Error),
    /// It may or may not have its name, now or after a crash.
    AfterName(Error),
}

impl BuildError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::BeforeName(error) | Self::AfterName(error) => error,
        }
    }
}

/// Make the segment that `header` describes, holding the frames `born`, zero-filled to its length.
pub(super) fn build_segment(
    storage: &dyn Storage,
    layout: &Layout,
    header: &SegmentHeader,
    born: &[u8],
) -> std::result::Result<Box<dyn StorageFile>, BuildError> {
    let (temporary, path) = (layout.temporary(header.name()), layout.segment(header.name()));
    // An attempt of this process may have left one behind.
    let _ = storage.remove(&temporary);
    let file = fill(storage, &temporary, header, born).map_err(|error| {
        // Give the room back: on a full disk this is what lets anything else go on.
        let _ = storage.remove(&temporary);
        BuildError::BeforeName(error)
    })?;
    storage
        .rename(&temporary, &path)
        .map_err(|error| Error::io("give the new segment its name", &path, error))
        .and_then(|()| {
            let folder = layout.log();
            storage.sync_dir(&folder).map_err(|error| Error::io("sync the folder", &folder, error))
        })
        .map_err(BuildError::AfterName)?;
    Ok(file)
}

/// The zeros are written, not just allocated: later writes then change no metadata, a full disk
/// shows here and not in the middle of a commit, and no stale bytes of the device show through.
fn fill(
    storage: &dyn Storage,
    path: &std::path::Path,
    header: &SegmentHeader,
    born: &[u8],
) -> Result<Box<dyn StorageFile>> {
    let io = |what, error| Error::io(what, path, error);
    let file = storage.create(path).map_err(|error| io("create the new segment", error))?;
    let mut content = header.encode();
    content.extend_from_slice(born);
    file.write_at(&content, 0).map_err(|error| io("write the new segment", error))?;
    let mut offset = length(&content);
    while offset < header.prealloc_len {
        let rest = usize::try_from(header.prealloc_len - offset).unwrap_or(ZEROS.len());
        let zeros = ZEROS.get(..rest).unwrap_or(&ZEROS);
        file.write_at(zeros, offset).map_err(|error| io("write the new segment", error))?;
        offset += length(zeros);
    }
    file.sync().map_err(|error| io("sync the new segment", error))?;
    Ok(file)
}

/// A length in memory as a length on disk.
pub(super) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("no supported machine has longer slices")
}
