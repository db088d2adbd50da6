//! The state that all threads of a log share, its locks, and how threads wait.
//!
//! Group commit: the first waiter becomes the leader; it writes and syncs everything pending and
//! wakes the waiters that it covered. Meanwhile other threads encode the next group, and one of
//! them leads it when the flush ends, after the woken threads had a moment to submit again. There
//! is no dedicated thread, and at most one sync of the log is in progress.
//!
//! Invariants:
//! - Lock order: HEAD, then the state. The state lock is never held during I/O.
//! - Every flush ends, because a panic in it poisons the log ([`super::group_commit::FlushGuard`]).
//!   So every waiter gets a result.
//! - A thread whose flush failed gets an error and does not retry.
//! - A ticket is acknowledged only if its last record is durable and HEAD covers it.

use std::sync::{Mutex as PlainMutex, PoisonError, TryLockError};

use crate::error::Result;
use crate::format::ChainKey;
use crate::log::errors::fenced;
use crate::log::folder::{FORKED, HeadFile, LedgerPaths, Ownership};
use crate::log::notes::LoggedRetentionNote;
use crate::log::options::LogOptions;
use crate::log::reader::LogReader;
use crate::log::segment::ResumeCache;

use super::state::{BackgroundState, WriterState};
use super::sync::{Condvar, Mutex, MutexGuard};
use super::waiters::{WaitFor, Wakeup};

/// The state that the threads of a log share.
#[derive(Debug)]
pub(crate) struct SharedWriter {
    pub(crate) options: LogOptions,
    pub(crate) paths: LedgerPaths,
    pub(crate) key: ChainKey,
    pub(crate) ownership: Ownership,
    pub(crate) head: Mutex<HeadFile>,
    state: Mutex<WriterState>,
    /// Wakes the background thread.
    pub(crate) background_wake: Condvar,
    /// Held while the keys of the last records are read.
    pub(crate) key_load: Mutex<()>,
    /// The newest retention note.
    pub(crate) retention: PlainMutex<Option<LoggedRetentionNote>>,
    /// Resume points for all readers.
    resume_cache: ResumeCache,
}

pub(crate) type StateGuard<'a> = MutexGuard<'a, WriterState>;

impl SharedWriter {
    pub(crate) fn new(
        options: LogOptions,
        paths: LedgerPaths,
        ownership: Ownership,
        head: HeadFile,
        state: WriterState,
        retention: Option<LoggedRetentionNote>,
        resume_cache: ResumeCache,
    ) -> Self {
        Self {
            key: ChainKey::new(&state.active.header.genesis),
            options,
            paths,
            ownership,
            head: Mutex::new(head),
            state: Mutex::new(state),
            background_wake: Condvar::new(),
            key_load: Mutex::new(()),
            retention: PlainMutex::new(retention),
            resume_cache,
        }
    }

    pub(crate) fn lock(&self) -> StateGuard<'_> {
        // A panic during a flush is recorded by its guard; a panic while encoding changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until a flush has ended that may have met the condition. A flush is in progress.
    pub(crate) fn wait_for_flush<'a>(
        &'a self,
        state: StateGuard<'a>,
        until: WaitFor,
    ) -> Result<StateGuard<'a>> {
        self.park(state, until)?;
        Ok(self.lock())
    }

    /// Wait as `wait_for_flush` does, without locking the state again.
    pub(crate) fn park(&self, mut state: StateGuard<'_>, until: WaitFor) -> Result<Wakeup> {
        let parker = state.register_waiter(until);
        drop(state);
        self.check_process()?;
        Ok(parker.park())
    }

    /// Wake the waiters that the current state covers, the next leader, and the background thread
    /// if it has work. The state may have changed when this returns.
    pub(crate) fn wake_waiters<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        if state.background == BackgroundState::Idle
            || state.segment_to_preallocate().is_some()
            || !state.to_seal.is_empty()
        {
            self.background_wake.notify_one();
        }
        let woken = state.take_woken();
        if woken.is_empty() {
            return state;
        }
        // While this thread holds the lock, each woken thread would block on it.
        drop(state);
        for (parker, why) in woken {
            parker.wake(why);
        }
        self.lock()
    }

    /// Lock the state in a process that may be a fork, where a held lock is never released. A free
    /// lock is taken without asking the system for the process id.
    pub(crate) fn enter(&self) -> Result<StateGuard<'_>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.check_process()?;
                Ok(self.lock())
            }
        }
    }

    /// Check this before anything is written or waited for: in a fork no other thread exists.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.ownership.is_own_process() { Ok(()) } else { Err(fenced(FORKED)) }
    }

    pub(crate) fn reader(&self) -> Result<LogReader> {
        let known = self.retention();
        let (storage, dir) = (&self.options.storage, self.paths.dir());
        let reader = LogReader::open_for_writer(storage, dir, known.as_ref(), &self.resume_cache)?;
        let own = self.enter()?.active.header.ledger;
        if reader.ledger_uid().is_some_and(|found| found != own) && !mutant!(LedgerUidUnchecked) {
            return Err(fenced(MOVED).at_path(dir));
        }
        Ok(reader)
    }

    /// The newest retention note.
    pub(crate) fn retention(&self) -> Option<LoggedRetentionNote> {
        self.retention.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const MOVED: &str = "another ledger is in place of the opened one: the folder was moved, or the \
                     working folder changed";
