//! The hand-off: the task that a worker gets as JSON on its standard input (`format/hand-off.md`),
//! and short texts for tasks and receipts.

pub(crate) mod nearby;
pub(crate) mod task;
pub(crate) mod text;

pub use nearby::{Nearby, Neighbour};
pub(crate) use task::class_word;
pub use task::{FailedCriterion, HandOff, PlanBrief, PlanContext, PreviousAttempt};
pub(crate) use text::{describe, title, trigger_json};
