//! Objects that say nothing which the log does not say: index objects, and snapshots.
//!
//! A reader is faster with them, and right without them. What they say is compared with the log before it is used.

mod index;
mod snapshots;

pub(super) use index::{
    IndexObject, SegmentKeys, extend_index, has_valid_index, index_ranges, index_ranges_to_read,
    sealed_footer,
};
pub(super) use snapshots::{
    ANCHOR_SUFFIX, SnapshotSurvey, StoredSnapshots, anchor_object, projection_of, snapshot_object,
    upload_snapshot,
};
