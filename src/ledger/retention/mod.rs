//! Archives and prunes the oldest segments of a log, on command only.
//!
//! An archive is a copy of segments and their blobs in one file. A prune removes segments after a
//! note in the log names two verified snapshots, the anchors, that replace them. An erasure overwrites
//! values.

pub(crate) mod archive;
pub(crate) mod erase;
pub(crate) mod prune;
