//! One segment file: its header, frames, index and footer, and the list of all segments of a log.
//!
//! Reading goes from [`SegmentBytes`] (bytes) over [`Scan`] (checked frames) to [`SegmentCursor`]
//! (records, with damage reported and skipped). A segment is created in full before it gets its
//! name, and sealed with an index and a footer after a rotation.

mod active;
mod cursor;
mod entry;
mod footer;
mod header;
mod list;
mod lost_header;
#[cfg(feature = "ledger")]
mod manifest;
mod part;
mod resume_cache;
mod scan;
mod seal;
mod start;
mod writer;

pub(crate) use active::{ActiveSegment, WritePosition, low_bits};
pub(crate) use cursor::{
    CursorStep, DurableEnd, EndSource, Predecessor, ResumePoint, ResumePointOrigin, SegmentCursor,
};
pub(crate) use entry::{Segment, SegmentEntry, open_segment, read_header, valid_segment};
pub(crate) use footer::{SealState, read_footer, read_index};
pub(crate) use header::{CREATION_EPOCH, first_header, head_content, next_header};
pub(crate) use list::{NO_NOTE, Segments};
#[cfg(feature = "ledger")]
pub use manifest::{ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, archive_head, uid_text};
pub use part::FolderPart;
pub(crate) use part::next_record;
pub(crate) use resume_cache::{ResumeCache, ResumeKey};
pub use scan::ChainCheck;
pub(crate) use scan::{ByteSurvey, FramePosition, Scan, SegmentBytes};
#[cfg(feature = "store")]
pub(crate) use seal::seal_all;
pub(crate) use seal::{seal, seal_rotated, unsealed};
pub(crate) use writer::{
    CreateError, PublishGuard, SegmentDraft, SegmentWriter, create_segment, create_segment_with,
};
