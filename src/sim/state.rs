//! Everything about the machine: files, folders, plans.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::fault::{Call, Effect, Failure, Fault, OsError, Rule};
use super::file::FileImage;
use super::folder::Folder;
use super::image::widen;
use super::injected::{Injected, What};
use super::loss::{Fates, Loss, Profile};
use super::random::Random;
use crate::format::ContentHasher;
use crate::storage::Medium;

const ROOT: usize = 0;
/// Names of file systems are not longer.
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
    /// How many of them may have changed something.
    pub(super) changes: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) rules: Vec<Rule>,
    pub(super) injected: Vec<Injected>,
    pub(super) delay: Duration,
    pub(super) profile: Profile,
    pub(super) capacity: u64,
    pub(super) is_down: bool,
    /// How often the process was started: files and locks of an earlier one are void.
    pub(super) boot: u64,
    pub(super) locks: BTreeMap<usize, String>,
    /// What kind of file system it claims to be.
    pub(super) medium: Medium,
    /// The number of the process that uses it.
    pub(super) process: u32,
    /// A number that the user keeps here, so that forks and images have it too.
    pub(super) mark: u64,
    /// The machine before each change since the film was begun, if one was.
    pub(super) film: Option<Vec<State>>,
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
            medium: Medium::Local,
            process: 1,
            mark: 0,
            film: None,
        }
    }
}

impl State {
    /// Count a call of the process that was started as `boot`; how it fails, if it is to.
    pub(super) fn call(&mut self, boot: u64, call: Call<'_>) -> io::Result<Option<Failure>> {
        if self.is_down || boot != self.boot {
            return Err(io::Error::other("the simulated machine is down"));
        }
        self.expose();
        self.calls += 1;
        if self.crash_at.is_some_and(|at| at <= self.calls) {
            self.is_down = true;
            self.note(call, What::Stopped);
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        let fault = self.faults.iter().find(|fault| fault.call == self.calls);
        let mut failure =
            fault.map(|fault| Failure::Error(OsError::Other(fault.kind), fault.effect));
        for struck in self.struck(call) {
            match struck {
                Failure::Slow(delay) => {
                    self.delay += delay;
                    self.note(call, What::Slow(delay));
                }
                Failure::Rot(seed) => {
                    let node = call.node.map_or_else(|| self.find(call.path), Ok);
                    if let Ok(node) = node {
                        self.rot(node, seed, Some(call));
                    }
                }
                other => failure = failure.or(Some(other)),
            }
        }
        if let Some(Failure::Error(error, effect)) = failure {
            self.note(call, What::Failed { error, effect });
            if let Effect::CrashIn(calls) = effect {
                self.crash_at = Some(self.calls.saturating_add(calls));
            }
        }
        Ok(failure)
    }

    /// A copy without the film.
    pub(super) fn copy(&mut self) -> Self {
        let film = self.film.take();
        let copy = self.clone();
        self.film = film;
        copy
    }

    /// Add a picture to the film, unless nothing can have changed since the last one.
    pub(super) fn expose(&mut self) {
        let Some(film) = &self.film else { return };
        let is_new = film.last().is_none_or(|last| {
            (last.changes, last.mark, last.boot) != (self.changes, self.mark, self.boot)
        });
        if is_new {
            let picture = self.copy();
            self.film.iter_mut().for_each(|film| film.push(picture.clone()));
        }
    }

    /// Give back what files take that no folder names, now or on the medium.
    pub(super) fn forget_nameless(&mut self) {
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

    /// Hash of everything that a power loss or a kill leaves to the next process.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = ContentHasher::default();
        self.digest_of(ROOT, &mut hasher);
        hasher.finish()
    }

    fn digest_of(&self, node: usize, hasher: &mut ContentHasher) {
        match self.node(node) {
            Some(Node::Folder(folder)) => {
                hasher.update(&widen(folder.now.len()).to_le_bytes());
                hasher.update(&widen(folder.unsynced()).to_le_bytes());
                for (name, node) in &folder.now {
                    hasher.update(&widen(name.len()).to_le_bytes());
                    hasher.update(name.as_bytes());
                    self.digest_of(*node, hasher);
                }
            }
            Some(Node::File(file)) => file.digest(hasher),
            None => {}
        }
    }

    /// What the rules have in mind for a call, which they count.
    fn struck(&mut self, call: Call<'_>) -> Vec<Failure> {
        let mut rules = std::mem::take(&mut self.rules);
        let mut struck = Vec::new();
        for rule in &mut rules {
            let is_kind = rule.operation.is_none_or(|operation| operation == call.operation);
            let is_place = rule.path.as_deref().is_none_or(|path| {
                path == call.path
                    || call.to == Some(path)
                    || call.node.is_some_and(|node| self.find(path).is_ok_and(|it| it == node))
            });
            if is_kind && is_place && rule.strikes() {
                struck.push(rule.failure.clone());
            }
        }
        rules.retain(|rule| rule.nth > 0);
        self.rules = rules;
        struck
    }

    /// Note what was done to a call.
    pub(super) fn note(&mut self, call: Call<'_>, what: What) {
        let (operation, path) = (Some(call.operation), call.path.to_owned());
        self.injected.push(Injected { call: self.calls, operation, path, what });
    }

    /// Note what was done to a file or to the machine.
    pub(super) fn note_of(&mut self, path: &Path, what: What) {
        let (call, path) = (self.calls, path.to_owned());
        self.injected.push(Injected { call, operation: None, path, what });
    }

    /// Turn a bit of a file on the medium, if it has any.
    pub(super) fn rot(&mut self, node: usize, seed: u64, call: Option<Call<'_>>) {
        let Ok(file) = self.file(node) else { return };
        let Some((offset, bit)) = file.rot(&mut Random(seed)) else { return };
        let path = call.map_or_else(|| self.path_of(node), |call| call.path.to_owned());
        self.injected.push(Injected {
            call: self.calls,
            operation: call.map(|call| call.operation),
            path,
            what: What::Rot { offset, bit },
        });
    }

    pub(super) fn kill(&mut self) {
        self.note_of(Path::new(""), What::Killed);
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
        let mut fates = Fates::new(loss, self.profile);
        let mut harmed = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            match &**node {
                Node::Folder(folder) if folder.unsynced() == 0 => continue,
                Node::File(file) if file.is_safe() => continue,
                _ => {}
            }
            match Arc::make_mut(node) {
                Node::Folder(folder) => folder.lose(&mut fates),
                Node::File(file) => {
                    harmed.extend(file.lose(&mut fates).into_iter().map(|range| (number, range)));
                }
            }
        }
        let (kept, profile) = (fates.kept, self.profile);
        let what = What::PowerLoss { loss, profile, kept, lost: fates.lost() };
        self.note_of(Path::new(""), what);
        for (number, range) in harmed {
            let path = self.path_of(number);
            self.note_of(&path, What::Spread(range));
        }
        self.restart();
    }

