//! The state of the simulated machine: files, folders, processes, planned faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::fault::{Call, Fault, FaultAction, FaultEffect, FaultRule, OsError};
use super::file::FileImage;
use super::folder::Folder;
use super::injected::{InjectedFault, InjectedKind};
use super::loss::{Loss, LossPlan, Profile};
use super::random::Random;
use crate::format::{ContentHasher, to_u64};
use crate::storage::FilesystemKind;

const ROOT: usize = 0;
/// The longest file name.
const NAME_LENGTH_MAX: usize = 255;

#[derive(Debug, Clone)]
pub(super) enum Node {
    Folder(Folder),
    File(FileImage),
}

#[derive(Debug, Clone)]
pub(super) struct State {
    /// Shared with other disks until one of them changes it.
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) calls: u64,
    /// The number of calls that may have changed something.
    pub(super) changes: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) rules: Vec<FaultRule>,
    pub(super) injected: Vec<InjectedFault>,
    pub(super) delay: Duration,
    pub(super) profile: Profile,
    pub(super) capacity: u64,
    pub(super) is_down: bool,
    /// The number of process starts. Files and locks of an earlier process are invalid.
    pub(super) boot: u64,
    pub(super) locks: BTreeMap<usize, String>,
    /// The reported class of file system.
    pub(super) filesystem: FilesystemKind,
    /// The id of the process that uses the disk.
    pub(super) process: u32,
    /// A number that the user sets and that copies keep.
    pub(super) mark: u64,
    /// The crash points so far, while recording.
    pub(super) recording: Option<Vec<State>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            nodes: vec![Arc::new(Node::Folder(Folder::default()))],
            calls: 0,
            changes: 0,
            crash_at: None,
            faults: Vec::new(),
            rules: Vec::new(),
            injected: Vec::new(),
            delay: Duration::ZERO,
            profile: Profile::default(),
            capacity: u64::MAX,
            is_down: false,
            boot: 0,
            locks: BTreeMap::new(),
            filesystem: FilesystemKind::Local,
            process: 1,
            mark: 0,
            recording: None,
        }
    }
}

impl State {
    /// Count a call of the process with start number `boot`. Returns the injected action, if any.
    pub(super) fn call(&mut self, boot: u64, call: Call<'_>) -> io::Result<Option<FaultAction>> {
        if self.is_down || boot != self.boot {
            return Err(io::Error::other("the simulated machine is down"));
        }
        self.record_crash_point();
        self.calls += 1;
        if self.crash_at.is_some_and(|at| at <= self.calls) {
            self.is_down = true;
            self.note(call, InjectedKind::Stopped);
            return Err(io::Error::other("the simulated machine stopped"));
        }
        let fault = self.faults.iter().find(|fault| fault.call == self.calls);
        let mut action =
            fault.map(|fault| FaultAction::Error(OsError::Other(fault.kind), fault.effect));
        for applied in self.apply_rules(call) {
            match applied {
                FaultAction::Slow(delay) => {
                    self.delay += delay;
                    self.note(call, InjectedKind::Slow(delay));
                }
                FaultAction::BitRot(seed) => {
                    let node = call.node.map_or_else(|| self.find(call.path), Ok);
                    if let Ok(node) = node {
                        self.flip_bit(node, seed, Some(call));
                    }
                }
                other => action = action.or(Some(other)),
            }
        }
        if let Some(FaultAction::Error(error, effect)) = action {
            self.note(call, InjectedKind::Failed { error, effect });
            if let FaultEffect::CrashIn(calls) = effect {
                self.crash_at = Some(self.calls.saturating_add(calls));
            }
        }
        Ok(action)
    }

    /// A copy without the recorded crash points.
    pub(super) fn copy(&mut self) -> Self {
        let recording = self.recording.take();
        let copy = self.clone();
        self.recording = recording;
        copy
    }

    /// Record a crash point, unless no call since the last one can have changed the disk.
    pub(super) fn record_crash_point(&mut self) {
        let Some(points) = &self.recording else { return };
        let is_new = points.last().is_none_or(|last| {
            (last.changes, last.mark, last.boot) != (self.changes, self.mark, self.boot)
        });
        if is_new {
            let point = self.copy();
            self.recording.iter_mut().for_each(|points| points.push(point.clone()));
        }
    }

