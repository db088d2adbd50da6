//! The HEAD file. The writer overwrites one of its two slots after each sync of the log, before it
//! acknowledges the records.
//!
//! A slot is overwritten only while the other one is known to be durable, so a write of which nothing usable arrives
//! never loses the last durable position.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::format::{ClockAnchor, HEAD_SIZE, HEAD_SLOT_SIZE, Head, HeadCopies, HeadSlots};
use crate::log::bytes::len_u64;
use crate::storage::{Access, Storage, StorageFile, read_sectors};

use super::paths::LedgerPaths;

/// HEAD, open for writing.
#[derive(Debug)]
pub(crate) struct HeadFile {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    slot: usize,
    generation: u64,
    generations: Arc<HeadGenerations>,
    /// Time of the last sync, as the caller passed it.
    pub(crate) synced_at: u64,
    /// The ledger's time when it was opened: part of each slot that is written.
    pub(crate) clock: Option<ClockAnchor>,
}

/// The generations that this writer left in HEAD. A lower one in the file means that HEAD was
/// replaced.
#[derive(Debug)]
pub(crate) struct HeadGenerations {
    /// Generation of the last write.
    written: AtomicU64,
    /// Generation of the last sync. The slot that holds it is not written until another one is
    /// synced.
    synced: AtomicU64,
}

/// The lowest generation that the newest slot of HEAD may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequiredGeneration {
    /// While this writer wrote both slots and both are valid.
    pub(crate) both_slots: u64,
    /// While one slot is invalid, because it is being written, or comes from an earlier opening.
    pub(crate) one_slot: u64,
}

impl HeadGenerations {
    pub(crate) fn required(&self) -> RequiredGeneration {
        RequiredGeneration {
            both_slots: self.written.load(Ordering::SeqCst),
            one_slot: self.synced.load(Ordering::SeqCst),
        }
    }

    fn written(&self, generation: u64) {
        self.written.store(generation, Ordering::SeqCst);
    }

    fn synced(&self, generation: u64) {
        self.synced.store(generation, Ordering::SeqCst);
    }

    /// After a failed call, the state of everything written since the last sync is unknown.
    fn failed(&self) {
        self.written(self.synced.load(Ordering::SeqCst));
    }
}

impl HeadFile {
    /// Create the file with two valid slots.
    pub(crate) fn create(storage: &dyn Storage, paths: &LedgerPaths, head: &Head) -> Result<()> {
        Self::create_at(storage, &paths.head(), head)
    }

    fn create_at(storage: &dyn Storage, path: &Path, head: &Head) -> Result<()> {
        let io = |what, error| Error::io(what, path, error);
        let file = storage.create(path).map_err(|error| io("create HEAD", error))?;
        let second = Head { generation: head.generation + 1, ..head.clone() };
        let bytes = [head.encode(), second.encode()].concat();
        file.write_at(&bytes, 0).map_err(|error| io("write HEAD", error))?;
        file.sync().map_err(|error| io("sync HEAD", error))
    }

    /// Replace an unreadable HEAD, or create a missing one.
    pub(crate) fn replace(storage: &dyn Storage, paths: &LedgerPaths, head: &Head) -> Result<()> {
        let (path, temporary, folder) = (paths.head(), paths.temporary_head(), paths.dir());
        // Either file may be missing.
        let _ = storage.remove(&temporary);
        Self::create_at(storage, &temporary, head)?;
        let _ = storage.remove(&path);
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("rename HEAD", &path, error))?;
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
    }

    /// Open the file; `head_slots` is its content.
    pub(crate) fn open(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        head_slots: &HeadSlots,
    ) -> Result<Self> {
        let path = paths.head();
        let file = storage
            .open(&path, Access::ReadWrite)
            .map_err(|error| Error::io("open HEAD", &path, error))?;
        // Bytes from an earlier process may only be in the page cache. Syncing them first keeps the
        // rule that a slot is left alone until the other one is known to be durable.
        file.sync().map_err(|error| Error::io("sync HEAD", &path, error))?;
        let (newest, generation) =
            head_slots.newest().map_or((1, 0), |(slot, head)| (slot, head.generation));
        if let Some((newest, head)) = head_slots.newest().filter(|_| !head_slots.are_whole()) {
            restore_slots(&*file, head_slots, newest, head)
                .map_err(|error| Error::io("write HEAD", &path, error))?;
        }
        let (file, slot) = (file.into(), 1 - newest);
        let generations = HeadGenerations { written: generation.into(), synced: generation.into() };
        let generations = generations.into();
        Ok(Self { file, path, slot, generation, generations, synced_at: 0, clock: None })
    }

    /// The file, to be read by the ownership check.
    pub(crate) fn file(&self) -> Arc<dyn StorageFile> {
        self.file.clone()
    }

    /// The generations that the ownership check compares HEAD with.
    pub(crate) fn generations(&self) -> Arc<HeadGenerations> {
        self.generations.clone()
    }

    /// Write the current slot.
    pub(crate) fn write(&mut self, mut head: Head) -> Result<()> {
        self.generation += 1;
        head.generation = self.generation;
        head.clock = self.clock;
        let bytes = head.encode();
        let offset = if self.slot == 0 { 0 } else { len_u64(&bytes) };
        self.file.write_at(&bytes, offset).map_err(|error| {
            self.generations.failed();
            Error::io("write HEAD", &self.path, error)
        })?;
        self.generations.written(self.generation);
        Ok(())
    }

    /// Write both slots, each synced before the other one is written, so that the loss of one of them
    /// loses no position. `may_write` is asked before each write.
    pub(crate) fn write_both(
        &mut self,
        content: &Head,
        may_write: impl Fn() -> Result<()>,
    ) -> Result<()> {
        for _ in 0..2 {
            may_write()?;
            self.write(content.clone())?;
            self.sync()?;
            mutant!(HeadSlotStaleAtRest => break);
        }
        Ok(())
    }

    /// Sync the current slot and switch to the other one. Only now can this slot be relied on while
    /// the other one is overwritten.
    pub(crate) fn sync(&mut self) -> Result<()> {
        mutant!(HeadUnsynced => return Ok(()));
        self.file.sync().map_err(|error| {
            self.generations.failed();
            Error::io("sync HEAD", &self.path, error)
        })?;
        self.generations.synced(self.generation);
        mutant!(HeadSingleSlot => return Ok(()));
        self.slot = 1 - self.slot;
        Ok(())
    }
}

