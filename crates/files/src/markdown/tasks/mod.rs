//! The tasks of a Markdown text: which parts are tasks (`selector`), and in which other way the text can be read
//! (`readings`).

mod readings;
mod selector;
mod task;

pub(super) use readings::selections;
pub(super) use selector::is_tasks_title;
pub(crate) use task::Marks;
pub(super) use task::{Task, TaskSelection};
