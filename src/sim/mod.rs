//! A disk in memory that forgets what was not synced: for crash tests of the engine, and of
//! harnesses that are built on it.
//!
//! What it models:
//! - Every call of `Storage` and `StorageFile` is counted. The machine can stop before any of
//!   them ([`SimDisk::crash_at`]); each later call fails until [`SimDisk::lose_power`] or
//!   [`SimDisk::kill_process`] has brought it up again. Locks end with the process, and so do
//!   open files. A process that was killed leaves the cache as it is, bytes that no sync will
//!   ever write included.
//! - Bytes, a file's length and a folder's names are each kept twice: as they look, and as they
//!   are on the medium. A power loss ([`Loss`]) keeps any part of the difference, as far as the
//!   device allows ([`Profile`]): of each write none, all, a prefix, any sectors, any bytes, or
//!   garbage where it was to be; of a file's lengths any that it had; each new, moved or removed
//!   name or not.
//! - Any call can fail ([`SimDisk::fail_at`], [`SimDisk::inject`]) with no, part of or all of its
//!   effect. A sync that fails leaves the bytes in the cache and marks them clean, or forgets
//!   them, or leaves them to the next sync shortly before the machine stops. A sync of a folder
//!   that fails leaves its names to the next one.
//! - A full disk ([`SimDisk::limit`]): a write does as much as fits, and fails.
//! - Sectors that cannot be read ([`SimDisk::spoil`]), for ever.
//! - Whatever is done to the user is noted in order ([`SimDisk::injected`]).
//!
//! What an engine may rely on, with each profile but the last, as long as nothing that was
//! injected is a violation:
//! - What a sync that returned `Ok` was for survives, unless an earlier sync of that file failed;
//!   bytes that no write was to touch survive whatever happens to their neighbours.
//! - A rename is atomic. Other than that nothing is known of names before `sync_dir`.
//! - A call that fails may have had any effect; a read that works gives what is there.
//!
//! What breaks this contract ([`Injected::is_violation`]): syncs that lie, writes that are lost or
//! go astray, bits that rot, reads that are short, devices that harm the neighbours of a write
//! ([`Profile::NonPsow`]). No engine can keep its promises then; a good one says what is missing
//! or refuses to go on, and it never makes anything up.
//!
//! The same calls and the same seeds give the same bytes. A fork shares what it does not change.
//!
//! Left out on purpose: writes that land after a later sync, an order among names, garbage in a
//! page of which zero is all that was ever written (so that a new segment costs nothing), users,
//! links, the text of a lock file, and renames between folders.

mod disk;
mod fault;
mod file;
mod folder;
mod handle;
mod image;
mod injected;
mod loss;
mod random;
mod state;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use fault::{Effect, Failure, Fault, Operation, OsError, Rule, Times};
pub use injected::{Injected, What};
pub use loss::{Loss, Profile};

pub(crate) use random::Random;
use state::State;

use crate::storage::Medium;

/// A simulated disk. Clones are handles of the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

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
        Self(Arc::new(Mutex::new(self.state().copy())))
    }

    /// Keep a picture of the machine as it is before each call that finds it changed, from now
    /// on: where a crash leaves another disk than the crash before.
    pub fn begin_film(&self) {
        self.state().film = Some(Vec::new());
    }

    /// End the film, and take its pictures, the last one being of now. Each of them is a disk of
    /// its own, as it was before a call, with its open files and what was not synced.
    #[must_use]
    pub fn end_film(&self) -> Vec<Self> {
        let mut state = self.state();
        state.expose();
        let film = state.film.take().unwrap_or_default();
        film.into_iter().map(|picture| Self(Arc::new(Mutex::new(picture)))).collect()
    }

    /// Keep a number for the user, which forks and pictures take along: how far things had got.
    pub fn set_mark(&self, mark: u64) {
        self.state().mark = mark;
    }

    /// The number that was kept.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.state().mark
    }

    /// Forget what was done so far, and the files that have no name any more: for long histories,
    /// between two processes.
    pub fn forget_story(&self) {
        let mut state = self.state();
        state.injected.clear();
        state.forget_nameless();
    }

    /// Forget every plan: no crash, no failure and no limit is to come. What was done stays done.
    pub fn calm(&self) {
        let mut state = self.state();
        state.crash_at = None;
        state.faults.clear();
        state.rules.clear();
        state.capacity = u64::MAX;
    }

    /// Hash of all files and folders, of what is not synced, and of what cannot be read. Disks
    /// with the same hash on which all is synced behave the same. This is no call of the disk.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.state().digest()
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

    /// Let calls fail, or lie, as a rule says. Rules count and apply one by one; of several that
    /// strike the same call, the first decides, apart from [`Failure::Slow`] and
    /// [`Failure::Rot`], which leave the call to the others.
    pub fn inject(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// How many rules may still strike: those of one call that was made are gone.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.state().rules.len()
    }

    /// What was done to the user of this disk and of those that it was forked from, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.state().injected.clone()
    }

    /// For how long slow calls would have kept their callers.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.state().delay
    }

    /// How many bytes all files together may have.
    pub fn limit(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Claim to be that kind of file system.
    pub fn claim(&self, medium: Medium) {
        self.state().medium = medium;
    }

    /// From now on be such a device.
    pub fn become_device(&self, profile: Profile) {
        self.state().profile = profile;
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
        self.state().kill();
    }

    /// Take the power away and start again. Plans for later calls stay.
    pub fn lose_power(&self, loss: Loss) {
        self.state().lose_power(loss);
    }

    /// Read back from the medium what is in the cache and not about to be written: damage that
    /// the cache hid shows.
    pub fn drop_cache(&self) {
        self.state().drop_cache();
    }

    /// Turn a bit of a file on the medium, which the seed chooses; a file without bytes has
    /// none. It shows when the cache is lost. This is no call of the disk.
    pub fn rot(&self, path: &Path, seed: u64) -> io::Result<()> {
        let mut state = self.state();
        let node = state.find(path)?;
        state.file(node)?;
        state.rot(node, seed, None);
        Ok(())
    }

    /// Let the sectors of a range of a file be unreadable for ever: `EIO`. This is no call of
    /// the disk.
    pub fn spoil(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        self.state().file_at(path)?.spoil(&range);
        Ok(())
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
        file.overwrite(offset, bytes);
        Ok(())
    }

    /// Change the length of a file behind everybody's back, durably; what is added is zero. This
    /// is no call of the disk.
    pub fn set_length(&self, path: &Path, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        file.force_length(length);
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
