//! Flushing: writing and syncing a group of batches, and stopping the log if that fails.
//!
//! The order of a flush: write the bytes, sync them, pass them to the keeper (the copy in a store) if the log has one,
//! write HEAD, acknowledge. After a failed write or sync the state of the bytes is unknown, and a later success proves
//! nothing, because the page cache may have dropped them. So a flush is never retried.

use std::sync::PoisonError;

use crate::error::Error;
use crate::format::{Head, HeadState, HeadSync, SegmentHeader};
use crate::log::options::{Keeper, KeptGroup, NotKept};
use crate::log::segment::{WritePosition, head_content};

use super::batch::Durability;
use super::shared::{SharedWriter, StateGuard};
use super::state::{FlushState, Group, HeadDurability, WriterState, WriterStatus};
use super::sync::thread;

/// HEAD is synced at a commit whose time differs from that of the last sync by at least this many
/// microseconds. The absolute difference is used, because the clock may be set back.
const HEAD_SYNC_INTERVAL: u64 = 1_000_000;

/// How often the leader yields before it writes a group: a few microseconds on an idle machine.
const STRAGGLER_YIELDS: usize = 64;

/// Why the log stops.
#[derive(Debug)]
pub(crate) enum StopReason {
    /// A write or sync failed.
    Failed(Error),
    /// The right to write is lost.
    Fenced(String),
    /// The keeper does not have the group.
    NotKept(NotKept),
    /// Another thread has already stopped the log.
    AlreadyStopped,
}

/// A flush in progress. It ends when this is dropped, also after a panic.
pub(crate) struct FlushGuard<'a> {
    shared: &'a SharedWriter,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    Finished,
}

impl<'a> FlushGuard<'a> {
    pub(crate) fn begin(
        shared: &'a SharedWriter,
        state: &mut WriterState,
        flush: FlushState,
    ) -> Self {
        state.flush = flush;
        Self { shared, progress: Progress::Begun }
    }

    pub(crate) fn finish(mut self, change: impl FnOnce(&mut WriterState)) -> StateGuard<'a> {
        let shared = self.shared;
        let mut state = shared.lock();
        change(&mut state);
        state.flush = FlushState::Idle;
        self.progress = Progress::Finished;
        shared.wake_waiters(state)
    }
}

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        if self.progress == Progress::Begun {
            let mut state = self.shared.lock();
            state.stop(WriterStatus::Poisoned("a thread panicked during a flush".to_owned()));
            state.flush = FlushState::Idle;
            drop(self.shared.wake_waiters(state));
        }
    }
}

