//! The HEAD file. The writer overwrites one of its two slots after each sync of the log, before it
//! acknowledges the records.
//!
//! A slot is overwritten only while the other one is known to be durable, so a torn write of HEAD
//! never loses the last durable position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::format::{HEAD_SIZE, HEAD_SLOT_SIZE, Head, HeadSlots};
use crate::log::bytes::length;
use crate::storage::{Access, Storage, StorageFile};

use super::layout::Layout;

/// HEAD, open for writing.
#[derive(Debug)]
pub(crate) struct HeadFile {
    file: Arc<dyn StorageFile>,
    path: std::path::PathBuf,
    slot: usize,
    generation: u64,
    generations: Arc<HeadGenerations>,
    /// The callers' time of the last sync.
    pub(crate) synced_at: u64,
}

/// The generations that this writer left in HEAD. A lower one in the file means that another file
/// took its place.
#[derive(Debug)]
pub(crate) struct HeadGenerations {
    /// Generation of the last write.
    written: AtomicU64,
    /// Generation of the last sync. The slot that holds it is not written until another one is
    /// synced.
    synced: AtomicU64,
}

impl HeadGenerations {
    /// The lowest generation that HEAD can hold: while both slots are this writer's, and while one
    /// of them is not, or is being written.
    pub(crate) fn minimum(&self) -> (u64, u64) {
        (self.written.load(Ordering::SeqCst), self.synced.load(Ordering::SeqCst))
    }

    fn written(&self, generation: u64) {
        self.written.store(generation, Ordering::SeqCst);
    }

    fn synced(&self, generation: u64) {
        self.synced.store(generation, Ordering::SeqCst);
    }

    /// After a failed call nothing is known about what was written since the last sync.
    fn failed(&self) {
        self.written(self.synced.load(Ordering::SeqCst));
    }
}

impl HeadFile {
    /// Create the file with two valid slots.
    pub(crate) fn create(storage: &dyn Storage, layout: &Layout, head: &Head) -> Result<()> {
        Self::create_at(storage, &layout.head(), head)
    }

    fn create_at(storage: &dyn Storage, path: &std::path::Path, head: &Head) -> Result<()> {
        let io = |what, error| Error::io(what, path, error);
        let file = storage.create(path).map_err(|error| io("create HEAD", error))?;
        let second = Head { generation: head.generation + 1, ..head.clone() };
        let bytes = [head.encode(), second.encode()].concat();
        file.write_at(&bytes, 0).map_err(|error| io("write HEAD", error))?;
        file.sync().map_err(|error| io("sync HEAD", error))
    }

    /// Replace an unreadable HEAD, or create a missing one.
    pub(crate) fn replace(storage: &dyn Storage, layout: &Layout, head: &Head) -> Result<()> {
        let (path, temporary, folder) = (layout.head(), layout.temporary_head(), layout.dir());
        // Either file may be missing.
        let _ = storage.remove(&temporary);
        Self::create_at(storage, &temporary, head)?;
        let _ = storage.remove(&path);
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("rename HEAD", &path, error))?;
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
    }

    /// Open the file; `view` is its content.
    pub(crate) fn open(storage: &dyn Storage, layout: &Layout, view: &HeadSlots) -> Result<Self> {
        let path = layout.head();
        let file = storage
            .open(&path, Access::ReadWrite)
            .map_err(|error| Error::io("open HEAD", &path, error))?;
        // What an earlier process wrote may only be in the page cache. Syncing it first keeps the
        // rule that a slot is left alone until the other one is known to be durable.
        file.sync().map_err(|error| Error::io("sync HEAD", &path, error))?;
        let (newest, generation) =
            view.newest().map_or((1, 0), |(slot, head)| (slot, head.generation));
        if !view.is_whole() && view.newest().is_some() {
            invalidate_slot(&*file, 1 - newest)
                .map_err(|error| Error::io("write HEAD", &path, error))?;
        }
        let (file, slot) = (file.into(), 1 - newest);
        let generations = HeadGenerations { written: generation.into(), synced: generation.into() };
        Ok(Self { file, path, slot, generation, generations: generations.into(), synced_at: 0 })
    }

    /// The file, to be read by the ownership check.
    pub(crate) fn file(&self) -> Arc<dyn StorageFile> {
        self.file.clone()
    }

    /// The generations to compare it with.
    pub(crate) fn generations(&self) -> Arc<HeadGenerations> {
        self.generations.clone()
    }

    /// Write the current slot.
    pub(crate) fn write(&mut self, mut head: Head) -> Result<()> {
        self.generation += 1;
        head.generation = self.generation;
        let bytes = head.encode();
        let offset = if self.slot == 0 { 0 } else { length(&bytes) };
        self.file.write_at(&bytes, offset).map_err(|error| {
            self.generations.failed();
            Error::io("write HEAD", &self.path, error)
        })?;
        self.generations.written(self.generation);
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

/// Make an invalid slot permanently invalid. If only its padding was damaged, a torn write that
/// reaches just the padding would make it valid again, with a new generation over an old watermark.
fn invalidate_slot(file: &dyn StorageFile, slot: usize) -> std::io::Result<()> {
    const START: [u8; 512] = [0; 512];
    let offset = if slot == 0 { 0 } else { HEAD_SLOT_SIZE };
    file.write_at(&START, u64::try_from(offset).map_err(std::io::Error::other)?)?;
    file.sync()
}

/// The current content of HEAD. A missing file is a view without valid slots.
pub(crate) fn read_head(storage: &dyn Storage, layout: &Layout) -> Result<HeadSlots> {
    let path = layout.head();
    let file = match storage.open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(HeadSlots::default());
        }
        Err(error) => return Err(Error::io("open HEAD", &path, error)),
    };
    let mut view = HeadSlots::default();
    // A writer may be overwriting a slot at this moment: read again before calling it invalid.
    for _ in 0..READ_ATTEMPTS {
        let mut bytes = vec![0; HEAD_SIZE + 1];
        let count =
            file.read_at(&mut bytes, 0).map_err(|error| Error::io("read HEAD", &path, error))?;
        bytes.truncate(count);
        // The file is longer than HEAD ever is, so it is not the one that was created.
        view = if count > HEAD_SIZE { HeadSlots::default() } else { HeadSlots::decode(&bytes) };
        if view.is_whole() {
            break;
        }
    }
    Ok(view)
}

const READ_ATTEMPTS: usize = 3;
const _: () = assert!(HEAD_SIZE == 2 * HEAD_SLOT_SIZE, "two slots");
