//! Rotation: making everything durable and continuing in a new segment.

use crate::error::Result;
use crate::format::SegmentHeader;
use crate::log::folder::DATA_START;
use crate::log::options::BackgroundWork;
use crate::log::segment::{
    ActiveSegment, ChainCheck, CreateError, WritePosition, next_header, seal,
};

use super::batch::Durability;
use super::group_commit::{FlushGuard, HeadSyncDue, StopReason};
use super::shared::{SharedWriter, StateGuard};
use super::state::{FlushState, SealTask, WriterStatus};

impl SharedWriter {
    /// Make everything pending durable, then continue in a new segment with room for `needed`
    /// bytes. If the disk is full, nothing has changed.
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
        let mut header = self.next_header(&previous, &position, needed, time);
        let next = position.ack.seq + 1;
        let file = match self.create_next_segment(&mut header, needed) {
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
                let unsealed = self.seal_inline(task);
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
}
