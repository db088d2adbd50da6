//! The task that a worker gets as JSON on its standard input (`format/hand-off.md`), and tasks and
//! receipts as text.

pub(crate) mod nearby;
pub(crate) mod task;
pub(crate) mod text;

pub use nearby::{Nearby, Neighbour};
pub(crate) use task::class_word;
pub use task::{FailedCriterion, HandOff, PlanBrief, PlanContext, PreviousAttempt};
pub(crate) use text::{describe, title, trigger_json};