    /// Free the files that no entry names, cached or durable.
    pub(super) fn free_deleted(&mut self) {
        let mut named = BTreeSet::from([ROOT]);
        for node in &self.nodes {
            if let Node::Folder(folder) = &**node {
                named.extend(folder.nodes());
            }
        }
        let nothing = Arc::new(Node::File(FileImage::default()));
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if !named.contains(&number) {
                *node = Arc::clone(&nothing);
            }
        }
    }

    /// Hash of everything that the next process can observe.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = ContentHasher::default();
        self.digest_of(ROOT, &mut hasher);
        hasher.finish()
    }

    fn digest_of(&self, node: usize, hasher: &mut ContentHasher) {
        match self.node(node) {
            Some(Node::Folder(folder)) => {
                hasher.update(&to_u64(folder.cached.len()).to_le_bytes());
                hasher.update(&to_u64(folder.unsynced()).to_le_bytes());
                for (name, node) in &folder.cached {
                    hasher.update(&to_u64(name.len()).to_le_bytes());
                    hasher.update(name.as_bytes());
                    self.digest_of(*node, hasher);
                }
            }
            Some(Node::File(file)) => file.digest(hasher),
            None => {}
        }
    }

    /// Count a call in every rule. Returns the actions that apply.
    fn apply_rules(&mut self, call: Call<'_>) -> Vec<FaultAction> {
        let mut rules = std::mem::take(&mut self.rules);
        let mut actions = Vec::new();
        for rule in &mut rules {
            let is_operation = rule.operation.is_none_or(|operation| operation == call.operation);
            let is_path = rule.path.as_deref().is_none_or(|path| {
                path == call.path
                    || call.to == Some(path)
                    || call.node.is_some_and(|node| self.find(path).is_ok_and(|it| it == node))
            });
            if is_operation && is_path && rule.applies_next() {
                actions.push(rule.action.clone());
            }
        }
        rules.retain(|rule| rule.nth > 0);
        self.rules = rules;
        actions
    }

    /// Log a fault of a call.
    pub(super) fn note(&mut self, call: Call<'_>, kind: InjectedKind) {
        let (operation, path) = (Some(call.operation), call.path.to_owned());
        self.injected.push(InjectedFault { call: self.calls, operation, path, kind });
    }

    /// Log a fault of a file, or of the machine.
    pub(super) fn note_of(&mut self, path: &Path, kind: InjectedKind) {
        let (call, path) = (self.calls, path.to_owned());
        self.injected.push(InjectedFault { call, operation: None, path, kind });
    }

    /// Flip a durable bit of a file, if it has any.
    pub(super) fn flip_bit(&mut self, node: usize, seed: u64, call: Option<Call<'_>>) {
        let Ok(file) = self.file(node) else { return };
        let Some((offset, bit)) = file.flip_bit(&mut Random(seed)) else { return };
        let path = call.map_or_else(|| self.path_of(node), |call| call.path.to_owned());
        self.injected.push(InjectedFault {
            call: self.calls,
            operation: call.map(|call| call.operation),
            path,
            kind: InjectedKind::BitRot { offset, bit },
        });
    }

    pub(super) fn kill(&mut self) {
        self.note_of(Path::new(""), InjectedKind::Killed);
        self.restart();
    }

    fn restart(&mut self) {
        if std::mem::take(&mut self.is_down) {
            self.crash_at = None;
        }
        self.locks.clear();
        self.boot += 1;
    }

    pub(super) fn unsynced(&self) -> usize {
        let count = |node: &Arc<Node>| match &**node {
            Node::Folder(folder) => folder.unsynced(),
            Node::File(file) => file.unsynced(self.profile),
        };
        self.nodes.iter().map(count).sum()
    }

    pub(super) fn lose_power(&mut self, loss: Loss) {
        let mut plan = LossPlan::new(loss, self.profile);
        let mut damaged = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            match &**node {
                Node::Folder(folder) if folder.unsynced() == 0 => continue,
                Node::File(file) if file.is_durable() => continue,
                _ => {}
            }
            match Arc::make_mut(node) {
                Node::Folder(folder) => folder.apply_loss(&mut plan),
                Node::File(file) => {
                    damaged.extend(
                        file.apply_loss(&mut plan).into_iter().map(|range| (number, range)),
                    );
                }
            }
        }
        let (kept, profile) = (plan.kept, self.profile);
        let kind = InjectedKind::PowerLoss { loss, profile, kept, lost: plan.lost() };
        self.note_of(Path::new(""), kind);
        for (number, range) in damaged {
            let path = self.path_of(number);
            self.note_of(&path, InjectedKind::CollateralDamage(range));
        }
        self.restart();
    }

    /// A successful sync of a file or folder.
    pub(super) fn sync(&mut self, node: usize) -> io::Result<()> {
        if let Some(Node::Folder(_)) = self.node(node) {
            self.folder(node)?.sync();
        } else {
            self.file(node)?.sync();
        }
        Ok(())
    }

    pub(super) fn drop_cache(&mut self) {
        for node in &mut self.nodes {
            if let Node::File(file) = &**node
                && !file.is_durable()
                && let Node::File(file) = Arc::make_mut(node)
            {
                file.drop_cache();
            }
        }
    }

    /// The node at a path.
    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        let mut at = ROOT;
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name.to_string_lossy(),
                Component::ParentDir => return Err(io::ErrorKind::Unsupported.into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            };
            let Some(Node::Folder(folder)) = self.node(at) else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            if name.len() > NAME_LENGTH_MAX {
                return Err(io::ErrorKind::InvalidFilename.into());
            }
            at = *folder.cached.get(&*name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node).map(|node| &**node)
    }

    /// The path of a file, or its number if it was deleted.
    pub(super) fn path_of(&self, node: usize) -> PathBuf {
        let files = self.files(Path::new("/"));
        let path = files.into_iter().find(|path| self.find(path).is_ok_and(|it| it == node));
        path.unwrap_or_else(|| format!("(deleted file {node})").into())
    }

    /// The parent folder of a path, and the last name.
    pub(super) fn parent(&mut self, path: &Path) -> io::Result<(&mut Folder, String)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.find(path.parent().unwrap_or(Path::new("")))?;
        Ok((self.folder(parent)?, name.to_string_lossy().into_owned()))
    }

    pub(super) fn folder(&mut self, node: usize) -> io::Result<&mut Folder> {
        match self.nodes.get_mut(node).map(Arc::make_mut) {
            Some(Node::Folder(folder)) => Ok(folder),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn file(&mut self, node: usize) -> io::Result<&mut FileImage> {
        match self.nodes.get_mut(node).map(Arc::make_mut) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// A file, for reading.
    pub(super) fn image(&self, node: usize) -> io::Result<&FileImage> {
        match self.node(node) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_at(&mut self, path: &Path) -> io::Result<&mut FileImage> {
        let node = self.find(path)?;
        self.file(node)
    }

    /// Add a node under a free name.
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let number = self.nodes.len();
        let (folder, name) = self.parent(path)?;
        if name.len() > NAME_LENGTH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        if folder.cached.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        folder.change(None, Some((&name, number)));
        self.nodes.push(Arc::new(node));
        Ok(number)
    }

    pub(super) fn files(&self, below: &Path) -> Vec<PathBuf> {
        match self.find(below).ok().and_then(|node| self.node(node)) {
            Some(Node::Folder(folder)) => {
                folder.cached.keys().flat_map(|name| self.files(&below.join(name))).collect()
            }
            Some(Node::File(_)) => vec![below.to_owned()],
            None => Vec::new(),
        }
    }

    /// Free space, in bytes.
    pub(super) fn free_space(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let files = self.files(Path::new(""));
        let length = |path: &PathBuf| {
            self.find(path).and_then(|node| self.image(node)).map_or(0, |file| file.cached.length)
        };
        self.capacity.saturating_sub(files.iter().map(length).sum())
    }
}
