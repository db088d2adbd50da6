//! Reading snapshot files, chunk by chunk, and holding them against the log.
//!
//! Invariants: reading keeps one chunk in memory, packed and unpacked, whatever header and chunk
//! say, and hands out no byte of a chunk whose sum does not hold.
//!
//! Left out on purpose: what a body means, and which snapshot is worth having.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, ContentHasher, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE,
    SnapshotFault, SnapshotHeader, SnapshotName, Uid, snapshot_chunk_crc, unpack,
};
use crate::storage::{Access, Storage, StorageFile};

use super::build::length;
use super::reader::LogReader;
use super::segments::{Segment, good};
use super::snapshot_file::SnapshotList;
use super::snapshot_folder::SnapshotFolder;
use super::walk::{Item, Proof, Walk};

/// The list of snapshots that was read last.
pub(super) type Listed = Arc<Mutex<Option<Arc<SnapshotList>>>>;

impl LogReader {
    /// The ledger's folder of snapshots.
    #[must_use]
    pub fn snapshot_folder(&self) -> SnapshotFolder<'_> {
        SnapshotFolder::of(&*self.storage, self.dir())
    }

    /// What is in the ledger's folder of snapshots.
    ///
    /// # Errors
    /// `Io`.
    pub fn snapshots(&self) -> Result<SnapshotList> {
        self.snapshot_folder().list()
    }

    /// The same, and kept for [`LogReader::snapshots_listed`].
    ///
    /// # Errors
    /// `Io`.
    pub fn list_snapshots(&self) -> Result<Arc<SnapshotList>> {
        let list = Arc::new(self.snapshots()?);
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(list.clone());
        Ok(list)
    }

    /// What [`LogReader::list_snapshots`] found last. Snapshots may be gone since, and there may be
    /// others.
    #[must_use]
    pub fn snapshots_listed(&self) -> Option<Arc<SnapshotList>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Open a snapshot, check header, name and length, and that it belongs to this log.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open_snapshot(&self, name: &SnapshotName) -> Result<SnapshotReader> {
        let snapshot = self.snapshot_folder().open(name)?;
        self.expect_fitting(snapshot.header(), snapshot.path())?;
        Ok(snapshot)
    }

    /// Check that a snapshot belongs to this log: the uids, and the chain at its record.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn expect_fitting(&self, header: &SnapshotHeader, path: &Path) -> Result<()> {
        if self.uids() != Some((header.ledger, header.genesis)) {
            return Err(bad(path, 16, "it belongs to another ledger"));
        }
        match self.chain_at(header.seq)? {
            Some(chain) if chain == header.chain || bug!(SnapshotUnchained) => Ok(()),
            Some(_) => {
                let what = format!("it does not fit the log: record {} differs", header.seq);
                Err(bad(path, 64, &what))
            }
            None => {
                let what = format!("it does not fit the log, which has no record {}", header.seq);
                Err(bad(path, 48, &what))
            }
        }
    }

    /// The ledger's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.segments.folder.parent().unwrap_or(&self.segments.folder)
    }

    /// The ledger's uid and that of its genesis, if any segment is readable.
    #[must_use]
    pub fn uids(&self) -> Option<(Uid, Uid)> {
        let first = self.segments.list.iter().find_map(good)?;
        Some((first.header.ledger, first.header.genesis))
    }

    /// The chain value of a durable record, if it can be read, or a segment's header knows it.
    ///
    /// # Errors
    /// `Io`.
    pub fn chain_at(&self, seq: u64) -> Result<Option<Chain>> {
        let follows = |segment: &&Segment| Some(segment.header.base_seq) == seq.checked_add(1);
        if let Some(next) = self.segments.list.iter().filter_map(good).find(follows) {
            return Ok(Some(next.header.prev_chain));
        }
        if seq < self.first_seq() {
            return Ok(None);
        }
        let has_witness = self.has_witness();
        // Who asks goes on from there.
        for item in Walk::with_places(self, seq) {
            match item? {
                Item::Record(_, Proof::Unproven) if has_witness => return Ok(None),
                Item::Record(record, _) => {
                    return Ok((record.seq == seq).then_some(record.chain));
                }
                Item::Damage(damage) if damage.first_seq > seq => return Ok(None),
                Item::Damage(_) | Item::Derived(_) | Item::OpenEnd { .. } => {}
            }
        }
        Ok(None)
    }
}

/// A snapshot file, open for reading: its header holds, its name and length are right. Reading
/// gives the body.
#[derive(Debug)]
pub struct SnapshotReader {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    header: SnapshotHeader,
    hasher: ContentHasher,
    /// The current chunk's part of the body.
    part: Vec<u8>,
    /// How much of it was handed out.
    used: usize,
    /// The number of the next chunk.
    index: u64,
    /// Where the next chunk stands.
    next: u64,
    /// Where the last chunk ends.
    end: u64,
    /// Bytes of the body behind the current part.
    left: u64,
    /// What was found wrong, for who reads through [`Read`].
    fault: Option<Error>,
}

