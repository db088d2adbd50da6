//! The simulated disk as a [`Storage`].

use std::io;
use std::path::Path;

use super::fault::{Call, FaultAction, Operation, check, takes_effect};
use super::file::FileImage;
use super::folder::Folder;
use super::handle::SimFile;
use super::injected::InjectedKind;
use super::sim_disk::SimDisk;
use super::state::{Node, State};
use crate::storage::{
    Access, Entry, EntryKind, FilesystemKind, LockGuard, LockOutcome, Storage, StorageFile,
};

impl SimDisk {
    fn look<T>(
        &self,
        call: Call<'_>,
        act: impl FnOnce(&mut State, u64) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        let boot = state.boot;
        check(state.call(boot, call)?.as_ref())?;
        act(&mut state, boot)
    }

    fn change(
        &self,
        call: Call<'_>,
        act: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.state();
        let boot = state.boot;
        let action = state.call(boot, call)?;
        state.changes += 1;
        if takes_effect(action.as_ref()) {
            act(&mut state)?;
        }
        check(action.as_ref())
    }

    fn handle(&self, path: &Path, node: usize, boot: u64, access: Access) -> Box<dyn StorageFile> {
        Box::new(SimFile { disk: self.clone(), path: path.to_owned(), node, boot, access })
    }
}

/// Check whether a rename may replace an entry.
fn may_replace(from: &Node, to: &Node) -> io::Result<()> {
    match (from, to) {
        (Node::File(_), Node::Folder(_)) => Err(io::ErrorKind::IsADirectory.into()),
        (Node::Folder(_), Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
        (Node::Folder(_), Node::Folder(taken)) if !taken.cached.is_empty() => {
            Err(io::ErrorKind::DirectoryNotEmpty.into())
        }
        _ => Ok(()),
    }
}

impl Storage for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change(Call::at(Operation::CreateDir, path), |state| match state.find(path) {
            Ok(node) => match state.node(node) {
                Some(Node::Folder(_)) => Ok(()),
                _ => Err(io::ErrorKind::AlreadyExists.into()),
            },
            Err(_) => state.add(path, Node::Folder(Folder::default())).map(|_| ()),
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.look(Call::at(Operation::List, path), |state, _| {
            let node = state.find(path)?;
            let Some(Node::Folder(folder)) = state.node(node) else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            let entry = |(name, node): (&String, &usize)| {
                let is_file = matches!(state.node(*node), Some(Node::File(_)));
                let kind = if is_file { EntryKind::File } else { EntryKind::Folder };
                Entry { name: name.clone(), kind }
            };
            Ok(folder.cached.iter().map(entry).collect())
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let (mut made, mut boot) = (None, 0);
        self.change(Call::at(Operation::Create, path), |state| {
            made = Some(state.add(path, Node::File(FileImage::default()))?);
            boot = state.boot;
            Ok(())
        })?;
        let node = made.ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(path, node, boot, Access::ReadWrite))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let (node, boot) = self.look(Call::at(Operation::Open, path), |state, boot| {
            let node = state.find(path)?;
            match (state.image(node), access) {
                (Ok(file), Access::ReadWrite) if file.is_read_only => {
                    Err(io::ErrorKind::PermissionDenied.into())
                }
                (Err(error), Access::ReadWrite) => Err(error),
                // A folder can be opened for reading; reading from it fails.
                _ => Ok((node, boot)),
            }
        })?;
        Ok(self.handle(path, node, boot, access))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let call = Call { to: Some(to), ..Call::at(Operation::Rename, from) };
        self.change(call, |state| {
            let node = state.find(from)?;
            match state.find(to) {
                Ok(taken) if taken == node => return Ok(()),
                Ok(taken) => {
                    if let (Some(from), Some(to)) = (state.node(node), state.node(taken)) {
                        may_replace(from, to)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let (_, old) = state.parent(from)?;
            let (folder, new) = state.parent(to)?;
            folder.change(Some(&old), Some((&new, node)));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(Call::at(Operation::Remove, path), |state| {
            state.find(path).and_then(|node| state.image(node).map(|_| ()))?;
            let (folder, name) = state.parent(path)?;
            folder.change(Some(&name), None);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(Call::at(Operation::RemoveDir, path), |state| {
            let node = state.find(path)?;
            if !state.folder(node)?.cached.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (folder, name) = state.parent(path)?;
            folder.change(Some(&name), None);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let boot = state.boot;
        let call = Call::at(Operation::SyncDir, path);
        let action = state.call(boot, call)?;
        state.changes += 1;
        if action == Some(FaultAction::LyingSync) {
            state.note(call, InjectedKind::LyingSync);
        } else if takes_effect(action.as_ref()) {
            let node = state.find(path)?;
            state.folder(node)?;
            state.sync(node)?;
        }
        check(action.as_ref())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        self.look(Call::at(Operation::Lock, path), |state, boot| {
            let node = if let Ok(node) = state.find(path) {
                state.image(node).map(|_| node)?
            } else {
                state.changes += 1;
                state.add(path, Node::File(FileImage::default()))?
            };
            if let Some(holder) = state.locks.get(&node) {
                return Ok(LockOutcome::HeldBy(holder.clone()));
            }
            state.locks.insert(node, holder.to_owned());
            Ok(LockOutcome::Acquired(Box::new(SimLock { disk: self.clone(), node, boot })))
        })
    }

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        self.look(Call::at(Operation::FilesystemKind, path), |state, _| Ok(state.filesystem))
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
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.disk.state();
        let call = Call { node: Some(self.node), ..Call::at(Operation::LockCheck, path) };
        check(state.call(self.boot, call)?.as_ref())?;
        match state.find(path) {
            Ok(node) => Ok(node == self.node),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
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
