//! A disk in memory that forgets what was not synced: for crash tests of the engine, and of
//! harnesses that are built on it.
//!
//! What it models:
//! - Every call of `Storage` and `StorageFile` is counted. The machine can stop before any of
//!   them ([`SimDisk::crash_at`]); each later call fails until [`SimDisk::lose_power`] or
//!   [`SimDisk::kill_process`] has brought it up again. Locks end with the process, and so do
//!   open files.
//! - Bytes, a file's length and a folder's names are each kept twice: as they look, and as they
//!   are on the medium. A power loss keeps any part of the difference: of each write none, all or
//!   any of its 512-byte sectors; the length or not; each new, moved or removed name or not.
//! - Any call can fail once ([`SimDisk::fail_at`]), with no, part of or all of its effect. A sync
//!   that fails marks the pages clean: a later sync returns `Ok` and does not write them, unless
//!   they were written to again.
//! - A full disk ([`SimDisk::limit`]): a write does as much as fits, and fails.
//!
//! The same calls and the same seeds give the same bytes.
//!
//! Left out on purpose: torn bytes inside of a sector, writes that land after a later sync, writes
//! that were acknowledged and lost, damage that appears by itself (a test does it with
//! [`SimDisk::overwrite`]), time, permissions, links, the text of a lock file, and renames between
//! folders.

mod disk;
mod image;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use state::State;

use crate::storage::Medium;

/// A simulated disk. Clones are handles of the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which one, counted as [`SimDisk::calls`] does: the first call is 1.
    pub call: u64,
    /// What it says.
    pub kind: io::ErrorKind,
    /// What it does all the same.
    pub effect: Effect,
}

/// What a call that fails does all the same. Calls that only look have no effect in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing. A sync marks the pages clean, and nothing is on the medium.
    Nothing,
    /// A write does some of its sectors, which depends on the number; for other calls this is
    /// [`Effect::Nothing`].
    Part(u64),
    /// Everything.
    Everything,
}

/// What a power loss takes of the things that were not synced, in the order in which
/// [`SimDisk::unsynced`] counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    Everything,
    /// None of them.
    Nothing,
    /// All except those whose bit is set: for trying all ways when there are few of them.
    AllBut(u64),
    /// Of each write none, all or some of its sectors, and of the names some: as the seed says.
    Some(u64),
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State::default())))
    }

    /// Another disk with the same content, the same unsynced changes and the same plans.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state().clone())))
    }

    /// How many calls were made.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// How many of the calls may have changed something: crashes between two calls that only look
    /// leave the same disk.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Stop the machine before this call, counted from the first one ever.
    pub fn crash_at(&self, call: u64) {
        self.state().crash_at = Some(call);
    }

    /// Let a call fail.
    pub fn fail_at(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// How many bytes all files together may have.
    pub fn limit(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Claim to be that kind of file system.
    pub fn claim(&self, medium: Medium) {
        self.state().medium = medium;
    }

    /// From now on whoever asks is another process, as after a fork; nothing else changes.
    pub fn become_another_process(&self) {
        self.state().process += 1;
    }

    /// Whether the machine has stopped.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state().is_down
    }

    /// How many things a power loss can keep or lose now.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.state().unsynced()
    }

    /// End the process that uses the disk, and nothing else: what was written is seen. Files and
    /// locks that it held are void; plans for later calls stay.
    pub fn kill_process(&self) {
        self.state().restart();
    }

    /// Take the power away and start again. Plans for later calls stay.
    pub fn lose_power(&self, loss: Loss) {
        self.state().lose_power(loss);
    }

    /// The bytes of a file. This is no call of the disk: for tests and tools.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        Ok(file.now.read(0, usize::try_from(file.now.length).map_err(io::Error::other)?))
    }

    /// Change bytes of a file behind everybody's back, durably. This is no call of the disk.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        file.now.write(offset, bytes);
        file.durable.write(offset, bytes);
        Ok(())
    }

    /// Change the length of a file behind everybody's back, durably; what is added is zero. This
    /// is no call of the disk.
    pub fn set_length(&self, path: &Path, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        file.now.set_length(length);
        file.durable.set_length(length);
        Ok(())
    }

    /// All files below a folder. This is no call of the disk.
    #[must_use]
    pub fn files(&self, below: &Path) -> Vec<PathBuf> {
        self.state().files(below)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No invariant spans two calls, so a panic of another thread leaves a usable state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
