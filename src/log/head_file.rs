//! The HEAD file: one write after each sync of the log, before the acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::format::{HEAD_SIZE, HEAD_SLOT_SIZE, Head, HeadView};
use crate::storage::{Access, Storage, StorageFile};

use super::build::length;
use super::layout::Layout;

/// HEAD, open for writing.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: Arc<dyn StorageFile>,
    path: std::path::PathBuf,
    slot: usize,
    generation: u64,
    left: Arc<LeftInHead>,
    /// What the callers' clock said when it was synced last.
    pub(super) synced_at: u64,
}

/// What this writer left in HEAD. Whoever finds less there finds the file of somebody else.
#[derive(Debug)]
pub(super) struct LeftInHead {
    /// Generation of the last write.
    written: AtomicU64,
    /// Generation of the last one that was synced: its slot is left alone until another one is.
    synced: AtomicU64,
}

impl LeftInHead {
    /// The least generation that HEAD has while both slots are this writer's, and the least that it has
    /// while one is not, or is being written to.
    pub(super) fn least(&self) -> (u64, u64) {
        (self.written.load(Ordering::SeqCst), self.synced.load(Ordering::SeqCst))
    }

    fn written(&self, generation: u64) {
        self.written.store(generation, Ordering::SeqCst);
    }

    fn synced(&self, generation: u64) {
        self.synced.store(generation, Ordering::SeqCst);
    }

    /// After a call that failed nothing is known of what was written since the last sync.
    fn failed(&self) {
        self.written(self.synced.load(Ordering::SeqCst));
    }
}

impl HeadFile {
    /// Make the file, both slots valid.
    pub(super) fn create(storage: &dyn Storage, layout: &Layout, head: &Head) -> Result<()> {
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

    /// Put a new file in the place of one that nothing can be learned from, if there is one.
    pub(super) fn replace(storage: &dyn Storage, layout: &Layout, head: &Head) -> Result<()> {
        let (path, draft, folder) = (layout.head(), layout.head_draft(), layout.dir());
        // Both may be missing.
        let _ = storage.remove(&draft);
        Self::create_at(storage, &draft, head)?;
        let _ = storage.remove(&path);
        storage
            .rename(&draft, &path)
            .map_err(|error| Error::io("give HEAD its name", &path, error))?;
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
    }

    /// Open the file. `view` is what it holds.
    pub(super) fn open(storage: &dyn Storage, layout: &Layout, view: &HeadView) -> Result<Self> {
        let path = layout.head();
        let file = storage
            .open(&path, Access::ReadWrite)
            .map_err(|error| Error::io("open HEAD", &path, error))?;
        // What an earlier process wrote may be in the page cache only. Syncing it first keeps the
        // rule that a slot is left alone until the other one is known to be durable.
        file.sync().map_err(|error| Error::io("sync HEAD", &path, error))?;
        let (newest, generation) =
            view.newest().map_or((1, 0), |(slot, head)| (slot, head.generation));
        if !view.is_whole() && view.newest().is_some() {
            give_up(&*file, 1 - newest).map_err(|error| Error::io("write HEAD", &path, error))?;
        }
        let (file, slot) = (file.into(), 1 - newest);
        let left = LeftInHead { written: generation.into(), synced: generation.into() };
        Ok(Self { file, path, slot, generation, left: left.into(), synced_at: 0 })
    }

    /// The file, to be read by whoever wants to know whether it is still ours.
    pub(super) fn file(&self) -> Arc<dyn StorageFile> {
        self.file.clone()
    }

    /// What is left in it, for the same purpose.
    pub(super) fn left(&self) -> Arc<LeftInHead> {
        self.left.clone()
    }

    /// Write the current slot.
    pub(super) fn write(&mut self, mut head: Head) -> Result<()> {
        self.generation += 1;
        head.generation = self.generation;
        let bytes = head.encode();
        let offset = if self.slot == 0 { 0 } else { length(&bytes) };
        self.file.write_at(&bytes, offset).map_err(|error| {
            self.left.failed();
            Error::io("write HEAD", &self.path, error)
        })?;
        self.left.written(self.generation);
        Ok(())
    }

    /// Sync what was written, and turn to the other slot: only now is this one safe to rely on
    /// while the other is being overwritten.
    pub(super) fn sync(&mut self) -> Result<()> {
        bug!(HeadUnsynced => return Ok(()));
        self.file.sync().map_err(|error| {
            self.left.failed();
            Error::io("sync HEAD", &self.path, error)
        })?;
        self.left.synced(self.generation);
        bug!(HeadHasOneSlot => return Ok(()));
        self.slot = 1 - self.slot;
        Ok(())
    }
}

/// Make sure that a slot which is not valid never becomes valid again by itself: if it was only
/// its padding that was damaged, a write of which no more than the padding arrives would bring it
/// back, with an old watermark and a new generation.
fn give_up(file: &dyn StorageFile, slot: usize) -> std::io::Result<()> {
    const START: [u8; 512] = [0; 512];
    let offset = if slot == 0 { 0 } else { HEAD_SLOT_SIZE };
    file.write_at(&START, u64::try_from(offset).map_err(std::io::Error::other)?)?;
    file.sync()
}

/// What HEAD says now. A missing file is a view without valid slots.
pub(super) fn read_head(storage: &dyn Storage, layout: &Layout) -> Result<HeadView> {
    let path = layout.head();
    let file = match storage.open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(HeadView::default());
        }
        Err(error) => return Err(Error::io("open HEAD", &path, error)),
    };
    let mut view = HeadView::default();
    // A writer may be overwriting a slot this very moment: look again before calling it invalid.
    for _ in 0..READ_ATTEMPTS {
        let mut bytes = vec![0; HEAD_SIZE + 1];
        let count =
            file.read_at(&mut bytes, 0).map_err(|error| Error::io("read HEAD", &path, error))?;
        bytes.truncate(count);
        // Bytes behind the second slot belong to nobody: the file is not the one that was made.
        view = if count > HEAD_SIZE { HeadView::default() } else { HeadView::decode(&bytes) };
        if view.is_whole() {
            break;
        }
    }
    Ok(view)
}

const READ_ATTEMPTS: usize = 3;
const _: () = assert!(HEAD_SIZE == 2 * HEAD_SLOT_SIZE, "two slots");
