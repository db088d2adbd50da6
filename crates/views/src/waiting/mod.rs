//! The items that a run waits for: for each item, the addressee and the command that resolves it.

mod answers;
mod item;
mod list;
mod resolve;
mod text;

pub(crate) use answers::{answer_all, answer_all_text, common_answers};
pub use answers::{raise_by, waiting_texts};
pub use item::{WaitingItem, WaitsFor};
pub use list::{plan_file, rejected_text, waiting_items};
pub use resolve::{
    approve_version, has_plan, perform, resolve_outcome, show_step, start_another, start_judge,
    start_runner,
};
pub(crate) use resolve::{retry_or_skip, skip};
