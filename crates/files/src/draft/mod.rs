//! A plan under construction: its steps with their place in the file, the statuses that the file
//! gives them, and the diagnostics so far.
//!
//! Every reader ends in [`PlanDraft::validate`], so that plans from all formats follow the same
//! rules and every problem has a line of the file.

mod dependencies;
mod implicit_order;
mod kept_ids;
mod native_fields;
mod plan_draft;
mod source;
mod step_fields;
mod task_status;
mod unique_ids;

pub(super) use implicit_order::{Concurrency, ImplicitOrder};
pub(super) use native_fields::{InRecords, NATIVE_FIELDS};
pub(super) use plan_draft::{PlanDraft, ValidPlan, tool_extra};
pub(super) use source::{Cells, Source, StepSource};
pub(super) use step_fields::{StepField, range_note, signal_text, success_criterion};
pub use task_status::TaskStatus;
pub(super) use unique_ids::UniqueIds;