/// Make both slots whole with the newest record, before anything else is written to them: bytes that stay in a slot could
/// complete an old record again with those of a torn write. The other slot is first, because the copies in the newest one
/// are the only ones until it is synced.
fn restore_slots(
    file: &dyn StorageFile,
    head_slots: &HeadSlots,
    newest: usize,
    head: &Head,
) -> std::io::Result<()> {
    let bytes = head.encode();
    let is_newest_whole = head_slots.copies.get(newest) == Some(&HeadCopies::Equal);
    let mut slots = vec![1 - newest];
    slots.extend(Some(newest).filter(|_| !is_newest_whole));
    if mutant!(HeadRestoredInPlace) {
        slots.reverse();
    }
    for slot in slots {
        file.write_at(&bytes, if slot == 0 { 0 } else { len_u64(&bytes) })?;
        file.sync()?;
    }
    Ok(())
}

/// The current content of HEAD in a ledger's folder. A missing file has no valid slots.
///
/// # Errors
/// `Io`.
pub fn read_head_slots(storage: &dyn Storage, dir: &Path) -> Result<HeadSlots> {
    read_head(storage, &LedgerPaths::new(dir))
}

/// The current content of HEAD. A missing file has no valid slots.
pub(crate) fn read_head(storage: &dyn Storage, paths: &LedgerPaths) -> Result<HeadSlots> {
    let path = paths.head();
    let file = match storage.open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(HeadSlots::default());
        }
        Err(error) => return Err(Error::io("open HEAD", &path, error)),
    };
    let bytes = HeadBytes::read(&*file).map_err(|error| Error::io("read HEAD", &path, error))?;
    Ok(bytes.slots())
}

/// The bytes of HEAD, as read once.
#[derive(Debug)]
pub(crate) struct HeadBytes {
    /// One byte more than expected shows that the file is too long.
    pub(crate) bytes: Vec<u8>,
    /// Whether the storage can read each slot as a whole; a sector that it cannot read is zero in `bytes`.
    pub(crate) is_readable: [bool; 2],
}

impl HeadBytes {
    /// Read the file, again if a slot is not whole: a writer may be overwriting it at this moment.
    pub(crate) fn read(file: &dyn StorageFile) -> std::io::Result<Self> {
        let mut attempts_left = READ_ATTEMPTS;
        loop {
            let bytes = Self::read_once(file)?;
            attempts_left -= 1;
            if bytes.slots().are_whole() || attempts_left == 0 {
                return Ok(bytes);
            }
        }
    }

    pub(crate) fn read_once(file: &dyn StorageFile) -> std::io::Result<Self> {
        let mut bytes = vec![0; HEAD_SIZE + 1];
        let read = read_sectors(file, &mut bytes, 0)?;
        bytes.truncate(read.count);
        let slot = len_u64(&[0; HEAD_SLOT_SIZE]);
        let is_readable = [0..slot, slot..2 * slot].map(|slot: std::ops::Range<u64>| {
            !read.unreadable.iter().any(|bad| bad.start < slot.end && slot.start < bad.end)
        });
        Ok(Self { bytes, is_readable })
    }

    /// The valid slots. A sector that cannot be read is no copy, and the others are not affected.
    pub(crate) fn slots(&self) -> HeadSlots {
        // HEAD is never this long, so the file was replaced.
        if self.bytes.len() > HEAD_SIZE {
            return HeadSlots::default();
        }
        HeadSlots::decode(&self.bytes)
    }
}

const READ_ATTEMPTS: usize = 8;
const _: () = assert!(HEAD_SIZE == 2 * HEAD_SLOT_SIZE, "two slots");