    /// A sync of a file or folder that does what it says.
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
                && !file.is_safe()
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
            at = *folder.now.get(&*name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node).map(|node| &**node)
    }

    /// The path of a file as it looks; its number in words if it has none any more.
    pub(super) fn path_of(&self, node: usize) -> PathBuf {
        let files = self.files(Path::new("/"));
        let path = files.into_iter().find(|path| self.find(path).is_ok_and(|it| it == node));
        path.unwrap_or_else(|| format!("(file {node}, which has no name)").into())
    }

    /// The folder that a path's last name is in, and that name.
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

    /// A file to look at.
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

    /// Make a node and give it a name that is free.
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let number = self.nodes.len();
        let (folder, name) = self.parent(path)?;
        if name.len() > NAME_LENGTH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        if folder.now.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        folder.change(None, Some((&name, number)));
        self.nodes.push(Arc::new(node));
        Ok(number)
    }

    pub(super) fn files(&self, below: &Path) -> Vec<PathBuf> {
        match self.find(below).ok().and_then(|node| self.node(node)) {
            Some(Node::Folder(folder)) => {
                folder.now.keys().flat_map(|name| self.files(&below.join(name))).collect()
            }
            Some(Node::File(_)) => vec![below.to_owned()],
            None => Vec::new(),
        }
    }

    /// How many bytes are still free.
    pub(super) fn room(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let files = self.files(Path::new(""));
        let length = |path: &PathBuf| {
            self.find(path).and_then(|node| self.image(node)).map_or(0, |file| file.now.length)
        };
        self.capacity.saturating_sub(files.iter().map(length).sum())
    }
}
