//! Writing snapshot files: under a temporary name, synced, and only then renamed.
//!
//! A snapshot that has its name is never changed. It is derived data, so a damaged one, or one that
//! needs a base where the new one does not, may be replaced.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    ContentHasher, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotHeader, pack,
    snapshot_chunk_crc,
};
use crate::log::bytes::len_u64;
use crate::log::errors::is_missing;
use crate::log::folder::{LedgerPaths, TEMPORARY_SUFFIX};
use crate::storage::{Storage, StorageFile};

use super::list::list_snapshots;
use super::reader::SnapshotReader;

/// Write a snapshot durably. `body` writes its body; the length and hash in
/// `header` are filled in. Returns the final header and the file. A valid file of the same name
/// stays if it has the same content, or the same content without a base; any other
/// file is replaced.
///
/// # Errors
/// `Io` and `DiskFull`; `Unencodable` if `body` returns an error. No file is left behind.
pub fn write_snapshot(
    storage: &dyn Storage,
    dir: &Path,
    header: SnapshotHeader,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(SnapshotHeader, PathBuf)> {
    let folder = LedgerPaths::new(dir).snapshots();
    let path = folder.join(header.name().to_string());
    let temporary = folder.join(format!("{}{TEMPORARY_SUFFIX}", header.name()));
    create_folder(storage, dir, &folder)?;
    mutant!(SnapshotWrittenInPlace => return fill(storage, &path, header, body).map(|header| (header, path)));
    for name in list_snapshots(storage, dir)?.temporary {
        let left = folder.join(name);
        storage
            .remove(&left)
            .map_err(|error| Error::io("remove an incomplete snapshot", &left, error))?;
    }
    let written = fill(storage, &temporary, header, body).and_then(|header| {
        publish(storage, &folder, &temporary, &path, &header)?;
        Ok(header)
    });
    match written {
        Ok(header) => Ok((header, path)),
        Err(error) => {
            // Free the disk space. If this fails, the next snapshot does it.
            let _ = storage.remove(&temporary);
            Err(error)
        }
    }
}

fn create_folder(storage: &dyn Storage, dir: &Path, folder: &Path) -> Result<()> {
    storage.create_dir(folder).map_err(|error| Error::io("create the folder", folder, error))?;
    storage.sync_dir(dir).map_err(|error| Error::io("sync the folder", dir, error))
}

fn publish(
    storage: &dyn Storage,
    folder: &Path,
    temporary: &Path,
    path: &Path,
    header: &SnapshotHeader,
) -> Result<()> {
    match SnapshotReader::open(storage, path).and_then(SnapshotReader::check) {
        Ok(existing) if is_equivalent(&existing, header) => {
            let io = |error| Error::io("remove the redundant copy", temporary, error);
            return storage.remove(temporary).map_err(io);
        }
        Err(error) if is_missing(&error) => {}
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        _ => storage
            .remove(path)
            .map_err(|error| Error::io("remove a damaged snapshot", path, error))?,
    }
    storage
        .rename(temporary, path)
        .map_err(|error| Error::io("rename the snapshot", path, error))?;
    mutant!(SnapshotDirEntryUnsynced => return Ok(()));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}

/// Whether a valid file of the same name may stay: its content is the same, however packed, or the
/// same without a base.
fn is_equivalent(existing: &SnapshotHeader, header: &SnapshotHeader) -> bool {
    let existing = SnapshotHeader { stored_length: header.stored_length, ..existing.clone() };
    let SnapshotHeader { body_length, body_hash, .. } = *header;
    let result = SnapshotHeader { body_length, body_hash, base: header.base, ..existing.clone() };
    existing == *header || (existing.base.is_none() && header.base.is_some() && result == *header)
}

fn fill(
    storage: &dyn Storage,
    path: &Path,
    header: SnapshotHeader,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<SnapshotHeader> {
    let file =
        storage.create(path).map_err(|error| Error::io("create the snapshot", path, error))?;
    let mut writer = ChunkWriter {
        file: &*file,
        header,
        hasher: ContentHasher::default(),
        part: Vec::new(),
        index: 0,
        end: CHUNKS_START,
        synced: CHUNKS_START,
        failed: None,
    };
    let written = body(&mut writer).and_then(|()| writer.end_chunk());
    if let Some(error) = writer.failed.take() {
        return Err(Error::io("write the snapshot", path, error));
    }
    if let Err(error) = written {
        return Err(Error::io("encode the snapshot", path, error).as_kind(ErrorKind::Unencodable));
    }
    writer.header.body_hash = writer.hasher.finish();
    writer.header.stored_length = writer.end - CHUNKS_START;
    let header = writer.header;
    // The header is written last, because it holds the body's hash. The file still has its
    // temporary name.
    file.write_at(&header.encode(), 0)
        .and_then(|()| if mutant!(SnapshotUnsynced) { Ok(()) } else { file.sync() })
        .map_err(|error| Error::io("write the snapshot", path, error))?;
    Ok(header)
}

/// Offset of the first chunk.
const CHUNKS_START: u64 = 512;
const _: () = assert!(SNAPSHOT_HEADER_SIZE == 512, "chunks follow the header");
/// Number of bytes between two syncs, so that concurrent commits do not wait for all of it.
const SYNC_STEP: u64 = 1 << 20;

/// Splits a body into chunks, packs each and adds its checksum.
struct ChunkWriter<'a> {
    file: &'a dyn StorageFile,
    header: SnapshotHeader,
    hasher: ContentHasher,
    part: Vec<u8>,
    index: u64,
    end: u64,
    synced: u64,
    /// The storage error. `body` cannot distinguish it from its own errors.
    failed: Option<io::Error>,
}

impl ChunkWriter<'_> {
    /// Record a storage error.
    fn record_error(&mut self, result: io::Result<()>) -> io::Result<()> {
        result.map_err(|error| {
            let record_error = io::Error::new(error.kind(), "the write failed");
            self.failed = Some(error);
            record_error
        })
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        self.hasher.update(&self.part);
        self.header.body_length += len_u64(&self.part);
        let data = pack(&self.part);
        let count =
            u32::try_from(data.len()).expect("a packed chunk is no longer than its content");
        let mut chunk = count.to_le_bytes().to_vec();
        chunk.extend_from_slice(&data);
        let crc = snapshot_chunk_crc(&self.header.chain, self.index, &[&chunk]);
        chunk.extend_from_slice(&crc.to_le_bytes());
        let written = self.file.write_at(&chunk, self.end);
        self.record_error(written)?;
        self.end += len_u64(&chunk);
        self.index += 1;
        self.part.clear();
        if self.end - self.synced >= SYNC_STEP {
            self.record_error(self.file.sync())?;
            self.synced = self.end;
        }
        Ok(())
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SNAPSHOT_CHUNK_SIZE - self.part.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.part.extend_from_slice(taken);
        if self.part.len() == SNAPSHOT_CHUNK_SIZE {
            self.end_chunk()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
