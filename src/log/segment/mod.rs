//! One segment file: its header, frames, index and footer, and the list of all segments of a log.
//!
//! Reading goes from [`Source`] (bytes) over [`Scan`] (checked frames) to [`SegmentCursor`] (records,
//! with damage named and skipped). A segment is created in full before it gets its name, and sealed
//! with an index and a footer after a rotation.

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

pub(crate) use active::{ActiveSegment, LogPosition, low_bits};
pub(crate) use create::{
    CREATION_EPOCH, CreateError, PreallocatedSegment, PublishGuard, create_segment,
    create_segment_with, first_header, open_segment, preallocate_segment, write,
};
pub(crate) use cursor::{
    Extent, ExtentSource, PositionSource, Predecessor, ResumePoint, ScanEvent, SegmentCursor,
};
pub(crate) use entry::{Segment, SegmentEntry, good, read_header};
pub(crate) use footer::{Seal, read_footer};
pub(crate) use list::{NO_NOTE, Segments};
pub use manifest::{ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, archive_head, uid_text};
pub(crate) use resume_cache::{ResumeCache, ResumeKey};
pub use scan::ChainCheck;
pub(crate) use scan::{Position, Scan, Source, logged};
pub(crate) use seal::{seal, seal_rotated};
