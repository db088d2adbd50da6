//! Rotation: making everything durable and continuing in a new segment, which was preallocated if possible,
//! so that a rotation only writes its header.

use crate::error::Result;
use crate::format::SegmentHeader;
use crate::log::errors::fenced;
use crate::log::folder::DATA_START;
use crate::log::options::BackgroundWork;
use crate::log::segment::{
    ActiveSegment, ChainCheck, CreateError, SegmentDraft, WritePosition, create_segment,
    next_header, seal,
};
use crate::storage::StorageFile;

use super::batch::Durability;
use super::group_commit::{FlushGuard, HeadSyncDue, StopReason};
use super::shared::{SharedWriter, StateGuard};
use super::state::{FlushState, NextSegment, SealTask, WriterStatus};

impl SharedWriter {
    /// Make everything pending durable, then continue in a new segment with room for `needed`
    /// bytes, or in a longer one if this one has no record yet. If the disk is full, nothing has changed.
    pub(crate) fn rotate<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        needed: u64,
        time: u64,
    ) -> Result<StateGuard<'a>> {
        self.check_process()?;
        let is_durable = state.is_durable();
        let mut group = state.take_group();
        let flush = FlushGuard::begin(self, &mut state, FlushState::Rotating);
        drop(state);
        if is_durable {
            if let Err(why) = self.ownership.check() {
                return Err(self.stop(flush, StopReason::Fenced(why)).append_refusal());
            }
        } else {
            match self.write_group(&mut group, Durability::Sync) {
                Ok(head) => self.lock().publish(group, Durability::Sync, head),
                Err(stop) => return Err(self.stop(flush, stop).append_refusal()),
            }
        }
        let (previous, position, status) = {
            let state = self.lock();
            (state.active.header.clone(), state.durable, state.status.clone())
        };
        if status != WriterStatus::Open {
            return Err(self.stop(flush, StopReason::AlreadyStopped).append_refusal());
        }
        let next = position.ack.seq + 1;
        let is_empty = previous.base_seq == next && !mutant!(EmptySegmentRotated);
        let (header, created) = if is_empty {
            self.lengthen(&previous, needed)
        } else {
            let mut header = self.next_header(&previous, &position, needed, time);
            let created = self.create_next_segment(&mut header, needed);
            (header, created)
        };
        let file = match created {
            Ok(file) => file,
            Err(CreateError::BeforePublish(error)) => {
                drop(flush.finish(|_| {}));
                return Err(error);
            }
            Err(CreateError::OwnershipLost(why)) => {
                return Err(self.stop(flush, StopReason::Fenced(why)).append_refusal());
            }
            Err(CreateError::PublishUnknown(error)) => {
                return Err(self.stop(flush, StopReason::Failed(error)).flush_error(next, next));
            }
        };
        let start = WritePosition { end: DATA_START, ..position };
        let active = ActiveSegment { header, file: file.into() };
        match self.write_head(&active.header, &start, HeadSyncDue::Now) {
            // The successor is durable and HEAD is synced, so the old segment may be sealed.
            Ok(head) => {
                let task = SealTask { header: previous, successor: active.header.clone() };
                let unsealed = if is_empty { None } else { self.seal_inline(task) };
                Ok(flush.finish(|state| {
                    state.switch_to(active, DATA_START);
                    state.head = head;
                    state.to_seal.extend(unsealed);
                }))
            }
            Err(stop) => Err(self.stop(flush, stop).flush_error(next, next)),
        }
    }

    /// Seal a segment if no background thread does it; otherwise return it. The log is valid
    /// without the seal, and the next opening seals the segment.
    fn seal_inline(&self, task: SealTask) -> Option<SealTask> {
        match self.options.background_work {
            BackgroundWork::Inline => {
                self.seal(&task);
                None
            }
            BackgroundWork::Thread => Some(task),
        }
    }

    pub(crate) fn seal(&self, SealTask { header, successor }: &SealTask) {
        let (storage, streams) = (&*self.options.storage, self.options.stream_rule);
        let _ = seal(storage, &self.paths, streams, header, successor, ChainCheck::Trust);
    }

    fn next_header(
        &self,
        previous: &SegmentHeader,
        last: &WritePosition,
        needed: u64,
        time: u64,
    ) -> SegmentHeader {
        SegmentHeader {
            writer_epoch: self.ownership.epoch,
            created: time.max(last.time),
            prealloc_len: self.options.segments.size_for(previous.prealloc_len * 2, needed),
            ..next_header(previous, self.options.uids.next(), last.ack, last.end)
        }
    }

    /// Replace the active segment, which has no record, by a longer file with the same header: otherwise it would
    /// stay without records, and a store can have no such segment before others. HEAD names both files alike.
    fn lengthen(
        &self,
        empty: &SegmentHeader,
        needed: u64,
    ) -> (SegmentHeader, std::result::Result<Box<dyn StorageFile>, CreateError>) {
        let prealloc_len = self.options.segments.size_for(empty.prealloc_len, needed);
        let header = SegmentHeader { prealloc_len, ..empty.clone() };
        let publish_guard = || self.ownership.check().map_err(CreateError::OwnershipLost);
        let storage = &*self.options.storage;
        let created = create_segment(storage, &self.paths, &header, &publish_guard);
        (header, created)
    }

    /// Preallocate a segment. Only the background thread does this.
    pub(crate) fn preallocate(
        &self,
        ordinal: u64,
        length: u64,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<SegmentDraft> {
        self.ownership.check().map_err(|why| fenced(&why))?;
        SegmentDraft::preallocate(&*self.options.storage, &self.paths, ordinal, length, keep_going)
    }

    /// Create the segment that `header` describes, from the preallocated one if that has room for
    /// `needed` bytes.
    pub(crate) fn create_next_segment(
        &self,
        header: &mut SegmentHeader,
        needed: u64,
    ) -> std::result::Result<Box<dyn StorageFile>, CreateError> {
        let storage = &*self.options.storage;
        let publish_guard = || self.ownership.check().map_err(CreateError::OwnershipLost);
        let segment = {
            let mut state = self.lock();
            match std::mem::replace(&mut state.next_segment, NextSegment::None) {
                NextSegment::Ready(segment) => Some(segment),
                other => {
                    state.next_segment = other;
                    None
                }
            }
        };
        match segment {
            Some(mut segment) if segment.length() >= DATA_START + needed => {
                header.prealloc_len = segment.length();
                segment.publish(storage, &self.paths, header, &publish_guard)?;
                Ok(segment.into_file())
            }
            too_small => {
                // The larger segment may need its disk space.
                if let Some(segment) = too_small {
                    segment.discard(storage);
                }
                create_segment(storage, &self.paths, header, &publish_guard)
            }
        }
    }

    /// Remove a preallocated segment that is no longer needed.
    pub(crate) fn discard_preallocated(&self) {
        let preallocated = std::mem::replace(&mut self.lock().next_segment, NextSegment::None);
        // If the folder now belongs to another writer, the file of that name does too.
        if let NextSegment::Ready(segment) = preallocated
            && self.ownership.check().is_ok()
        {
            segment.discard(&*self.options.storage);
        }
    }
}
