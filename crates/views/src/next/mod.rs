//! What moves a run forward: what it waits for, and what comes next where nothing waits.
//!
//! `list` finds the items, the most urgent first; `text` says each in one sentence; `advice` names the commands.

mod action;
mod advice;
mod item;
mod known_run;
mod list;
mod text;

pub use action::{NextAction, NextActionJson};
pub use item::{NextGroup, NextItem};
pub use known_run::KnownRun;
pub use list::{next_dispatch, next_items};
