//! Snapshot files: written beside their name, synced, and only then given it.
//!
//! Invariants: a file that has its name is never changed. One that turns out to be bad, or to be based
//! on another where this one is whole, may make way for it: it is derived data.
//!
//! Left out on purpose: what a body means, and which snapshot is worth having.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    ContentHasher, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotHeader, SnapshotName, pack,
    snapshot_chunk_crc,
};
use crate::storage::{EntryKind, Storage, StorageFile};

use super::beginning::is_missing;
use super::build::length;
use super::layout::{Layout, TEMPORARY_SUFFIX};
use super::snapshot_reader::SnapshotReader;

/// What is in a ledger's folder of snapshots.
#[derive(Debug, Clone, Default)]
pub struct SnapshotList {
    /// The folder.
    pub folder: PathBuf,
    /// Files that are named like snapshots, oldest record first.
    pub names: Vec<SnapshotName>,
    /// Files that never got their name: removed when the next snapshot is made.
    pub temporary: Vec<String>,
    /// Names that are not ours.
    pub strangers: Vec<String>,
}

/// What is in the folder of snapshots of the ledger in `dir`; nothing if there is no such folder.
///
/// # Errors
/// `Io`.
pub fn list_snapshots(storage: &dyn Storage, dir: &Path) -> Result<SnapshotList> {
    let folder = Layout::new(dir).snapshots();
    let entries = match storage.list(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list the folder", &folder, error)),
    };
    let mut list = SnapshotList { folder, ..SnapshotList::default() };
    for entry in entries {
        let name = SnapshotName::parse(&entry.name).filter(|_| entry.kind == EntryKind::File);
        let is_temporary = || {
            let name = entry.name.strip_suffix(TEMPORARY_SUFFIX).and_then(SnapshotName::parse);
            name.is_some() && entry.kind == EntryKind::File
        };
        match name {
            Some(name) => list.names.push(name),
            None if is_temporary() => list.temporary.push(entry.name),
            None => list.strangers.push(entry.name),
        }
    }
    list.names.sort_unstable();
    Ok(list)
}

/// Write a snapshot durably. `body` writes its body; `header` needs neither its length nor
/// its hash, which are filled in; the header as it was written, and the file. A sound file that has
/// the name already and says the same, or says it without a base, is left as it is;
/// another one makes way.
///
/// # Errors
/// `Io` and `DiskFull`; what `body` says, as `Unencodable`. Nothing is left behind.
pub fn write_snapshot(
    storage: &dyn Storage,
    dir: &Path,
    header: SnapshotHeader,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(SnapshotHeader, PathBuf)> {
    let folder = Layout::new(dir).snapshots();
    let path = folder.join(header.name().to_string());
    let temporary = folder.join(format!("{}{TEMPORARY_SUFFIX}", header.name()));
    make_folder(storage, dir, &folder)?;
    bug!(SnapshotInPlace => return fill(storage, &path, header, body).map(|header| (header, path)));
    for name in list_snapshots(storage, dir)?.temporary {
        let left = folder.join(name);
        storage.remove(&left).map_err(|error| Error::io("remove a left-over", &left, error))?;
    }
    let done = fill(storage, &temporary, header, body).and_then(|header| {
        give_name(storage, &folder, &temporary, &path, &header)?;
        Ok(header)
    });
    match done {
        Ok(header) => Ok((header, path)),
        Err(error) => {
            // Give the room back. If it fails, the next snapshot's maker does it.
            let _ = storage.remove(&temporary);
            Err(error)
        }
    }
}

fn make_folder(storage: &dyn Storage, dir: &Path, folder: &Path) -> Result<()> {
    storage.create_dir(folder).map_err(|error| Error::io("make the folder", folder, error))?;
    storage.sync_dir(dir).map_err(|error| Error::io("sync the folder", dir, error))
}

fn give_name(
    storage: &dyn Storage,
    folder: &Path,
    temporary: &Path,
    path: &Path,
    header: &SnapshotHeader,
) -> Result<()> {
    match SnapshotReader::open(storage, path).and_then(SnapshotReader::check) {
        Ok(there) if is_as_good(&there, header) => {
            let io = |error| Error::io("remove the second copy", temporary, error);
            return storage.remove(temporary).map_err(io);
        }
        Err(error) if is_missing(&error) => {}
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        _ => storage.remove(path).map_err(|error| Error::io("remove a bad one", path, error))?,
    }
    storage
        .rename(temporary, path)
        .map_err(|error| Error::io("give the snapshot its name", path, error))?;
    bug!(SnapshotNameUnsynced => return Ok(()));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}

/// Whether a sound file with the same name may stay: it is the same, however it is packed,
/// or says the same without a base.
fn is_as_good(there: &SnapshotHeader, header: &SnapshotHeader) -> bool {
    let there = SnapshotHeader { stored_length: header.stored_length, ..there.clone() };
    let SnapshotHeader { body_length, body_hash, .. } = *header;
    let said = SnapshotHeader { body_length, body_hash, base: header.base, ..there.clone() };
    there == *header || (there.base.is_none() && header.base.is_some() && said == *header)
}

fn fill(
    storage: &dyn Storage,
    path: &Path,
    header: SnapshotHeader,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<SnapshotHeader> {
    let file = storage.create(path).map_err(|error| Error::io("make the snapshot", path, error))?;
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
    // The header comes last: it holds the body's hash. The file has no name yet in any case.
    file.write_at(&header.encode(), 0)
        .and_then(|()| if bug!(SnapshotUnsynced) { Ok(()) } else { file.sync() })
        .map_err(|error| Error::io("write the snapshot", path, error))?;
    Ok(header)
}

/// Where the first chunk stands.
const CHUNKS_START: u64 = 512;
const _: () = assert!(SNAPSHOT_HEADER_SIZE == 512, "chunks stand right behind the header");
/// So many bytes are synced at a time: what is committed beside it does not wait for all of it.
const SYNC_STEP: u64 = 1 << 20;

/// Cuts a body into parts, and packs each as a chunk with its sum.
struct ChunkWriter<'a> {
    file: &'a dyn StorageFile,
    header: SnapshotHeader,
    hasher: ContentHasher,
    part: Vec<u8>,
    index: u64,
    end: u64,
    synced: u64,
    /// What the disk said: told apart from what the encoder says.
    failed: Option<io::Error>,
}

impl ChunkWriter<'_> {
    /// Keep what the disk says apart.
    fn told(&mut self, said: io::Result<()>) -> io::Result<()> {
        said.map_err(|error| {
            let told = io::Error::new(error.kind(), "the disk refused");
            self.failed = Some(error);
            told
        })
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        self.hasher.update(&self.part);
        self.header.body_length += length(&self.part);
        let data = pack(&self.part);
        let count = u32::try_from(data.len()).expect("a chunk is no longer than its part");
        let mut chunk = count.to_le_bytes().to_vec();
        chunk.extend_from_slice(&data);
        let crc = snapshot_chunk_crc(&self.header.chain, self.index, &[&chunk]);
        chunk.extend_from_slice(&crc.to_le_bytes());
        let written = self.file.write_at(&chunk, self.end);
        self.told(written)?;
        self.end += length(&chunk);
        self.index += 1;
        self.part.clear();
        if self.end - self.synced >= SYNC_STEP {
            self.told(self.file.sync())?;
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