impl SharedWriter {
    /// Write the pending records and, with [`Durability::Sync`], make them durable. Precondition:
    /// no flush is in progress. On return the next leader may already be flushing. After an error
    /// the log has stopped, and the caller returns an error even if the state says otherwise:
    /// nothing is tried twice.
    pub(crate) fn commit<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        durability: Durability,
    ) -> std::result::Result<StateGuard<'a>, StateGuard<'a>> {
        let flush = FlushGuard::begin(self, &mut state, FlushState::Flushing);
        state = self.await_stragglers(state);
        let mut group = state.take_group();
        drop(state);
        match self.write_group(&mut group, durability) {
            Ok(head) => Ok(flush.finish(|state| state.publish(group, durability, head))),
            Err(stop) => Err(self.stop(flush, stop)),
        }
    }

    /// Yield a bounded number of times so that threads woken by the last flush can join this group:
    /// syncing a large group takes no longer than syncing a small one. No clock is read.
    fn await_stragglers<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        let expected = std::mem::take(&mut state.expected_records);
        for _ in 0..STRAGGLER_YIELDS {
            if state.pending() >= expected {
                break;
            }
            drop(state);
            thread::yield_now();
            state = self.lock();
        }
        state
    }

    pub(crate) fn write_group(
        &self,
        group: &mut Group,
        durability: Durability,
    ) -> std::result::Result<HeadDurability, StopReason> {
        self.begin_write(group)?;
        let (file, offset, name) = (group.file.clone(), group.offset, group.header.name());
        let io = |what, error| {
            let path = self.paths.segment(name);
            StopReason::Failed(Error::io(what, &path, error).at_offset(offset))
        };
        let bytes = group.stamp();
        mutant!(FailedRegionOverwritten => let _ = file.write_at(bytes, offset));
        if !bytes.is_empty() {
            file.write_at(bytes, offset).map_err(|error| io("write the records", error))?;
        }
        if durability == Durability::Buffered {
            return Ok(HeadDurability::Written);
        }
        mutant!(AckBeforeSync => return self.write_head(&group.header, &group.position, HeadSyncDue::ByMode));
        mutant!(HeadBeforeSync => let _ = self.write_head(&group.header, &group.position, HeadSyncDue::ByMode));
        mutant!(FailedSyncRetried => let _ = file.sync());
        if mutant!(KeptBeforeSync) {
            self.let_keep(group)?;
        }
        file.sync().map_err(|error| io("sync the records", error))?;
        mutant!(HeadBeforeKept => let _ = self.write_head(&group.header, &group.position, HeadSyncDue::ByMode));
        if !mutant!(KeptBeforeSync) {
            self.let_keep(group)?;
        }
        self.write_head(&group.header, &group.position, HeadSyncDue::ByMode)
    }

    /// Let the keeper have everything that is not acknowledged yet: the group, and records before it
    /// that were written without a sync.
    fn let_keep(&self, group: &Group) -> std::result::Result<(), StopReason> {
        let Some(keeper) = &self.options.keeper else { return Ok(()) };
        mutant!(AckBeforeKept => return Ok(()));
        let before = &group.durable;
        if group.position.ack.seq == before.ack.seq {
            return Ok(());
        }
        if before.end == group.offset || mutant!(BufferedNotKept) {
            return keep(&**keeper, group, group.bytes());
        }
        let length = usize::try_from(group.position.end - before.end).unwrap_or(usize::MAX);
        let mut frames = vec![0; length];
        let read = group.file.read_at(&mut frames, before.end);
        let path = self.paths.segment(group.header.name());
        let failed = |error| {
            let error = Error::io("read the records", &path, error).at_offset(before.end);
            StopReason::Failed(error)
        };
        let count = read.map_err(failed)?;
        if count != length {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        keep(&**keeper, group, &frames)
    }

    /// Check the right to write, and that no other thread has stopped the log meanwhile, so that an
    /// error that says "nothing was written" is true.
    fn begin_write(&self, group: &Group) -> std::result::Result<(), StopReason> {
        self.ownership.check().map_err(StopReason::Fenced)?;
        let mut state = self.lock();
        if state.status != WriterStatus::Open {
            return Err(StopReason::AlreadyStopped);
        }
        state.write_started_seq = group.position.ack.seq;
        Ok(())
    }

    /// Write the durable position to HEAD, and sync HEAD when it is due. The right to write is checked again, because
    /// the sync since the first check may have taken seconds, and the process may have been suspended for hours. If
    /// another writer took over before this check, it is detected here. A writer that takes over later finds the synced
    /// records in the file.
    pub(crate) fn write_head(
        &self,
        header: &SegmentHeader,
        position: &WritePosition,
        due: HeadSyncDue,
    ) -> std::result::Result<HeadDurability, StopReason> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = {
            let state = self.lock();
            if state.status != WriterStatus::Open {
                return Err(StopReason::AlreadyStopped);
            }
            state.caller_time
        };
        if !mutant!(TakeoverUnchecked) {
            self.ownership.check().map_err(StopReason::Fenced)?;
        }
        head.write(self.head_content(header, position, HeadState::Open))
            .map_err(StopReason::Failed)?;
        let is_due = (due == HeadSyncDue::Now && !mutant!(SealBeforeHeadSync))
            || self.options.head_sync == HeadSync::EveryCommit
            || clock.abs_diff(head.synced_at) >= HEAD_SYNC_INTERVAL;
        if !is_due {
            return Ok(HeadDurability::Written);
        }
        head.sync().map_err(StopReason::Failed)?;
        head.synced_at = clock;
        Ok(HeadDurability::Synced)
    }

    pub(crate) fn head_content(
        &self,
        header: &SegmentHeader,
        position: &WritePosition,
        state: HeadState,
    ) -> Head {
        let (epoch, mode) = (self.ownership.epoch, self.options.head_sync);
        head_content(header, epoch, position.ack, position.end, mode, state)
    }

    /// Sync HEAD while the log is idle. Only the background thread does this; a concurrent append writes and syncs its
    /// records in the meantime.
    pub(crate) fn sync_head(&self) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().status != WriterStatus::Open {
            return;
        }
        let synced = match self.ownership.check() {
            Ok(()) => head.sync().map_err(StopReason::Failed),
            Err(why) => Err(StopReason::Fenced(why)),
        };
        let mut state = self.lock();
        match synced {
            // HEAD is locked, so nothing was written to it since the sync.
            Ok(()) => {
                state.head = HeadDurability::Synced;
                head.synced_at = state.caller_time;
            }
            Err(StopReason::Failed(error)) => state.stop(WriterStatus::Poisoned(error.to_string())),
            Err(StopReason::Fenced(why)) => state.stop(WriterStatus::Fenced(why)),
            Err(StopReason::NotKept(_) | StopReason::AlreadyStopped) => {}
        }
        let content = self.poisoned_head(&state);
        drop(self.wake_waiters(state));
        if let Some(content) = content {
            let _ = head.write(content).and_then(|()| head.sync());
        }
    }

    /// End the last flush of the log.
    pub(crate) fn stop<'a>(&'a self, flush: FlushGuard<'a>, stop: StopReason) -> StateGuard<'a> {
        {
            let mut state = self.lock();
            match stop {
                StopReason::Failed(error) => state.stop(WriterStatus::Poisoned(error.to_string())),
                StopReason::Fenced(why) => state.stop(WriterStatus::Fenced(why)),
                StopReason::NotKept(why) => state.stop(WriterStatus::NotKept(why)),
                StopReason::AlreadyStopped => {}
            }
        }
        self.mark_poisoned();
        flush.finish(|_| {})
    }

    /// Mark HEAD as poisoned, if it can still be written.
    fn mark_poisoned(&self) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let content = self.poisoned_head(&self.lock());
        if let Some(content) = content
            && self.ownership.check().is_ok()
        {
            let _ = head.write(content).and_then(|()| head.sync());
        }
    }

    fn poisoned_head(&self, state: &WriterState) -> Option<Head> {
        let is_poisoned = matches!(state.status, WriterStatus::Poisoned(_));
        let (header, position) = (&state.active.header, &state.durable);
        is_poisoned.then(|| self.head_content(header, position, HeadState::Poisoned))
    }
}

/// Let the keeper have the frames after the durable end.
fn keep(keeper: &dyn Keeper, group: &Group, frames: &[u8]) -> std::result::Result<(), StopReason> {
    let WritePosition { ack, end, time } = group.durable;
    let (segment, end_seq) = (&group.header, group.position.ack.seq);
    let kept = KeptGroup {
        segment,
        offset: end,
        frames,
        last_seq: ack.seq,
        chain: ack.chain,
        time,
        end_seq,
    };
    keeper.keep(&kept).map_err(StopReason::NotKept)
}

/// When HEAD is synced after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadSyncDue {
    /// According to the mode.
    ByMode,
    Now,
}
