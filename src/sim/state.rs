//! Everything about the machine: files, folders, plans.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::image::FileImage;
use super::{Fault, Loss};
use crate::storage::Medium;

const ROOT: usize = 0;

/// Names, as they look and as they are on the medium.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) now: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        if let Some((name, node)) = &self.added {
            names.insert(name.clone(), *node);
        }
    }
}

impl Folder {
    /// One atomic change: a name goes, a name comes, or both.
    pub(super) fn change(&mut self, removed: Option<&str>, added: Option<(&str, usize)>) {
        let change = Change {
            removed: removed.map(str::to_owned),
            added: added.map(|(name, node)| (name.to_owned(), node)),
        };
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.now.clone();
        self.unsynced.clear();
    }

    fn lose(&mut self, mut survives: impl FnMut() -> bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if survives() {
                change.apply(&mut self.durable);
            }
        }
        self.now = self.durable.clone();
    }
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Folder(Folder),
    File(FileImage),
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) nodes: Vec<Node>,
    pub(super) calls: u64,
    /// How many of them may have changed something.
    pub(super) changes: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) capacity: u64,
    pub(super) is_down: bool,
    /// How often the process was started: files and locks of an earlier one are void.
    pub(super) boot: u64,
    pub(super) locks: BTreeMap<usize, String>,
    /// What kind of file system it claims to be.
    pub(super) medium: Medium,
    /// The number of the process that uses it.
    pub(super) process: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            nodes: vec![Node::Folder(Folder::default())],
            calls: 0,
            changes: 0,
            crash_at: None,
            faults: Vec::new(),
            capacity: u64::MAX,
            is_down: false,
            boot: 0,
            locks: BTreeMap::new(),
            medium: Medium::Local,
            process: 1,
        }
    }
}

impl State {
    /// Count a call of the process that was started as `boot`; how it fails, if it is to.
    pub(super) fn call(&mut self, boot: u64) -> io::Result<Option<Fault>> {
        if self.is_down || boot != self.boot {
            return Err(io::Error::other("the simulated machine is down"));
        }
        self.calls += 1;
        if self.crash_at.is_some_and(|call| call <= self.calls) {
            self.is_down = true;
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        Ok(self.faults.iter().find(|fault| fault.call == self.calls).copied())
    }

    pub(super) fn restart(&mut self) {
        if std::mem::take(&mut self.is_down) {
            self.crash_at = None;
        }
        self.locks.clear();
        self.boot += 1;
    }

    pub(super) fn unsynced(&self) -> usize {
        let count = |node: &Node| match node {
            Node::Folder(folder) => folder.unsynced.len(),
            Node::File(file) => file.unsynced(),
        };
        self.nodes.iter().map(count).sum()
    }

    pub(super) fn lose_power(&mut self, loss: Loss) {
        let mut chance = Chance::new(loss);
        for node in &mut self.nodes {
            chance.write = None;
            match node {
                Node::Folder(folder) => folder.lose(|| chance.survives(None)),
                Node::File(file) => file.lose(|write| chance.survives(Some(write))),
            }
        }
        self.restart();
    }

    /// The node at a path.
    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                let name = name.to_string_lossy();
                at = match self.nodes.get(at) {
                    Some(Node::Folder(folder)) => {
                        *folder.now.get(&*name).ok_or(io::ErrorKind::NotFound)?
                    }
                    _ => return Err(io::ErrorKind::NotADirectory.into()),
                };
            }
        }
        Ok(at)
    }

    /// The folder that a path's last name is in, and that name.
    pub(super) fn parent(&mut self, path: &Path) -> io::Result<(&mut Folder, String)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.find(path.parent().unwrap_or(Path::new("")))?;
        Ok((self.folder(parent)?, name.to_string_lossy().into_owned()))
    }

    pub(super) fn folder(&mut self, node: usize) -> io::Result<&mut Folder> {
        match self.nodes.get_mut(node) {
            Some(Node::Folder(folder)) => Ok(folder),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn file(&mut self, node: usize) -> io::Result<&mut FileImage> {
        match self.nodes.get_mut(node) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_at(&mut self, path: &Path) -> io::Result<&mut FileImage> {
        let node = self.find(path)?;
        self.file(node)
    }

    /// Make a node and give it a name that is free.
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let number = self.nodes.len();
        let (folder, name) = self.parent(path)?;
        if folder.now.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        folder.change(None, Some((&name, number)));
        self.nodes.push(node);
        Ok(number)
    }

    pub(super) fn files(&self, below: &Path) -> Vec<PathBuf> {
        match self.find(below).ok().and_then(|node| self.nodes.get(node)) {
            Some(Node::Folder(folder)) => {
                folder.now.keys().flat_map(|name| self.files(&below.join(name))).collect()
            }
            Some(Node::File(_)) => vec![below.to_owned()],
            None => Vec::new(),
        }
    }

    /// How many bytes are still free.
    pub(super) fn room(&mut self) -> u64 {
        let mut used = 0;
        for path in self.files(Path::new("")) {
            used += self.file_at(&path).map_or(0, |file| file.now.length);
        }
        self.capacity.saturating_sub(used)
    }
}

/// A generator of numbers that the seed decides.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// The next number (splitmix64).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// What survives a power loss.
struct Chance {
    loss: Loss,
    random: Random,
    asked: u32,
    /// The write that is being judged, and what becomes of it: 0 lost, 1 kept, 2 some of it.
    write: Option<(u64, u64)>,
}

impl Chance {
    fn new(loss: Loss) -> Self {
        let seed = if let Loss::Some(seed) = loss { seed } else { 0 };
        Self { loss, random: Random(seed), asked: 0, write: None }
    }

    fn survives(&mut self, write: Option<u64>) -> bool {
        self.asked += 1;
        match self.loss {
            Loss::Everything => false,
            Loss::Nothing => true,
            Loss::AllBut(mask) => mask.checked_shr(self.asked - 1).unwrap_or(0) & 1 == 1,
            Loss::Some(_) => {
                let Some(write) = write else { return self.random.next() & 1 == 1 };
                let fate = match self.write {
                    Some((same, fate)) if same == write => fate,
                    _ => self.random.next() % 3,
                };
                self.write = Some((write, fate));
                if fate == 2 { self.random.next() & 1 == 1 } else { fate == 1 }
            }
        }
    }
}
