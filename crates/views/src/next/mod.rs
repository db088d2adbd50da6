//! What moves a run forward: what it waits for, and what comes next where nothing waits.
//!
//! `list` finds the items, the most urgent first; `text` says each in one sentence; `advice` names the commands.

mod advice;
mod item;
mod list;
mod text;

pub use item::{NextGroup, NextItem};
pub use list::{next_dispatch, next_items};
