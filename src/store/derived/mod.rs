//! Derived objects: index objects and snapshots. Everything in them can be computed from the log.
//!
//! They make readers faster, but no reader depends on them. A reader compares them with the log before it uses them.

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
