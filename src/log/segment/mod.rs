//! One segment file: its header, frames, index and footer, and the list of all segments of a log.
//!
//! Reading goes from [`SegmentBytes`] (bytes) over [`Scan`] (checked frames) to [`SegmentCursor`]
//! (records, with damage reported and skipped). A segment is created in full before it gets its
//! name, and sealed with an index and a footer after a rotation.

mod active;
mod create;
mod cursor;
mod entry;
mod footer;
mod list;
mod manifest;
mod resume_cache;
mod scan;
mod seal;
mod start;

pub(crate) use active::{ActiveSegment, WritePosition, low_bits};
pub(crate) use create::{
    CREATION_EPOCH, CreateError, PreallocatedSegment, PublishGuard, create_segment,
    create_segment_with, first_header, open_segment, preallocate_segment, write,
};
pub(crate) use cursor::{
    CursorStep, DurableEnd, EndSource, Predecessor, ResumePoint, ResumePointOrigin, SegmentCursor,
};
pub(crate) use entry::{Segment, SegmentEntry, read_header, valid_segment};
pub(crate) use footer::{SealState, read_footer};
pub(crate) use list::{NO_NOTE, Segments};
pub use manifest::{ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, archive_head, uid_text};
pub(crate) use resume_cache::{ResumeCache, ResumeKey};
pub use scan::ChainCheck;
pub(crate) use scan::{FramePosition, Scan, SegmentBytes};
pub(crate) use seal::{seal, seal_rotated};
