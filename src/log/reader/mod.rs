//! Reading a log without the lock: forwards, backwards, by kind, by stream, by sequence number, or
//! following a writer.
//!
//! [`LogReader`] holds HEAD and all headers. [`SegmentSequence`] visits the segments in order and
//! reports missing ones; [`Walk`] yields their records. Each module adds its methods to `LogReader`.

mod ahead;
mod filter;
mod follow;
mod log_reader;
mod open_segment;
mod part;
mod records;
mod reverse;
mod seek;
mod segment_info;
mod sequence;
#[cfg(feature = "ledger")]
mod snapshots;
mod unacknowledged_tail;
mod walk;

pub(crate) use ahead::{BatchSink, is_full_batch, read_ahead};
pub use follow::LogFollower;
pub(crate) use log_reader::SegmentAccess;
pub use log_reader::{LogReader, SegmentSummary};
pub use part::CompleteSegment;
pub use reverse::ReverseWalk;
pub use segment_info::{SegmentInfo, SegmentState};
pub(crate) use sequence::{SegmentSequence, SequenceItem};
pub use unacknowledged_tail::UnacknowledgedTail;
pub use walk::Walk;