impl SnapshotReader {
    /// Open a file and check header, name and length.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let io = |what, error| Error::io(what, path, error);
        let file =
            storage.open(path, Access::Read).map_err(|error| io("open the snapshot", error))?;
        let found = file.length().map_err(|error| io("measure the snapshot", error))?;
        let mut bytes = vec![0; SNAPSHOT_HEADER_SIZE];
        let count = file.read_at(&mut bytes, 0).map_err(|error| io("read the header", error))?;
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
            return Err(bad(path, 0, &format!("its header says that it is {expected}")));
        }
        if header.file_length() != Some(found) {
            let expected = header.file_length().unwrap_or(0);
            let at = found.min(expected);
            return Err(bad(path, at, &format!("expected {expected} bytes, found {found}")));
        }
        let left = header.body_length;
        Ok(Self {
            file,
            path: path.to_owned(),
            header,
            hasher: ContentHasher::default(),
            part: Vec::new(),
            used: 0,
            index: 0,
            next: length(&bytes),
            end: found,
            left,
            fault: None,
        })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Read what is left of the body and check everything; the header. Whether the snapshot fits
    /// its log, and whether its state is the one that it says, is not known yet.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check(mut self) -> Result<SnapshotHeader> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        while self.left > 0 {
            self.next_chunk()?;
        }
        if self.next != self.end {
            return Err(bad(&self.path, self.next, "bytes follow the last chunk"));
        }
        if self.hasher.finish() != self.header.body_hash {
            let at = length(&[0; SNAPSHOT_HEADER_SIZE]);
            return Err(bad(&self.path, at, "every chunk holds, but the body's hash differs"));
        }
        Ok(self.header)
    }

    /// What was found wrong while the body was read, if anything was.
    #[must_use]
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Bytes of the body that were not handed out yet.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.left + length(self.part.get(self.used..).unwrap_or_default())
    }

    fn next_chunk(&mut self) -> Result<()> {
        let size = usize::try_from(self.left).unwrap_or(SNAPSHOT_CHUNK_SIZE);
        let size = size.min(SNAPSHOT_CHUNK_SIZE);
        self.part.clear();
        self.used = 0;
        let offset = self.next;
        let Some(part) = self.chunk(size)? else {
            let what = format!("the sum of chunk {} does not hold", self.index);
            return Err(bad(&self.path, offset, &what));
        };
        self.hasher.update(&part);
        self.part = part;
        self.index += 1;
        self.left -= length(&self.part);
        Ok(())
    }

    /// The next chunk's part of the body, of so many bytes; `None` if it does not hold.
    fn chunk(&mut self, size: usize) -> Result<Option<Vec<u8>>> {
        let prefix = self.stored(self.next, PREFIX)?;
        let Ok(word) = <[u8; PREFIX]>::try_from(prefix.as_slice()) else { return Ok(None) };
        let data = usize::try_from(u32::from_le_bytes(word)).unwrap_or(usize::MAX);
        if data == 0 || data > size {
            return Ok(None);
        }
        let behind = self.next + length(&prefix);
        let mut chunk = self.stored(behind, data + SNAPSHOT_CRC_SIZE)?;
        let sum = chunk.split_off(data.min(chunk.len()));
        let expected = snapshot_chunk_crc(&self.header.chain, self.index, &[&prefix, &chunk]);
        if sum != expected.to_le_bytes() {
            return Ok(None);
        }
        self.next = behind + length(&chunk) + length(&sum);
        Ok(unpack(chunk, size))
    }

    /// So many bytes of the file from there on, or as many as there are.
    fn stored(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let found = self
            .file
            .read_at(&mut bytes, offset)
            .map_err(|error| Error::io("read the snapshot", &self.path, error).at_offset(offset))?;
        bytes.truncate(found);
        Ok(bytes)
    }
}

/// Bytes of a chunk's length.
const PREFIX: usize = 4;

impl SnapshotReader {
    /// Bytes of the body that are at hand; none at its end.
    fn ready(&mut self) -> io::Result<&[u8]> {
        if self.used == self.part.len() && self.left > 0 {
            if self.fault.is_some() {
                return Err(io::Error::other("the snapshot is damaged"));
            }
            if let Err(error) = self.next_chunk() {
                let told = io::Error::other(error.to_string());
                self.fault = Some(error);
                return Err(told);
            }
        }
        Ok(self.part.get(self.used..).unwrap_or_default())
    }
}

impl Read for SnapshotReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.ready()?;
        let count = ready.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), ready.get(..count)) {
            to.copy_from_slice(from);
        }
        self.used += count;
        Ok(count)
    }

    /// Chunk by chunk, without a buffer that is cleared for each.
    fn read_to_end(&mut self, all: &mut Vec<u8>) -> io::Result<usize> {
        let before = all.len();
        loop {
            let ready = self.ready()?;
            if ready.is_empty() {
                return Ok(all.len() - before);
            }
            all.extend_from_slice(ready);
            self.used = self.part.len();
        }
    }
}

pub(super) fn bad(path: &Path, offset: u64, what: &str) -> Error {
    let message = format!("{what}; the snapshot is not used, and may be deleted");
    Error::new(ErrorKind::Corrupt, message).at_path(path).at_offset(offset)
}
