//! The segment that is made before it is needed, so that going on in a new one takes no longer
//! than writing its header.

use crate::error::Result;
use crate::format::SegmentHeader;
use crate::storage::StorageFile;

use super::build::{Blank, BuildError, build_blank, build_segment};
use super::engine::Engine;
use super::layout::DATA_START;
use super::queue::{Queue, Turn, fenced};

/// What there is of the next segment.
#[derive(Debug)]
pub(super) enum Prepared {
    /// Nothing.
    None,
    /// The thread is at it.
    Making,
    /// It could not be made while the segment with that ordinal was active.
    Refused(u64),
    /// A file of zeros.
    Ready(Blank),
}

impl Queue {
    /// The ordinal and length of the segment that should be prepared now. A segment that nobody
    /// has written much to may never be followed by another one, and nor may one of a log that was
    /// opened and not written to. While one takes its place, it may be the file that was prepared,
    /// under the very name that the next one would be given.
    pub(super) fn wants_segment(&self) -> Option<(u64, u64)> {
        if self.turn == Turn::Rotate && !bug!(PreparedTwice) {
            return None;
        }
        let header = &self.active.header;
        let is_missing = match &self.prepared {
            Prepared::None => true,
            Prepared::Making | Prepared::Ready(_) => false,
            Prepared::Refused(ordinal) => *ordinal != header.ordinal,
        };
        let is_soon = self.encoded.end - DATA_START >= (header.prealloc_len - DATA_START) / 4;
        let usual = header.prealloc_len.saturating_mul(2);
        let is_in_use = self.activity > 0;
        (is_missing && is_soon && is_in_use)
            .then(|| (header.ordinal + 1, self.sizes.fitting(usual, 0)))
    }
}

impl Engine {
    /// Make a segment ahead. Only the log's own thread does.
    pub(super) fn prepare(&self, wanted: (u64, u64), goes_on: &dyn Fn() -> bool) -> Result<Blank> {
        self.ownership.check().map_err(|why| fenced(&why))?;
        build_blank(&*self.options.storage, &self.layout, wanted, goes_on)
    }

    /// The segment that `header` describes: of the one that was prepared if it has
    /// room for `needed` bytes.
    pub(super) fn make_segment(
        &self,
        header: &mut SegmentHeader,
        needed: u64,
    ) -> std::result::Result<Box<dyn StorageFile>, BuildError> {
        let storage = &*self.options.storage;
        let may_name = || self.ownership.check().map_err(BuildError::NotOurs);
        let blank = {
            let mut queue = self.lock();
            match std::mem::replace(&mut queue.prepared, Prepared::None) {
                Prepared::Ready(blank) => Some(blank),
                other => {
                    queue.prepared = other;
                    None
                }
            }
        };
        match blank {
            Some(blank) if blank.length >= DATA_START + needed => {
                header.prealloc_len = blank.length;
                blank.become_segment(storage, &self.layout, header, &may_name)
            }
            small => {
                // Its room may be what the larger one needs.
                if let Some(blank) = small {
                    blank.discard(storage);
                }
                build_segment(storage, &self.layout, header, &may_name)
            }
        }
    }

    /// Remove what was prepared and is not needed any more.
    pub(super) fn discard_prepared(&self) {
        let prepared = std::mem::replace(&mut self.lock().prepared, Prepared::None);
        // In a folder that is not ours any more, the file of that name is not ours either.
        if let Prepared::Ready(blank) = prepared
            && self.ownership.check().is_ok()
        {
            blank.discard(&*self.options.storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::batch::Ack;
    use super::super::open::first_header;
    use super::super::options::{LogOptions, SegmentSizes, UidSource};
    use super::super::queue::{Active, Tip};
    use super::*;
    use crate::format::Chain;
    use crate::sim::SimDisk;
    use crate::storage::Storage as _;

    /// Goal: a log that is opened, and not written to, has no next segment made, however full the
    /// newest one is; one that is written to has, from a quarter on.
    #[test]
    fn a_segment_is_made_ahead_only_for_who_writes() {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/segment")).unwrap();
        let header = first_header(&LogOptions::new(Arc::new(disk), UidSource::new(|| [7; 16])), 5);
        let (length, ordinal) = (header.prealloc_len, header.ordinal);
        let active = Active { header, file: file.into() };
        let ack = Ack { seq: 9, chain: Chain::GENESIS };
        let at = |end| Tip { ack, end, time: 5 };
        let quarter = DATA_START + (length - DATA_START) / 4;
        for (end, activity, is_wanted) in
            [(quarter, 0, false), (length, 0, false), (quarter - 64, 1, false), (quarter, 1, true)]
        {
            let mut queue = Queue::new(active.clone(), at(end), SegmentSizes::USUAL);
            queue.activity = activity;
            let wanted = is_wanted.then_some((ordinal + 1, 2 * length));
            assert_eq!(queue.wants_segment(), wanted, "{end}, {activity}");
        }
    }
}
