//! Task records in JSON: the files of task-master, beads and Ralph, and any other list of tasks.
//!
//! Each reader takes the fields that it knows, in all of their spellings, and keeps the rest in
//! `extra`. Statuses are kept beside the plan. `format/plan-files.md` has the complete mapping.

pub(super) mod beads;
mod field_names;
mod list_finder;
mod record_fields;
pub(super) mod task_list;
pub(super) mod task_master;
