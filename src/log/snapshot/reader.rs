//! Reading snapshot files chunk by chunk.
//!
//! At most one chunk is in memory, packed and unpacked. No byte of a chunk with a wrong checksum is
//! returned.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    ContentHasher, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotFault,
    SnapshotHeader, snapshot_chunk_crc, unpack,
};
use crate::log::bytes::len_u64;
use crate::storage::{Access, Storage, StorageFile, read_sectors};

/// A snapshot file that is open for reading, with a valid header, name and length. It reads the
/// body.
#[derive(Debug)]
pub struct SnapshotReader {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    header: SnapshotHeader,
    hasher: ContentHasher,
    /// The body of the current chunk.
    content: Vec<u8>,
    /// Number of bytes of it that were returned.
    consumed: usize,
    /// Number of the next chunk.
    chunk_index: u64,
    /// Offset of the next chunk.
    next_offset: u64,
    /// End of the last chunk.
    chunks_end: u64,
    /// Bytes of the body after the current chunk.
    remaining: u64,
    /// The fault found through [`Read`].
    fault: Option<Error>,
}

impl SnapshotReader {
    /// Open a file; check its header, name and length.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let io = |what, error| Error::io(what, path, error);
        let file =
            storage.open(path, Access::Read).map_err(|error| io("open the snapshot", error))?;
        Self::of_file(file, path)
    }

    /// The same for a file that is open: `path` has its name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn of_file(file: Box<dyn StorageFile>, path: &Path) -> Result<Self> {
        let io = |what, error| Error::io(what, path, error);
        let found = file.length().map_err(|error| io("get the length of the snapshot", error))?;
        let mut bytes = vec![0; SNAPSHOT_HEADER_SIZE];
        let read =
            read_sectors(&*file, &mut bytes, 0).map_err(|error| io("read the header", error))?;
        let count =
            read.complete().map_err(|error| damaged_snapshot(path, 0, &error.to_string()))?;
        bytes.truncate(count);
        let header = SnapshotHeader::decode(&bytes).map_err(|fault| {
            let kind = match fault {
                SnapshotFault::Version => ErrorKind::Unsupported,
                _ => ErrorKind::Corrupt,
            };
            Error::new(kind, fault.to_string()).at_path(path).at_offset(0)
        })?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let expected = header.name().to_string();
        if name != expected {
            return Err(damaged_snapshot(
                path,
                0,
                &format!(
                    "the file name differs from the header, \
                                                           which says {expected}"
                ),
            ));
        }
        if header.file_length() != Some(found) {
            let expected = header.file_length().unwrap_or(0);
            let at = found.min(expected);
            return Err(damaged_snapshot(
                path,
                at,
                &format!("expected {expected} bytes, found {found}"),
            ));
        }
        let remaining = header.body_length;
        Ok(Self {
            file,
            path: path.to_owned(),
            header,
            hasher: ContentHasher::default(),
            content: Vec::new(),
            consumed: 0,
            chunk_index: 0,
            next_offset: len_u64(&bytes),
            chunks_end: found,
            remaining,
            fault: None,
        })
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes of the file. Only the header is checked: see [`Self::check`].
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.stored(0, usize::try_from(self.chunks_end).unwrap_or(usize::MAX))
    }

    /// Read the rest of the body, check everything and return the header. Whether the snapshot
    /// belongs to its log, and whether its state matches its hash, is not checked here.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check(mut self) -> Result<SnapshotHeader> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        while self.remaining > 0 {
            self.next_chunk()?;
        }
        if self.next_offset != self.chunks_end {
            return Err(damaged_snapshot(
                &self.path,
                self.next_offset,
                "bytes follow the last chunk",
            ));
        }
        if self.hasher.finish() != self.header.body_hash {
            let at = len_u64(&[0; SNAPSHOT_HEADER_SIZE]);
            return Err(damaged_snapshot(
                &self.path,
                at,
                "all chunks are valid, but the hash of the \
                                                         body differs",
            ));
        }
        Ok(self.header)
    }

    /// The fault found while the body was read, if any.
    #[must_use]
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Number of bytes of the body not read yet.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.remaining + len_u64(self.content.get(self.consumed..).unwrap_or_default())
    }

    fn next_chunk(&mut self) -> Result<()> {
        let size = usize::try_from(self.remaining).unwrap_or(SNAPSHOT_CHUNK_SIZE);
        let size = size.min(SNAPSHOT_CHUNK_SIZE);
        self.content.clear();
        self.consumed = 0;
        let offset = self.next_offset;
        let Some(content) = self.chunk(size)? else {
            let what = format!("the checksum of chunk {} is wrong", self.chunk_index);
            return Err(damaged_snapshot(&self.path, offset, &what));
        };
        self.hasher.update(&content);
        self.content = content;
        self.chunk_index += 1;
        self.remaining -= len_u64(&self.content);
        Ok(())
    }

    /// The body of the next chunk, `size` bytes long; `None` if it is invalid.
    fn chunk(&mut self, size: usize) -> Result<Option<Vec<u8>>> {
        let prefix = self.stored(self.next_offset, PREFIX)?;
        let Ok(word) = <[u8; PREFIX]>::try_from(prefix.as_slice()) else { return Ok(None) };
        let data = usize::try_from(u32::from_le_bytes(word)).unwrap_or(usize::MAX);
        if data == 0 || data > size {
            return Ok(None);
        }
        let data_start = self.next_offset + len_u64(&prefix);
        let mut chunk = self.stored(data_start, data + SNAPSHOT_CRC_SIZE)?;
        let sum = chunk.split_off(data.min(chunk.len()));
        let expected = snapshot_chunk_crc(&self.header.chain, self.chunk_index, &[&prefix, &chunk]);
        if sum != expected.to_le_bytes() {
            return Ok(None);
        }
        self.next_offset = data_start + len_u64(&chunk) + len_u64(&sum);
        Ok(unpack(chunk, size))
    }

    /// Up to `count` bytes of the file from an offset on.
    fn stored(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let read = read_sectors(&*self.file, &mut bytes, offset)
            .map_err(|error| Error::io("read the snapshot", &self.path, error).at_offset(offset))?;
        let found = read
            .complete()
            .map_err(|error| damaged_snapshot(&self.path, offset, &error.to_string()))?;
        bytes.truncate(found);
        Ok(bytes)
    }
}

