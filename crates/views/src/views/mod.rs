//! One file for each view: a struct whose serialization is its JSON, and whose document is its text and HTML.
//!
//! A view is built from the state of a run and from records. Its lines are those of `format/inspect-json.md`; members
//! that only its document shows are not serialized.

mod barriers;
mod changes;
mod cost;
mod head;
mod metrics;
mod queue;
mod segments;
mod snapshots;
mod timeline;
mod variables;

pub use barriers::{BarrierLine, Barriers};
pub use changes::{ChangeLine, Changes};
pub use cost::{Costs, RunCostLine, StepCostLine};
pub use head::{HeadSlotLine, HeadView, HolderLine};
pub use metrics::{Mark, MetricsLine};
pub use queue::{DelayedLine, QueueView, ReadyLine};
pub use segments::{SegmentLine, Segments};
pub use snapshots::{SnapshotFileLine, Snapshots, SnapshotsLine};
pub use timeline::{IntervalLine, StepTimelines};
pub use variables::{
    VariableHistory, VariableStateLine, VariableValueLine, Variables, origin_text,
};
