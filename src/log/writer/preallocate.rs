//! Preallocating the next segment, so that a rotation only writes its header.

use crate::error::Result;
use crate::format::SegmentHeader;
use crate::log::errors::fenced;
use crate::log::folder::DATA_START;
use crate::log::segment::{CreateError, SegmentDraft, create_segment};
use crate::storage::StorageFile;

use super::shared::SharedWriter;
use super::state::NextSegment;

impl SharedWriter {
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
                // Its disk space may be what the larger segment needs.
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
