//! The simulated disk as a [`Storage`].

use std::io;
use std::path::Path;

use super::image::{FileImage, widen};
use super::state::{Folder, Node, Random};
use super::{Effect, Fault, SimDisk};
use crate::storage::{
    Access, Entry, EntryKind, LockGuard, Locking, Map, Medium, Storage, StorageFile,
};

/// What a call that only looks comes to.
fn or_fail(fault: Option<Fault>) -> io::Result<()> {
    fault.map_or(Ok(()), |fault| Err(fault.kind.into()))
}

/// Whether a call that fails, or not, does its work.
fn works(fault: Option<Fault>) -> bool {
    fault.is_none_or(|fault| fault.effect == Effect::Everything)
}

impl SimDisk {
    fn look<T>(&self, act: impl FnOnce(&mut super::State, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let boot = state.boot;
        or_fail(state.call(boot)?)?;
        act(&mut state, boot)
    }

    fn change(&self, act: impl FnOnce(&mut super::State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let boot = state.boot;
        let fault = state.call(boot)?;
        state.changes += 1;
        if works(fault) {
            act(&mut state)?;
        }
        or_fail(fault)
    }

    fn handle(&self, node: usize, boot: u64, access: Access) -> Box<dyn StorageFile> {
        Box::new(SimFile { disk: self.clone(), node, boot, access })
    }
}

impl Storage for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| match state.find(path) {
            Ok(node) => {
                state.folder(node).map(|_| ()).map_err(|_| io::ErrorKind::AlreadyExists.into())
            }
            Err(_) => state.add(path, Node::Folder(Folder::default())).map(|_| ()),
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.look(|state, _| {
            let node = state.find(path)?;
            let names = state.folder(node)?.now.clone();
            let entry = |(name, node): (String, usize)| {
                let is_file = matches!(state.nodes.get(node), Some(Node::File(_)));
                let kind = if is_file { EntryKind::File } else { EntryKind::Folder };
                Entry { name, kind }
            };
            Ok(names.into_iter().map(entry).collect())
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let (mut made, mut boot) = (None, 0);
        self.change(|state| {
            made = Some(state.add(path, Node::File(FileImage::default()))?);
            boot = state.boot;
            Ok(())
        })?;
        let node = made.ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(node, boot, Access::ReadWrite))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let (node, boot) = self.look(|state, boot| {
            let node = state.find(path)?;
            state.file(node).map(|_| (node, boot))
        })?;
        Ok(self.handle(node, boot, access))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.change(|state| {
            let node = state.find(from)?;
            if let Ok(taken) = state.find(to)
                && state.folder(taken).is_ok_and(|folder| !folder.now.is_empty())
            {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (_, old) = state.parent(from)?;
            let (folder, new) = state.parent(to)?;
            folder.change(Some(&old), Some((&new, node)));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            state.file_at(path)?;
            let (folder, name) = state.parent(path)?;
            folder.change(Some(&name), None);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            let node = state.find(path)?;
            if !state.folder(node)?.now.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (folder, name) = state.parent(path)?;
            folder.change(Some(&name), None);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            let node = state.find(path)?;
            state.folder(node).map(Folder::sync)
        })
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Locking> {
        self.look(|state, boot| {
            let node = if let Ok(node) = state.find(path) {
                node
            } else {
                state.changes += 1;
                state.add(path, Node::File(FileImage::default()))?
            };
            if let Some(holder) = state.locks.get(&node) {
                return Ok(Locking::HeldBy(holder.clone()));
            }
            state.locks.insert(node, holder.to_owned());
            Ok(Locking::Ours(Box::new(SimLock { disk: self.clone(), node, boot })))
        })
    }

    fn medium(&self, _: &Path) -> io::Result<Medium> {
        self.look(|state, _| Ok(state.medium))
    }

    fn process(&self) -> u32 {
        self.state().process
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    node: usize,
    boot: u64,
}

impl LockGuard for SimLock {
    fn is_in_place(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.disk.state();
        or_fail(state.call(self.boot)?)?;
        Ok(state.find(path).is_ok_and(|node| node == self.node))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.locks.remove(&self.node);
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    node: usize,
    boot: u64,
    access: Access,
}

impl SimFile {
    fn look<T>(&self, act: impl FnOnce(&FileImage) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        or_fail(state.call(self.boot)?)?;
        act(state.file(self.node)?)
    }
}

impl StorageFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.look(|file| Ok(file.now.length))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(|file| {
            let bytes = file.now.read(offset, buffer.len());
            if let Some(place) = buffer.get_mut(..bytes.len()) {
                place.copy_from_slice(&bytes);
            }
            Ok(bytes.len())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.call(self.boot)?;
        state.changes += 1;
        if self.access == Access::Read {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let room = if state.capacity == u64::MAX { u64::MAX } else { state.room() };
        let file = state.file(self.node)?;
        // What does not make the file longer always fits.
        let fits = file.now.length.max(offset).saturating_add(room) - offset;
        let count = bytes.len().min(usize::try_from(fits).unwrap_or(usize::MAX));
        let bytes_that_fit = bytes.get(..count).unwrap_or(bytes);
        match fault.map(|fault| fault.effect) {
            Some(Effect::Nothing) => {}
            Some(Effect::Part(seed)) => {
                let mut random = Random(seed);
                file.write(offset, bytes_that_fit, || random.next() & 1 == 1);
            }
            Some(Effect::Everything) | None => file.write(offset, bytes_that_fit, || true),
        }
        or_fail(fault)?;
        if widen(count) < widen(bytes.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.call(self.boot)?;
        state.changes += 1;
        let file = state.file(self.node)?;
        if works(fault) {
            file.sync();
        } else {
            file.mark_clean();
        }
        or_fail(fault)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.call(self.boot)?;
        state.changes += 1;
        if self.access == Access::Read {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let room = if state.capacity == u64::MAX { u64::MAX } else { state.room() };
        let file = state.file(self.node)?;
        if length > file.now.length.saturating_add(room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if works(fault) {
            file.set_length(length);
        }
        or_fail(fault)
    }

    fn make_read_only(&self) -> io::Result<()> {
        self.look(|_| Ok(()))
    }

    fn map(&self) -> io::Result<Map> {
        self.look(|file| {
            let count = usize::try_from(file.now.length).map_err(io::Error::other)?;
            Ok(Map::from(file.now.read(0, count)))
        })
    }
}