/// Size of a chunk's length field.
const PREFIX: usize = 4;

impl SnapshotReader {
    /// Bytes of the body that are in memory; empty at its end.
    fn in_memory(&mut self) -> io::Result<&[u8]> {
        if self.consumed == self.content.len() && self.remaining > 0 {
            if self.fault.is_some() {
                return Err(io::Error::other("the snapshot is damaged"));
            }
            if let Err(error) = self.next_chunk() {
                let shown = io::Error::other(error.to_string());
                self.fault = Some(error);
                return Err(shown);
            }
        }
        Ok(self.content.get(self.consumed..).unwrap_or_default())
    }
}

impl Read for SnapshotReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let in_memory = self.in_memory()?;
        let count = in_memory.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), in_memory.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consumed += count;
        Ok(count)
    }

    /// Chunk by chunk, without clearing a buffer for each.
    fn read_to_end(&mut self, all: &mut Vec<u8>) -> io::Result<usize> {
        let before = all.len();
        loop {
            let in_memory = self.in_memory()?;
            if in_memory.is_empty() {
                return Ok(all.len() - before);
            }
            all.extend_from_slice(in_memory);
            self.consumed = self.content.len();
        }
    }
}

pub(crate) fn damaged_snapshot(path: &Path, offset: u64, what: &str) -> Error {
    let message = format!("{what}; the snapshot is not used and may be deleted");
    Error::new(ErrorKind::Corrupt, message).at_path(path).at_offset(offset)
}
